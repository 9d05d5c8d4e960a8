//! Differentiable dense linear algebra on burn tensors; on the CPU through faer, with analytic adjoints.

pub mod cholesky;
pub mod dense;
pub mod factor;
pub mod host;
pub mod jitter;
pub mod mvn;
pub mod real;
mod shape;

pub use cholesky::cholesky;
pub use factor::Factor;
pub use mvn::mvn_nll;
