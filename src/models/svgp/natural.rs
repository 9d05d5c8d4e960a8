//! Natural-gradient steps for a normal distribution of whitened inducing values.

use burn::tensor::Tensor;

use crate::error::Result;
use crate::likelihoods::{Likelihood, Targets, expected};
use crate::linalg::Factor;
use crate::linalg::dense::{inverse, product, transpose, view, view_mut};
use crate::models::Batch;
use crate::scope::to_f64;

/// Slopes of the data term of the loss in the means and in the variances of f, `[b]` each.
pub type LatentSlopes = (Vec<f64>, Vec<f64>);

/// The slopes of `−scale Σ E[ln p(y_i | f_i)]` at marginals `[L, b]`, one pair for each latent function.
pub fn slopes(
    likelihood: &dyn Likelihood,
    mean: Tensor<2>,
    variance: Tensor<2>,
    batch: &Batch,
) -> Result<Vec<LatentSlopes>> {
    let [latents, b] = mean.dims();
    let (mean, variance, y) = (to_f64(mean)?, to_f64(variance)?, to_f64(batch.y.clone())?);
    let auxiliary = batch.auxiliary.clone().map(to_f64).transpose()?;
    let targets = Targets { y: &y, auxiliary: auxiliary.as_deref() };
    likelihood.check(targets, None)?;
    let rows: Vec<_> = targets.rows(likelihood.auxiliary()).collect();
    let own = likelihood.parameters().iter().map(|(_, p)| p.len()).sum();
    let records = expected::records(&*likelihood.density(), &rows, own, &mean, &variance);
    let record = |i: usize| &records[i * (1 + 2 * latents + own)..];
    let column = |at: usize| (0..b).map(|i| -batch.scale * record(i)[at]).collect();
    Ok((0..latents).map(|l| (column(1 + l), column(1 + latents + l))).collect())
}

/// The sums over rows that a step needs: 2A diag(v̄)Aᵀ `[m, m]`, then A m̄ `[m]`, for A `[m, b]`.
pub fn sums(a: &[f64], (in_mean, in_variance): &LatentSlopes) -> Vec<f64> {
    let b = in_mean.len();
    let m = a.len() / b;
    let mut scaled = a.to_vec();
    for row in scaled.chunks_exact_mut(b) {
        row.iter_mut().zip(in_variance).for_each(|(x, v)| *x *= 2.0 * v);
    }
    let mut data = vec![0.0; m * m];
    product::add_lower(view_mut(&mut data, m), view(a, b), view(&scaled, b).transpose(), 1.0);
    transpose::mirror(view_mut(&mut data, m));
    data.extend(a.chunks_exact(b).map(|row| row.iter().zip(in_mean).map(|(x, g)| x * g).sum::<f64>()));
    data
}

/// A normal distribution N(μ, S) as S⁻¹ `[m, m]` and S⁻¹μ `[m]`.
#[derive(Debug)]
pub struct Natural {
    precision: Vec<f64>,
    shifted: Vec<f64>,
}

impl Natural {
    /// That of N(μ, R Rᵀ).
    pub fn of(mean: &[f64], mut root: Vec<f64>) -> Self {
        inverse::from_factor(view_mut(&mut root, mean.len()));
        let shifted = times(&root, mean);
        Self { precision: root, shifted }
    }
}

fn times(matrix: &[f64], x: &[f64]) -> Vec<f64> {
    matrix.chunks_exact(x.len()).map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum()).collect()
}

/// The mean and the lower root of N(μ, R Rᵀ) after a step of length `rate`. `sums` are the [sums] over the rows; the
/// prior is N(0, I) if none is given.
pub fn step(
    sums: &[f64],
    (mean, root): (Vec<f64>, Vec<f64>),
    rate: f64,
    prior: Option<&Natural>,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let m = mean.len();
    let (data, pushed) = sums.split_at(m * m);
    // S⁻¹.
    let mut old = root;
    inverse::from_factor(view_mut(&mut old, m));
    // θ₁ = S⁻¹μ moves to (1 − γ)S⁻¹μ + γ(2A diag(v̄)Aᵀμ − A m̄).
    let (kept, drawn) = (times(&old, &mean), times(data, &mean));
    let mut next: Vec<f64> =
        kept.iter().zip(drawn).zip(pushed).map(|((k, d), p)| (1.0 - rate) * k + rate * (d - p)).collect();
    let mut precision: Vec<f64> = old.iter().zip(data).map(|(o, d)| (1.0 - rate) * o + rate * d).collect();
    match prior {
        None => precision.iter_mut().step_by(m + 1).for_each(|d| *d += rate),
        Some(prior) => {
            precision.iter_mut().zip(&prior.precision).for_each(|(p, own)| *p += rate * own);
            next.iter_mut().zip(&prior.shifted).for_each(|(x, own)| *x += rate * own);
        }
    }
    let factor = Factor::new(precision, "the precision of q(u)")?;
    factor.solve(&mut next)?;
    let root = Factor::new(factor.inverse(), "the covariance of q(u)")?.lower();
    Ok((next, root))
}
