//! x
pub mod device;
pub mod error;
pub mod kernels;
pub mod linalg;
pub mod params;
pub mod products;
pub mod scope;
pub mod train;
pub use error::{Error, Result};
