//! What the models of [cagey](https://docs.rs/cagey) stand on. It knows kernels, parameters, tensors and solves, and no
//! model, likelihood or table. Use it through `cagey`, which has all its modules.

#![deny(missing_docs, clippy::undocumented_unsafe_blocks)]

pub mod device;
pub mod kernels;
pub mod linalg;
pub mod means;
pub mod memory;
pub mod params;
#[doc(hidden)]
pub mod plain;
pub mod products;
pub mod scope;
mod setters;
pub mod solvers;
pub mod threads;
pub mod train;

pub use burn;
#[doc(hidden)]
pub use cagey_base::{advice, atomic, suggest};
pub use cagey_base::{arithmetic, error, model_file};
pub use error::{Error, ErrorKind, Result};
