//! Averages of `softmax(f)` and `ln Σ exp(f)` over correlated Gaussian `f`.

use std::sync::OnceLock;

use faer::{MatRef, Side};

use super::density::Marginal;
use super::shares::{Averages, averages};
use super::special::normal_quantile;
use crate::linalg::dense::registers;

/// Points of the lattice, each used with its mirror image.
const POINTS: usize = 4093;

/// Its generator, of the least worst-case error among two hundred for twelve dimensions with decreasing weights.
const GENERATOR: usize = 1649;

/// Points of a smaller lattice, for bounds that are made again in every step of training.
const FEW: usize = 509;

/// Its generator.
const FEW_GENERATOR: usize = 182;

/// Most latent functions whose integral is taken by a grid: of three, two dimensions are left without the common shift.
const GRID: usize = 3;

/// Numbers of the standard normal distribution on lattices in `L` dimensions, made when first needed.
#[derive(Debug, Default)]
pub(super) struct Lattice(OnceLock<Vec<f64>>, OnceLock<Vec<f64>>);

impl Lattice {
    /// Row-major `[points, dim]`.
    fn points(&self, dim: usize) -> &[f64] {
        self.0.get_or_init(|| lattice(POINTS, GENERATOR, dim))
    }

    /// The smaller one.
    fn few(&self, dim: usize) -> &[f64] {
        self.1.get_or_init(|| lattice(FEW, FEW_GENERATOR, dim))
    }
}

fn lattice(points: usize, generator: usize, dim: usize) -> Vec<f64> {
    let mut strides = vec![1];
    while strides.len() < dim {
        strides.push(strides[strides.len() - 1] * generator % points);
    }
    let place = |k: usize, stride: usize| ((k * stride % points) as f64 + 0.5) / points as f64;
    (0..points).flat_map(|k| strides.iter().map(move |&s| normal_quantile(place(k, s))).collect::<Vec<_>>()).collect()
}

/// `E[softmax(f)]` for `f ~ N(mean [L], covariance [L, L])`.
///
/// A shift of all functions together changes nothing and is taken out first. Up to three functions by the trapezoidal
/// rule along the principal axes of what is left, to nine digits. More by a lattice rule that weighs the probabilities
/// of `independent` functions of the same variances by how much correlations change them on the same points: at ten
/// classes and variances of 5 to about 1e-3.
pub(super) fn probabilities(
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
        // The shift that leaves the least correlation.
        let trace: f64 = centred.iter().step_by(n + 1).sum();
        let across = (centred.iter().sum::<f64>() - trace) / (n * (n - 1)) as f64;
        centred.iter_mut().for_each(|c| *c -= across);
    }
    let Some((values, vectors)) = eigen(&centred, n) else { return vec![f64::NAN; n] };
    if n > GRID {
        return by_lattice(mean, &centred, (&values, &vectors), lattice.points(n), shares, independent);
    }
    // The first, smallest value is that of the shift.
    let mut sum = vec![0.0; n];
    by_grid(&axes(&values, &vectors, n), mean, 1.0, &mut |f, weight| {
        let mut p = f.to_vec();
        shares(&mut p);
        sum.iter_mut().zip(&p).for_each(|(sum, p)| *sum += weight * p);
    });
    normalised(sum)
}

/// The principal axes without the first, whose value is the smallest: that of the shift.
fn axes(values: &[f64], vectors: &[f64], n: usize) -> Vec<Axis> {
    (1..n).map(|k| Axis::new(values[k], (0..n).map(|c| vectors[c * n + k]).collect())).collect()
}

/// What [`log_sum`] gives.
pub(super) struct LogSum {
    /// `E[ln Σ exp(f)]`.
    pub value: f64,
    /// Its slopes in the means `[L]`.
    pub in_mean: Vec<f64>,
    /// Its slopes in the covariances `[L, L]`, symmetric.
    pub in_covariance: Vec<f64>,
}

/// `E[ln Σ exp(f)]` for `f ~ N(mean [L], covariance [L, L])` with its slopes: as [`probabilities`], but of more than
/// three functions on fewer points, by how much correlations change the value for independent ones. The slopes of that
/// rule are exact, so that optimisers see one function.
pub(super) fn log_sum(
    mean: &[f64],
    covariance: &[f64],
    lattice: &Lattice,
    normalise: impl Fn(&mut [f64]) -> f64,
) -> LogSum {
    let n = mean.len();
    let mut centred = covariance.to_vec();
    centre(&mut centred, n);
    if n > GRID {
        return log_sum_by_lattice(mean, centred, lattice.few(n), normalise);
    }
    let (mut value, mut total) = (0.0, 0.0);
    let (mut in_mean, mut in_covariance) = (vec![0.0; n], vec![0.0; n * n]);
    let Some((values, vectors)) = eigen(&centred, n) else {
        return LogSum { value: f64::NAN, in_mean, in_covariance };
    };
    by_grid(&axes(&values, &vectors, n), mean, 1.0, &mut |f, weight| {
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

/// The smallest pivot of a covariance's factor, relative to its largest variance.
const PIVOT: f64 = 1e-12;

fn log_sum_by_lattice(
    mean: &[f64],
    mut covariance: Vec<f64>,
    points: &[f64],
    normalise: impl Fn(&mut [f64]) -> f64,
) -> LogSum {
    let n = mean.len();
    // The shift that leaves the least correlation.
    let pairs = (n * (n - 1)) as f64;
    let across = covariance.iter().step_by(n + 1).sum::<f64>() / pairs;
    covariance.iter_mut().for_each(|c| *c += across);
    let variance: Vec<f64> = covariance.iter().step_by(n + 1).map(|v| v.max(f64::MIN_POSITIVE)).collect();
    let sd: Vec<f64> = variance.iter().map(|v| v.sqrt()).collect();
    let lower = factor(&covariance, n);
    let Averages { shares, bends, log_sum } = averages(Marginal { mean, variance: &variance });

    let weight = 0.5 * n as f64 / points.len() as f64;
    let (mut value, mut in_mean, mut in_lower, mut in_sd) = (log_sum, shares, vec![0.0; n * n], vec![0.0; n]);
    let (mut change, mut f) = (vec![0.0; n], vec![0.0; n]);
    for z in points.chunks_exact(n) {
        for (a, change) in change.iter_mut().enumerate() {
            *change = lower[a * n..][..=a].iter().zip(z).map(|(l, z)| l * z).sum();
        }
        for sign in [weight, -weight] {
            f.iter_mut().zip(mean.iter().zip(&change)).for_each(|(f, (m, c))| *f = m + c * sign.signum());
            value += weight * normalise(&mut f);
            for (a, share) in f.iter().enumerate() {
                in_mean[a] += weight * share;
                in_lower[a * n..][..=a].iter_mut().zip(z).for_each(|(sum, z)| *sum += sign * share * z);
            }
            let apart = mean.iter().zip(sd.iter().zip(z));
            f.iter_mut().zip(apart).for_each(|(f, (m, (sd, z)))| *f = m + sd * z * sign.signum());
            value -= weight * normalise(&mut f);
            for (a, share) in f.iter().enumerate() {
                in_mean[a] -= weight * share;
                in_sd[a] -= sign * share * z[a];
            }
        }
    }
    let mut slopes = factor_slopes(&lower, in_lower, n);
    for a in 0..n {
        slopes[a * (n + 1)] += 0.5 * in_sd[a] / sd[a] - bends[a];
    }
    // Back through the shift and the centring.
    let all = slopes.iter().sum::<f64>() / pairs;
    slopes.iter_mut().step_by(n + 1).for_each(|slope| *slope += all);
    centre(&mut slopes, n);
    LogSum { value, in_mean, in_covariance: slopes }
}

/// The lower Cholesky factor of a covariance of a few numbers.
fn factor(covariance: &[f64], n: usize) -> Vec<f64> {
    let largest = covariance.iter().step_by(n + 1).fold(f64::MIN_POSITIVE, |largest, v| largest.max(*v));
    let mut lower = vec![0.0; n * n];
    for a in 0..n {
        for b in 0..=a {
            let known: f64 = (0..b).map(|k| lower[a * n + k] * lower[b * n + k]).sum();
            let rest = covariance[a * n + b] - known;
            lower[a * n + b] = if a == b { rest.max(PIVOT * largest).sqrt() } else { rest / lower[b * n + b] };
        }
    }
    lower
}

/// Symmetric slopes in a matrix from those in its lower factor: `L⁻ᵀ Φ(LᵀL̄) L⁻¹`, of which Φ takes the lower half.
fn factor_slopes(lower: &[f64], in_lower: Vec<f64>, n: usize) -> Vec<f64> {
    let mut inner = vec![0.0; n * n];
    for a in 0..n {
        for b in 0..=a {
            let sum: f64 = (a..n).map(|k| lower[k * n + a] * in_lower[k * n + b]).sum();
            inner[a * n + b] = if a == b { 0.5 * sum } else { sum };
        }
    }
    // Columns by L⁻ᵀ, then, of the transpose, again.
    for _ in 0..2 {
        for column in 0..n {
            for a in (0..n).rev() {
                let known: f64 = (a + 1..n).map(|k| lower[k * n + a] * inner[k * n + column]).sum();
                inner[a * n + column] = (inner[a * n + column] - known) / lower[a * n + a];
            }
        }
        inner = (0..n * n).map(|e| inner[e % n * n + e / n]).collect();
    }
    (0..n * n).map(|e| 0.5 * (inner[e] + inner[e % n * n + e / n])).collect()
}

/// Takes the mean out of rows and columns.
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

/// A direction in which functions vary, with the nodes and weights of its rule.
struct Axis {
    direction: Vec<f64>,
    nodes: Vec<(f64, f64)>,
}

impl Axis {
    fn new(variance: f64, direction: Vec<f64>) -> Self {
        let sd = variance.sqrt();
        // The probabilities have poles where two functions differ by iπ: the error is e⁻²⁵.
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
    points: &[f64],
    shares: impl Fn(&mut [f64]),
    independent: impl Fn(&[f64]) -> Vec<f64>,
) -> Vec<f64> {
    let n = mean.len();
    // The symmetric root, which is near that of the independent functions.
    let root: Vec<f64> = (0..n * n)
        .map(|e| (0..n).map(|k| vectors[e / n * n + k] * values[k].sqrt() * vectors[e % n * n + k]).sum())
        .collect();
    let variances: Vec<f64> = covariance.iter().step_by(n + 1).map(|v| v.max(0.0)).collect();
    let (mut together, mut apart) = (vec![0.0; n], vec![0.0; n]);
    let (mut change, mut f) = (vec![0.0; n], vec![0.0; n]);
    let mut add = |change: &[f64], sum: &mut [f64]| {
        for sign in [1.0, -1.0] {
            f.iter_mut().zip(mean.iter().zip(change)).for_each(|(f, (m, c))| *f = m + sign * c);
            shares(&mut f);
            sum.iter_mut().zip(&f).for_each(|(sum, p)| *sum += p);
        }
    };
    for z in points.chunks_exact(n) {
        for (change, row) in change.iter_mut().zip(root.chunks_exact(n)) {
            *change = row.iter().zip(z).map(|(r, z)| r * z).sum();
        }
        add(&change, &mut together);
        change.iter_mut().zip(z.iter().zip(&variances)).for_each(|(change, (z, v))| *change = v.sqrt() * z);
        add(&change, &mut apart);
    }
    let known = independent(&variances);
    let weighed =
        known.iter().zip(together.iter().zip(&apart)).map(|(p, (t, a))| if *a > 0.0 { p * t / a } else { *p });
    normalised(weighed.collect())
}
