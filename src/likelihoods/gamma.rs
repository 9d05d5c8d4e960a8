//! Positive targets: y has the gamma distribution with mean exp(f) and a learned shape, or waiting times: the
//! exponential distribution, whose shape is 1.

use std::sync::Arc;

use rand::Rng;
use rand_distr::Distribution;

use super::density::{Density, Marginal, Slopes, Support};
use super::deviance;
use super::formula::{Derivatives, Formula};
use super::targets::{Row, Targets};
use super::{Likelihood, level, positive_problem};
use crate::arithmetic::Real;
use crate::arithmetic::special::gamma_cdf;
use crate::params::{Constraint, Parameter, Unit, shown};

/// Positive targets with a constant coefficient of variation, `1/√shape`.
#[derive(Debug, Clone)]
pub struct Gamma {
    /// The shape; larger means less scatter.
    pub shape: Parameter,
}

impl Gamma {
    /// Makes the likelihood with an initial shape.
    pub fn new(shape: f64) -> Self {
        Self { shape: Parameter::new("shape", Unit::None, Constraint::Positive { floor: 1e-3 }, &[shape]) }
    }
}

crate::parameters!(Gamma { "shape": shape });

impl Likelihood for Gamma {
    fn text(&self) -> String {
        format!("gamma({})", shown(self.shape.values()[0]))
    }

    fn check_row(&self, row: Row) -> Result<(), String> {
        positive_problem(row.y, "gamma")
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        vec![level(targets.y).ln()]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(PositiveMean { shape: self.shape.internal()[0] })
    }
}

/// A gamma distribution with mean `exp(f)`.
#[derive(Debug)]
pub(super) struct PositiveMean {
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
        (at.mean[0] + 0.5 * at.variance[0]).exp()
    }

    fn predictive_variance(&self, at: Marginal, auxiliary: f64) -> f64 {
        let (mean, v) = (self.predictive_mean(at, auxiliary), at.variance[0]);
        mean * mean * (v.exp_m1() + v.exp() / self.shape)
    }
}

/// Positive targets with a standard deviation equal to the mean: the gamma distribution with shape 1.
#[derive(Debug, Clone)]
pub struct Exponential;

crate::parameters!(Exponential {});

impl Likelihood for Exponential {
    fn text(&self) -> String {
        "exponential".into()
    }

    fn check_row(&self, row: Row) -> Result<(), String> {
        positive_problem(row.y, "exponential")
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        vec![level(targets.y).ln()]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(PositiveMean { shape: 1.0 })
    }
}
