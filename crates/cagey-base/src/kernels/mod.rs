//! The built-in kernels: profiles, the features that they compare, and a [`Kernel`] of numbers that is evaluated on
//! slices.
//!
//! A [`Form`] lowers rows to features over [`Rows`]: numbers here, tensor graphs in the library.

mod form;
mod numbers;
pub mod profile;
mod wiener;

pub use form::{Form, Lowered, Metric, Rows, Term, Values};
pub use numbers::{Kernel, Prepared};
pub use wiener::{Magnitude, Wiener};
