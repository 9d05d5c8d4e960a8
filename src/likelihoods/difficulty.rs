//! How many points an average over correlated classes needs.

#[cfg(feature = "gpu")]
use burn::tensor::{Tensor, activation::softmax};

#[cfg(feature = "gpu")]
use crate::linalg::gpu::diagonal;

/// The difficulty of averaging `ln Σ exp(f)` over `f ~ N(m, C)`: the curvature along `f` times the variance,
/// `x = tr(J C) · t`, where `t` is the mean of C's eigenvalues other than the shift's, `J = diag(p) − p pᵀ` and
/// `p = softmax(m / √(1 + π t / 8))`. The errors of lattice rules grow with it: they are small where one class
/// dominates, and where the variances are small.
pub(super) struct Difficulty {
    /// x.
    pub value: f64,
    /// Its slopes in m `[L]`.
    pub in_mean: Vec<f64>,
    /// Its slopes in C `[L, L]`.
    pub in_covariance: Vec<f64>,
}

impl Difficulty {
    /// For a covariance whose rows add up to 0.
    pub fn new(mean: &[f64], covariance: &[f64], normalise: impl Fn(&mut [f64]) -> f64) -> Self {
        let n = mean.len();
        let (rows, others) = (|| covariance.chunks_exact(n), (n - 1) as f64);
        let t = covariance.iter().step_by(n + 1).sum::<f64>() / others;
        let widening = (1.0 + std::f64::consts::PI * t / 8.0).sqrt();
        let mut p: Vec<f64> = mean.iter().map(|m| m / widening).collect();
        normalise(&mut p);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let along: Vec<f64> = rows().map(|row| dot(row, &p)).collect();
        let curved: f64 = (0..n).map(|c| p[c] * (covariance[c * (n + 1)] - along[c])).sum();
        // Slopes of the curvature in p, and through the softmax.
        let in_p: Vec<f64> = (0..n).map(|c| covariance[c * (n + 1)] - 2.0 * along[c]).collect();
        let centre = dot(&p, &in_p);
        let in_logits: Vec<f64> = p.iter().zip(&in_p).map(|(p, slope)| p * (slope - centre)).collect();
        let in_widening = -dot(&in_logits, mean) / (widening * widening);
        let in_t = curved + t * in_widening * std::f64::consts::PI / (16.0 * widening);
        let mut in_covariance: Vec<f64> = p.iter().flat_map(|a| p.iter().map(move |b| -t * a * b)).collect();
        in_covariance.iter_mut().step_by(n + 1).zip(&p).for_each(|(slope, p)| *slope += t * p + in_t / others);
        Self { value: curved * t, in_mean: in_logits.iter().map(|slope| t * slope / widening).collect(), in_covariance }
    }
}

/// x `[b, 1]` for the means `[b, L]` and covariances `[b, L, L]` of rows, differentiable in both.
#[cfg(feature = "gpu")]
pub(super) fn of_rows(mean: Tensor<2>, covariance: Tensor<3>) -> Tensor<2> {
    let [rows, n, _] = covariance.dims();
    let variance = diagonal(&covariance);
    let t = variance.clone().sum_dim(1) / (n - 1) as f64;
    let widening = (t.clone() * (std::f64::consts::PI / 8.0) + 1.0).sqrt();
    let p = softmax(mean / widening, 1);
    let along = covariance.matmul(p.clone().unsqueeze_dim(2)).reshape([rows, n]);
    (p * (variance - along)).sum_dim(1) * t
}
