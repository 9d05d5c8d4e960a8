//! Averages of `softmax(f)` and `ln Σ exp(f)` over correlated Gaussian `f`.

use cagey_base::likelihoods::Marginal;
use cagey_base::likelihoods::shares::{Averages, averages};
use cagey_base::likelihoods::softmax::{Joint, LogSum, normalise};
use faer::{MatRef, Side};

use super::difficulty::Difficulty;
use super::lattice::{Lattice, Means};
use super::shift::Shifted;
use crate::linalg::dense::registers;

/// Up to so many latent functions the integral is over a grid: without the common shift, three functions leave two
/// dimensions.
const GRID: usize = 3;

/// `E[softmax(f)]` for `f ~ N(mean [L], covariance [L, L])`.
///
/// Adding the same shift to all functions changes nothing, so the common shift is removed first. Up to three functions
/// use the trapezoidal rule along the principal axes of the rest, to nine digits. More functions use a lattice rule:
/// the probabilities of `independent` functions with the same variances are multiplied by the factor that correlations
/// cause on the lattice points. For ten classes and variances of 5 this is correct to about 1e-3.
fn probabilities(
    mean: &[f64],
    covariance: &[f64],
    lattice: &Lattice,
    shares: impl Fn(&mut [f64]),
    independent: impl Fn(&[f64]) -> Vec<f64>,
) -> Vec<f64> {
    let n = mean.len();
    let mut centred = covariance.to_vec();
    centre(&mut centred, n);
    if n > GRID {
        // The shift that leaves the smallest correlations.
        let trace: f64 = centred.iter().step_by(n + 1).sum();
        let across = (centred.iter().sum::<f64>() - trace) / (n * (n - 1)) as f64;
        centred.iter_mut().for_each(|c| *c -= across);
    }
    let Some((values, vectors)) = eigen(&centred, n) else { return vec![f64::NAN; n] };
    if n > GRID {
        return by_lattice(mean, &centred, (&values, &vectors), lattice, independent);
    }
    // The first eigenvalue is the smallest. It belongs to the shift.
    let mut sum = vec![0.0; n];
    by_grid(&axes(&values, &vectors, n), mean, 1.0, &mut |f, weight| {
        let mut p = f.to_vec();
        shares(&mut p);
        sum.iter_mut().zip(&p).for_each(|(sum, p)| *sum += weight * p);
    });
    normalised(sum)
}

/// The principal axes without the first. It has the smallest eigenvalue and belongs to the shift.
fn axes(values: &[f64], vectors: &[f64], n: usize) -> Vec<Axis> {
    (1..n).map(|k| Axis::new(values[k], (0..n).map(|c| vectors[c * n + k]).collect())).collect()
}

fn nan(n: usize) -> LogSum {
    LogSum { value: f64::NAN, in_mean: vec![f64::NAN; n], in_covariance: vec![f64::NAN; n * n] }
}

impl Joint for Lattice {
    fn log_sum(&self, mean: &[f64], covariance: &[f64]) -> LogSum {
        log_sum(mean, covariance, self, normalise)
    }

    fn probabilities(&self, mean: &[f64], covariance: &[f64]) -> Vec<f64> {
        let shares = |f: &mut [f64]| {
            normalise(f);
        };
        let independent = |variance: &[f64]| averages(Marginal { mean, variance }).shares;
        probabilities(mean, covariance, self, shares, independent)
    }
}

/// `E[ln Σ exp(f)]` for `f ~ N(mean [L], covariance [L, L])` with its slopes, computed as in [`probabilities`]. For
/// more than three functions, a [shift](Shifted) that differs between them leaves the smallest correlations, and the
/// value for independent functions is corrected by the difference that these cause on the points of a lattice. The
/// slopes are the exact slopes of that rule, so that optimisers see one function.
fn log_sum(mean: &[f64], covariance: &[f64], lattice: &Lattice, normalise: impl Fn(&mut [f64]) -> f64) -> LogSum {
    let n = mean.len();
    let mut centred = covariance.to_vec();
    centre(&mut centred, n);
    let largest = centred.iter().step_by(n + 1).fold(0.0f64, |largest, v| largest.max(*v));
    if n > GRID && largest > NARROW {
        return log_sum_by_lattice(mean, &centred, lattice, normalise).unwrap_or_else(|| nan(n));
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
fn log_sum_by_lattice(
    mean: &[f64],
    centred: &[f64],
    lattice: &Lattice,
    normalise: impl Fn(&mut [f64]) -> f64,
) -> Option<LogSum> {
    let n = mean.len();
    let shifted = Shifted::new(centred, n)?;
    let covariance = &shifted.covariance;
    let difficulty = Difficulty::new(mean, centred, covariance, normalise);
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

/// `U A Uᵀ` for eigenvectors in the columns of U.
fn in_basis(vectors: &[f64], n: usize, a: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let half: Vec<f64> = (0..n * n).map(|e| (0..n).map(|k| vectors[e / n * n + k] * a(k, e % n)).sum()).collect();
    (0..n * n).map(|e| (0..n).map(|k| half[e / n * n + k] * vectors[e % n * n + k]).sum()).collect()
}

/// `Uᵀ A U`.
fn in_basis_of(vectors: &[f64], n: usize, a: &[f64]) -> Vec<f64> {
    let turned: Vec<f64> = (0..n * n).map(|e| vectors[e % n * n + e / n]).collect();
    in_basis(&turned, n, |i, j| a[i * n + j])
}

/// Subtracts the mean from rows and columns.
fn centre(a: &mut [f64], n: usize) {
    for row in a.chunks_exact_mut(n) {
        let mean = row.iter().sum::<f64>() / n as f64;
        row.iter_mut().for_each(|x| *x -= mean);
    }
    for column in 0..n {
        let mean = a.iter().skip(column).step_by(n).sum::<f64>() / n as f64;
        a.iter_mut().skip(column).step_by(n).for_each(|x| *x -= mean);
    }
}

/// Eigenvalues, ascending, and the eigenvectors in columns.
fn eigen(a: &[f64], n: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    let eigen = MatRef::from_row_major_slice(a, n, n).self_adjoint_eigen(Side::Lower).ok()?;
    registers::clear();
    let values = eigen.S().column_vector().iter().map(|value| value.max(0.0)).collect();
    Some((values, eigen.U().row_iter().flat_map(|row| row.iter().copied().collect::<Vec<_>>()).collect()))
}

fn normalised(mut p: Vec<f64>) -> Vec<f64> {
    let sum: f64 = p.iter().sum();
    p.iter_mut().for_each(|p| *p = (*p / sum).max(f64::MIN_POSITIVE));
    p
}

/// A direction in which functions vary, with the nodes and weights of its quadrature rule.
struct Axis {
    direction: Vec<f64>,
    nodes: Vec<(f64, f64)>,
}

impl Axis {
    fn new(variance: f64, direction: Vec<f64>) -> Self {
        let sd = variance.sqrt();
        // The probabilities have poles where two functions differ by iπ. So the error is e⁻²⁵.
        let step = f64::min(0.5, 0.79 / (std::f64::consts::SQRT_2 * sd)).max(0.02);
        let half = (9.0 / step).ceil() as i32;
        let node = |k: i32| step * f64::from(k);
        let nodes = (-half..=half).map(|k| (sd * node(k), (-0.5 * node(k) * node(k)).exp())).collect();
        Self { direction, nodes }
    }
}

/// Visits the nodes of a grid along axes, with their weights.
fn by_grid(axes: &[Axis], at: &[f64], weight: f64, visit: &mut impl FnMut(&[f64], f64)) {
    let Some((axis, rest)) = axes.split_first() else { return visit(at, weight) };
    for (node, share) in &axis.nodes {
        let moved: Vec<f64> = at.iter().zip(&axis.direction).map(|(f, v)| f + node * v).collect();
        by_grid(rest, &moved, weight * share, visit);
    }
}

fn by_lattice(
    mean: &[f64],
    covariance: &[f64],
    (values, vectors): (&[f64], &[f64]),
    lattice: &Lattice,
    independent: impl Fn(&[f64]) -> Vec<f64>,
) -> Vec<f64> {
    let n = mean.len();
    // The symmetric root. It is close to the root of the independent functions.
    let root = in_basis(vectors, n, |a, b| if a == b { values[a].sqrt() } else { 0.0 });
    let variances: Vec<f64> = covariance.iter().step_by(n + 1).map(|v| v.max(0.0)).collect();
    let sd: Vec<f64> = variances.iter().map(|v| v.sqrt()).collect();
    let Means { together, apart, .. } = lattice.means(mean, &root, &sd);
    let changes = together.shares.iter().zip(&apart.shares);
    let weigh = |(p, (t, a)): (f64, (&f64, &f64))| if *a > 0.0 { p * t / a } else { p };
    normalised(independent(&variances).into_iter().zip(changes).map(weigh).collect())
}
