//! What the models of [cagey](https://docs.rs/cagey) stand on. It knows kernels, parameters, tensors and solves, and no
//! model, likelihood or table. Use it through `cagey`, which has all its modules.

#![deny(missing_docs, clippy::undocumented_unsafe_blocks)]

#[doc(hidden)]
pub mod advice;
pub mod arithmetic;
#[doc(hidden)]
pub mod atomic;
pub mod device;
pub mod error;
pub mod kernels;
pub mod linalg;
pub mod means;
pub mod memory;
pub mod model_file;
pub mod params;
#[doc(hidden)]
pub mod plain;
pub mod products;
pub mod scope;
pub mod solvers;
#[doc(hidden)]
pub mod suggest;
pub mod threads;
pub mod train;

pub use burn;
pub use error::{Error, ErrorKind, Result};
