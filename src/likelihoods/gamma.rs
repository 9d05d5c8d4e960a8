//! Positive targets: y has the gamma distribution with mean exp(f) and a learned shape, or waiting times: the
//! exponential distribution, whose shape is 1.

use std::sync::Arc;

use cagey_base::likelihoods::Density;
use cagey_base::likelihoods::gamma::PositiveMean;
use cagey_base::likelihoods::{Row, Targets};

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
        Arc::new(PositiveMean { shape: self.shape.internal()[0] })
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
