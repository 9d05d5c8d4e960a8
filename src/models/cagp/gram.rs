//! SᵀKS of block-sparse actions from K S, summed in f64 in any precision of K S.

use std::sync::Arc;

use burn::tensor::{DType, Tensor, TensorData};
use rayon::prelude::*;

use crate::error::Result;
use crate::linalg::host::{HostOp, Vjp, apply2};
use crate::linalg::real::{Real, dot, into_vec, narrowed, widened, with_real};
use crate::threads;

/// Sᵀ(K S) `[i, i]` in the type `wide`, from the non-zeros `values` `[L n]` of S and (K S)ᵀ `[i, L n]`. Each of the L
/// functions has the same blocks of n rows, with boundaries `offsets`.
pub(super) fn gram(values: Tensor<1>, sk: Tensor<2>, offsets: &[usize], wide: DType) -> Result<Tensor<2>> {
    apply2(Gram { offsets: offsets.to_vec(), wide }, values, sk)
}

struct Gram {
    offsets: Vec<usize>,
    wide: DType,
}

/// The inputs in their own type.
struct Kept<T> {
    values: Vec<T>,
    sk: Vec<T>,
}

impl Gram {
    fn rows(&self) -> usize {
        self.offsets.last().copied().unwrap_or_default()
    }

    /// Row b of the product: `Σ_l Σ_j s_lj (K S)_lja` over the rows j of block b.
    fn row<T: Real>(&self, kept: &Kept<T>, b: usize) -> Vec<f64> {
        let (n, block) = (self.rows(), self.offsets[b]..self.offsets[b + 1]);
        let column = |column: &[T]| -> f64 {
            let each = kept.values.chunks_exact(n).zip(column.chunks_exact(n));
            each.map(|(s, k)| dot(&s[block.clone()], &k[block.clone()])).sum()
        };
        kept.sk.chunks_exact(kept.values.len()).map(column).collect()
    }

    fn gradients<T: Real>(&self, kept: &Kept<T>, grad: &[f64]) -> [Option<TensorData>; 2] {
        let (all, n, i) = (kept.values.len(), self.rows(), self.offsets.len() - 1);
        let blocks = || self.offsets.windows(2).enumerate().map(|(b, rows)| (b, rows[0]..rows[1]));
        let mut in_sk = vec![T::of(0.0); kept.sk.len()];
        threads::for_each(in_sk.par_chunks_mut(all).enumerate(), |(a, column)| {
            for (column, s) in column.chunks_exact_mut(n).zip(kept.values.chunks_exact(n)) {
                for (b, rows) in blocks() {
                    let g = grad[b * i + a];
                    column[rows.clone()].iter_mut().zip(&s[rows]).for_each(|(k, s)| *k = T::of(g * s.f64()));
                }
            }
        });
        let mut in_values = vec![0.0; all];
        for (a, column) in kept.sk.chunks_exact(all).enumerate() {
            for (sums, column) in in_values.chunks_exact_mut(n).zip(column.chunks_exact(n)) {
                for (b, rows) in blocks() {
                    let g = grad[b * i + a];
                    sums[rows.clone()].iter_mut().zip(&column[rows]).for_each(|(sum, k)| *sum += g * k.f64());
                }
            }
        }
        let in_values: Vec<T> = in_values.into_iter().map(T::of).collect();
        [Some(TensorData::new(in_values, [all])), Some(TensorData::new(in_sk, [i, all]))]
    }
}

impl HostOp<2> for Gram {
    fn forward(self: Arc<Self>, [values, sk]: [TensorData; 2]) -> Result<(TensorData, Vjp<2>)> {
        let i = self.offsets.len() - 1;
        with_real!(sk.dtype(), T => {
            let kept = Kept::<T> { values: into_vec(values)?, sk: into_vec(sk)? };
            let rows = threads::map((0..i).into_par_iter(), |b| self.row(&kept, b));
            let value = narrowed(rows.concat(), &[i, i], self.wide);
            Ok((value, Box::new(move |grad, _needs| Ok(self.gradients(&kept, &widened(grad)?)))))
        })
    }
}
