//! Means of the rows' latent functions and the part of their covariances that actions explain, as one operation. It
//! uses f64 for one chunk of rows at a time, so that nothing but K S has the size of K S.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{DType, Tensor, TensorData};
use rayon::prelude::*;

use crate::device::is_host;
use crate::error::Result;
use crate::linalg::dense::{product, solve, view, view_mut};
use crate::linalg::host::{HostOp, Vjp, apply3};
use crate::linalg::real::{Real, dot, into_vec, narrowed, vectorised, widened, with_real};
use crate::products::{add_pairs, mirror_pairs, of_rows};
use crate::threads;

/// Rows processed at once.
const ROWS: usize = 256;

/// [`of_rows`] in the type of L, for (K S)ᵀ in any precision. On the CPU nothing but K S has its size.
pub(super) fn rows(
    sk: Tensor<2>,
    lower: Tensor<2>,
    weights: Tensor<2>,
    (latents, pairs): (usize, bool),
) -> Result<Tensor<2>> {
    match is_host(&sk.device()) {
        true => apply3(Rows { latents, pairs }, sk, lower, weights),
        false => of_rows(sk.cast(lower.dtype()), lower, weights, (latents, pairs)),
    }
}

/// The same for plain numbers: `[L + S, n]`.
pub(super) fn of_numbers<T: Real>(
    sk: &[T],
    lower: &[f64],
    weights: &[f64],
    (latents, pairs): (usize, bool),
) -> Vec<f64> {
    Rows { latents, pairs }.all(Inputs { sk, lower, weights })
}

struct Rows {
    latents: usize,
    pairs: bool,
}

/// The inputs in their own type.
struct Kept<T> {
    sk: Vec<T>,
    lower: Vec<f64>,
    weights: Vec<f64>,
    /// The type of the last two and of the output.
    wide: DType,
}

impl<T> Kept<T> {
    fn inputs(&self) -> Inputs<'_, T> {
        Inputs { sk: &self.sk, lower: &self.lower, weights: &self.weights }
    }
}

/// The inputs.
#[derive(Clone, Copy)]
struct Inputs<'a, T> {
    sk: &'a [T],
    lower: &'a [f64],
    weights: &'a [f64],
}

impl<T: Real> Inputs<'_, T> {
    /// (K S)ᵀ of some rows, `[i, L rows]`.
    fn chunk(&self, rows: &Range<usize>, latents: usize) -> Vec<f64> {
        let n = self.sk.len() / (self.weights.len() * latents);
        let mut chunk = Vec::with_capacity(self.sk.len() / n * rows.len());
        for function in self.sk.chunks_exact(n) {
            chunk.extend(function[rows.clone()].iter().map(|value| value.f64()));
        }
        chunk
    }

    /// The rows of A for the output of [`chunk`](Self::chunk).
    fn whiten(&self, mut chunk: Vec<f64>) -> Vec<f64> {
        let i = self.weights.len();
        let width = chunk.len() / i;
        solve::lower(view(self.lower, i), view_mut(&mut chunk, width));
        chunk
    }
}

/// The ranges of consecutive chunks of rows.
fn chunks(n: usize) -> Vec<Range<usize>> {
    (0..n).step_by(ROWS).map(|start| start..(start + ROWS).min(n)).collect()
}

impl Rows {
    /// How many numbers a row has in the output.
    fn outputs(&self) -> usize {
        self.latents * if self.pairs { 1 + self.latents } else { 2 }
    }

    /// The output of a chunk `[outputs, rows]`.
    fn of<T: Real>(&self, inputs: Inputs<T>, rows: &Range<usize>) -> Vec<f64> {
        let chunk = inputs.chunk(rows, self.latents);
        let width = self.latents * rows.len();
        let mut out = vec![0.0; width];
        add_rows(&mut out, &chunk, inputs.weights);
        let a = inputs.whiten(chunk);
        if self.pairs {
            let of = |action: usize, l: usize| &a[(action * self.latents + l) * rows.len()..][..rows.len()];
            out.extend(sums(of, (inputs.weights.len(), self.latents, rows.len())));
        } else {
            let mut squares = vec![0.0; width];
            a.chunks_exact(width).for_each(|a| squares.iter_mut().zip(a).for_each(|(sum, a)| *sum += a * a));
            out.extend(squares);
        }
        out
    }

    /// The output of all rows `[outputs, n]`.
    fn all<T: Real>(&self, inputs: Inputs<T>) -> Vec<f64> {
        let n = inputs.sk.len() / (inputs.weights.len() * self.latents);
        let chunks = chunks(n);
        joined(&chunks, threads::map(chunks.par_iter(), |rows| self.of(inputs, rows)), self.outputs())
    }

    /// Gradients in (K S)ᵀ of a chunk with the cotangents `grad` `[outputs, rows]`. Adds the gradients in the factor
    /// and in the weights to their sums.
    fn pull<T: Real>(
        &self,
        inputs: Inputs<T>,
        rows: &Range<usize>,
        grad: &[f64],
        [in_lower, in_weights]: [&mut [f64]; 2],
    ) -> Vec<f64> {
        let (i, width, count) = (inputs.weights.len(), self.latents * rows.len(), rows.len());
        let (of_mean, of_sums) = grad.split_at(width);
        let chunk = inputs.chunk(rows, self.latents);
        in_weights.iter_mut().zip(chunk.chunks_exact(width)).for_each(|(sum, row)| *sum += dot(row, of_mean));
        let a = inputs.whiten(chunk);
        // Ā_l = Σ_k (G_lk + G_kl) A_k, then L⁻ᵀ Ā.
        let mut slopes = vec![0.0; a.len()];
        for (slopes, a) in slopes.chunks_exact_mut(width).zip(a.chunks_exact(width)) {
            if !self.pairs {
                slopes.iter_mut().zip(a.iter().zip(of_sums)).for_each(|(slope, (a, g))| *slope = 2.0 * g * a);
                continue;
            }
            for (l, slopes) in slopes.chunks_exact_mut(count).enumerate() {
                for (k, a) in a.chunks_exact(count).enumerate() {
                    let [one, other] = [(l, k), (k, l)].map(|(l, k)| &of_sums[(l * self.latents + k) * count..]);
                    let both = one.iter().zip(other);
                    slopes.iter_mut().zip(a.iter().zip(both)).for_each(|(slope, (a, (g, h)))| *slope += (g + h) * a);
                }
            }
        }
        solve::upper(view(inputs.lower, i).transpose(), view_mut(&mut slopes, width));
        product::add_lower(view_mut(in_lower, i), view(&slopes, width), view(&a, width).transpose(), -1.0);
        for (slopes, weight) in slopes.chunks_exact_mut(width).zip(inputs.weights) {
            slopes.iter_mut().zip(of_mean).for_each(|(slope, g)| *slope += weight * g);
        }
        slopes
    }

    fn gradients<T: Real>(&self, kept: &Kept<T>, grad: &[f64]) -> [Option<TensorData>; 3] {
        let i = kept.weights.len();
        let (all, n) = (kept.sk.len() / i, grad.len() / self.outputs());
        let chunks = chunks(n);
        let share = chunks.len().div_ceil(rayon::current_num_threads()).max(1);
        let parts = threads::map(chunks.par_chunks(share), |chunks| {
            let (mut in_lower, mut in_weights) = (vec![0.0; i * i], vec![0.0; i]);
            let pull = |rows: &Range<usize>| {
                let grad: Vec<f64> = grad.chunks_exact(n).flat_map(|row| &row[rows.clone()]).copied().collect();
                self.pull(kept.inputs(), rows, &grad, [&mut in_lower, &mut in_weights]).into_iter().map(T::of).collect()
            };
            let slopes: Vec<Vec<T>> = chunks.iter().map(pull).collect();
            (slopes, in_lower, in_weights)
        });
        let mut in_sk = vec![T::of(0.0); kept.sk.len()];
        let (mut in_lower, mut in_weights) = (vec![0.0; i * i], vec![0.0; i]);
        let mut places = chunks.iter();
        for (slopes, lower, weights) in parts {
            in_lower.iter_mut().zip(lower).for_each(|(sum, part)| *sum += part);
            in_weights.iter_mut().zip(weights).for_each(|(sum, part)| *sum += part);
            for (slopes, rows) in slopes.into_iter().zip(&mut places) {
                let to = in_sk.chunks_exact_mut(n).zip(slopes.chunks_exact(rows.len()));
                to.for_each(|(to, from)| to[rows.clone()].copy_from_slice(from));
            }
        }
        // The strict upper triangle is not part of a factor.
        in_lower.chunks_exact_mut(i).enumerate().for_each(|(a, row)| row[a + 1..].fill(0.0));
        [
            Some(TensorData::new(in_sk, [i, all])),
            Some(narrowed(in_lower, &[i, i], kept.wide)),
            Some(narrowed(in_weights, &[i, 1], kept.wide)),
        ]
    }
}

/// `Σ_a A_aln A_akn` `[L L, n]` for all pairs l, k of latent functions. `of(a, l)` gives the rows `A_a` `[L][n]`.
pub(super) fn sums<'a>(
    of: impl Fn(usize, usize) -> &'a [f64] + Sync,
    (i, latents, n): (usize, usize, usize),
) -> Vec<f64> {
    let chunks = chunks(n);
    let parts = threads::map(chunks.par_iter(), |rows| {
        let mut part = vec![0.0; latents * latents * rows.len()];
        vectorised(|| (0..i).for_each(|a| add_pairs(&mut part, |l| &of(a, l)[rows.clone()], latents)));
        part
    });
    let mut all = joined(&chunks, parts, latents * latents);
    mirror_pairs(&mut all, latents);
    all
}

/// Numbers of all rows `[outputs, n]`, from those of chunks of rows.
fn joined(chunks: &[Range<usize>], parts: Vec<Vec<f64>>, outputs: usize) -> Vec<f64> {
    let n = chunks.last().map_or(0, |rows| rows.end);
    let mut all = vec![0.0; outputs * n];
    for (rows, part) in chunks.iter().zip(parts) {
        let to = all.chunks_exact_mut(n).zip(part.chunks_exact(rows.len()));
        to.for_each(|(to, from)| to[rows.clone()].copy_from_slice(from));
    }
    all
}

/// Adds `Σ_a weights_a rows_a`.
fn add_rows(sum: &mut [f64], rows: &[f64], weights: &[f64]) {
    for (row, weight) in rows.chunks_exact(sum.len()).zip(weights) {
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += weight * value);
    }
}

impl HostOp<3> for Rows {
    fn forward(self: Arc<Self>, [sk, lower, weights]: [TensorData; 3]) -> Result<(TensorData, Vjp<3>)> {
        let wide = lower.dtype();
        let (lower, weights) = (widened(lower)?, widened(weights)?);
        with_real!(sk.dtype(), T => {
            let kept = Kept::<T> { sk: into_vec(sk)?, lower, weights, wide };
            let out = self.all(kept.inputs());
            let n = out.len() / self.outputs();
            let value = narrowed(out, &[self.outputs(), n], wide);
            Ok((value, Box::new(move |grad, _needs| Ok(self.gradients(&kept, &widened(grad)?)))))
        })
    }
}
