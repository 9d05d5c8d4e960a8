//! x
mod atomic;
pub mod error;
pub mod linalg;
pub mod model_file;
pub mod plot;
pub use error::{Error, Result};
