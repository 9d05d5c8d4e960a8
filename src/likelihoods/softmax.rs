//! Several classes: P(y = c | f) = exp(f_c) / Σ exp(f_k), one latent function for each class.

use std::sync::Arc;

use super::correlated::{self, LogSum};
use super::density::{Density, Marginal, Slopes, Support};
use super::formula::Formula;
use super::lattice::Lattice;
use super::shares::{Averages, averages};
use super::targets::{Row, Targets};
use super::{Likelihood, class_problem, missing_classes};
use crate::arithmetic::Real;

/// Unordered classes.
#[derive(Debug, Clone)]
pub struct Softmax {
    classes: usize,
    lattice: Arc<Lattice>,
}

impl Softmax {
    /// Makes the likelihood for two or more classes.
    pub fn new(classes: usize) -> Self {
        let classes = classes.max(2);
        Self { classes, lattice: Arc::default() }
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }
}

crate::parameters!(Softmax {});

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

    /// The log shares of the classes, less their mean.
    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        let count = |c: usize| targets.y.iter().filter(|y| **y == c as f64).count() as f64;
        let logs: Vec<f64> = (0..self.classes).map(|c| (count(c) + 0.5).ln()).collect();
        let centre = logs.iter().sum::<f64>() / self.classes as f64;
        logs.into_iter().map(|log| log - centre).collect()
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(Shares { classes: self.classes, lattice: self.lattice.clone() })
    }
}

#[derive(Debug)]
struct Shares {
    classes: usize,
    /// The points of the lattice rule for correlated functions.
    lattice: Arc<Lattice>,
}

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

impl Formula for Shares {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Classes(self.classes)
    }

    fn latents(&self) -> usize {
        self.classes
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], _own: &[A]) -> A {
        let top = (1..f.len()).fold(0, |top, c| if f[c].number() > f[top].number() { c } else { top });
        // In the sum the largest term is 1: no cancellation where it dominates.
        let others = (0..f.len()).filter(|c| *c != top).map(|c| (f[c] - f[top]).exp());
        f[row.y as usize] - f[top] - others.fold(A::constant(0.0), |sum, term| sum + term).ln_1p()
    }
}

impl Density for Shares {
    /// Gradient `δ_yc − π_c`, Hessian `ππᵀ − diag π`.
    fn derivatives(&self, row: Row, f: &[f64], gradient: &mut [f64], hessian: &mut [f64]) -> f64 {
        gradient.copy_from_slice(f);
        normalise(gradient);
        let n = self.classes;
        for a in 0..n {
            for b in 0..n {
                hessian[a * n + b] = gradient[a] * gradient[b];
            }
            // π(1 − π) from the shares of the other classes, which keep their digits as π approaches 1.
            let others: f64 = gradient.iter().enumerate().filter(|(c, _)| *c != a).map(|(_, p)| p).sum();
            hessian[a * n + a] = -gradient[a] * others;
        }
        let class = row.y as usize;
        let others: f64 = gradient.iter().enumerate().filter(|(c, _)| *c != class).map(|(_, p)| p).sum();
        gradient.iter_mut().for_each(|g| *g = -*g);
        gradient[class] = others;
        Density::log_density(self, row, f)
    }

    fn is_centred(&self) -> bool {
        true
    }

    /// The probabilities π.
    fn curvature(&self, _row: Row, f: &[f64], d: &mut [f64]) {
        d.copy_from_slice(f);
        normalise(d);
    }

    /// With `q = diag B − 2Bπ`, the slopes are `π_l (q_l − Σ_c π_c q_c)`.
    fn add_curvature_slopes(&self, _row: Row, f: &[f64], weights: &[f64], slopes: &mut [f64], _own: &mut [f64]) {
        let (p, n) = (shares(f), self.classes);
        let along = |c: usize| weights[c * n..][..n].iter().zip(&p).map(|(b, p)| b * p).sum::<f64>();
        let q: Vec<f64> = (0..n).map(|c| weights[c * n + c] - 2.0 * along(c)).collect();
        let centre: f64 = q.iter().zip(&p).map(|(q, p)| q * p).sum();
        slopes.iter_mut().zip(q.iter().zip(&p)).for_each(|(slope, (q, p))| *slope += p * (q - centre));
    }

    /// By the integral of [`averages`].
    fn expectation(&self, row: Row, at: Marginal, slopes: Slopes) -> f64 {
        let class = row.y as usize;
        let Averages { shares, bends, log_sum } = averages(at);
        slopes.variance.copy_from_slice(&bends);
        for (c, share) in shares.iter().enumerate().filter(|(c, _)| *c != class) {
            slopes.mean[c] = -share;
            slopes.mean[class] += share;
        }
        at.mean[class] - log_sum
    }

    fn joint_expectation(&self, row: Row, mean: &[f64], covariance: &[f64], slopes: Slopes) -> f64 {
        let LogSum { value, in_mean, in_covariance } = correlated::log_sum(mean, covariance, &self.lattice, normalise);
        slopes.mean.iter_mut().zip(in_mean).for_each(|(slope, share)| *slope = -share);
        slopes.variance.iter_mut().zip(in_covariance).for_each(|(slope, bend)| *slope = -bend);
        slopes.mean[row.y as usize] += 1.0;
        mean[row.y as usize] - value
    }

    fn predictive_mean(&self, at: Marginal, _auxiliary: f64) -> f64 {
        moments(&averages(at).shares).0
    }

    fn predictive_variance(&self, at: Marginal, _auxiliary: f64) -> f64 {
        moments(&averages(at).shares).1
    }

    fn predictive_log_density(&self, row: Row, at: Marginal) -> f64 {
        averages(at).shares[row.y as usize].ln()
    }

    fn predictive_cdf(&self, row: Row, at: Marginal) -> f64 {
        up_to(&averages(at).shares, row.y)
    }

    fn probabilities(&self, at: Marginal) -> Option<Vec<f64>> {
        Some(averages(at).shares)
    }

    fn joint_probabilities(&self, mean: &[f64], covariance: &[f64]) -> Option<Vec<f64>> {
        let shares = |f: &mut [f64]| {
            normalise(f);
        };
        let independent = |variance: &[f64]| averages(Marginal { mean, variance }).shares;
        Some(correlated::probabilities(mean, covariance, &self.lattice, shares, independent))
    }
}

fn shares(f: &[f64]) -> Vec<f64> {
    let mut shares = f.to_vec();
    normalise(&mut shares);
    shares
}

/// Mean and variance of the class codes.
fn moments(p: &[f64]) -> (f64, f64) {
    let mean: f64 = p.iter().enumerate().map(|(c, p)| c as f64 * p).sum();
    (mean, p.iter().enumerate().map(|(c, p)| (c as f64 - mean).powi(2) * p).sum())
}

fn up_to(p: &[f64], y: f64) -> f64 {
    p.iter().enumerate().filter(|(c, _)| *c as f64 <= y).map(|(_, p)| p).sum::<f64>().min(1.0)
}
