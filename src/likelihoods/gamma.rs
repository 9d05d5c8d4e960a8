//! Positive targets: y has the gamma distribution with mean exp(f) and a learned shape.

use std::sync::Arc;

use rand::Rng;
use rand_distr::Distribution;
use statrs::function::gamma::{digamma, ln_gamma};

use super::density::{Density, Marginal, Slopes, Support};
use super::deviance;
use super::special::gamma_cdf;
use super::targets::{Row, Targets};
use super::{Likelihood, level, positive_problem};
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
        Arc::new(PositiveMean::new(self.shape.internal()[0]))
    }

    fn boxed(&self) -> Box<dyn Likelihood> {
        Box::new(self.clone())
    }
}

/// A gamma distribution with mean `exp(f)`.
#[derive(Debug)]
pub(super) struct PositiveMean {
    shape: f64,
    /// `shape ln shape − ln Γ(shape)`.
    constant: f64,
    /// The slope of `constant` in the shape.
    slope: f64,
}

impl PositiveMean {
    pub(super) fn new(shape: f64) -> Self {
        Self { shape, constant: shape * shape.ln() - ln_gamma(shape), slope: shape.ln() + 1.0 - digamma(shape) }
    }

    /// The log density as a function of `f` and `exp(−f)`. It is linear in both, so their expectations give its
    /// expectation.
    fn value(&self, y: f64, f: f64, inverse: f64) -> f64 {
        self.constant + (self.shape - 1.0) * y.ln() - self.shape * (f + y * inverse)
    }

    fn own(&self, y: f64, f: f64, inverse: f64) -> f64 {
        self.slope + y.ln() - f - y * inverse
    }
}

impl Density for PositiveMean {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Positive
    }

    fn log_density(&self, row: Row, f: &[f64]) -> f64 {
        self.value(row.y, f[0], (-f[0]).exp())
    }

    fn derivatives(&self, row: Row, f: &[f64], gradient: &mut [f64], hessian: &mut [f64]) -> f64 {
        let ratio = row.y * (-f[0]).exp();
        gradient[0] = self.shape * (ratio - 1.0);
        hessian[0] = -self.shape * ratio;
        self.log_density(row, f)
    }

    fn add_own_gradient(&self, row: Row, f: &[f64], weight: f64, own: &mut [f64]) {
        if let Some(own) = own.first_mut() {
            *own += weight * self.own(row.y, f[0], (-f[0]).exp());
        }
    }

    fn add_curvature_slopes(&self, row: Row, f: &[f64], weights: &[f64], slopes: &mut [f64], own: &mut [f64]) {
        let ratio = row.y * (-f[0]).exp();
        slopes[0] -= weights[0] * self.shape * ratio;
        if let Some(own) = own.first_mut() {
            *own += weights[0] * ratio;
        }
    }

    fn add_pull_slopes(&self, row: Row, f: &[f64], weights: &[f64], own: &mut [f64]) {
        if let Some(own) = own.first_mut() {
            *own += weights[0] * (row.y * (-f[0]).exp() - 1.0);
        }
    }

    /// The log density with `E[exp(−f)] = exp(−m + v/2)`.
    fn expectation(&self, row: Row, at: Marginal, slopes: Slopes) -> f64 {
        let inverse = (0.5 * at.variance[0] - at.mean[0]).exp();
        slopes.mean[0] = self.shape * (row.y * inverse - 1.0);
        slopes.variance[0] = -0.5 * self.shape * row.y * inverse;
        if let Some(own) = slopes.own.first_mut() {
            *own = self.own(row.y, at.mean[0], inverse);
        }
        self.value(row.y, at.mean[0], inverse)
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
