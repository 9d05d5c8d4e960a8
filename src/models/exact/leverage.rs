//! What leaving a row out of the training changes, for too many parameters to know the curvature of the objective.
//!
//! As functions of the parameters, standardised left-out residuals z have a Jacobian J. If they were linear, and
//! training minimised their squares and a quadratic prior of curvature Λ, this would be a linear regression. There, the
//! residual of a row that had no part in the training is z / (1 − q), where its leverage q is the diagonal entry of J
//! (JᵀJ + Λ)⁻¹Jᵀ (Cook and Weisberg 1982, *Residuals and influence in regression*, section 2.2). This is cautious:
//! residuals become larger than those of trainings without a row.

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::ExactGp;
use crate::device::Compute;
use crate::error::Result;
use crate::linalg::Factor;
use crate::linalg::dense::columns::{column_squares, combine};
use crate::linalg::dense::{product, view, view_mut};
use crate::models::Observations;
use crate::models::minibatch::Rows;
use crate::params::Parameters;
use crate::scope::Scope;
use crate::solvers::blocks::{scale_rows, transposed};
use crate::threads;

/// The largest leverage: beyond it, a linear model says little.
const MOST: f64 = 0.9;
/// The curvature of parameters without a prior, relative to the mean of JᵀJ's diagonal. What is left of J along z is
/// rounding, and far below.
const RIDGE: f64 = 1e-9;

/// The leverages `[n]` of the rows, given the factor of K̂ and `weights` = K̂⁻¹(y − m).
///
/// With D the diagonal of K̂⁻¹, z = D^-½ K̂⁻¹(y − m), so that J = −D^-½ K̂⁻¹S. Row i of S is the gradient of entry i of
/// K̂ · weights + m(X), for constant weights. The derivative of D is left out, but for a common factor of all
/// variances. It moves z along itself and no left-out mean, so the part of J along z is removed.
///
/// # Errors
/// What kernels report, and [`NotFinite`](crate::Error::NotFinite).
pub(super) fn leverages(
    model: &ExactGp,
    data: &Observations,
    factor: &Factor<f64>,
    weights: &[f64],
) -> Result<Vec<f64>> {
    let (n, count) = (data.n(), model.free_raw().len());
    // One row is too little work for a GPU.
    let compute = Compute::default();
    let scope = Scope::training(compute)?;
    let others = (scope.matrix(&data.x, n, data.d), scope.matrix(weights, n, 1));
    let slopes = |row: usize| {
        slopes(model, &Scope::training(compute)?, (&others.0, &others.1), &data.gather(&[row])?, weights[row])
    };
    let rows = threads::map((0..n).into_par_iter(), slopes);
    let mut jacobian = rows.into_iter().collect::<Result<Vec<_>>>()?.concat();
    factor.solve(&mut jacobian)?;
    let sd: Vec<f64> = factor.inverse_diagonal().into_iter().map(|precision| precision.sqrt().recip()).collect();
    let z: Vec<f64> = weights.iter().zip(&sd).map(|(weight, sd)| weight * sd).collect();
    scale_rows(&mut jacobian, &sd);
    let ridge = RIDGE * jacobian.iter().map(|slope| slope * slope).sum::<f64>() / count as f64;
    if ridge == 0.0 {
        // Constant targets: nothing was learned from any row.
        return Ok(vec![0.0; n]);
    }
    project_out(&z, &mut jacobian);
    let priors: Vec<f64> = prior_curvature(model).into_iter().map(|prior| prior + ridge).collect();
    if count > n {
        return by_rows(jacobian, &priors, n);
    }
    let mut curvature = vec![0.0; count * count];
    let of = view(&jacobian, count);
    product::set(view_mut(&mut curvature, count), of.transpose(), of, 1.0);
    curvature.iter_mut().step_by(count + 1).zip(&priors).for_each(|(diagonal, prior)| *diagonal += prior);
    let mut columns = transposed(&jacobian, count);
    Factor::new(curvature, "the curvature of the parameters")?.solve_lower(&mut columns)?;
    Ok(column_squares(&columns, n).into_iter().map(|q| q.min(MOST)).collect())
}

/// The same for more parameters than rows, without a matrix of all pairs of parameters: with B = JΛ^-½, the leverages
/// are 1 minus the diagonal of (I + BBᵀ)⁻¹.
fn by_rows(mut jacobian: Vec<f64>, priors: &[f64], n: usize) -> Result<Vec<f64>> {
    for row in jacobian.chunks_mut(priors.len()) {
        row.iter_mut().zip(priors).for_each(|(slope, prior)| *slope /= prior.sqrt());
    }
    let (of, mut gram) = (view(&jacobian, priors.len()), vec![0.0; n * n]);
    product::set(view_mut(&mut gram, n), of, of.transpose(), 1.0);
    gram.iter_mut().step_by(n + 1).for_each(|diagonal| *diagonal += 1.0);
    let rest = Factor::new(gram, "the Gram matrix of the rows")?.inverse_diagonal();
    Ok(rest.into_iter().map(|rest| (1.0 - rest).clamp(0.0, MOST)).collect())
}

/// Removes the part along `z [n]` from every column of `jacobian`.
fn project_out(z: &[f64], jacobian: &mut [f64]) {
    let square: f64 = z.iter().map(|z| z * z).sum();
    if square > 0.0 {
        let along: Vec<f64> = combine(jacobian, z).into_iter().map(|sum| sum / square).collect();
        for (row, z) in jacobian.chunks_mut(along.len()).zip(z) {
            row.iter_mut().zip(&along).for_each(|(slope, along)| *slope -= z * along);
        }
    }
}

/// The gradient of a row's entry of K̂ · weights + m(X) in the free raw parameters, given all rows with their weights,
/// and this one with its own.
fn slopes(
    model: &ExactGp,
    scope: &Scope,
    (all, weights): (&Tensor<2>, &Tensor<2>),
    row: &Observations,
    weight: f64,
) -> Result<Vec<f64>> {
    let (prior, point) = (&model.prior, row.batch(scope));
    let others = prior.cross(scope, &point.x, all).times(weights)?.squeeze_dim::<1>(1);
    // White noise in the kernel is the difference between a row with itself and with its twin.
    let twin = prior.cross(scope, &point.x, &point.x).matrix()?.squeeze_dim::<1>(1);
    let own = prior.kernel.diag(scope, &point.x)? - twin;
    let noise = point.noise(scope, &model.likelihood);
    let fitted = others + (own + noise) * weight + prior.mean.at(scope, &point.x)?;
    Ok(scope.gradient(fitted, model)?.1)
}

/// The curvature of the priors in the free raw parameters.
fn prior_curvature(model: &ExactGp) -> Vec<f64> {
    let parameters = model.parameters().into_iter().filter(|(_, parameter)| !parameter.fixed);
    parameters.flat_map(|(_, parameter)| parameter.freed(parameter.prior_curvature())).collect()
}
