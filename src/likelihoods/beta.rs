//! Shares between 0 and 1: y has the beta distribution with mean 1/(1 + e⁻ᶠ) and a learned concentration.

use std::sync::Arc;

use cagey_base::likelihoods::Density;
use cagey_base::likelihoods::beta::Share;
use cagey_base::likelihoods::{Row, Targets};

use super::{Likelihood, level};
use crate::arithmetic::special::logit;
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
        Arc::new(Share { concentration: self.concentration.internal()[0] })
    }
}
