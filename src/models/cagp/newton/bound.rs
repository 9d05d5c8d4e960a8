//! The evidence lower bound of any actions and sites.

use burn::tensor::Tensor;
use faer::Mat;

use super::sites::Sites;
use crate::error::Result;
use crate::likelihoods::Likelihood;
use crate::linalg::dense::registers;
use crate::linalg::{cholesky, logdet_from_cholesky, solve_lower};
use crate::models::Batch;
use crate::models::cagp::products_with;
use crate::models::posterior::VARIANCE_FLOOR;
use crate::models::prior::Prior;
use crate::scope::{Scope, to_f64};

/// The negative evidence lower bound `KL(q ‖ p) − Σ E_q ln p(y_n | f_n)` `[1]`, for actions `s` `[n, i]` and sites held
/// as they are.
///
/// With `M = Sᵀ(K + W⁻¹)S = L Lᵀ` and `SᵀW⁻¹S = C Cᵀ`: `A = L⁻¹SᵀK`, `t = L⁻¹Sᵀ(ŷ − m)`, `E = L⁻¹C`,
/// `q(f) = N(m + Aᵀt, K − AᵀA)`, `KL = ½ (‖t‖² − ‖Eᵀt‖² + ln|M| − ln|C Cᵀ| − i + ‖E‖²)`. It is a bound for any actions,
/// pseudo-targets and positive curvatures.
pub(super) fn bound(
    (prior, likelihood): (&Prior, &dyn Likelihood),
    scope: &Scope,
    batch: &Batch,
    s: &Tensor<2>,
    Sites { f, gradient, curvature }: &Sites,
) -> Result<Tensor<1>> {
    let (wide, [n, i]) = (scope.wide(), s.dims());
    let column = |values: Vec<f64>| scope.matrix_in(&values, n, 1, wide);
    let spread = |values: &[f64]| column(values.iter().zip(curvature).map(|(x, d)| x / d).collect());
    let ks = products_with(prior.covariance(scope, &batch.x), s)?.cast(wide);
    let mean: Tensor<2> = prior.mean.at(scope, &batch.x)?.cast(wide).unsqueeze_dim(1);
    let (s, st) = (s.clone().cast(wide), s.clone().cast(wide).transpose());
    let noise = st.clone().matmul(s * spread(&vec![1.0; n]));
    let root = cholesky(noise.clone(), "SᵀW⁻¹S")?;
    let sks = st.clone().matmul(ks.clone());
    let lower = cholesky((sks.clone() + sks.transpose()) * 0.5 + noise, "Sᵀ(K + W⁻¹)S")?;
    let targets = st.matmul(column(f.clone()) - mean.clone() + spread(gradient));
    let log_det_noise = logdet_from_cholesky(root.clone())?;

    let all = solve_lower(lower.clone(), Tensor::cat(vec![ks.transpose(), targets, root], 1))?;
    let [a, t, e] = [(0, n), (n, 1), (n + 1, i)].map(|(start, count)| all.clone().narrow(1, start, count));
    let squared = |x: Tensor<2>| x.powi_scalar(2).sum();
    let pulled = squared(t.clone()) - squared(e.clone().transpose().matmul(t.clone()));
    let divergence = (pulled + logdet_from_cholesky(lower)? - log_det_noise + squared(e) - i as f64) * 0.5;

    let mean = (mean + a.clone().transpose().matmul(t)).reshape([1, n]);
    let variance = prior.covariance(scope, &batch.x).diagonal_wide()?.reshape([1, n]);
    let floor = variance.clone().detach() * VARIANCE_FLOOR;
    let variance = (variance - a.powi_scalar(2).sum_dim(0)).max_pair(floor);
    let expected = likelihood.expected_log_density(scope, mean, variance, &batch.y, batch.noise.as_ref())?;
    Ok(divergence - expected.sum())
}

/// Actions, row-major `[i, n]`, and sites as one matrix `[n, i + 3]`, as training holds them: actions of the same span
/// with `SᵀW⁻¹S = I`. Then no eigenvalue of M is below 1, whatever K becomes.
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
pub(super) fn unpacked(packed: &Tensor<2>) -> Result<(Tensor<2>, Sites)> {
    let i = packed.dims()[1] - 3;
    let column = |place: usize| to_f64(packed.clone().narrow(1, i + place, 1));
    Ok((packed.clone().narrow(1, 0, i), Sites { f: column(0)?, gradient: column(1)?, curvature: column(2)? }))
}
