//! Dense algebra as tensor operations with their own adjoints.

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
