//! Averages of `ln Σ exp(f)` over correlated Gaussian `f`, with slopes.

use cagey_base::likelihoods::Marginal;
use cagey_base::likelihoods::correlated::{GRID, axes, by_grid, centre, eigen, in_basis};
use cagey_base::likelihoods::shares::{Averages, averages};
use cagey_base::likelihoods::softmax::{Joint, LogSum, normalise};

use super::difficulty::Difficulty;
use super::lattice::{Lattice, Means};
use super::shift::Shifted;

fn nan(n: usize) -> LogSum {
    LogSum { value: f64::NAN, in_mean: vec![f64::NAN; n], in_covariance: vec![f64::NAN; n * n] }
}

impl Joint for Lattice {
    fn log_sum(&self, mean: &[f64], covariance: &[f64]) -> LogSum {
        log_sum(mean, covariance, self)
    }
}

/// `E[ln Σ exp(f)]` for `f ~ N(mean [L], covariance [L, L])` with its slopes, computed as in
/// [`probabilities`](cagey_base::likelihoods::correlated::probabilities). For
/// more than three functions, a [shift](Shifted) that differs between them leaves the smallest correlations, and the
/// value for independent functions is corrected by the difference that these cause on the points of a lattice. The
/// slopes are the exact slopes of that rule, so that optimisers see one function.
fn log_sum(mean: &[f64], covariance: &[f64], lattice: &Lattice) -> LogSum {
    let n = mean.len();
    let mut centred = covariance.to_vec();
    centre(&mut centred, n);
    let largest = centred.iter().step_by(n + 1).fold(0.0f64, |largest, v| largest.max(*v));
    if n > GRID && largest > NARROW {
        return log_sum_by_lattice(mean, &centred, lattice).unwrap_or_else(|| nan(n));
    }
    let (mut value, mut total) = (0.0, 0.0);
    let (mut in_mean, mut in_covariance) = (vec![0.0; n], vec![0.0; n * n]);
    let Some((values, vectors)) = eigen(&centred, n) else {
        return nan(n);
    };
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
    LogSum { value: value / total, in_mean, in_covariance }
}

/// Below this variance an average is the value at the mean.
const NARROW: f64 = 1e-10;

/// The smallest eigenvalue of a covariance, relative to its largest.
const PIVOT: f64 = 1e-12;

/// None if numbers are not finite.
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
