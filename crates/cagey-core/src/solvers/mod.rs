//! Iterative building blocks: solvers, factorisations and estimates for a symmetric positive definite matrix that is
//! given by its products.
//!
//! Vectors are numbers on the host in f64. Several vectors form a row-major block `[n, t]`, so that one product with
//! the matrix serves them all. A matrix is a [`LinearOperator`]. [`NoisyCovariance`] is the matrix of a kernel, which
//! is never stored. IterGP ([`mod@itergp`], [`policies`]) is a tensor graph instead, so that it can be differentiated.
//! It takes a [`LinearSystem`], which is also such an operator.

mod basis;
#[doc(hidden)]
pub mod blocks;
pub mod cg;
pub mod covariance;
pub mod itergp;
pub mod lanczos;
mod linear_system;
pub mod log_det;
pub mod pivoted_cholesky;
pub mod policies;
pub mod preconditioner;
mod probes;
pub mod tridiagonal;

#[doc(hidden)]
pub use basis::Group;
pub use cg::{CgOptions, cg};
pub use covariance::NoisyCovariance;
pub use itergp::itergp;
pub use lanczos::lanczos;
pub use linear_system::{LinearOperator, LinearSystem, System};
pub use log_det::{LogDet, log_det};
pub use pivoted_cholesky::pivoted_cholesky;
pub use policies::Policy;
pub use preconditioner::Preconditioner;
pub use probes::Probes;
pub use tridiagonal::Tridiagonal;
