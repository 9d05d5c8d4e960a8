//! Positive targets, and shares between 0 and 1.

use rand::Rng;
use rand_distr::Distribution;

use super::density::{Density, Marginal, Slopes, Support};
use super::formula::{Derivatives, Formula};
use super::targets::Row;
use super::{deviance, predictive};
use crate::arithmetic::Real;
use crate::arithmetic::special::{beta_cdf, gamma_cdf, logistic, logistic_slope, logit};

/// A gamma distribution with mean `exp(f)`, or waiting times: the exponential distribution, whose shape is 1.
#[derive(Debug)]
pub struct PositiveMean {
    /// The shape; 1 for waiting times.
    pub shape: f64,
}

impl Formula for PositiveMean {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Positive
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], own: &[A]) -> A {
        -(own[0] * (f[0] + (-f[0]).exp() * row.y))
    }

    fn rest<A: Real>(&self, row: Row, own: &[A]) -> A {
        let shape = own[0];
        shape * (shape.ln() + row.y.ln()) - shape.ln_gamma() - row.y.ln()
    }
}

impl Density for PositiveMean {
    fn built_in(&self) -> Option<String> {
        Some("gamma".into())
    }

    fn own(&self) -> &[f64] {
        std::slice::from_ref(&self.shape)
    }

    /// The log density is linear in `f` and in `exp(−f)`, and `E[exp(−f)] = exp(−m + v/2)`.
    fn expectation(&self, row: Row, at: Marginal, slopes: Slopes) -> f64 {
        let ratio = row.y * (0.5 * at.variance[0] - at.mean[0]).exp();
        slopes.mean[0] = self.shape * (ratio - 1.0);
        slopes.variance[0] = -0.5 * self.shape * ratio;
        if let Some(own) = slopes.own.first_mut() {
            *own = self.rest_slope(row, self.own(), 0) - at.mean[0] - ratio;
        }
        Derivatives::rest(self, row, self.own()) - self.shape * (at.mean[0] + ratio)
    }

    fn mean(&self, f: &[f64], _auxiliary: f64) -> f64 {
        f[0].exp()
    }

    fn variance(&self, f: &[f64], _auxiliary: f64) -> f64 {
        (2.0 * f[0]).exp() / self.shape
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        gamma_cdf(self.shape, self.shape * row.y * (-f[0]).exp())
    }

    fn sample(&self, f: &[f64], _auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        let scale = f[0].exp() / self.shape;
        rand_distr::Gamma::new(self.shape, scale).map_or(f64::NAN, |gamma| gamma.sample(rng).max(f64::MIN_POSITIVE))
    }

    fn peak(&self, row: Row) -> f64 {
        row.y.max(f64::MIN_POSITIVE).ln()
    }

    fn deviance(&self, row: Row, mean: f64) -> Option<f64> {
        Some(deviance::gamma(row.y, mean.max(f64::MIN_POSITIVE)))
    }

    fn predictive_mean(&self, at: Marginal, _auxiliary: f64) -> f64 {
        predictive::mean_exp(at)
    }

    fn predictive_variance(&self, at: Marginal, auxiliary: f64) -> f64 {
        let (mean, v) = (self.predictive_mean(at, auxiliary), at.variance[0]);
        mean * mean * (v.exp_m1() + v.exp() / self.shape)
    }
}

/// A beta distribution with mean `1/(1 + e⁻ᶠ)`.
#[derive(Debug)]
pub struct Share {
    /// φ.
    pub concentration: f64,
}

impl Share {
    /// The two shapes, `φμ` and `φ(1 − μ)`.
    fn shapes(&self, f: f64) -> (f64, f64) {
        (self.concentration * logistic(f), self.concentration * logistic(-f))
    }
}

impl Formula for Share {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Unit
    }

    fn is_log_concave(&self) -> bool {
        false
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], own: &[A]) -> A {
        let (a, b) = (own[0] * f[0].logistic(), own[0] * (-f[0]).logistic());
        a * row.y.ln() + b * (-row.y).ln_1p() - a.ln_gamma() - b.ln_gamma()
    }

    fn rest<A: Real>(&self, row: Row, own: &[A]) -> A {
        own[0].ln_gamma() - (row.y.ln() + (-row.y).ln_1p())
    }

    /// The Fisher information `(∂μ φ)² (ψ'(φμ) + ψ'(φ(1 − μ)))`, where `∂μ` is the slope of the mean.
    fn curvature<A: Real>(&self, _row: Row, f: &[A], own: &[A], d: &mut [A]) {
        let (mean, rest) = (f[0].logistic(), (-f[0]).logistic());
        let slope = own[0] * mean * rest;
        d[0] = slope * slope * ((own[0] * mean).trigamma() + (own[0] * rest).trigamma());
    }
}

impl Density for Share {
    fn built_in(&self) -> Option<String> {
        Some("beta".into())
    }

    fn own(&self) -> &[f64] {
        std::slice::from_ref(&self.concentration)
    }

    fn mean(&self, f: &[f64], _auxiliary: f64) -> f64 {
        logistic(f[0])
    }

    fn variance(&self, f: &[f64], _auxiliary: f64) -> f64 {
        logistic_slope(f[0]) / (1.0 + self.concentration)
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        let (a, b) = self.shapes(f[0]);
        if a.min(b) < 1e-12 {
            // All mass is at one end, to 12 digits.
            return if a < b { 1.0 } else { 0.0 };
        }
        beta_cdf([a, b], row.y, 1.0 - row.y)
    }

    fn sample(&self, f: &[f64], _auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        let (a, b) = self.shapes(f[0]);
        let inside = |y: f64| y.clamp(f64::MIN_POSITIVE, 1.0 - f64::EPSILON);
        rand_distr::Beta::new(a, b).map_or(f64::NAN, |beta| inside(beta.sample(rng)))
    }

    fn peak(&self, row: Row) -> f64 {
        logit(row.y.clamp(1e-12, 1.0 - 1e-12))
    }
}
