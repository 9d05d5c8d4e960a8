//! Positive targets, and shares between 0 and 1.

use std::sync::Arc;

use cagey_base::likelihoods::positive::{PositiveMean, Share};

use super::level::level;
use super::{Density, Likelihood, Row, Targets};
use crate::arithmetic::special::logit;
use crate::params::{Constraint, Parameter, Unit, shown};

/// A positive parameter without a unit.
fn positive(name: &str, value: f64) -> Parameter {
    Parameter::new(name, Unit::None, Constraint::Positive { floor: 1e-3 }, &[value])
}

/// Positive targets with a constant coefficient of variation, `1/√shape`: y has the gamma distribution with mean exp(f)
/// and a learned shape.
#[derive(Debug, Clone)]
pub struct Gamma {
    /// The shape; larger means less scatter.
    pub shape: Parameter,
}

impl Gamma {
    /// Makes the likelihood with an initial shape.
    pub fn new(shape: f64) -> Self {
        Self { shape: positive("shape", shape) }
    }
}

crate::parameters!(Gamma { "shape": shape });

impl Likelihood for Gamma {
    fn text(&self) -> String {
        format!("gamma({})", shown(self.shape.values()[0]))
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        vec![level(targets.y).ln()]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(PositiveMean { shape: self.shape.internal()[0] })
    }
}

/// Positive targets with a standard deviation equal to the mean, such as waiting times: the gamma distribution with
/// shape 1.
#[derive(Debug, Clone)]
pub struct Exponential;

crate::parameters!(Exponential {});

impl Likelihood for Exponential {
    fn text(&self) -> String {
        "exponential".into()
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        vec![level(targets.y).ln()]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(PositiveMean { shape: 1.0 })
    }
}

/// Shares with mean μ = 1/(1 + e⁻ᶠ) and variance `μ(1 − μ)/(1 + concentration)`, which have the beta distribution.
#[derive(Debug, Clone)]
pub struct Beta {
    /// φ; larger means less scatter.
    pub concentration: Parameter,
}

impl Beta {
    /// Makes the likelihood with an initial concentration.
    pub fn new(concentration: f64) -> Self {
        Self { concentration: positive("concentration", concentration) }
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
        Arc::new(Share { concentration: self.concentration.internal()[0] })
    }
}
