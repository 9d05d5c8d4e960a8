//! Counts: y ~ Poisson(exposure · g(f)).

use std::sync::Arc;

use cagey_base::likelihoods::Density;
use cagey_base::likelihoods::poisson::Counts;
pub use cagey_base::likelihoods::poisson::RateLink;
use cagey_base::likelihoods::{Auxiliary, Row, Targets};

use super::{Likelihood, all_zero, count_problem, rate_level};
use crate::arithmetic::special::softplus_inverse;

/// Counts whose variance equals their mean.
#[derive(Debug, Clone)]
pub struct Poisson {
    /// The map from the latent function to the rate.
    pub link: RateLink,
}

crate::parameters!(Poisson {});

impl Likelihood for Poisson {
    fn text(&self) -> String {
        match self.link {
            RateLink::Exp => "poisson(exp)".into(),
            RateLink::Softplus => "poisson(softplus)".into(),
        }
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
        let rate = rate_level(targets);
        vec![match self.link {
            RateLink::Exp => rate.ln(),
            RateLink::Softplus => softplus_inverse(rate),
        }]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(Counts { link: self.link })
    }
}
