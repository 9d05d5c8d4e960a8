//! Counts: of trials, or without end.

use rand::Rng;
use rand_distr::Distribution;

use super::density::{Density, Marginal, Slopes, Support};
use super::formula::{Derivatives, Formula};
use super::targets::Row;
use super::{deviance, predictive};
use crate::arithmetic::Real;
use crate::arithmetic::special::{
    LARGE_COUNT, beta_cdf, gamma_tail, ln_binomial, ln_factorial, ln_poisson, ln_rising, logistic, logistic_slope,
    logit, softplus, softplus_inverse,
};

/// Successes among trials: y ~ Binomial(trials, 1/(1 + e⁻ᶠ)).
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

/// The map from the latent function to the rate per unit of exposure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLink {
    /// `eᶠ`.
    Exp,
    /// `ln(1 + eᶠ)`.
    Softplus,
}

impl RateLink {
    /// The text of the likelihood with this link.
    pub fn text(self) -> String {
        match self {
            Self::Exp => "poisson(exp)".into(),
            Self::Softplus => "poisson(softplus)".into(),
        }
    }
}

/// Draws a count at a rate. Above the sampler's largest rate it uses the normal approximation.
fn draw(rate: f64, rng: &mut dyn Rng) -> f64 {
    match rand_distr::Poisson::new(rate) {
        Ok(counts) => counts.sample(rng),
        Err(_) if rate > 1.0 => {
            let z: f64 = rand_distr::StandardNormal.sample(rng);
            (rate + rate.sqrt() * z).round().max(0.0)
        }
        Err(_) => 0.0,
    }
}

/// Counts at a rate: y ~ Poisson(exposure · g(f)).
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
        Some(self.link.text())
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
            RateLink::Exp => auxiliary * predictive::mean_exp(at),
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

/// Counts that scatter more than with Poisson, of a rate with a gamma distribution: mean μ = exposure · exp(f),
/// variance μ + αμ².
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
        draw(rate, rng)
    }

    fn peak(&self, row: Row) -> f64 {
        (row.y.max(0.01) / row.auxiliary).ln()
    }

    fn deviance(&self, row: Row, mean: f64) -> Option<f64> {
        Some(deviance::negative_binomial(row.y, mean.max(f64::MIN_POSITIVE), self.dispersion))
    }

    fn predictive_mean(&self, at: Marginal, auxiliary: f64) -> f64 {
        auxiliary * predictive::mean_exp(at)
    }

    fn predictive_variance(&self, at: Marginal, auxiliary: f64) -> f64 {
        let (mean, v) = (self.predictive_mean(at, auxiliary), at.variance[0]);
        mean + mean * mean * (v.exp_m1() + self.dispersion * v.exp())
    }
}
