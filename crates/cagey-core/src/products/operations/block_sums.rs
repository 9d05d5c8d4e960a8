//! Sᵀ Z for block-sparse S, summed in f64 in any precision of Z.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{DType, Tensor, TensorData};
use rayon::prelude::*;

use crate::error::Result;
use crate::linalg::host::{HostOp, Vjp, apply2};
use crate::linalg::real::{Real, dot, into_vec, narrowed, vectorised, widened, with_real};
use crate::threads::{self, GRAIN};

/// Sᵀ Z `[i, t]` in the type `to`, from the non-zeros `values` `[n]` of S, the boundaries of its blocks, and Z
/// `[n, t]`.
pub fn block_sums(values: Tensor<1>, z: Tensor<2>, offsets: &[usize], to: DType) -> Result<Tensor<2>> {
    apply2(BlockSums { offsets: offsets.to_vec(), to }, values, z)
}

struct BlockSums {
    offsets: Vec<usize>,
    to: DType,
}

impl BlockSums {
    /// The rows of each block, for work on `t` columns; little of it stays on one thread.
    fn blocks(&self, t: usize) -> impl IndexedParallelIterator<Item = Range<usize>> {
        let numbers = t * self.offsets.last().copied().unwrap_or_default() / (self.offsets.len() - 1);
        self.offsets.par_windows(2).map(|w| w[0]..w[1]).with_min_len(GRAIN / numbers.max(1) + 1)
    }

    fn sums<T: Real>(&self, s: &[f64], z: &[T], t: usize) -> Vec<f64> {
        let of = |rows: Range<usize>| {
            let mut sums = vec![0.0; t];
            vectorised(|| {
                for (s, z) in s[rows.clone()].iter().zip(z[rows.start * t..].chunks_exact(t)) {
                    sums.iter_mut().zip(z).for_each(|(sum, z)| *sum += s * z.f64());
                }
            });
            sums
        };
        threads::map(self.blocks(t), of).concat()
    }

    /// The gradient in S.
    fn in_values<T: Real>(&self, z: &[T], grad: &[f64], t: usize) -> Vec<f64> {
        let of = |(rows, grad): (Range<usize>, &[f64])| -> Vec<f64> { rows.map(|r| dot(grad, &z[r * t..])).collect() };
        threads::map(self.blocks(t).zip(grad.par_chunks_exact(t)), of).concat()
    }

    /// The gradient in Z.
    fn in_z<T: Real>(&self, s: &[f64], grad: &[f64], t: usize) -> Vec<T> {
        let of = |(rows, grad): (Range<usize>, &[f64])| -> Vec<T> {
            s[rows].iter().flat_map(|s| grad.iter().map(move |g| T::of(s * g))).collect()
        };
        threads::map(self.blocks(t).zip(grad.par_chunks_exact(t)), of).concat()
    }
}

impl HostOp<2> for BlockSums {
    fn forward(self: Arc<Self>, [values, z]: [TensorData; 2]) -> Result<(TensorData, Vjp<2>)> {
        let (i, n, t, dtype) = (self.offsets.len() - 1, z.shape()[0], z.shape()[1], values.dtype());
        with_real!(z.dtype(), T => {
            let (s, z) = (widened(values)?, into_vec::<T>(z)?);
            let value = narrowed(self.sums(&s, &z, t), &[i, t], self.to);
            let vjp = move |grad, needs: [bool; 2]| {
                let grad = widened(grad)?;
                let in_values = needs[0].then(|| narrowed(self.in_values(&z, &grad, t), &[n], dtype));
                let in_z = needs[1].then(|| TensorData::new(self.in_z::<T>(&s, &grad, t), [n, t]));
                Ok([in_values, in_z])
            };
            Ok((value, Box::new(vjp)))
        })
    }
}
