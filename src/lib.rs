//! x
pub mod error;
pub mod linalg;
pub mod train;
pub use error::{Error, Result};
