//! Means of the rows' latent functions and the part of their covariances that actions explain, from (K S)ᵀ. As an
//! operation it uses f64 for one chunk of rows at a time, so that nothing but K S has the size of K S.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{DType, Tensor, TensorData};
use rayon::prelude::*;

use super::pairs::{mixed, pair_sums, symmetric};
use super::{graph, place};
use crate::device::is_host;
use crate::error::Result;
use crate::linalg::dense::{product, solve, view, view_mut};
use crate::linalg::host::{HostOp, Vjp, apply3};
use crate::linalg::real::{Real, dot, into_vec, narrowed, widened, with_real};
use crate::threads;

/// Rows processed at once.
const ROWS: usize = 256;

/// `[L + V, n]` in the type of L, for (K S)ᵀ `[i, L n]` in any precision, the lower factor L `[i, i]` of M and weights
/// v `[i, 1]`: the means (K S)_l v of L latent functions, then the sums `Σ_a A_al A_ak` with `A = L⁻¹(K S)ᵀ`, for each
/// function with itself, or with `pairs` for all pairs l, k.
#[doc(hidden)]
pub fn of_rows(
    sk: Tensor<2>,
    lower: Tensor<2>,
    weights: Tensor<2>,
    (latents, pairs): (usize, bool),
) -> Result<Tensor<2>> {
    // Without pairs, the rows of all functions are those of one.
    let (functions, n) = (if pairs { latents } else { 1 }, sk.dims()[1] / latents);
    let told = match is_host(&sk.device()) {
        true => apply3(Rows { functions }, sk, lower, weights)?,
        false => graph::of_rows(sk.cast(lower.dtype()), lower, weights, functions)?,
    };
    let all: usize = told.dims().iter().product();
    Ok(told.reshape([all / n, n]))
}

/// The same for plain numbers.
#[doc(hidden)]
pub fn of_numbers<T: Real>(sk: &[T], lower: &[f64], weights: &[f64], (latents, pairs): (usize, bool)) -> Vec<f64> {
    let functions = if pairs { latents } else { 1 };
    Inputs { functions, sk: sk.into(), lower: lower.into(), weights: weights.into() }.told()
}

/// The means of some rows of L functions, then what is explained of their covariances `[L + L L, rows]`; overwrites
/// (K S)ᵀ `[i, L rows]` by A.
pub(super) fn tell(sk: &mut [f64], latents: usize, lower: &[f64], weights: &[f64]) -> Vec<f64> {
    let i = weights.len();
    let width = sk.len() / i;
    let mut told = vec![0.0; width];
    product::set(view_mut(&mut told, width), view(weights, i), view(sk, width), 1.0);
    solve::lower(view(lower, i), view_mut(sk, width));
    let rows = width / latents;
    told.extend(pair_sums(|a, l| &sk[a * width + l * rows..][..rows], (i, latents, rows)));
    told
}

struct Rows {
    functions: usize,
}

/// The inputs, (K S)ᵀ in its own type.
struct Inputs<'a, T: Clone> {
    functions: usize,
    sk: Cow<'a, [T]>,
    lower: Cow<'a, [f64]>,
    weights: Cow<'a, [f64]>,
}

impl<T: Real> Inputs<'_, T> {
    /// Number of rows n.
    fn count(&self) -> usize {
        self.sk.len() / (self.weights.len() * self.functions)
    }

    /// (K S)ᵀ of some rows, `[i, L rows]`.
    fn chunk(&self, rows: &Range<usize>) -> Vec<f64> {
        let mut chunk = Vec::with_capacity(self.weights.len() * self.functions * rows.len());
        for function in self.sk.chunks_exact(self.count()) {
            chunk.extend(function[rows.clone()].iter().map(|value| value.f64()));
        }
        chunk
    }

    /// The output of all rows `[L + L L, n]`.
    fn told(&self) -> Vec<f64> {
        let n = self.count();
        let chunks = chunks(n);
        let parts = threads::map(chunks.par_iter(), |rows| {
            tell(&mut self.chunk(rows), self.functions, &self.lower, &self.weights)
        });
        let mut all = vec![0.0; self.functions * (1 + self.functions) * n];
        chunks.iter().zip(parts).for_each(|(rows, part)| place(&mut all, n, rows, &part));
        all
    }

    /// Gradients in (K S)ᵀ of a chunk, for the cotangents `grad` `[L + L L, n]` of all rows. Adds the gradients in the
    /// factor and in the weights to their sums.
    fn pull(&self, rows: &Range<usize>, grad: &[f64], [in_lower, in_weights]: [&mut [f64]; 2]) -> Vec<f64> {
        let (i, latents, n) = (self.weights.len(), self.functions, self.count());
        let (of_mean, of_sums) = grad.split_at(latents * n);
        let of_mean: Vec<f64> = of_mean.chunks_exact(n).flat_map(|own| &own[rows.clone()]).copied().collect();
        let width = of_mean.len();
        let mut a = self.chunk(rows);
        in_weights.iter_mut().zip(a.chunks_exact(width)).for_each(|(sum, row)| *sum += dot(row, &of_mean));
        solve::lower(view(&self.lower, i), view_mut(&mut a, width));
        // Ā_l = Σ_k (G_lk + G_kl) A_k, then L⁻ᵀ Ā.
        let mut slopes = mixed(&a, &symmetric::<f64>(of_sums, rows, latents), latents);
        slopes.iter_mut().for_each(|slope| *slope *= 2.0);
        solve::upper(view(&self.lower, i).transpose(), view_mut(&mut slopes, width));
        product::add_lower(view_mut(in_lower, i), view(&slopes, width), view(&a, width).transpose(), -1.0);
        for (slopes, weight) in slopes.chunks_exact_mut(width).zip(&*self.weights) {
            slopes.iter_mut().zip(&of_mean).for_each(|(slope, g)| *slope += weight * g);
        }
        slopes
    }

    /// The gradients, those in the factor and in the weights in the type `wide`.
    fn gradients(&self, grad: &[f64], wide: DType) -> [Option<TensorData>; 3] {
        let (i, n) = (self.weights.len(), self.count());
        let chunks = chunks(n);
        let share = chunks.len().div_ceil(rayon::current_num_threads()).max(1);
        let parts = threads::map(chunks.par_chunks(share), |chunks| {
            let (mut in_lower, mut in_weights) = (vec![0.0; i * i], vec![0.0; i]);
            let pull = |rows: &Range<usize>| {
                let slopes = self.pull(rows, grad, [&mut in_lower, &mut in_weights]);
                slopes.into_iter().map(T::of).collect()
            };
            let slopes: Vec<Vec<T>> = chunks.iter().map(pull).collect();
            (slopes, in_lower, in_weights)
        });
        let mut in_sk = vec![T::of(0.0); self.sk.len()];
        let (mut in_lower, mut in_weights) = (vec![0.0; i * i], vec![0.0; i]);
        let mut places = chunks.iter();
        for (slopes, lower, weights) in parts {
            in_lower.iter_mut().zip(lower).for_each(|(sum, part)| *sum += part);
            in_weights.iter_mut().zip(weights).for_each(|(sum, part)| *sum += part);
            slopes.iter().zip(&mut places).for_each(|(slopes, rows)| place(&mut in_sk, n, rows, slopes));
        }
        // The strict upper triangle is not part of a factor.
        in_lower.chunks_exact_mut(i).enumerate().for_each(|(a, row)| row[a + 1..].fill(0.0));
        [
            Some(TensorData::new(in_sk, [i, self.sk.len() / i])),
            Some(narrowed(in_lower, &[i, i], wide)),
            Some(narrowed(in_weights, &[i, 1], wide)),
        ]
    }
}

/// The ranges of consecutive chunks of rows.
fn chunks(n: usize) -> Vec<Range<usize>> {
    (0..n).step_by(ROWS).map(|start| start..(start + ROWS).min(n)).collect()
}

impl HostOp<3> for Rows {
    fn forward(self: Arc<Self>, [sk, lower, weights]: [TensorData; 3]) -> Result<(TensorData, Vjp<3>)> {
        let wide = lower.dtype();
        let (lower, weights) = (widened(lower)?, widened(weights)?);
        with_real!(sk.dtype(), T => {
            let sk: Vec<T> = into_vec(sk)?;
            let inputs =
                Inputs { functions: self.functions, sk: sk.into(), lower: lower.into(), weights: weights.into() };
            let (told, n) = (inputs.told(), inputs.count());
            let value = narrowed(told, &[self.functions * (1 + self.functions), n], wide);
            Ok((value, Box::new(move |grad, _needs| Ok(inputs.gradients(&widened(grad)?, wide)))))
        })
    }
}
