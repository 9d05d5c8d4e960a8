//! The evidence lower bound of any actions and sites.

use burn::tensor::Tensor;
use faer::Mat;

use super::blocks;
use super::sites::Sites;
use super::span::Span;
use super::tied::Noisy;
use crate::error::Result;
use crate::likelihoods::Likelihood;
use crate::linalg::dense::registers;
use crate::linalg::{cholesky, logdet_from_cholesky, solve_lower};
use crate::models::Batch;
use crate::models::posterior::VARIANCE_FLOOR;
use crate::models::prior::{Prior, repeated};
use crate::scope::{Scope, to_f64};

/// The negative evidence lower bound `KL(q ‖ p) − Σ E_q ln p(y_n | f_n)` `[1]`, for actions S `[L n, i]`, their
/// products K S, and sites: differentiable in all that are.
///
/// With `M = Sᵀ(K + W⁻¹)S = L Lᵀ` and `SᵀW⁻¹S = C Cᵀ`: `A = L⁻¹SᵀK`, `t = L⁻¹Sᵀ(ŷ − m)`, `E = L⁻¹C`,
/// `q(f) = N(m + Aᵀt, K − AᵀA)`, `KL = ½ (‖t‖² − ‖Eᵀt‖² + ln|M| − ln|C Cᵀ| − i + ‖E‖²)`. It is a bound for any actions,
/// pseudo-targets and positive curvatures. Expectations are over the joint distribution of a row's latent functions.
pub(super) fn bound(
    (priors, likelihood): (&[Prior], &dyn Likelihood),
    scope: &Scope,
    batch: &Batch,
    (span, ks): (&Span, Tensor<2>),
    sites: &Noisy,
) -> Result<Tensor<1>> {
    let (wide, [all, i], n) = (scope.wide(), ks.dims(), batch.y.dims()[0]);
    let (latents, ks) = (all / n, ks.cast(wide));
    let mean = means(priors, scope, &batch.x, latents)?;
    let [noise, root] = span.noise(&sites.spread)?;
    let sks = span.transposed_times(&ks)?;
    let lower = cholesky((sks.clone() + sks.transpose()) * 0.5 + noise, "Sᵀ(K + W⁻¹)S")?;
    let targets = span.transposed_times(&(sites.targets.clone() - mean.clone()))?;
    let log_det_noise = logdet_from_cholesky(root.clone())?;

    let parts = solve_lower(lower.clone(), Tensor::cat(vec![ks.transpose(), targets, root], 1))?;
    let [a, t, e] = [(0, all), (all, 1), (all + 1, i)].map(|(start, count)| parts.clone().narrow(1, start, count));
    let squared = |x: Tensor<2>| x.powi_scalar(2).sum();
    let pulled = squared(t.clone()) - squared(e.clone().transpose().matmul(t.clone()));
    let divergence = (pulled + logdet_from_cholesky(lower)? - log_det_noise + squared(e) - i as f64) * 0.5;

    let mean = (mean + a.clone().transpose().matmul(t)).reshape([latents, n]);
    let variances = priors.iter().map(|prior| prior.covariance(scope, &batch.x).diagonal_wide());
    let prior = Tensor::stack::<2>(repeated(variances.collect::<Result<_>>()?, latents), 0);
    let floored = |variance: Tensor<2>, prior: Tensor<2>| variance.max_pair(prior.detach() * VARIANCE_FLOOR);
    let variance = if sites.centred {
        let explained = blocks::squares(a, latents)?;
        let row = |place: usize| {
            let (l, k) = (place / latents, place % latents);
            let explained = explained.clone().narrow(0, place, 1);
            let own = prior.clone().narrow(0, l, 1);
            if l == k { floored(own.clone() - explained, own) } else { -explained }
        };
        Tensor::cat((0..latents * latents).map(row).collect(), 0)
    } else {
        floored(prior.clone() - a.powi_scalar(2).sum_dim(0).reshape([latents, n]), prior)
    };
    let expected = likelihood.expected_log_density(scope, mean, variance, &batch.y, batch.noise.as_ref())?;
    Ok(divergence - expected.sum())
}

/// Prior means `[L n, 1]`.
pub(super) fn means(priors: &[Prior], scope: &Scope, x: &Tensor<2>, latents: usize) -> Result<Tensor<2>> {
    let means = priors.iter().map(|prior| Ok(prior.mean.at(scope, x)?.cast(scope.wide())));
    Ok(Tensor::cat(repeated(means.collect::<Result<_>>()?, latents), 0).unsqueeze_dim(1))
}

/// Actions, row-major `[i, L n]`, and sites as one matrix `[L n, i + 3]`, as training holds them: actions of the same
/// span with `SᵀW⁻¹S = I`. Then no eigenvalue of M is below 1, whatever K becomes.
pub(super) fn packed(scope: &Scope, actions: &[f64], sites: &Sites) -> Tensor<2> {
    let n = sites.f.len();
    let i = actions.len() / n;
    let roots: Vec<f64> = sites.curvature.iter().map(|d| d.sqrt()).collect();
    let white = Mat::from_fn(n, i, |row, column| actions[column * n + row] / roots[row]);
    let basis = white.qr().compute_thin_Q();
    registers::clear();
    let row = |row: usize| {
        let actions = (0..i).map(|column| basis[(row, column)] * roots[row]).collect::<Vec<_>>();
        actions.into_iter().chain([sites.f[row], sites.gradient[row], sites.curvature[row]])
    };
    scope.matrix_in(&(0..n).flat_map(row).collect::<Vec<_>>(), n, i + 3, scope.wide())
}

/// What was packed.
pub(super) fn unpacked(packed: &Tensor<2>, rows: usize, centred: bool) -> Result<(Tensor<2>, Sites)> {
    let i = packed.dims()[1] - 3;
    let column = |place: usize| to_f64(packed.clone().narrow(1, i + place, 1));
    let sites = Sites { f: column(0)?, gradient: column(1)?, curvature: column(2)?, rows, centred };
    Ok((packed.clone().narrow(1, 0, i), sites))
}
