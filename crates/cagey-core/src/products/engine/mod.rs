//! Tiles of the covariance matrix: how they are computed, and in which order.

pub mod lanes;
pub mod program;
pub mod reverse;
pub mod schedule;
pub mod strips;
pub mod sums;
pub mod sweep;
pub mod term;
pub mod tile;
