//! Successes among trials: y ~ Binomial(trials, 1/(1 + e⁻ᶠ)).

use std::sync::Arc;

use rand::Rng;
use rand_distr::Distribution;

use super::Likelihood;
use super::density::{Density, Support};
use super::formula::Formula;
use super::targets::{Auxiliary, Row, Targets};
use crate::arithmetic::Real;
use crate::arithmetic::special::{beta_cdf, ln_binomial, logistic, logistic_slope, logit};

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

#[derive(Debug)]
struct Successes;

impl Formula for Successes {
    fn support(&self, auxiliary: f64) -> Support {
        Support::Counts(Some(auxiliary))
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], _own: &[A]) -> A {
        let (counts, [ln_p, ln_q]) = ([row.y, row.auxiliary - row.y], [-(-f[0]).softplus(), -f[0].softplus()]);
        let digits = ln_binomial(counts, [ln_p.number(), ln_q.number()]);
        (ln_p * counts[0] + ln_q * counts[1]).with_number(digits)
    }
}

impl Density for Successes {
    fn mean(&self, f: &[f64], auxiliary: f64) -> f64 {
        auxiliary * logistic(f[0])
    }

    fn variance(&self, f: &[f64], auxiliary: f64) -> f64 {
        auxiliary * logistic_slope(f[0])
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        let y = row.y.floor();
        if y < 0.0 {
            return 0.0;
        }
        if y >= row.auxiliary {
            return 1.0;
        }
        beta_cdf([row.auxiliary - y, y + 1.0], logistic(-f[0]), logistic(f[0]))
    }

    fn sample(&self, f: &[f64], auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        rand_distr::Binomial::new(auxiliary as u64, logistic(f[0]))
            .map_or(f64::NAN, |binomial| binomial.sample(rng) as f64)
    }

    fn peak(&self, row: Row) -> f64 {
        logit((row.y + 0.5) / (row.auxiliary + 1.0))
    }
}
