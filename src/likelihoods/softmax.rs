//! Several classes: P(y = c | f) = exp(f_c) / Σ exp(f_k), one latent function a class.

use std::sync::Arc;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

use super::correlated::{self, Lattice};
use super::density::{Density, Marginal, Slopes, Support};
use super::quadrature;
use super::targets::{Row, Targets};
use super::{Likelihood, class_problem, missing_classes};
use crate::params::{Parameter, Parameters};

/// Classes without an order.
#[derive(Debug, Clone)]
pub struct Softmax {
    classes: usize,
    points: Arc<Vec<(f64, Vec<f64>)>>,
    lattice: Arc<Lattice>,
}

impl Softmax {
    /// So many classes, two or more.
    pub fn new(classes: usize) -> Self {
        let classes = classes.max(2);
        Self { classes, points: Arc::new(spherical(classes)), lattice: Arc::default() }
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }
}

impl Parameters for Softmax {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        vec![]
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        vec![]
    }
}

impl Likelihood for Softmax {
    fn text(&self) -> String {
        format!("softmax({})", self.classes)
    }

    fn latents(&self) -> usize {
        self.classes
    }

    fn check_row(&self, row: Row) -> Result<(), String> {
        class_problem(row.y, self.classes, "softmax")
    }

    fn warnings(&self, targets: Targets) -> Vec<String> {
        missing_classes(targets.y, self.classes)
    }

    /// The log shares of the classes, about their mean.
    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        let count = |c: usize| targets.y.iter().filter(|y| **y == c as f64).count() as f64;
        let logs: Vec<f64> = (0..self.classes).map(|c| (count(c) + 0.5).ln()).collect();
        let centre = logs.iter().sum::<f64>() / self.classes as f64;
        logs.into_iter().map(|log| log - centre).collect()
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(Shares { classes: self.classes, points: self.points.clone(), lattice: self.lattice.clone() })
    }

    fn boxed(&self) -> Box<dyn Likelihood> {
        Box::new(self.clone())
    }
}

/// Points of a rule in about this number of directions train the model.
const DIRECTIONS: usize = 64;

/// A stochastic spherical–radial rule for the standard normal of `dim` dimensions, drawn once with a fixed seed: the
/// directions ± of randomly rotated axes times the two radii of a Gauss–Laguerre rule (Genz and Monahan 1998).
///
/// Exact for polynomials of degree 3, so that only what is beyond a Taylor expansion of third degree is left to chance.
fn spherical(dim: usize) -> Vec<(f64, Vec<f64>)> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(0x5eed);
    let rotations = DIRECTIONS.div_ceil(2 * dim).max(2);
    // Nodes of r²/2, of the gamma distribution with shape dim/2.
    let shape = 0.5 * dim as f64;
    let root = (shape + 1.0).sqrt();
    let nodes = [shape + 1.0 - root, shape + 1.0 + root];
    let low = (nodes[1] - shape) / (nodes[1] - nodes[0]);
    let share = 1.0 / (2 * dim * rotations) as f64;
    let mut points = Vec::new();
    for axis in (0..rotations).flat_map(|_| rotation(dim, &mut rng)) {
        for (node, weight) in [(nodes[0], low), (nodes[1], 1.0 - low)] {
            let radius = (2.0 * node).sqrt();
            for sign in [radius, -radius] {
                points.push((weight * share, axis.iter().map(|x| sign * x).collect()));
            }
        }
    }
    points
}

/// Orthonormal axes in random directions, by Gram and Schmidt.
fn rotation(dim: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<Vec<f64>> {
    let mut axes: Vec<Vec<f64>> = Vec::with_capacity(dim);
    while axes.len() < dim {
        let mut axis: Vec<f64> = (0..dim).map(|_| StandardNormal.sample(rng)).collect();
        for _ in 0..2 {
            for other in &axes {
                let along: f64 = other.iter().zip(&axis).map(|(a, b)| a * b).sum();
                axis.iter_mut().zip(other).for_each(|(a, b)| *a -= along * b);
            }
        }
        let length = axis.iter().map(|x| x * x).sum::<f64>().sqrt();
        axis.iter_mut().for_each(|x| *x /= length);
        axes.push(axis);
    }
    axes
}

#[derive(Debug)]
struct Shares {
    classes: usize,
    /// Weights and points of the rule for expectations.
    points: Arc<Vec<(f64, Vec<f64>)>>,
    /// The points of the rule for correlated functions.
    lattice: Arc<Lattice>,
}

/// Below this variance the rule's own slope in it loses digits.
const NARROW: f64 = 1e-10;

/// Replaces `f` by the class probabilities and returns `ln Σ exp(f)`.
fn normalise(f: &mut [f64]) -> f64 {
    let top = f.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for f in f.iter_mut() {
        *f = (*f - top).exp();
        sum += *f;
    }
    f.iter_mut().for_each(|f| *f /= sum);
    top + sum.ln()
}

impl Density for Shares {
    fn latents(&self) -> usize {
        self.classes
    }

    fn support(&self, _extra: f64) -> Support {
        Support::Classes(self.classes)
    }

    fn log_density(&self, row: Row, f: &[f64]) -> f64 {
        // The class's own term is 1 in the sum: no cancellation where it dominates.
        let own = f[row.y as usize];
        let top = f.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let others: f64 =
            f.iter().enumerate().filter(|(c, _)| *c != row.y as usize).map(|(_, f)| (f - top).exp()).sum();
        if own == top { -others.ln_1p() } else { own - top - ((own - top).exp() + others).ln() }
    }

    /// Gradient `δ_yc − π_c`, Hessian `ππᵀ − diag π`.
    fn derivatives(&self, row: Row, f: &[f64], gradient: &mut [f64], hessian: &mut [f64]) -> f64 {
        gradient.copy_from_slice(f);
        normalise(gradient);
        let n = self.classes;
        for a in 0..n {
            for b in 0..n {
                hessian[a * n + b] = gradient[a] * gradient[b];
            }
            // π(1 − π) from the other classes' shares, which keep their digits as π nears 1.
            let others: f64 = gradient.iter().enumerate().filter(|(c, _)| *c != a).map(|(_, p)| p).sum();
            hessian[a * n + a] = -gradient[a] * others;
        }
        let class = row.y as usize;
        let others: f64 = gradient.iter().enumerate().filter(|(c, _)| *c != class).map(|(_, p)| p).sum();
        gradient.iter_mut().for_each(|g| *g = -*g);
        gradient[class] = others;
        self.log_density(row, f)
    }

    fn is_centred(&self) -> bool {
        true
    }

    /// The probabilities π.
    fn curvature(&self, _row: Row, f: &[f64], d: &mut [f64]) {
        d.copy_from_slice(f);
        normalise(d);
    }

    /// With `q = diag B − 2Bπ` that is `π_l (q_l − Σ_c π_c q_c)`.
    fn add_curvature_slopes(&self, _row: Row, f: &[f64], weights: &[f64], slopes: &mut [f64], _own: &mut [f64]) {
        let (p, n) = (shares(f), self.classes);
        let along = |c: usize| weights[c * n..][..n].iter().zip(&p).map(|(b, p)| b * p).sum::<f64>();
        let q: Vec<f64> = (0..n).map(|c| weights[c * n + c] - 2.0 * along(c)).collect();
        let centre: f64 = q.iter().zip(&p).map(|(q, p)| q * p).sum();
        slopes.iter_mut().zip(q.iter().zip(&p)).for_each(|(slope, (q, p))| *slope += p * (q - centre));
    }

    /// By a fixed spherical–radial rule of about 128 points in all latent functions at once, with its own exact slopes.
    fn expectation(&self, row: Row, at: Marginal, slopes: Slopes) -> f64 {
        let class = row.y as usize;
        let sd: Vec<f64> = at.variance.iter().map(|v| v.max(0.0).sqrt()).collect();
        let mut f = vec![0.0; self.classes];
        let mut total = 0.0;
        for (weight, z) in self.points.iter() {
            for ((f, m), (s, z)) in f.iter_mut().zip(at.mean).zip(sd.iter().zip(z)) {
                *f = m + s * z;
            }
            total += weight * normalise(&mut f);
            for (c, p) in f.iter().enumerate() {
                slopes.mean[c] -= weight * p;
                slopes.variance[c] -=
                    0.5 * weight * if at.variance[c] > NARROW { p * z[c] / sd[c] } else { p * (1.0 - p) };
            }
        }
        slopes.mean[class] += 1.0;
        at.mean[class] - total
    }

    fn mean(&self, f: &[f64], _extra: f64) -> f64 {
        moments(&shares(f)).0
    }

    fn variance(&self, f: &[f64], _extra: f64) -> f64 {
        moments(&shares(f)).1
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        up_to(&shares(f), row.y)
    }

    fn sample(&self, f: &[f64], _extra: f64, rng: &mut dyn Rng) -> f64 {
        let u = rng.random::<f64>();
        let mut below = 0.0;
        let last = self.classes - 1;
        shares(f)[..last]
            .iter()
            .filter(|p| {
                below += **p;
                below < u
            })
            .count() as f64
    }

    fn predictive_mean(&self, at: Marginal, _extra: f64) -> f64 {
        moments(&probabilities(at)).0
    }

    fn predictive_variance(&self, at: Marginal, _extra: f64) -> f64 {
        moments(&probabilities(at)).1
    }

    fn predictive_log_density(&self, row: Row, at: Marginal) -> f64 {
        probabilities(at)[row.y as usize].ln()
    }

    fn predictive_cdf(&self, row: Row, at: Marginal) -> f64 {
        up_to(&probabilities(at), row.y)
    }

    fn probabilities(&self, at: Marginal) -> Option<Vec<f64>> {
        Some(probabilities(at))
    }

    fn joint_probabilities(&self, mean: &[f64], covariance: &[f64]) -> Option<Vec<f64>> {
        let shares = |f: &mut [f64]| {
            normalise(f);
        };
        let independent = |variance: &[f64]| probabilities(Marginal { mean, variance });
        Some(correlated::probabilities(mean, covariance, &self.lattice, shares, independent))
    }
}

fn shares(f: &[f64]) -> Vec<f64> {
    let mut shares = f.to_vec();
    normalise(&mut shares);
    shares
}

/// Mean and variance of the class code.
fn moments(p: &[f64]) -> (f64, f64) {
    let mean: f64 = p.iter().enumerate().map(|(c, p)| c as f64 * p).sum();
    (mean, p.iter().enumerate().map(|(c, p)| (c as f64 - mean).powi(2) * p).sum())
}

fn up_to(p: &[f64], y: f64) -> f64 {
    p.iter().enumerate().filter(|(c, _)| *c as f64 <= y).map(|(_, p)| p).sum::<f64>().min(1.0)
}

/// Step of the trapezoidal rule over `u`; its error for functions of this kind is below 1e-8.
const STEP: f64 = 0.5;

/// `E[softmax(f)]` for independent Gaussian `f`, by one integral: the class whose `f_c` plus a standard Gumbel variable is
/// the largest has the softmax probabilities, so that with `φ_c(u) = E[exp(−exp(u + f_c))]`
/// `P_c = −∫ φ_c'(u) Π_{k≠c} φ_k(u) du`.
fn probabilities(at: Marginal) -> Vec<f64> {
    let classes: Vec<(f64, f64)> = at.mean.iter().zip(at.variance).map(|(m, v)| (*m, v.max(0.0).sqrt())).collect();
    let reach = classes.iter().map(|(m, s)| m + 8.0 * s).fold(f64::NEG_INFINITY, f64::max);
    let low = -reach - 25.0;
    let high = classes.iter().map(|(m, s)| 8.0 * s - m).fold(f64::INFINITY, f64::min) + 4.0;
    let steps = ((high - low) / STEP).ceil().max(1.0) as usize;
    // Logarithms of φ and φ'/φ, for products over many classes.
    let curves: Vec<Vec<(f64, f64)>> = classes.iter().map(|&class| curve(class, low, steps)).collect();
    let mut p = vec![0.0; classes.len()];
    for i in 0..=steps {
        let all: f64 = curves.iter().map(|curve| curve[i].0.ln()).sum();
        if all > -700.0 {
            let product = all.exp();
            p.iter_mut().zip(&curves).for_each(|(p, curve)| *p += product * curve[i].1 / curve[i].0);
        }
    }
    let sum: f64 = p.iter().sum();
    p.iter_mut().for_each(|p| *p = (*p / sum).max(f64::MIN_POSITIVE));
    p
}

/// `φ` and `−φ'` at `low, low + STEP, …`.
fn curve((mean, sd): (f64, f64), low: f64, steps: usize) -> Vec<(f64, f64)> {
    let at = |x: f64| {
        let e = x.exp();
        let survive = (-e).exp();
        (survive, if survive > 0.0 { e * survive } else { 0.0 })
    };
    let add = |(a, b): (f64, f64), w: f64, (c, d): (f64, f64)| (a + w * c, b + w * d);
    if sd < 1.0 {
        let rule = quadrature::rule();
        let value = |u: f64| rule.iter().fold((0.0, 0.0), |sum, (z, w)| add(sum, *w, at(u + mean + sd * z)));
        return (0..=steps).map(|i| value(low + STEP * i as f64)).collect();
    }
    // A wide marginal by the trapezoidal rule on the same grid: every value is used for all u.
    let half = (9.0 * sd / STEP).ceil() as usize;
    let weights: Vec<f64> = (0..=2 * half)
        .map(|k| {
            let z = (k as f64 - half as f64) * STEP / sd;
            (-0.5 * z * z).exp()
        })
        .collect();
    let total: f64 = weights.iter().sum();
    let first = low + mean - STEP * half as f64;
    let values: Vec<(f64, f64)> = (0..=steps + 2 * half).map(|i| at(first + STEP * i as f64)).collect();
    (0..=steps)
        .map(|i| weights.iter().zip(&values[i..]).fold((0.0, 0.0), |sum, (w, value)| add(sum, w / total, *value)))
        .collect()
}
