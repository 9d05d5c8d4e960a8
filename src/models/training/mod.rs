//! From a model to the trainer and back.

mod any_batches;
mod batch_loss;
pub mod batches;
pub mod diagnose;
pub mod fit;
pub mod minibatch;
pub mod race;
pub mod start;
pub(crate) mod together;
