//! x
mod atomic;
pub mod data;
pub mod device;
pub mod error;
pub mod fitted;
pub mod kernels;
pub mod likelihoods;
pub mod linalg;
pub mod means;
pub mod metrics;
pub mod model_file;
pub mod models;
pub mod params;
pub mod plot;
pub mod products;
pub mod scope;
pub mod train;
pub use error::{Error, Result};
