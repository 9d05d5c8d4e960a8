//! Products as tensor operations with their own adjoints.

pub mod actions;
pub mod block_sums;
pub mod conditional;
pub mod dense;
pub mod explained;
pub mod local;
pub mod local_graph;
pub mod matvec;
pub mod moments;
pub mod projected;
pub mod stacked;
pub mod tiled;
pub mod whitened;
