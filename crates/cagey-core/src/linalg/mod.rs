//! Differentiable dense linear algebra on burn tensors, with analytic adjoints; on the CPU it uses faer.
//!
//! | module | contents |
//! |---|---|
//! | `operations` | tensor operations with adjoints; public here |
//! | [`dense`] | the host algorithms beneath them |
//! | `gpu`, `on_device` | the same in the memory of a GPU |
//! | [`host`] | the interface through which an operation with an adjoint joins a tensor graph |

// The hidden modules are for the rooms above and for tests. They are not part of the interface.
#[doc(hidden)]
pub mod dense;
mod factor;
#[cfg(feature = "gpu")]
#[doc(hidden)]
pub mod gpu;
#[doc(hidden)]
pub mod host;
#[doc(hidden)]
pub mod jitter;
#[cfg(feature = "gpu")]
#[doc(hidden)]
pub mod on_device;
mod op;
mod operations;
#[doc(hidden)]
pub mod real;
mod shape;

pub use factor::Factor;
pub use operations::cholesky::{self, cholesky};
pub use operations::collapsed::{self, Collapsed, collapsed};
pub use operations::eigh::{self, eigh};
pub use operations::loo::{self, loo_means, loo_nll};
pub use operations::lower::{self, unpack_lower};
pub use operations::marginals::{self, Projected, marginals};
pub use operations::mvn::{self, mvn_nll};
pub use operations::solve::{self, cholesky_solve, logdet_from_cholesky};
pub use operations::triangular::{self, solve_lower, solve_lower_transposed};
pub use operations::whiten::{self, whiten};
