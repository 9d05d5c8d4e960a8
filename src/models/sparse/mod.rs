//! What models with inducing inputs share.

pub mod inducing;
pub mod process;
pub mod variational;
pub mod whitened;
