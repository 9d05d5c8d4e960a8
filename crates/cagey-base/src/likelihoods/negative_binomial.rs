//! Counts that scatter more than with Poisson: mean μ = exposure · exp(f), variance μ + αμ².

use rand::Rng;
use rand_distr::Distribution;

use super::density::{Density, Marginal, Support};
use super::deviance;
use super::formula::Formula;
use super::poisson;
use super::targets::Row;
use crate::arithmetic::Real;
use crate::arithmetic::special::{LARGE_COUNT, beta_cdf, gamma_tail, ln_binomial, ln_factorial, ln_rising, logistic};

/// Counts of a rate with a gamma distribution.
#[derive(Debug)]
pub struct GammaPoisson {
    /// α.
    dispersion: f64,
    /// r = 1/α.
    size: f64,
}

impl GammaPoisson {
    /// With this dispersion α.
    pub fn new(dispersion: f64) -> Self {
        Self { dispersion, size: dispersion.recip() }
    }

    /// `t = ln(μ/r)`.
    fn log_ratio(&self, f: f64, auxiliary: f64) -> f64 {
        f + auxiliary.ln() + self.dispersion.ln()
    }
}

impl Formula for GammaPoisson {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Counts(None)
    }

    /// `ln Γ(r + y) − ln Γ(r) − ln y! − y ln(1 + e⁻ᵗ) − r ln(1 + eᵗ)` with `t = ln(μ/r)`; for large counts by the
    /// binomial distribution.
    fn log_density<A: Real>(&self, row: Row, f: &[A], own: &[A]) -> A {
        let (t, size) = (f[0] + own[0].ln() + row.auxiliary.ln(), own[0].recip());
        let (ln_p, ln_q) = (-t.softplus(), -(-t).softplus());
        let value = ln_p * size + ln_q * row.y;
        if row.y <= LARGE_COUNT {
            return value;
        }
        let digits = ln_binomial([size.number(), row.y], [ln_p.number(), ln_q.number()]);
        (value + ln_rising(size, row.y)).with_number(digits - (row.y / size.number()).ln_1p())
    }

    fn rest<A: Real>(&self, row: Row, own: &[A]) -> A {
        if row.y > LARGE_COUNT {
            return A::constant(0.0);
        }
        ln_rising(own[0].recip(), row.y) - ln_factorial(row.y)
    }
}

impl Density for GammaPoisson {
    fn built_in(&self) -> Option<String> {
        Some("negative-binomial".into())
    }

    fn own(&self) -> &[f64] {
        std::slice::from_ref(&self.dispersion)
    }

    fn mean(&self, f: &[f64], auxiliary: f64) -> f64 {
        auxiliary * f[0].exp()
    }

    fn variance(&self, f: &[f64], auxiliary: f64) -> f64 {
        let mean = self.mean(f, auxiliary);
        mean + self.dispersion * mean * mean
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        let y = row.y.floor();
        if y < 0.0 {
            return 0.0;
        }
        let t = self.log_ratio(f[0], row.auxiliary);
        // Poisson is exact to more digits than the alternative would have.
        if self.size > 1e10 {
            return gamma_tail(y + 1.0, self.mean(f, row.auxiliary));
        }
        beta_cdf([self.size, y + 1.0], logistic(-t), logistic(t))
    }

    fn sample(&self, f: &[f64], auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        let mean = self.mean(f, auxiliary);
        let rate = rand_distr::Gamma::new(self.size, self.dispersion * mean).map_or(mean, |gamma| gamma.sample(rng));
        poisson::draw(rate, rng)
    }

    fn peak(&self, row: Row) -> f64 {
        (row.y.max(0.01) / row.auxiliary).ln()
    }

    fn deviance(&self, row: Row, mean: f64) -> Option<f64> {
        Some(deviance::negative_binomial(row.y, mean.max(f64::MIN_POSITIVE), self.dispersion))
    }

    fn predictive_mean(&self, at: Marginal, auxiliary: f64) -> f64 {
        auxiliary * (at.mean[0] + 0.5 * at.variance[0]).exp()
    }

    fn predictive_variance(&self, at: Marginal, auxiliary: f64) -> f64 {
        let (mean, v) = (self.predictive_mean(at, auxiliary), at.variance[0]);
        mean + mean * mean * (v.exp_m1() + self.dispersion * v.exp())
    }
}
