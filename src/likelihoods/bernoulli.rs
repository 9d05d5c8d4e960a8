//! Two classes: y ∈ {0, 1}, P(y = 1 | f) = g(f).

use std::sync::Arc;

use cagey_base::likelihoods::Density;
pub use cagey_base::likelihoods::bernoulli::BernoulliLink;
use cagey_base::likelihoods::bernoulli::Labels;
use cagey_base::likelihoods::{Row, Targets};

use super::{Likelihood, class_problem, level};
use crate::arithmetic::special::{logit, normal_quantile};

/// Labels 0 and 1.
#[derive(Debug, Clone)]
pub struct Bernoulli {
    /// The map from the latent function to the probability.
    pub link: BernoulliLink,
}

crate::parameters!(Bernoulli {});

impl Likelihood for Bernoulli {
    fn text(&self) -> String {
        match self.link {
            BernoulliLink::Logit => "bernoulli(logit)".into(),
            BernoulliLink::Probit => "bernoulli(probit)".into(),
        }
    }

    fn check_row(&self, row: Row) -> Result<(), String> {
        class_problem(row.y, 2, "bernoulli")
    }

    fn warnings(&self, targets: Targets) -> Vec<String> {
        let ones = targets.y.iter().filter(|y| **y == 1.0).count();
        if ones != 0 && ones != targets.y.len() {
            return Vec::new();
        }
        vec!["all targets are of one class: there is nothing to learn; check the target column".into()]
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        let share = level(targets.y).clamp(0.01, 0.99);
        vec![match self.link {
            BernoulliLink::Logit => logit(share),
            BernoulliLink::Probit => normal_quantile(share),
        }]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(Labels { link: self.link })
    }
}
