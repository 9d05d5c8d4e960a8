//! The evidence lower bound for any actions and sites.

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
use crate::products::Prepared;
use crate::scope::{Scope, scalar, to_f64};

/// What the bound needs from a posterior through actions, differentiable in all inputs.
pub(super) struct Told {
    /// KL(q ‖ p) `[1]`.
    pub divergence: Tensor<1>,
    /// Latent means minus the prior means `[L, n]`.
    pub mean: Tensor<2>,
    /// The explained part of the latent variances `[L, n]`, or for centred likelihoods of the rows' covariances
    /// `[L L, n]`.
    pub explained: Tensor<2>,
}

/// From actions S `[L n, i]`, their products K S, and sites.
///
/// With `M = Sᵀ(K + W⁻¹)S = L Lᵀ` and `SᵀW⁻¹S = C Cᵀ`: `A = L⁻¹SᵀK`, `a = M⁻¹Sᵀ(ŷ − m)`, `E = L⁻¹C`,
/// `q(f) = N(m + K S a, K − AᵀA)`, `KL = ½ (aᵀSᵀKS a + ln|M| − ln|C Cᵀ| − i + ‖E‖²)`.
pub(super) fn told(
    priors: &[Prior],
    scope: &Scope,
    x: &Tensor<2>,
    (span, ks): (&Span, Tensor<2>),
    sites: &Noisy,
) -> Result<Told> {
    let ([all, i], n) = (ks.dims(), x.dims()[0]);
    let latents = all / n;
    let [noise, root] = span.noise(&sites.spread)?;
    let gram = span.gram(&ks, scope.wide())?;
    let lower = cholesky(gram.clone() + noise, "Sᵀ(K + W⁻¹)S")?;
    let targets = span.transposed_times(&(sites.targets.clone() - means(priors, scope, x, latents)?))?;

    // Any weights define a distribution: with rounding errors, mean and divergence still use the same weights.
    let weights = cholesky_solve(lower.clone(), targets)?;
    let pulled = (gram.clone().matmul(weights.clone()) * weights.clone()).sum();
    let [gram, sizes] = [&gram, &weights].map(|x| x.clone().detach().abs());
    check_digits((gram.matmul(sizes.clone()) * sizes).sum(), &pulled, n)?;
    let log_dets = logdet_from_cholesky(lower.clone())? - logdet_from_cholesky(root.clone())?;
    let e = solve_lower(lower.clone(), root)?;
    let divergence = (pulled + log_dets + e.powi_scalar(2).sum() - i as f64) * 0.5;
    let packed = rows::rows(ks.transpose(), lower, weights, (latents, sites.centred))?;
    let explained = packed.dims()[0] - latents;
    let [mean, explained] = [(0, latents), (latents, explained)].map(|(at, count)| packed.clone().narrow(0, at, count));
    Ok(Told { divergence, mean, explained })
}

/// The same for block-sparse actions that belong to one latent function each, with fused products: the actions of one
/// function carry no information about another. `prepared` are products of the same numbers for each function, if
/// available.
pub(super) fn told_apart(
    priors: &[Prior],
    scope: &Scope,
    x: &Tensor<2>,
    (span, prepared): (&Span, Option<Vec<Prepared>>),
    sites: &Noisy,
) -> Result<Option<Told>> {
    let (Some(blocks), n) = (span.separate(), x.dims()[0]) else { return Ok(None) };
    let targets = sites.targets.clone() - means(priors, scope, x, blocks.len())?;
    let mut prepared = prepared.into_iter().flatten();
    let (mut divergence, mut mean, mut explained) = (Vec::new(), Vec::new(), Vec::new());
    for (l, (blocks, prior)) in blocks.iter().zip(repeated(priors.iter().collect(), blocks.len())).enumerate() {
        let own = [&targets, &sites.spread].map(|all| all.clone().narrow(0, l * n, n).squeeze_dim(1));
        let covariance = prior.covariance(scope, x);
        let Some(told) = covariance.explained(blocks, own.each_ref(), prepared.next())? else { return Ok(None) };
        check_digits(told.magnitude, &told.divergence, n)?;
        divergence.push(told.divergence);
        mean.push(told.mean);
        explained.push(told.variance);
    }
    let divergence = Tensor::cat(divergence, 0).sum() * 0.5;
    Ok(Some(Told { divergence, mean: Tensor::stack(mean, 0), explained: Tensor::stack(explained, 0) }))
}

/// The negative evidence lower bound `KL(q ‖ p) − Σ E_q ln p(y_n | f_n)` `[1]`. It is a bound for any actions,
/// pseudo-targets and positive curvatures. Expectations are over the joint distribution of a row's latent functions.
pub(super) fn bound(
    (priors, likelihood): (&[Prior], &dyn Likelihood),
    scope: &Scope,
    batch: &Batch,
    told: Told,
) -> Result<Tensor<1>> {
    let [latents, n] = told.mean.dims();
    let centred = likelihood.density().is_centred();
    let mean = means(priors, scope, &batch.x, latents)?.reshape([latents, n]) + told.mean;
    let explained = |place: usize, count: usize| told.explained.clone().narrow(0, place, count);
    let variances = priors.iter().map(|prior| prior.covariance(scope, &batch.x).diagonal_wide());
    let prior = Tensor::stack::<2>(repeated(variances.collect::<Result<_>>()?, latents), 0);
    let floored = |variance: Tensor<2>, prior: Tensor<2>| variance.max_pair(prior.detach() * VARIANCE_FLOOR);
    let variance = if centred {
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
    let expected = likelihood.expected_log_density(scope, mean, variance, &batch.y, batch.auxiliary.as_ref())?;
    Ok(told.divergence - expected.sum())
}

/// The largest allowed rounding error of the divergence, for each row and relative to the divergence itself.
const LOST: f64 = 1e-5;

/// Refuses sites at which rounding could change the divergence too much. `pulled` is `aᵀSᵀKS a` or more, and `size` is
/// the sum of the sizes of the terms. This happens for sites so far on the wrong side of their targets that f64 cannot
/// resolve the pseudo-targets.
fn check_digits(size: Tensor<1>, pulled: &Tensor<1>, rows: usize) -> Result<()> {
    let [size, pulled] = [size, pulled.clone().detach().abs()].map(scalar);
    match f64::EPSILON * size? <= LOST * (rows as f64 + pulled?) {
        true => Ok(()),
        false => Err(Error::NotFinite("the bound, which loses all digits to very large pseudo-targets,".into())),
    }
}

/// Prior means `[L n, 1]`.
pub(super) fn means(priors: &[Prior], scope: &Scope, x: &Tensor<2>, latents: usize) -> Result<Tensor<2>> {
    let means = priors.iter().map(|prior| Ok(prior.mean.at(scope, x)?.cast(scope.wide())));
    Ok(Tensor::cat(repeated(means.collect::<Result<_>>()?, latents), 0).unsqueeze_dim(1))
}

/// Actions, row-major `[i, L n]`, and sites as one matrix `[L n, i + 3]` that training holds. The actions keep their
/// span and get `SᵀW⁻¹S = I`, so no eigenvalue of M is below 1, whatever K becomes.
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

/// The actions and sites of a packed matrix.
pub(super) fn unpacked(packed: &Tensor<2>, rows: usize, centred: bool) -> Result<(Tensor<2>, Sites)> {
    let i = packed.dims()[1] - 3;
    let column = |place: usize| to_f64(packed.clone().narrow(1, i + place, 1));
    let sites = Sites { f: column(0)?, gradient: column(1)?, curvature: column(2)?, rows, centred };
    Ok((packed.clone().narrow(1, 0, i), sites))
}
