//! Averages of `softmax(f)` over correlated Gaussian `f`.

use std::sync::OnceLock;

use super::density::Marginal;
use super::shares::averages;
use super::softmax::normalise;
use crate::arithmetic::special::normal_quantile;
use crate::serving::dot;

/// Up to so many latent functions the integral is over a grid: without the common shift, three functions leave two
/// dimensions.
pub const GRID: usize = 3;

/// The points of the largest lattice, and its generator.
pub const LARGEST: (usize, usize) = (1 << 14, 5593);

/// Averages of `softmax(f)` over the points z of the largest lattice and their mirror images.
pub trait Averaged {
    /// For `f = m + R z` and for `f = m + diag(s) z`, with means `[L]`, a root R `[L, L]` and standard deviations s
    /// `[L]`.
    fn shares(&self, mean: &[f64], root: &[f64], sd: &[f64]) -> [Vec<f64>; 2];
}

/// Standard normal numbers in `dim` dimensions on a lattice, row-major `[dim, points]`.
pub fn normals((count, generator): (usize, usize), dim: usize) -> Vec<f64> {
    let strides = std::iter::successors(Some(1), |stride| Some(stride * generator % count));
    let place = |k: usize, stride: usize| ((k * stride % count) as f64 + 0.5) / count as f64;
    let mut rows: Vec<Vec<f64>> =
        strides.take(dim).map(|s| (0..count).map(|k| normal_quantile(place(k, s))).collect()).collect();
    // Give the points the exact second moments of the distribution. Then averages of quadratic functions are exact, and
    // those of similar functions good.
    for a in 0..dim {
        for _ in 0..2 {
            for b in 0..a {
                let along = dot(&rows[a], &rows[b]) / dot(&rows[b], &rows[b]);
                let (before, rest) = rows.split_at_mut(a);
                rest[0].iter_mut().zip(&before[b]).for_each(|(z, other)| *z -= along * other);
            }
        }
        let size = (dot(&rows[a], &rows[a]) / count as f64).sqrt();
        rows[a].iter_mut().for_each(|z| *z /= size);
    }
    rows.concat()
}

/// The largest lattice, computed when first needed.
#[derive(Debug, Default)]
pub struct Points(OnceLock<Vec<f64>>);

impl Averaged for Points {
    fn shares(&self, mean: &[f64], root: &[f64], sd: &[f64]) -> [Vec<f64>; 2] {
        let (n, count) = (mean.len(), LARGEST.0);
        let points = self.0.get_or_init(|| normals(LARGEST, n));
        let mut sums = [vec![0.0; n], vec![0.0; n]];
        let (mut z, mut f) = (vec![0.0; n], vec![0.0; n]);
        for point in 0..count {
            z.iter_mut().zip(points.iter().skip(point).step_by(count)).for_each(|(z, value)| *z = *value);
            for (side, sums) in sums.iter_mut().enumerate() {
                let step = |c: usize| if side == 0 { dot(&root[c * n..][..n], &z) } else { sd[c] * z[c] };
                let steps: Vec<f64> = (0..n).map(step).collect();
                for sign in [1.0, -1.0] {
                    f.iter_mut().zip(mean.iter().zip(&steps)).for_each(|(f, (m, step))| *f = m + sign * step);
                    normalise(&mut f);
                    sums.iter_mut().zip(&f).for_each(|(sum, share)| *sum += share);
                }
            }
        }
        sums.map(|sums| sums.into_iter().map(|sum| sum / (2 * count) as f64).collect())
    }
}

/// `E[softmax(f)]` for `f ~ N(mean [L], covariance [L, L])`.
///
/// Adding the same shift to all functions changes nothing, so the common shift is removed first. Up to three functions
/// use the trapezoidal rule along the principal axes of the rest, to nine digits. More functions use a lattice rule:
/// the probabilities of independent functions with the same variances are multiplied by the factor that correlations
/// cause on the lattice points. For ten classes and variances of 5 this is correct to about 1e-3.
pub fn probabilities(mean: &[f64], covariance: &[f64], lattice: &dyn Averaged) -> Vec<f64> {
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
        return by_lattice(mean, &centred, (&values, &vectors), lattice);
    }
    let mut sum = vec![0.0; n];
    by_grid(&axes(&values, &vectors, n), mean, 1.0, &mut |f, weight| {
        let mut p = f.to_vec();
        normalise(&mut p);
        sum.iter_mut().zip(&p).for_each(|(sum, p)| *sum += weight * p);
    });
    normalised(sum)
}

fn by_lattice(
    mean: &[f64],
    covariance: &[f64],
    (values, vectors): (&[f64], &[f64]),
    lattice: &dyn Averaged,
) -> Vec<f64> {
    let n = mean.len();
    // The symmetric root. It is close to the root of the independent functions.
    let root = in_basis(vectors, n, |a, b| if a == b { values[a].sqrt() } else { 0.0 });
    let variance: Vec<f64> = covariance.iter().step_by(n + 1).map(|v| v.max(0.0)).collect();
    let sd: Vec<f64> = variance.iter().map(|v| v.sqrt()).collect();
    let [together, apart] = lattice.shares(mean, &root, &sd);
    let independent = averages(Marginal { mean, variance: &variance }).shares;
    let weigh = |(p, (t, a)): (f64, (&f64, &f64))| if *a > 0.0 { p * t / a } else { p };
    normalised(independent.into_iter().zip(together.iter().zip(&apart)).map(weigh).collect())
}

fn normalised(mut p: Vec<f64>) -> Vec<f64> {
    let sum: f64 = p.iter().sum();
    p.iter_mut().for_each(|p| *p = (*p / sum).max(f64::MIN_POSITIVE));
    p
}

/// `U A Uᵀ` for eigenvectors in the columns of U.
pub fn in_basis(vectors: &[f64], n: usize, a: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let half: Vec<f64> = (0..n * n).map(|e| (0..n).map(|k| vectors[e / n * n + k] * a(k, e % n)).sum()).collect();
    (0..n * n).map(|e| (0..n).map(|k| half[e / n * n + k] * vectors[e % n * n + k]).sum()).collect()
}

/// Subtracts the mean from rows and columns.
pub fn centre(a: &mut [f64], n: usize) {
    for row in a.chunks_exact_mut(n) {
        let mean = row.iter().sum::<f64>() / n as f64;
        row.iter_mut().for_each(|x| *x -= mean);
    }
    for column in 0..n {
        let mean = a.iter().skip(column).step_by(n).sum::<f64>() / n as f64;
        a.iter_mut().skip(column).step_by(n).for_each(|x| *x -= mean);
    }
}

/// Rounds of rotations; each squares what is left off the diagonal, once that is small.
const ROUNDS: usize = 30;

/// Eigenvalues of a symmetric matrix, ascending and at least 0, and the eigenvectors in columns, by Jacobi's rotations;
/// none if its numbers are not finite.
pub fn eigen(a: &[f64], n: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    if !a.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mut a = a.to_vec();
    let mut vectors: Vec<f64> = (0..n * n).map(|e| f64::from(u8::from(e % (n + 1) == 0))).collect();
    for _ in 0..ROUNDS {
        let mut turned = false;
        for p in 0..n {
            for q in p + 1..n {
                let (off, first, second) = (a[p * n + q], a[p * n + p], a[q * n + q]);
                // Below this the rotation changes nothing but rounding errors.
                if off.abs() <= 0.1 * f64::EPSILON * (first.abs().max(second.abs())).max(f64::MIN_POSITIVE) {
                    continue;
                }
                turned = true;
                let theta = 0.5 * (second - first) / off;
                let t = theta.signum() / (theta.abs() + (1.0 + theta * theta).sqrt());
                let c = 1.0 / (1.0 + t * t).sqrt();
                let s = t * c;
                let turn = |all: &mut [f64], i: usize, j: usize| {
                    let (x, y) = (all[i], all[j]);
                    (all[i], all[j]) = (c * x - s * y, s * x + c * y);
                };
                for k in 0..n {
                    turn(&mut a, k * n + p, k * n + q);
                }
                for k in 0..n {
                    turn(&mut a, p * n + k, q * n + k);
                }
                for k in 0..n {
                    turn(&mut vectors, k * n + p, k * n + q);
                }
            }
        }
        if !turned {
            break;
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|i, j| a[i * (n + 1)].total_cmp(&a[j * (n + 1)]));
    let values = order.iter().map(|k| a[k * (n + 1)].max(0.0)).collect();
    Some((values, (0..n * n).map(|e| vectors[e / n * n + order[e % n]]).collect()))
}

/// The principal axes without the first. It has the smallest eigenvalue and belongs to the shift.
pub fn axes(values: &[f64], vectors: &[f64], n: usize) -> Vec<Axis> {
    (1..n).map(|k| Axis::new(values[k], (0..n).map(|c| vectors[c * n + k]).collect())).collect()
}

/// A direction in which functions vary, with the nodes and weights of its quadrature rule.
#[derive(Debug, Clone)]
pub struct Axis {
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
pub fn by_grid(axes: &[Axis], at: &[f64], weight: f64, visit: &mut impl FnMut(&[f64], f64)) {
    let Some((axis, rest)) = axes.split_first() else { return visit(at, weight) };
    for (node, share) in &axis.nodes {
        let moved: Vec<f64> = at.iter().zip(&axis.direction).map(|(f, v)| f + node * v).collect();
        by_grid(rest, &moved, weight * share, visit);
    }
}
