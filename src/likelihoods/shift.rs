//! The shifts that all classes share, chosen so that the rest is nearly independent.
//!
//! Averages of `ln Σ exp(f)` and slopes of it do not change when all functions get the same zero-mean random shift,
//! even one that depends on them. So a covariance C stands for all `C + a 1ᵀ + 1 aᵀ` that are positive definite.

use crate::linalg::Factor;

/// A share of the common variance that keeps nearly singular covariances solvable.
const RIDGE: f64 = 1e-6;

/// `C + A 1 1ᵀ + t (δ 1ᵀ + 1 δᵀ)` for a centred C `[L, L]`.
///
/// `A = tr C / (L (L − 1))` and `δ = (diag C − mean diag C) / (L − 2)` with t = 1 would leave the smallest squares of
/// covariances. To stay positive definite, the shift needs `t² δᵀC⁺δ ≤ A`. With r = δᵀC⁺δ / A, this is true for
/// `t = (1 + r²)^(−1/4)`, which is smooth and nearly 1 for the posteriors of classes.
pub(super) struct Shifted {
    /// The covariance `[L, L]`.
    pub covariance: Vec<f64>,
    /// A.
    common: f64,
    /// δ.
    own: Vec<f64>,
    /// C⁺δ.
    solved: Vec<f64>,
    /// r.
    ratio: f64,
    /// t.
    share: f64,
}

impl Shifted {
    /// From a centred covariance of more than two classes. None if it is not finite.
    pub fn new(centred: &[f64], n: usize) -> Option<Self> {
        let mean = centred.iter().step_by(n + 1).sum::<f64>() / n as f64;
        let common = mean / (n - 1) as f64;
        let own: Vec<f64> = centred.iter().step_by(n + 1).map(|v| (v - mean) / (n - 2) as f64).collect();
        let mut system: Vec<f64> = centred.iter().map(|c| c + common).collect();
        system.iter_mut().step_by(n + 1).for_each(|c| *c += RIDGE * common);
        let mut solved = own.clone();
        Factor::new(system, "a row's covariance").ok()?.solve(&mut solved).ok()?;
        let ratio = own.iter().zip(&solved).map(|(a, b)| a * b).sum::<f64>() / common;
        let share = (1.0 + ratio * ratio).powf(-0.25);
        let shift = |e: usize| common + share * (own[e / n] + own[e % n]);
        let covariance = centred.iter().enumerate().map(|(e, c)| c + shift(e)).collect();
        Some(Self { covariance, common, own, solved, ratio, share })
    }

    /// Turns symmetric slopes in the shifted covariance into slopes in the centred one.
    pub fn pull(&self, slopes: &mut [f64]) {
        let Self { common, own, solved, ratio, share, .. } = self;
        let n = own.len();
        let twice: Vec<f64> = slopes.chunks_exact(n).map(|row| 2.0 * row.iter().sum::<f64>()).collect();
        let in_share: f64 = twice.iter().zip(own).map(|(g, d)| g * d).sum();
        let in_ratio = -0.5 * in_share * ratio * share.powi(5);
        let in_product = in_ratio / common;
        let ridge = RIDGE * solved.iter().map(|w| w * w).sum::<f64>();
        let in_common = 0.5 * twice.iter().sum::<f64>() - in_product * (ratio + ridge);
        let in_own: Vec<f64> = twice.iter().zip(solved).map(|(g, w)| share * g + 2.0 * in_product * w).collect();
        let centre = in_own.iter().sum::<f64>() / n as f64;
        for (a, row) in slopes.chunks_exact_mut(n).enumerate() {
            row.iter_mut().zip(solved).for_each(|(slope, w)| *slope -= in_product * solved[a] * w);
            row[a] += in_common / (n * (n - 1)) as f64 + (in_own[a] - centre) / (n - 2) as f64;
        }
    }
}
