//! Counts: y ~ Poisson(exposure · g(f)).

use rand::Rng;
use rand_distr::Distribution;

use super::density::{Density, Marginal, Slopes, Support};
use super::formula::{Derivatives, Formula};
use super::predictive;
use super::targets::Row;
use crate::arithmetic::Real;
use crate::arithmetic::special::{
    gamma_tail, ln_factorial, ln_poisson, logistic, logistic_slope, softplus, softplus_inverse,
};

/// The map from the latent function to the rate per unit of exposure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLink {
    /// `eᶠ`.
    Exp,
    /// `ln(1 + eᶠ)`.
    Softplus,
}

/// Draws a count at a rate. Above the sampler's largest rate it uses the normal approximation.
pub fn draw(rate: f64, rng: &mut dyn Rng) -> f64 {
    match rand_distr::Poisson::new(rate) {
        Ok(counts) => counts.sample(rng),
        Err(_) if rate > 1.0 => {
            let z: f64 = rand_distr::StandardNormal.sample(rng);
            (rate + rate.sqrt() * z).round().max(0.0)
        }
        Err(_) => 0.0,
    }
}

/// Counts at a rate.
#[derive(Debug)]
pub struct Counts {
    /// The map to the rate.
    pub link: RateLink,
}

impl Formula for Counts {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Counts(None)
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], _own: &[A]) -> A {
        let (ln_rate, rate) = match self.link {
            RateLink::Exp => (f[0], f[0].exp()),
            RateLink::Softplus => (ln_softplus(f[0]), f[0].softplus()),
        };
        let (ln_mean, mean) = (ln_rate + row.auxiliary.ln(), rate * row.auxiliary);
        if row.y == 0.0 {
            return -mean;
        }
        (ln_mean * row.y - mean).with_number(ln_poisson(row.y, ln_mean.number()))
    }
}

impl Density for Counts {
    fn built_in(&self) -> Option<String> {
        Some(match self.link {
            RateLink::Exp => "poisson(exp)".into(),
            RateLink::Softplus => "poisson(softplus)".into(),
        })
    }

    /// With the exponential, `y (m + ln e) − e exp(m + v/2) − ln y!` for the exposure `e`.
    fn expectation(&self, row: Row, at: Marginal, slopes: Slopes) -> f64 {
        if self.link == RateLink::Softplus {
            return self.average(row, at, &[], slopes);
        }
        let rate = self.predictive_mean(at, row.auxiliary);
        slopes.mean[0] = row.y - rate;
        slopes.variance[0] = -0.5 * rate;
        row.y * (at.mean[0] + row.auxiliary.ln()) - rate - ln_factorial(row.y)
    }

    fn mean(&self, f: &[f64], auxiliary: f64) -> f64 {
        auxiliary * if self.link == RateLink::Exp { f[0].exp() } else { softplus(f[0]) }
    }

    fn variance(&self, f: &[f64], auxiliary: f64) -> f64 {
        self.mean(f, auxiliary)
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        match (row.y, self.mean(f, row.auxiliary)) {
            (y, _) if y < 0.0 => 0.0,
            (_, rate) if rate <= 0.0 => 1.0,
            (y, rate) => gamma_tail(y.floor() + 1.0, rate),
        }
    }

    fn sample(&self, f: &[f64], auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        draw(self.mean(f, auxiliary), rng)
    }

    fn peak(&self, row: Row) -> f64 {
        let rate = row.y.max(0.01) / row.auxiliary;
        if self.link == RateLink::Exp { rate.ln() } else { softplus_inverse(rate) }
    }

    fn predictive_mean(&self, at: Marginal, auxiliary: f64) -> f64 {
        match self.link {
            RateLink::Exp => auxiliary * (at.mean[0] + 0.5 * at.variance[0]).exp(),
            RateLink::Softplus => predictive::average_of(at, 0.0, &|f| self.mean(f, auxiliary)),
        }
    }

    fn predictive_variance(&self, at: Marginal, auxiliary: f64) -> f64 {
        let rate = self.predictive_mean(at, auxiliary);
        match self.link {
            RateLink::Exp => rate + rate * rate * at.variance[0].exp_m1(),
            RateLink::Softplus => rate + predictive::average_of(at, 0.0, &|f| (self.mean(f, auxiliary) - rate).powi(2)),
        }
    }
}

/// `ln ln(1 + eᶠ)`, with derivatives `u = σ(f)/softplus(f)`, `u' = u (1 − σ(f) − u)` and `u''`.
fn ln_softplus<A: Real>(f: A) -> A {
    f.smooth(|f, _| {
        let e = f.exp();
        // ln ln(1 + e) = f − e/2 + O(e²) for small e = eᶠ.
        let value = if f < -30.0 { f - 0.5 * e } else { softplus(f).ln() };
        if f < -8.0 {
            // Series in e, because the difference 1 − σ − u would cancel.
            let ratio = 1.0 - e * (0.5 - e * (5.0 / 12.0 - e * 3.0 / 8.0));
            let slope = -e * (0.5 - e * (5.0 / 6.0 - e * 9.0 / 8.0));
            return [value, ratio, slope, -e * (0.5 - e * (5.0 / 3.0 - e * 27.0 / 8.0))];
        }
        let ratio = logistic(f) / softplus(f);
        let rest = logistic(-f) - ratio;
        let slope = ratio * rest;
        [value, ratio, slope, slope * rest - ratio * (logistic_slope(f) + slope)]
    })
}
