//! What models with inducing inputs have in common.

pub mod inducing;
pub mod process;
pub mod variational;
pub mod whitened;
