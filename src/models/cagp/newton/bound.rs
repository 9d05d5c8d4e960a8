//! The evidence lower bound for any actions and sites.

use burn::tensor::Tensor;
use faer::Mat;

use super::sites::Sites;
use super::tied::Noisy;
use crate::error::{Error, Result};
use crate::likelihoods::Likelihood;
use crate::linalg::dense::registers;
use crate::models::Batch;
use crate::models::cagp::explained::explained;
use crate::models::cagp::span::Span;
use crate::models::posterior::VARIANCE_FLOOR;
use crate::models::prior::{Prior, repeated};
use crate::products::{BlockSparse, Explained, Prepared};
use crate::scope::{Scope, to_f64};

/// What actions of any kind explain, from their products K S.
pub(super) fn told(
    priors: &[Prior],
    scope: &Scope,
    x: &Tensor<2>,
    (span, ks): (&Span, Tensor<2>),
    sites: &Noisy,
) -> Result<Explained> {
    let latents = ks.dims()[0] / x.dims()[0];
    let targets = sites.targets.clone() - means(priors, scope, x, latents)?;
    explained((span, ks), &targets, span.noise(&sites.spread)?, (latents, sites.centred))
}

/// The same for block-sparse actions that belong to one latent function each: the actions of one function carry no
/// information about another. `prepared` are products of the same numbers for each function, if available.
pub(super) fn told_apart(
    priors: &[Prior],
    scope: &Scope,
    x: &Tensor<2>,
    (blocks, prepared): (&[BlockSparse], Option<Vec<Prepared>>),
    sites: &Noisy,
) -> Result<Explained> {
    let n = x.dims()[0];
    let targets = sites.targets.clone() - means(priors, scope, x, blocks.len())?;
    let mut prepared = prepared.into_iter().flatten();
    let each = blocks.iter().zip(repeated(priors.iter().collect(), blocks.len())).enumerate().map(
        |(l, (blocks, prior)): (usize, (_, &Prior))| {
            let own = [&targets, &sites.spread].map(|all| all.clone().narrow(0, l * n, n).squeeze_dim(1));
            prior.covariance(scope, x).explained(blocks, own.each_ref(), prepared.next())
        },
    );
    Ok(Explained::beside(each.collect::<Result<_>>()?))
}

/// The same for block-sparse actions that latent functions with one prior share; none if products are not fused.
pub(super) fn told_together(
    prior: &Prior,
    scope: &Scope,
    x: &Tensor<2>,
    (blocks, prepared): (&[BlockSparse], Option<Prepared>),
    sites: &Noisy,
) -> Result<Option<Explained>> {
    let targets = sites.targets.clone() - means(std::slice::from_ref(prior), scope, x, blocks.len())?;
    let noisy = [targets, sites.spread.clone()].map(|all| all.squeeze_dim(1));
    prior.covariance(scope, x).explained_together(blocks, noisy.each_ref(), prepared)
}

/// The negative evidence lower bound `KL(q ‖ p) − Σ E_q ln p(y_n | f_n)` `[1]`. It is a bound for any actions,
/// pseudo-targets and positive curvatures. Expectations are over the joint distribution of a row's latent functions.
pub(super) fn bound(
    (priors, likelihood): (&[Prior], &dyn Likelihood),
    scope: &Scope,
    batch: &Batch,
    told: Explained,
) -> Result<Tensor<1>> {
    let [latents, n] = told.mean.dims();
    check_digits(told.magnitude, &told.divergence, n)?;
    let centred = likelihood.density().is_centred();
    let mean = means(priors, scope, &batch.x, latents)?.reshape([latents, n]) + told.mean;
    let explained = |place: usize, count: usize| told.variance.clone().narrow(0, place, count);
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
    Ok(told.divergence * 0.5 - expected.sum())
}

/// The largest allowed rounding error of the divergence, for each row and relative to the divergence itself.
const LOST: f64 = 1e-5;

/// Refuses sites at which rounding could change the divergence too much; `size` is the sum of the sizes of its terms.
/// This happens for sites so far on the wrong side of their targets that f64 cannot resolve the pseudo-targets.
fn check_digits(size: Tensor<1>, divergence: &Tensor<1>, rows: usize) -> Result<()> {
    match to_f64(Tensor::cat(vec![size, divergence.clone().detach().abs()], 0))?[..] {
        [size, divergence] if f64::EPSILON * size <= LOST * (rows as f64 + divergence) => Ok(()),
        _ => Err(Error::NotFinite("the bound, which loses all digits to very large pseudo-targets,".into())),
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
