//! Operations on the tiles of a covariance matrix, on plain numbers.

pub mod multiply;
pub mod pairs;
pub mod projections;
pub mod pull;
pub mod sparse;
pub mod sparse_gram;
