//! Averages of `ln Σ exp(f)` over correlated Gaussian `f`, with slopes.

use cagey_base::likelihoods::Marginal;
use cagey_base::likelihoods::correlated::{GRID, axes, by_grid, centre, eigen, in_basis};
use cagey_base::likelihoods::shares::{Averages, averages};
use cagey_base::likelihoods::softmax::{Joint, LogSum, normalise};

use super::lattice::{Lattice, Means};
use crate::linalg::Factor;

impl Joint for Lattice {
    fn log_sum(&self, mean: &[f64], covariance: &[f64]) -> LogSum {
        let n = mean.len();
        let nan = || LogSum { value: f64::NAN, in_mean: vec![f64::NAN; n], in_covariance: vec![f64::NAN; n * n] };
        log_sum(mean, covariance, self).unwrap_or_else(nan)
    }
}

/// `E[ln Σ exp(f)]` for `f ~ N(mean [L], covariance [L, L])` with its slopes, computed as in
/// [`probabilities`](cagey_base::likelihoods::correlated::probabilities). For
/// more than three functions, a [shift](Shifted) that differs between them leaves the smallest correlations, and the
/// value for independent functions is corrected by the difference that these cause on the points of a lattice. The
/// slopes are the exact slopes of that rule, so that optimisers see one function. None if numbers are not finite.
fn log_sum(mean: &[f64], covariance: &[f64], lattice: &Lattice) -> Option<LogSum> {
    let n = mean.len();
    let mut centred = covariance.to_vec();
    centre(&mut centred, n);
    let largest = centred.iter().step_by(n + 1).fold(0.0f64, |largest, v| largest.max(*v));
    if n > GRID && largest > NARROW {
        return log_sum_by_lattice(mean, &centred, lattice);
    }
    let (mut value, mut total) = (0.0, 0.0);
    let (mut in_mean, mut in_covariance) = (vec![0.0; n], vec![0.0; n * n]);
    let (values, vectors) = eigen(&centred, n)?;
    let axes = if largest > NARROW { axes(&values, &vectors, n) } else { Vec::new() };
    by_grid(&axes, mean, 1.0, &mut |f, weight| {
        let mut p = f.to_vec();
        value += weight * normalise(&mut p);
        total += weight;
        for (a, share) in p.iter().enumerate() {
            in_mean[a] += weight * share;
            in_covariance[a * n + a] += 0.5 * weight * share;
            in_covariance[a * n..][..n].iter_mut().zip(&p).for_each(|(sum, p)| *sum -= 0.5 * weight * share * p);
        }
    });
    in_mean.iter_mut().chain(&mut in_covariance).for_each(|slope| *slope /= total);
    Some(LogSum { value: value / total, in_mean, in_covariance })
}

/// Below this variance an average is the value at the mean.
const NARROW: f64 = 1e-10;

/// The smallest eigenvalue of a covariance, relative to its largest.
const PIVOT: f64 = 1e-12;

fn log_sum_by_lattice(mean: &[f64], centred: &[f64], lattice: &Lattice) -> Option<LogSum> {
    let n = mean.len();
    let shifted = Shifted::new(centred, n)?;
    let covariance = &shifted.covariance;
    let difficulty = Difficulty::new(mean, centred, covariance);
    let variance: Vec<f64> = covariance.iter().step_by(n + 1).map(|v| v.max(f64::MIN_POSITIVE)).collect();
    let sd: Vec<f64> = variance.iter().map(|v| v.sqrt()).collect();
    let (values, vectors) = eigen(covariance, n)?;
    let sizes: Vec<f64> = values.iter().map(|value| value.max(PIVOT * values[n - 1]).sqrt()).collect();
    let root = in_basis(&vectors, n, |a, b| if a == b { sizes[a] } else { 0.0 });
    let Averages { shares, bends, log_sum } = averages(Marginal { mean, variance: &variance });

    let (means, in_difficulty) = lattice.means_at(&difficulty, mean, &root, &sd);
    let value = log_sum + means.change();
    let Means { together, apart, in_root, in_sd } = means;
    let changes = together.shares.iter().zip(&apart.shares).map(|(t, a)| t - a);
    let harder = difficulty.in_mean.iter().map(|slope| in_difficulty * slope);
    let in_mean = shares.iter().zip(changes).zip(harder).map(|((share, change), harder)| share + change + harder);
    let in_mean = in_mean.collect();
    // With C = S², dC = S dS + dS S. In the basis of the eigenvectors this is solved by a division by the sum of two
    // roots.
    let seen = in_basis_of(&vectors, n, &in_root);
    let mut slopes = in_basis(&vectors, n, |a, b| 0.5 * (seen[a * n + b] + seen[b * n + a]) / (sizes[a] + sizes[b]));
    for a in 0..n {
        slopes[a * (n + 1)] -= 0.5 * in_sd[a] / sd[a] + bends[a];
    }
    // To the difficulty, and back through the shift and the centring of the covariance.
    let harder = |slopes: &mut [f64], difficulty: &[f64]| {
        slopes.iter_mut().zip(difficulty).for_each(|(slope, harder)| *slope += in_difficulty * harder);
    };
    harder(&mut slopes, &difficulty.in_shifted);
    shifted.pull(&mut slopes);
    harder(&mut slopes, &difficulty.in_covariance);
    centre(&mut slopes, n);
    Some(LogSum { value, in_mean, in_covariance: slopes })
}

/// `Uᵀ A U`.
fn in_basis_of(vectors: &[f64], n: usize, a: &[f64]) -> Vec<f64> {
    let turned: Vec<f64> = (0..n * n).map(|e| vectors[e % n * n + e / n]).collect();
    in_basis(&turned, n, |i, j| a[i * n + j])
}

/// A share of the common variance that keeps nearly singular covariances solvable.
const RIDGE: f64 = 1e-6;

/// A shift that all classes share, chosen so that the rest is nearly independent: averages of `ln Σ exp(f)` and their
/// slopes do not change when all functions get the same zero-mean random shift, even one that depends on them. So a
/// covariance C stands for all `C + a 1ᵀ + 1 aᵀ` that are positive definite.
///
/// `C + A 1 1ᵀ + t (δ 1ᵀ + 1 δᵀ)` for a centred C `[L, L]`.
///
/// `A = tr C / (L (L − 1))` and `δ = (diag C − mean diag C) / (L − 2)` with t = 1 would leave the smallest squares of
/// covariances. To stay positive definite, the shift needs `t² δᵀC⁺δ ≤ A`. With r = δᵀC⁺δ / A, this is true for
/// `t = (1 + r²)^(−1/4)`, which is smooth and nearly 1 for the posteriors of classes.
struct Shifted {
    /// The covariance `[L, L]`.
    covariance: Vec<f64>,
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
    fn new(centred: &[f64], n: usize) -> Option<Self> {
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
    fn pull(&self, slopes: &mut [f64]) {
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
    in_mean: Vec<f64>,
    /// Its slopes in C `[L, L]`.
    in_covariance: Vec<f64>,
    /// Its slopes in the shifted covariance `[L, L]`.
    in_shifted: Vec<f64>,
}

impl Difficulty {
    /// For a covariance whose rows add up to 0, and the same one shifted.
    fn new(mean: &[f64], covariance: &[f64], shifted: &[f64]) -> Self {
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
