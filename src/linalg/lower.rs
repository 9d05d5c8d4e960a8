//! Lower triangular matrices from their packed rows.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use super::host::{HostOp, Saved, apply1};
use super::real::{into_vec, with_real};
use crate::error::{Error, Result};

/// The lower triangular `[m, m]` matrix whose rows, up to the diagonal, stand one after another in `packed` `[m(m + 1)/2]`.
///
/// # Errors
/// [`Error::Shape`] when there is no such m.
pub fn unpack_lower(packed: Tensor<1>) -> Result<Tensor<2>> {
    apply1(Unpack, packed)
}

/// The order m of a triangle of `length` numbers.
fn order(length: usize) -> Result<usize> {
    let m = ((8 * length + 1).isqrt() - 1) / 2;
    if m * (m + 1) / 2 == length {
        return Ok(m);
    }
    Err(Error::shape("packed triangle", "m(m + 1)/2 numbers", length.to_string()))
}

#[derive(Debug)]
struct Unpack;

impl HostOp<1> for Unpack {
    fn forward(&self, [packed]: [TensorData; 1]) -> Result<(TensorData, Saved)> {
        with_real!(packed.dtype(), T => {
            let packed = into_vec::<T>(packed)?;
            let m = order(packed.len())?;
            let mut full = vec![T::default(); m * m];
            let mut rest = packed.as_slice();
            for (i, row) in full.chunks_exact_mut(m.max(1)).enumerate() {
                let (own, behind) = rest.split_at(i + 1);
                row[..=i].copy_from_slice(own);
                rest = behind;
            }
            Ok((TensorData::new(full, [m, m]), Arc::new(()) as Saved))
        })
    }

    fn adjoint(&self, _saved: Saved, grad: TensorData, _needs: [bool; 1]) -> Result<[Option<TensorData>; 1]> {
        with_real!(grad.dtype(), T => {
            let m = grad.shape()[0];
            let grad = into_vec::<T>(grad)?;
            let packed: Vec<T> =
                grad.chunks_exact(m.max(1)).enumerate().flat_map(|(i, row)| &row[..=i]).copied().collect();
            let length = packed.len();
            Ok([Some(TensorData::new(packed, [length]))])
        })
    }
}
