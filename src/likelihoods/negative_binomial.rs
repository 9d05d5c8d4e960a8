//! Counts that scatter more than with Poisson: mean μ = exposure · exp(f), variance μ + αμ².

use std::sync::Arc;

use cagey_base::likelihoods::Density;
use cagey_base::likelihoods::negative_binomial::GammaPoisson;
use cagey_base::likelihoods::{Auxiliary, Row, Targets};

use super::{Likelihood, all_zero, count_problem, rate_level};
use crate::params::{Constraint, Parameter, Unit, shown};

/// Counts of a Poisson distribution whose rate has a gamma distribution with mean `exposure · exp(f)`.
#[derive(Debug, Clone)]
pub struct NegativeBinomial {
    /// α, the squared coefficient of variation of the rate; at 0 it would be Poisson's distribution. Never below a
    /// millionth.
    pub dispersion: Parameter,
}

impl NegativeBinomial {
    /// Makes the likelihood with an initial dispersion.
    pub fn new(dispersion: f64) -> Self {
        let constraint = Constraint::Positive { floor: 1e-6 };
        Self { dispersion: Parameter::new("dispersion", Unit::None, constraint, &[dispersion]) }
    }
}

crate::parameters!(NegativeBinomial { "dispersion": dispersion });

impl Likelihood for NegativeBinomial {
    fn text(&self) -> String {
        format!("negative-binomial({})", shown(self.dispersion.values()[0]))
    }

    fn auxiliary(&self) -> Auxiliary {
        Auxiliary::Exposure
    }

    fn check_row(&self, row: Row) -> Result<(), String> {
        count_problem(row.y)
    }

    fn warnings(&self, targets: Targets) -> Vec<String> {
        all_zero(targets)
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        vec![rate_level(targets).ln()]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(GammaPoisson::new(self.dispersion.internal()[0]))
    }
}
