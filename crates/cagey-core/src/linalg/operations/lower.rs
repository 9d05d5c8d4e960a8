//! Lower triangular matrices from their packed rows.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::linalg::host::{Anywhere, HostOp, Vjp, apply1};
use crate::linalg::real::{Real, into_vec, with_real};
use crate::threads;

/// The lower triangular `[m, m]` matrix whose rows, up to the diagonal, are one after another in `packed`
/// `[m(m + 1)/2]`.
///
/// # Errors
/// [`Error::Shape`] when there is no such m.
pub fn unpack_lower(packed: Tensor<1>) -> Result<Tensor<2>> {
    apply1(Anywhere::new(Unpack), packed)
}

/// The order m of a triangle with `length` numbers.
pub(in crate::linalg) fn order(length: usize) -> Result<usize> {
    let m = ((8 * length + 1).isqrt() - 1) / 2;
    if m * (m + 1) / 2 == length {
        return Ok(m);
    }
    Err(Error::shape("packed triangle", "m(m + 1)/2 numbers", length.to_string()))
}

/// How many rows justify a thread of their own.
const ROWS: usize = 32;

/// The full matrix of a packed triangle.
#[doc(hidden)]
pub fn unpacked<W: Real, T: Real>(packed: &[W]) -> Result<Vec<T>> {
    let m = order(packed.len())?;
    let mut full = vec![T::of(0.0); m * m];
    threads::for_each(full.par_chunks_mut(m.max(1)).enumerate().with_min_len(ROWS), |(i, row)| {
        row.iter_mut().zip(&packed[i * (i + 1) / 2..][..=i]).for_each(|(to, from)| *to = T::of(from.f64()));
    });
    Ok(full)
}

/// The rows up to the diagonal of a matrix of order m.
#[doc(hidden)]
pub fn packed<T: Real, W: Real>(full: &[T], m: usize) -> Vec<W> {
    let mut packed = Vec::with_capacity(m * (m + 1) / 2);
    let rows = full.chunks_exact(m.max(1)).enumerate();
    rows.for_each(|(i, row)| packed.extend(row[..=i].iter().map(|x| W::of(x.f64()))));
    packed
}

pub(in crate::linalg) struct Unpack;

impl HostOp<1> for Unpack {
    fn forward(self: Arc<Self>, [packed]: [TensorData; 1]) -> Result<(TensorData, Vjp<1>)> {
        with_real!(packed.dtype(), T => {
            let packed = into_vec::<T>(packed)?;
            let m = order(packed.len())?;
            let (full, length) = (unpacked::<T, T>(&packed)?, packed.len());
            let vjp = move |grad, _needs: [bool; 1]| {
                Ok([Some(TensorData::new(self::packed::<T, T>(&into_vec::<T>(grad)?, m), [length]))])
            };
            Ok((TensorData::new(full, [m, m]), Box::new(vjp)))
        })
    }
}
