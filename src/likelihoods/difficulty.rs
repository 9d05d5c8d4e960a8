//! How many points an average over correlated classes needs.

use cagey_base::likelihoods::softmax::normalise;

/// The difficulty of averaging what correlations change in `ln Σ exp(f)` for `f ~ N(m, C)`: the curvature along `f`
/// times the variance, times the size of the correlations, `x = tr(J C) · t · ρ`, where `t` is the mean of C's
/// eigenvalues other than the shift's, `J = diag(p) − p pᵀ` and `p = softmax(m / √(1 + π t / 8))`. In the shifted
/// covariance, ρ is the root of the sum of squares off the diagonal, relative to that on it. The errors of lattice
/// rules grow with x: they are small where one class dominates, where the variances are small, and where the functions
/// are nearly independent.
pub(super) struct Difficulty {
    /// x.
    pub value: f64,
    /// Its slopes in m `[L]`.
    pub in_mean: Vec<f64>,
    /// Its slopes in C `[L, L]`.
    pub in_covariance: Vec<f64>,
    /// Its slopes in the shifted covariance `[L, L]`.
    pub in_shifted: Vec<f64>,
}

impl Difficulty {
    /// For a covariance whose rows add up to 0, and the same one shifted.
    pub fn new(mean: &[f64], covariance: &[f64], shifted: &[f64]) -> Self {
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
        let (size, mut in_shifted) = correlation(shifted, n);
        in_shifted.iter_mut().for_each(|slope| *slope *= curved * t);
        in_covariance.iter_mut().for_each(|slope| *slope *= size);
        let in_mean = in_logits.iter().map(|slope| size * t * slope / widening).collect();
        Self { value: curved * t * size, in_mean, in_covariance, in_shifted }
    }
}

/// ρ and its slopes.
fn correlation(covariance: &[f64], n: usize) -> (f64, Vec<f64>) {
    let squares = |on: bool| -> f64 {
        let part = covariance.iter().enumerate().filter(|(e, _)| (e % (n + 1) == 0) == on);
        part.map(|(_, c)| c * c).sum()
    };
    let (on, off) = (squares(true), squares(false));
    let size = (off / on).sqrt();
    let across = if size > 0.0 { 1.0 / (size * on) } else { 0.0 };
    let slope = |(e, c): (usize, &f64)| if e % (n + 1) == 0 { -size / on * c } else { across * c };
    (size, covariance.iter().enumerate().map(slope).collect())
}
