//! What actions explain of the covariances of a row's latent functions.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::error::Result;
use crate::linalg::host::{HostOp, Saved, apply1, recall};
use crate::linalg::real::{narrowed, vectorised, widened};
use crate::threads;

/// Rows at once.
const ROWS: usize = 256;

/// `Σ_a A_aln A_akn` `[L L, n]` for all pairs l, k of latent functions, for A `[i, L n]`: differentiable.
pub(super) fn squares(a: Tensor<2>, latents: usize) -> Result<Tensor<2>> {
    apply1(Squares(latents), a)
}

/// The same of numbers, `[L L, n]`, for rows `A_a` `[L][n]` by `of(a, l)`.
pub(in crate::models::cagp) fn sums<'a>(
    of: impl Fn(usize, usize) -> &'a [f64] + Sync,
    (i, latents, n): (usize, usize, usize),
) -> Vec<f64> {
    let starts: Vec<usize> = (0..n).step_by(ROWS).collect();
    let parts = threads::map(starts.par_iter(), |start| {
        let rows = ROWS.min(n - start);
        let mut part = vec![0.0; latents * latents * rows];
        vectorised(|| {
            for a in 0..i {
                for l in 0..latents {
                    let left = &of(a, l)[*start..][..rows];
                    for k in 0..=l {
                        let right = &of(a, k)[*start..][..rows];
                        let sums = &mut part[(l * latents + k) * rows..][..rows];
                        sums.iter_mut().zip(left.iter().zip(right)).for_each(|(sum, (l, r))| *sum += l * r);
                    }
                }
            }
        });
        part
    });
    let mut all = vec![0.0; latents * latents * n];
    for (start, part) in starts.iter().zip(parts) {
        let rows = ROWS.min(n - start);
        for (l, k) in (0..latents).flat_map(|l| (0..=l).map(move |k| (l, k))) {
            let sums = &part[(l * latents + k) * rows..][..rows];
            all[(l * latents + k) * n + start..][..rows].copy_from_slice(sums);
            all[(k * latents + l) * n + start..][..rows].copy_from_slice(sums);
        }
    }
    all
}

#[derive(Debug)]
struct Squares(usize);

impl HostOp<1> for Squares {
    fn forward(&self, [a]: [TensorData; 1]) -> Result<(TensorData, Saved)> {
        let (dtype, i) = (a.dtype(), a.shape()[0]);
        let a = widened(a)?;
        let n = a.len() / (i * self.0);
        let all = sums(|row, l| &a[(row * self.0 + l) * n..][..n], (i, self.0, n));
        Ok((narrowed(all, &[self.0 * self.0, n], dtype), Arc::new(a) as Saved))
    }

    /// `Ā_l = Σ_k (G_lk + G_kl) A_k`.
    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 1]) -> Result<[Option<TensorData>; 1]> {
        let (dtype, latents) = (grad.dtype(), self.0);
        let (a, grad) = (recall::<Vec<f64>>(saved)?, widened(grad)?);
        let n = grad.len() / (latents * latents);
        let both: Vec<f64> = (0..grad.len())
            .map(|e| grad[e] + grad[(e / n % latents * latents + e / n / latents) * n + e % n])
            .collect();
        let mut slopes = vec![0.0; a.len()];
        let rows = slopes.par_chunks_mut(latents * n).zip(a.par_chunks(latents * n));
        threads::for_each(rows, |(slopes, a)| {
            vectorised(|| {
                for (l, slopes) in slopes.chunks_exact_mut(n).enumerate() {
                    for (k, a) in a.chunks_exact(n).enumerate() {
                        let weights = &both[(l * latents + k) * n..][..n];
                        slopes.iter_mut().zip(a.iter().zip(weights)).for_each(|(s, (a, w))| *s += a * w);
                    }
                }
            });
        });
        let i = a.len() / (latents * n);
        Ok([Some(narrowed(slopes, &[i, latents * n], dtype))])
    }
}
