//! Shares between 0 and 1: y has the beta distribution with mean 1/(1 + e⁻ᶠ) and a learned concentration.

use std::sync::Arc;

use rand::Rng;
use rand_distr::Distribution;
use statrs::function::gamma::{digamma, ln_gamma};

use super::density::{Density, Support};
use super::special::{beta_cdf, logistic, logistic_bend, logistic_slope, logit, tetragamma, trigamma};
use super::targets::{Row, Targets};
use super::{Likelihood, level};
use crate::params::{Constraint, Parameter, Unit, shown};

/// Shares with mean μ and variance `μ(1 − μ)/(1 + concentration)`.
#[derive(Debug, Clone)]
pub struct Beta {
    /// φ; larger means less scatter.
    pub concentration: Parameter,
}

impl Beta {
    /// Makes the likelihood with an initial concentration.
    pub fn new(concentration: f64) -> Self {
        let constraint = Constraint::Positive { floor: 1e-3 };
        Self { concentration: Parameter::new("concentration", Unit::None, constraint, &[concentration]) }
    }
}

crate::parameters!(Beta { "concentration": concentration });

impl Likelihood for Beta {
    fn text(&self) -> String {
        format!("beta({})", shown(self.concentration.values()[0]))
    }

    fn check_row(&self, row: Row) -> Result<(), String> {
        match row.y {
            y if 0.0 < y && y < 1.0 => Ok(()),
            0.0 | 1.0 => {
                Err("lies on the edge, but the beta likelihood takes shares strictly between 0 and 1; move such \
                              values inwards by half their resolution, or give successes and trials to binomial"
                    .into())
            }
            _ => Err("is not a share: beta takes values between 0 and 1; divide percentages by 100".into()),
        }
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        vec![logit(level(targets.y).clamp(1e-6, 1.0 - 1e-6))]
    }

    fn density(&self) -> Arc<dyn Density> {
        let concentration = self.concentration.internal()[0];
        Arc::new(Share { concentration, constant: ln_gamma(concentration), slope: digamma(concentration) })
    }

    fn boxed(&self) -> Box<dyn Likelihood> {
        Box::new(self.clone())
    }
}

#[derive(Debug)]
struct Share {
    concentration: f64,
    /// `ln Γ(concentration)`.
    constant: f64,
    /// The slope of `constant`.
    slope: f64,
}

impl Share {
    /// The two shapes, `φμ` and `φ(1 − μ)`.
    fn shapes(&self, f: f64) -> (f64, f64) {
        (self.concentration * logistic(f), self.concentration * logistic(-f))
    }
}

impl Density for Share {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Unit
    }

    fn log_density(&self, row: Row, f: &[f64]) -> f64 {
        let (a, b) = self.shapes(f[0]);
        self.constant - ln_gamma(a) - ln_gamma(b) + (a - 1.0) * row.y.ln() + (b - 1.0) * (-row.y).ln_1p()
    }

    fn derivatives(&self, row: Row, f: &[f64], gradient: &mut [f64], hessian: &mut [f64]) -> f64 {
        let (a, b) = self.shapes(f[0]);
        let slope = self.concentration * logistic_slope(f[0]);
        gradient[0] = slope * (digamma(b) - digamma(a) + logit(row.y));
        hessian[0] = gradient[0] * (logistic(-f[0]) - logistic(f[0])) - slope * slope * (trigamma(a) + trigamma(b));
        self.log_density(row, f)
    }

    fn add_own_gradient(&self, row: Row, f: &[f64], weight: f64, own: &mut [f64]) {
        let (a, b) = self.shapes(f[0]);
        let one = logistic(f[0]) * (row.y.ln() - digamma(a));
        let other = logistic(-f[0]) * ((-row.y).ln_1p() - digamma(b));
        own[0] += weight * (self.slope + one + other);
    }

    fn is_log_concave(&self) -> bool {
        false
    }

    /// The Fisher information `(∂μ φ)² (ψ'(φμ) + ψ'(φ(1 − μ)))`, where `∂μ` is the slope of the mean.
    fn curvature(&self, _row: Row, f: &[f64], d: &mut [f64]) {
        let (a, b) = self.shapes(f[0]);
        d[0] = (self.concentration * logistic_slope(f[0])).powi(2) * (trigamma(a) + trigamma(b));
    }

    fn add_curvature_slopes(&self, _row: Row, f: &[f64], weights: &[f64], slopes: &mut [f64], own: &mut [f64]) {
        let ((a, b), slope) = (self.shapes(f[0]), self.concentration * logistic_slope(f[0]));
        let (first, second) = (trigamma(a) + trigamma(b), [tetragamma(a), tetragamma(b)]);
        let bend = self.concentration * logistic_bend(f[0]);
        slopes[0] += weights[0] * slope * (2.0 * bend * first + slope * slope * (second[0] - second[1]));
        if let Some(own) = own.first_mut() {
            let in_shapes = logistic(f[0]) * second[0] + logistic(-f[0]) * second[1];
            *own += weights[0] * slope * slope * (2.0 * first / self.concentration + in_shapes);
        }
    }

    fn add_pull_slopes(&self, row: Row, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let (a, b) = self.shapes(f[0]);
        let first = digamma(b) - digamma(a) + logit(row.y);
        let second = b * trigamma(b) - a * trigamma(a);
        own[0] += weights[0] * logistic_slope(f[0]) * (first + second);
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
