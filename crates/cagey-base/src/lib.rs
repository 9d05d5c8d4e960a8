//! What needs no tensors in [cagey](https://docs.rs/cagey): the arithmetic in which formulas are written once, profiles
//! and features of kernels, densities, predictive distributions, scales, and the format of model files. The library and
//! `cagey-serve`, which only predicts, stand on it. Use it through `cagey`, which has all its modules.

#![deny(missing_docs, clippy::undocumented_unsafe_blocks)]

#[doc(hidden)]
pub mod advice;
pub mod aggregation;
pub mod arithmetic;
#[doc(hidden)]
#[cfg(feature = "write")]
pub mod atomic;
pub mod error;
pub mod kernels;
pub mod likelihoods;
pub mod metrics;
pub mod model_file;
pub mod scale;
pub mod serving;
#[doc(hidden)]
pub mod state_space;
#[doc(hidden)]
pub mod suggest;
#[doc(hidden)]
pub mod vectors;
pub mod warp;

pub use error::{Error, ErrorKind, Result};
