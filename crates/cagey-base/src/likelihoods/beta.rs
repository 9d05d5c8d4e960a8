//! Shares between 0 and 1: y has the beta distribution with mean 1/(1 + e⁻ᶠ) and a learned concentration.

use rand::Rng;
use rand_distr::Distribution;

use super::density::{Density, Support};
use super::formula::Formula;
use super::targets::Row;
use crate::arithmetic::Real;
use crate::arithmetic::special::{beta_cdf, logistic, logistic_slope, logit};

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
