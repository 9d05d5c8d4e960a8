//! Probabilities of classes whose latent functions are correlated.

use std::sync::OnceLock;

use faer::{MatRef, Side};

use super::special::normal_quantile;
use crate::linalg::dense::registers;

/// Points of the lattice, each used with its mirror image.
const POINTS: usize = 4093;

/// Its generator, of the least worst-case error among two hundred for twelve dimensions with decreasing weights.
const GENERATOR: usize = 1649;

/// Most latent functions whose integral is taken by a grid: of three, two dimensions are left without the common shift.
const GRID: usize = 3;

/// Numbers of the standard normal distribution on a lattice in `L` dimensions, made when first needed.
#[derive(Debug, Default)]
pub(super) struct Lattice(OnceLock<Vec<f64>>);

impl Lattice {
    /// Row-major `[points, dim]`.
    fn points(&self, dim: usize) -> &[f64] {
        self.0.get_or_init(|| {
            let mut strides = vec![1];
            while strides.len() < dim {
                strides.push(strides[strides.len() - 1] * GENERATOR % POINTS);
            }
            let place = |k: usize, stride: usize| ((k * stride % POINTS) as f64 + 0.5) / POINTS as f64;
            (0..POINTS)
                .flat_map(|k| strides.iter().map(move |&s| normal_quantile(place(k, s))).collect::<Vec<_>>())
                .collect()
        })
    }
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
    let axes: Vec<Axis> = (1..n).map(|k| Axis::new(values[k], (0..n).map(|c| vectors[c * n + k]).collect())).collect();
    let mut sum = vec![0.0; n];
    by_grid(&axes, mean, 1.0, &shares, &mut sum);
    normalised(sum)
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

fn by_grid(axes: &[Axis], at: &[f64], weight: f64, shares: &impl Fn(&mut [f64]), sum: &mut [f64]) {
    let Some((axis, rest)) = axes.split_first() else {
        let mut p = at.to_vec();
        shares(&mut p);
        return sum.iter_mut().zip(&p).for_each(|(sum, p)| *sum += weight * p);
    };
    for (node, share) in &axis.nodes {
        let moved: Vec<f64> = at.iter().zip(&axis.direction).map(|(f, v)| f + node * v).collect();
        by_grid(rest, &moved, weight * share, shares, sum);
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
