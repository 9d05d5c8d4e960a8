//! x
pub mod error;
pub mod linalg;
pub use error::{Error, Result};
