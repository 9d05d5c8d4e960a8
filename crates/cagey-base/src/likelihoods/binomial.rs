//! Successes among trials: y ~ Binomial(trials, 1/(1 + e⁻ᶠ)).

use rand::Rng;
use rand_distr::Distribution;

use super::density::{Density, Support};
use super::formula::Formula;
use super::targets::Row;
use crate::arithmetic::Real;
use crate::arithmetic::special::{beta_cdf, ln_binomial, logistic, logistic_slope, logit};

/// Numbers of successes.
#[derive(Debug)]
pub struct Successes;

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
    fn built_in(&self) -> Option<String> {
        Some("binomial".into())
    }

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
