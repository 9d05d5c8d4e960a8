//! The two number types of the host operations.

use std::any::Any;

use burn::tensor::{DType, Element, TensorData};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::threads::{self, GRAIN};

/// A host floating-point number: `f32` or `f64`.
pub trait Real:
    Element
    + faer::traits::RealField
    + Copy
    + PartialOrd
    + Send
    + Sync
    + std::iter::Sum
    + num_traits::Float
    + num_traits::NumAssign
{
    /// `"f32"` or `"f64"`.
    const NAME: &'static str;
    /// Rounds from f64.
    fn of(value: f64) -> Self;
    /// Widens to f64.
    fn f64(self) -> f64;
}

impl Real for f32 {
    const NAME: &'static str = "f32";
    fn of(value: f64) -> Self {
        value as f32
    }
    fn f64(self) -> f64 {
        f64::from(self)
    }
}

impl Real for f64 {
    const NAME: &'static str = "f64";
    fn of(value: f64) -> Self {
        value
    }
    fn f64(self) -> f64 {
        self
    }
}

/// The buffer of a host tensor as numbers of its own type.
pub fn into_vec<T: Real>(data: TensorData) -> Result<Vec<T>> {
    data.try_into_vec::<T>().map_err(|e| Error::Device(format!("expected {} values: {e:?}", T::NAME)))
}

/// The buffer of a host tensor in f64, whatever its type.
pub fn widened(data: TensorData) -> Result<Vec<f64>> {
    into_vec(data.convert::<f64>())
}

/// Numbers as a host tensor `[n]`.
pub fn vector<T: Real>(values: Vec<T>) -> TensorData {
    let n = values.len();
    TensorData::new(values, [n])
}

/// Numbers as a host tensor of another float type.
pub fn narrowed(values: Vec<f64>, shape: &[usize], dtype: DType) -> TensorData {
    TensorData::new(values, shape.to_vec()).convert_dtype(dtype)
}

/// Numbers in another float type.
pub fn rounded<T: Real, W: Real>(values: &[W]) -> Vec<T> {
    threads::map(values.par_iter().with_min_len(GRAIN), |x| T::of(x.f64()))
}

/// Numbers in another float type; keeps the memory if the type is the same.
pub fn into_real<T: Real, W: Real>(values: Vec<T>) -> Vec<W> {
    let values: Box<dyn Any> = Box::new(values);
    match values.downcast::<Vec<W>>() {
        Ok(same) => *same,
        Err(other) => other.downcast_ref::<Vec<T>>().map(|values| rounded(values)).unwrap_or_default(),
    }
}

#[doc(hidden)]
pub use cagey_base::vectors::{squared_distance, vectorised};

/// The number of independent sums of a dot product: four AVX-512 registers of f64.
const SUMS: usize = 32;

/// Σ a b over the entries of a, in f64, in a few independent sums.
pub fn dot<A: Real, B: Real>(a: &[A], b: &[B]) -> f64 {
    let b = &b[..a.len()];
    let (left, right) = (a.chunks_exact(SUMS), b.chunks_exact(SUMS));
    let rest: f64 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a.f64() * b.f64()).sum();
    if a.len() < SUMS {
        return rest;
    }
    let sums = vectorised(|| {
        let mut sums = [0.0; SUMS];
        for (a, b) in left.zip(right) {
            (0..SUMS).for_each(|l| sums[l] += a[l].f64() * b[l].f64());
        }
        sums
    });
    sums.iter().sum::<f64>() + rest
}

/// The error for a tensor that is neither f32 nor f64.
pub fn unsupported(dtype: DType) -> Error {
    Error::Device(format!("{dtype:?} tensors are not supported here; use f32 or f64"))
}

/// Runs `$body` with `$t` bound to the Rust type of a float dtype; other dtypes return the named error.
#[doc(hidden)]
#[macro_export]
macro_rules! with_real {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            $crate::burn::tensor::DType::F32 => {
                type $t = f32;
                $body
            }
            $crate::burn::tensor::DType::F64 => {
                type $t = f64;
                $body
            }
            other => Err($crate::linalg::real::unsupported(other)),
        }
    };
}
#[doc(hidden)]
pub use with_real;
