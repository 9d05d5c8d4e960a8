//! Differentiable dense linear algebra on burn tensors; on the CPU through faer, with analytic adjoints.

pub mod cholesky;
pub mod collapsed;
pub mod dense;
pub mod eigh;
pub mod factor;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod host;
pub mod jitter;
pub mod loo;
pub mod lower;
pub mod marginals;
pub mod mvn;
#[cfg(feature = "gpu")]
pub mod on_device;
mod op;
pub mod real;
mod shape;
pub mod solve;
pub mod triangular;
pub mod whiten;

pub use cholesky::cholesky;
pub use collapsed::{Collapsed, collapsed};
pub use eigh::eigh;
pub use factor::Factor;
pub use loo::loo_nll;
pub use lower::unpack_lower;
pub use marginals::{Projected, marginals};
pub use mvn::mvn_nll;
pub use solve::{cholesky_solve, logdet_from_cholesky};
pub use triangular::{solve_lower, solve_lower_transposed};
pub use whiten::whiten;
