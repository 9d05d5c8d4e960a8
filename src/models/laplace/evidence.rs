//! The evidence of Laplace's approximation as a differentiable tensor.

use std::sync::Arc;

use burn::tensor::TensorData;
use rayon::prelude::*;

use super::correction::Correction;
use super::left::Left;
use super::mode::{Mode, Task};
use super::system::Gram;
use super::tangent::{Solved, Tangent};
use crate::error::Result;
use crate::likelihoods::{Density, Row};
use crate::linalg::host::{HostOp, Vjp};
use crate::linalg::real::{narrowed, widened};
use crate::threads;

/// `−ln q(y)` `[1]` for covariances `[P n, n]` and means `[P n]` of P priors. Differentiable in both and in the
/// likelihood's own parameters, whose values are in `density`. The gradient includes how the mode moves.
///
/// Let `q` be half the gradient of `ln|I + W K|` in `f`, `H` minus the Hessian and `s = (I + H K)⁻¹ q`. The adjoints
/// are then `½ (C + s aᵀ + a sᵀ − a aᵀ)` for K and `s − a` for m, `C = (K + W⁻¹)⁻¹` (Rasmussen and Williams 2006,
/// 5.5.1). A [correction](super::correction) `Σ c` with slopes `D` in the variances of `Σ = K − K C K` subtracts
/// `(I − C K) D (I − K C)` from the adjoint for K, and adds to `q` what c and the variances lose along f.
pub(super) struct Evidence {
    /// The likelihood.
    pub density: Arc<dyn Density>,
    /// Targets.
    pub rows: Vec<Row>,
    /// Whether to correct, if the likelihood allows it.
    pub corrected: bool,
    /// The number of the likelihood's own parameters.
    pub own: usize,
}

/// The relative error of the way that the mode moves.
const EXACT: f64 = 1e-11;

/// The corrections of all rows, if there are any.
struct Corrected {
    rows: Vec<Correction>,
    /// The slopes of the corrections in the variances.
    slopes: Vec<f64>,
    /// The covariances of the latent values.
    left: Left,
}

impl Evidence {
    fn task<'a>(&'a self, covariances: &'a [f64], means: &'a [f64]) -> Task<'a> {
        Task { density: &*self.density, rows: &self.rows, gram: Gram::new(covariances, self.rows.len()), means }
    }

    /// The gradients in covariances, means and own parameters.
    fn gradients(
        &self,
        (covariances, means): (&[f64], &[f64]),
        Mode { f, weights, system, .. }: &Mode,
        corrected: Option<&Corrected>,
        grad: f64,
    ) -> Result<[Vec<f64>; 3]> {
        let (n, latents, task) = (self.rows.len(), self.density.latents(), self.task(covariances, means));
        let mut own = vec![0.0; self.own];
        let mut slopes = vec![0.0; f.len()];
        let mut blocks = match corrected {
            Some(Corrected { left, .. }) => {
                let prior = task.gram.of(0).iter().step_by(n + 1);
                prior.zip(&left.variances).map(|(prior, left)| prior - left).collect()
            }
            None => system.explained(|latent| task.gram.of(latent), n)?,
        };
        let lost = corrected.map(|corrected| corrected.left.squares(&corrected.slopes));
        for (i, ((row, f), block)) in task.at(f).zip(blocks.chunks_exact_mut(latents * latents)).enumerate() {
            // Half of the prior variance that remains.
            block.iter_mut().for_each(|b| *b *= -0.5);
            for latent in 0..latents {
                block[latent * (latents + 1)] += 0.5 * task.gram.of(latent)[i * (n + 1)];
            }
            block.iter_mut().zip(lost.iter().map(|lost| lost[i])).for_each(|(b, lost)| *b += lost);
            let mut in_f = vec![0.0; latents];
            self.density.add_curvature_slopes(row, &f, block, &mut in_f, &mut own);
            self.density.add_own_gradient(row, &f, -1.0, &mut own);
            in_f.iter().enumerate().for_each(|(latent, slope)| slopes[latent * n + i] = *slope);
        }
        for (i, correction) in corrected.iter().flat_map(|corrected| &corrected.rows).enumerate() {
            slopes[i] -= correction.in_f;
            own.iter_mut().zip(&correction.own).for_each(|(own, slope)| *own -= slope);
        }
        let way = match self.density.is_log_concave() {
            true => task.solve(system, &slopes)?,
            false => {
                let hessians = task.slopes(f).hessians;
                let tangent = Tangent::new(&task, &hessians);
                match tangent.solve(system, &slopes, EXACT)? {
                    Solved { x, whole: true, .. } => x,
                    _ => tangent.solve_directly(&slopes),
                }
            }
        };
        if self.own > 0 {
            for ((row, f), (_, pull)) in task.at(f).zip(task.at(&task.gram.apply(&way))) {
                self.density.add_pull_slopes(row, &f, &pull, &mut own);
            }
        }

        let square = n * n;
        let mut in_covariances = vec![0.0; covariances.len()];
        let mut in_means = vec![0.0; means.len()];
        for latent in 0..latents {
            let (a, s) = (&weights[latent * n..][..n], &way[latent * n..][..n]);
            let place = latent.min(covariances.len() / square - 1);
            let block = match corrected {
                Some(corrected) => {
                    let mut block = corrected.left.block();
                    corrected.left.subtract_pulled(&corrected.slopes, &mut block);
                    block
                }
                None => system.block(latent)?,
            };
            let into = in_covariances[place * square..][..square].par_chunks_mut(n).zip(block.par_chunks(n));
            threads::for_each(into.enumerate(), |(i, (into, block))| {
                for (j, (into, c)) in into.iter_mut().zip(block).enumerate() {
                    *into += 0.5 * grad * (c + s[i] * a[j] + a[i] * s[j] - a[i] * a[j]);
                }
            });
            let place = latent.min(means.len() / n - 1);
            let into = in_means[place * n..][..n].iter_mut();
            into.zip(s.iter().zip(a)).for_each(|(into, (s, a))| *into += grad * (s - a));
        }
        own.iter_mut().for_each(|own| *own *= grad);
        Ok([in_covariances, in_means, own])
    }
}

impl HostOp<3> for Evidence {
    fn forward(self: Arc<Self>, [covariances, means, _]: [TensorData; 3]) -> Result<(TensorData, Vjp<3>)> {
        let dtype = covariances.dtype();
        let (covariances, means) = (widened(covariances)?, widened(means)?);
        let task = self.task(&covariances, &means);
        let mode = task.mode()?;
        let quadratic: f64 = mode.weights.iter().zip(task.above(&mode.f)).map(|(a, h)| a * h).sum();
        let mut value = 0.5 * (quadratic + mode.system.log_det()) - mode.log_density;
        let mut corrected = None;
        if self.corrected && task.is_corrected() {
            let left = Left::new(&mode.system, task.gram);
            let rows = task.corrections(&mode.f, &left.variances, self.own);
            value -= rows.iter().map(|row| row.value).sum::<f64>();
            let slopes = rows.iter().map(|row| row.in_variance).collect();
            corrected = Some(Corrected { rows, slopes, left });
        }
        let vjp = move |grad, _needs: [bool; 3]| {
            let grad = widened(grad)?.iter().sum();
            let [in_covariances, in_means, own] =
                self.gradients((&covariances, &means), &mode, corrected.as_ref(), grad)?;
            let n = self.rows.len();
            let in_covariances = narrowed(in_covariances, &[covariances.len() / n, n], dtype);
            let in_means = narrowed(in_means, &[means.len()], dtype);
            let own = (self.own > 0).then(|| narrowed(own, &[self.own], dtype));
            Ok([Some(in_covariances), Some(in_means), own])
        };
        Ok((narrowed(vec![value], &[1], dtype), Box::new(vjp)))
    }
}
