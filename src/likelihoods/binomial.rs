//! Successes among trials: y ~ Binomial(trials, 1/(1 + e⁻ᶠ)).

use std::sync::Arc;

use cagey_base::likelihoods::Density;
use cagey_base::likelihoods::binomial::Successes;
use cagey_base::likelihoods::{Auxiliary, Row, Targets};

use super::Likelihood;
use crate::arithmetic::special::logit;

/// Numbers of successes. The auxiliary column has the numbers of trials.
#[derive(Debug, Clone)]
pub struct Binomial;

crate::parameters!(Binomial {});

impl Likelihood for Binomial {
    fn text(&self) -> String {
        "binomial".into()
    }

    fn auxiliary(&self) -> Auxiliary {
        Auxiliary::Trials
    }

    fn check_row(&self, row: Row) -> Result<(), String> {
        if row.y < 0.0 || row.y.fract() != 0.0 {
            Err("is not a number of successes: give whole numbers from 0, and shares as successes and trials".into())
        } else if row.y > row.auxiliary {
            Err(format!(
                "exceeds its number of trials, {}; name the column of trials, and check that the two are not swapped",
                row.auxiliary
            ))
        } else {
            Ok(())
        }
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        let rows = targets.rows(Auxiliary::Trials);
        let (successes, trials) = rows.fold((0.5, 1.0), |(y, n), row| (y + row.y, n + row.auxiliary));
        vec![logit(successes / trials)]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(Successes)
    }
}
