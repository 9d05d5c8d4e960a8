//! x
mod atomic;
pub mod device;
pub mod error;
pub mod kernels;
pub mod linalg;
pub mod model_file;
pub mod params;
pub mod products;
pub mod scope;
pub mod train;
pub use error::{Error, Result};
