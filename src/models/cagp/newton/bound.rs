//! The evidence lower bound of any actions and sites.

use burn::tensor::Tensor;
use faer::Mat;

use super::rows;
use super::sites::Sites;
use super::span::Span;
use super::tied::Noisy;
use crate::error::{Error, Result};
use crate::likelihoods::Likelihood;
use crate::linalg::dense::registers;
use crate::linalg::{cholesky, cholesky_solve, logdet_from_cholesky, solve_lower};
use crate::models::Batch;
use crate::models::posterior::VARIANCE_FLOOR;
use crate::models::prior::{Prior, repeated};
use crate::scope::{Scope, to_f64};

/// The negative evidence lower bound `KL(q ‖ p) − Σ E_q ln p(y_n | f_n)` `[1]`, for actions S `[L n, i]`, their
/// products K S, and sites: differentiable in all that are.
///
/// With `M = Sᵀ(K + W⁻¹)S = L Lᵀ` and `SᵀW⁻¹S = C Cᵀ`: `A = L⁻¹SᵀK`, `a = M⁻¹Sᵀ(ŷ − m)`, `E = L⁻¹C`,
/// `q(f) = N(m + K S a, K − AᵀA)`, `KL = ½ (aᵀSᵀKS a + ln|M| − ln|C Cᵀ| − i + ‖E‖²)`. It is a bound for any actions,
/// pseudo-targets and positive curvatures. Expectations are over the joint distribution of a row's latent functions.
pub(super) fn bound(
    (priors, likelihood): (&[Prior], &dyn Likelihood),
    scope: &Scope,
    batch: &Batch,
    (span, ks): (&Span, Tensor<2>),
    sites: &Noisy,
) -> Result<Tensor<1>> {
    let ([all, i], n) = (ks.dims(), batch.y.dims()[0]);
    let latents = all / n;
    let mean = means(priors, scope, &batch.x, latents)?;
    let [noise, root] = span.noise(&sites.spread)?;
    let gram = span.gram(&ks, scope.wide())?;
    let lower = cholesky(gram.clone() + noise, "Sᵀ(K + W⁻¹)S")?;
    let targets = span.transposed_times(&(sites.targets.clone() - mean.clone()))?;

    // Any weights make a distribution: those that rounding made serve its mean and its divergence alike.
    let weights = cholesky_solve(lower.clone(), targets)?;
    let pulled = (gram.clone().matmul(weights.clone()) * weights.clone()).sum();
    check_digits(&gram, &weights, &pulled, n)?;
    let log_dets = logdet_from_cholesky(lower.clone())? - logdet_from_cholesky(root.clone())?;
    let e = solve_lower(lower.clone(), root)?;
    let divergence = (pulled + log_dets + e.powi_scalar(2).sum() - i as f64) * 0.5;

    let packed = rows::rows(ks.transpose(), lower, weights, (latents, sites.centred))?;
    let mean = mean.reshape([latents, n]) + packed.clone().narrow(0, 0, latents);
    let explained = |place: usize, count: usize| packed.clone().narrow(0, latents + place, count);
    let variances = priors.iter().map(|prior| prior.covariance(scope, &batch.x).diagonal_wide());
    let prior = Tensor::stack::<2>(repeated(variances.collect::<Result<_>>()?, latents), 0);
    let floored = |variance: Tensor<2>, prior: Tensor<2>| variance.max_pair(prior.detach() * VARIANCE_FLOOR);
    let variance = if sites.centred {
        let row = |place: usize| {
            let (l, k) = (place / latents, place % latents);
            let own = prior.clone().narrow(0, l, 1);
            let explained = explained(place, 1);
            if l == k { floored(own.clone() - explained, own) } else { -explained }
        };
        Tensor::cat((0..latents * latents).map(row).collect(), 0)
    } else {
        floored(prior.clone() - explained(0, latents), prior)
    };
    let expected = likelihood.expected_log_density(scope, mean, variance, &batch.y, batch.noise.as_ref())?;
    Ok(divergence - expected.sum())
}

/// The most that rounding may take from the divergence, for each row and relative to itself.
const LOST: f64 = 1e-5;

/// Refuses what is `pulled`, `aᵀSᵀKS a`, where rounding is all there is of it: for sites so far on the wrong side of
/// their targets that pseudo-targets have more digits than numbers.
fn check_digits(gram: &Tensor<2>, weights: &Tensor<2>, pulled: &Tensor<1>, rows: usize) -> Result<()> {
    let [gram, weights] = [gram, weights].map(|x| x.clone().detach().abs());
    let sizes = to_f64((gram.matmul(weights.clone()) * weights).sum())?;
    let pulled = to_f64(pulled.clone().detach().abs())?;
    match sizes.iter().zip(&pulled).all(|(size, pulled)| f64::EPSILON * size <= LOST * (rows as f64 + pulled)) {
        true => Ok(()),
        false => Err(Error::NotFinite("the bound: pseudo-targets so large leave it no digits".into())),
    }
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
