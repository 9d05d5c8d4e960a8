//! x
pub mod data;
pub mod error;
pub mod linalg;
pub mod metrics;
pub use error::{Error, Result};
