//! Dense algebra as tensor operations with adjoints of their own.

pub mod cholesky;
pub mod collapsed;
pub mod eigh;
pub mod loo;
pub mod lower;
pub mod marginals;
pub mod mvn;
pub mod solve;
pub mod triangular;
pub mod whiten;
