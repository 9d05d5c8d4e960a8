//! Several classes: P(y = c | f) = exp(f_c) / Σ exp(f_k), one latent function for each class.

use std::sync::Arc;

use super::correlated::{Averaged, Points, probabilities};
use super::density::{Density, Marginal, Slopes, Support, by_marginals};
use super::formula::Formula;
use super::shares::{Averages, averages};
use super::targets::Row;
use crate::arithmetic::Real;

/// Unordered classes.
#[derive(Debug)]
pub struct Shares {
    classes: usize,
    joint: Option<Arc<dyn Joint>>,
    points: Points,
}

/// Averages over correlated latent functions for training, which needs more than this crate has; and a faster lattice
/// for predictions.
pub trait Joint: Averaged + std::fmt::Debug + Send + Sync {
    /// `E[ln Σ exp(f)]` for `f ~ N(mean [L], covariance [L, L])`.
    fn log_sum(&self, mean: &[f64], covariance: &[f64]) -> LogSum;
}

/// The average of `ln Σ exp(f)`.
#[derive(Debug, Clone)]
pub struct LogSum {
    /// `E[ln Σ exp(f)]`.
    pub value: f64,
    /// Its slopes in the means `[L]`.
    pub in_mean: Vec<f64>,
    /// Its slopes in the covariances `[L, L]`, symmetric.
    pub in_covariance: Vec<f64>,
}

impl Shares {
    /// So many classes. Training with correlated functions needs `joint`.
    pub fn new(classes: usize, joint: Option<Arc<dyn Joint>>) -> Self {
        Self { classes, joint, points: Points::default() }
    }
}

/// Replaces `f` by the class probabilities and returns `ln Σ exp(f)`.
pub fn normalise(f: &mut [f64]) -> f64 {
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
    fn built_in(&self) -> Option<String> {
        Some(format!("softmax({})", self.classes))
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
            // π(1 − π) from the shares of the other classes.
            hessian[a * n + a] = -gradient[a] * others(gradient, a);
        }
        let class = row.y as usize;
        let missing = others(gradient, class);
        gradient.iter_mut().for_each(|g| *g = -*g);
        gradient[class] = missing;
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
        let Some(joint) = &self.joint else { return by_marginals(self, row, mean, covariance, slopes) };
        let LogSum { value, in_mean, in_covariance } = joint.log_sum(mean, covariance);
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
        let lattice: &dyn Averaged = match &self.joint {
            Some(joint) => &**joint,
            None => &self.points,
        };
        Some(probabilities(mean, covariance, lattice))
    }
}

/// The share of all other classes, which keeps its digits as that of a class approaches 1.
pub(super) fn others(p: &[f64], class: usize) -> f64 {
    p.iter().enumerate().filter(|(c, _)| *c != class).map(|(_, p)| p).sum()
}

fn shares(f: &[f64]) -> Vec<f64> {
    let mut shares = f.to_vec();
    normalise(&mut shares);
    shares
}

/// Mean and variance of the class codes.
pub(super) fn moments(p: &[f64]) -> (f64, f64) {
    let mean: f64 = p.iter().enumerate().map(|(c, p)| c as f64 * p).sum();
    (mean, p.iter().enumerate().map(|(c, p)| (c as f64 - mean).powi(2) * p).sum())
}

/// The probability of the classes up to a code.
pub(super) fn up_to(p: &[f64], y: f64) -> f64 {
    p.iter().enumerate().filter(|(c, _)| *c as f64 <= y).map(|(_, p)| p).sum::<f64>().min(1.0)
}
