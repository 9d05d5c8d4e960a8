//! Waiting times: y has the exponential distribution with mean exp(f).

use std::sync::Arc;

use super::density::Density;
use super::gamma::PositiveMean;
use super::targets::{Row, Targets};
use super::{Likelihood, level, positive_problem};

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

    fn boxed(&self) -> Box<dyn Likelihood> {
        Box::new(self.clone())
    }
}
