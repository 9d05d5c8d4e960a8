//! Counts that scatter more than with Poisson: mean μ = exposure · exp(f), variance μ + αμ².

use std::sync::Arc;

use rand::Rng;
use rand_distr::Distribution;
use statrs::function::gamma::digamma;

use super::density::{Density, Marginal, Support};
use super::deviance;
use super::special::{
    LARGE_COUNT, beta_cdf, gamma_tail, ln_binomial, ln_factorial, ln_rising, logistic, logistic_bend, logistic_slope,
    softplus,
};
use super::targets::{Auxiliary, Row, Targets};
use super::{Likelihood, all_zero, count_problem, poisson, rate_level};
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
        let dispersion = self.dispersion.internal()[0];
        Arc::new(GammaPoisson { dispersion, size: dispersion.recip() })
    }

    fn boxed(&self) -> Box<dyn Likelihood> {
        Box::new(self.clone())
    }
}

#[derive(Debug)]
struct GammaPoisson {
    /// α.
    dispersion: f64,
    /// r = 1/α.
    size: f64,
}

impl GammaPoisson {
    /// `t = ln(μ/r)`.
    fn log_ratio(&self, f: f64, auxiliary: f64) -> f64 {
        f + auxiliary.ln() + self.dispersion.ln()
    }

    /// `ψ(r + y) − ψ(r)`; by its series if the difference would cancel.
    fn digamma_rise(&self, y: f64) -> f64 {
        let r = self.size;
        if r < 1e3 {
            return digamma(r + y) - digamma(r);
        }
        let (a, b) = (1.0 / (r + y), 1.0 / r);
        (y / r).ln_1p() - 0.5 * (a - b) - (a * a - b * b) / 12.0
    }
}

impl Density for GammaPoisson {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Counts(None)
    }

    /// `ln Γ(r + y) − ln Γ(r) − ln y! + y t − (r + y) ln(1 + eᵗ)`; for large counts by the binomial distribution.
    fn log_density(&self, row: Row, f: &[f64]) -> f64 {
        let t = self.log_ratio(f[0], row.auxiliary);
        if row.y > LARGE_COUNT {
            return -(row.y / self.size).ln_1p() + ln_binomial([self.size, row.y], [-softplus(t), -softplus(-t)]);
        }
        ln_rising(self.size, row.y) - ln_factorial(row.y) + row.y * t - (self.size + row.y) * softplus(t)
    }

    fn derivatives(&self, row: Row, f: &[f64], gradient: &mut [f64], hessian: &mut [f64]) -> f64 {
        let t = self.log_ratio(f[0], row.auxiliary);
        gradient[0] = row.y * logistic(-t) - self.size * logistic(t);
        hessian[0] = -(self.size + row.y) * logistic_slope(t);
        self.log_density(row, f)
    }

    fn add_own_gradient(&self, row: Row, f: &[f64], weight: f64, own: &mut [f64]) {
        let t = self.log_ratio(f[0], row.auxiliary);
        let in_size = self.digamma_rise(row.y) - softplus(t) + logistic(t) - row.y * self.dispersion * logistic(-t);
        own[0] -= weight * in_size * self.size * self.size;
    }

    fn add_curvature_slopes(&self, row: Row, f: &[f64], weights: &[f64], slopes: &mut [f64], own: &mut [f64]) {
        let t = self.log_ratio(f[0], row.auxiliary);
        let slope = weights[0] * (self.size + row.y) * logistic_bend(t);
        slopes[0] += slope;
        if let Some(own) = own.first_mut() {
            // t grows with ln α, r falls.
            *own += self.size * (slope - weights[0] * self.size * logistic_slope(t));
        }
    }

    fn add_pull_slopes(&self, row: Row, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let t = self.log_ratio(f[0], row.auxiliary);
        own[0] += weights[0] * self.size * (self.size * logistic(t) - (self.size + row.y) * logistic_slope(t));
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
