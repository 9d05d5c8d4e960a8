//! Counts: y ~ Poisson(exposure · g(f)).

use std::sync::Arc;

use rand::Rng;
use rand_distr::Distribution;

use super::density::{Density, Marginal, Slopes, Support};
use super::special::{
    gamma_tail, ln_factorial, ln_poisson, logistic, logistic_bend, logistic_slope, softplus, softplus_inverse,
};
use super::targets::{Auxiliary, Row, Targets};
use super::{Likelihood, all_zero, count_problem, rate_level};

/// The map from the latent function to the rate per unit of exposure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RateLink {
    /// `eᶠ`.
    Exp,
    /// `ln(1 + eᶠ)`.
    Softplus,
}

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
        match self.link {
            RateLink::Exp => Arc::new(ExpRate),
            RateLink::Softplus => Arc::new(SoftplusRate),
        }
    }

    fn boxed(&self) -> Box<dyn Likelihood> {
        Box::new(self.clone())
    }
}

/// `P(count ≤ y)` at a rate.
fn cdf(y: f64, rate: f64) -> f64 {
    match y {
        y if y < 0.0 => 0.0,
        _ if rate <= 0.0 => 1.0,
        y => gamma_tail(y.floor() + 1.0, rate),
    }
}

/// Draws a count at a rate. Above the sampler's largest rate it uses the normal approximation.
pub(super) fn draw(rate: f64, rng: &mut dyn Rng) -> f64 {
    match rand_distr::Poisson::new(rate) {
        Ok(counts) => counts.sample(rng),
        Err(_) if rate > 1.0 => {
            let z: f64 = rand_distr::StandardNormal.sample(rng);
            (rate + rate.sqrt() * z).round().max(0.0)
        }
        Err(_) => 0.0,
    }
}

#[derive(Debug)]
struct ExpRate;

impl Density for ExpRate {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Counts(None)
    }

    fn log_density(&self, row: Row, f: &[f64]) -> f64 {
        ln_poisson(row.y, f[0] + row.auxiliary.ln())
    }

    fn derivatives(&self, row: Row, f: &[f64], gradient: &mut [f64], hessian: &mut [f64]) -> f64 {
        let rate = row.auxiliary * f[0].exp();
        gradient[0] = row.y - rate;
        hessian[0] = -rate;
        self.log_density(row, f)
    }

    fn add_curvature_slopes(&self, row: Row, f: &[f64], weights: &[f64], slopes: &mut [f64], _own: &mut [f64]) {
        slopes[0] += weights[0] * row.auxiliary * f[0].exp();
    }

    /// `y (m + ln e) − e exp(m + v/2) − ln y!` for the exposure `e`.
    fn expectation(&self, row: Row, at: Marginal, slopes: Slopes) -> f64 {
        let rate = self.predictive_mean(at, row.auxiliary);
        slopes.mean[0] = row.y - rate;
        slopes.variance[0] = -0.5 * rate;
        row.y * (at.mean[0] + row.auxiliary.ln()) - rate - ln_factorial(row.y)
    }

    fn mean(&self, f: &[f64], auxiliary: f64) -> f64 {
        auxiliary * f[0].exp()
    }

    fn variance(&self, f: &[f64], auxiliary: f64) -> f64 {
        self.mean(f, auxiliary)
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        cdf(row.y, self.mean(f, row.auxiliary))
    }

    fn sample(&self, f: &[f64], auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        draw(self.mean(f, auxiliary), rng)
    }

    fn peak(&self, row: Row) -> f64 {
        (row.y.max(0.01) / row.auxiliary).ln()
    }

    fn predictive_mean(&self, at: Marginal, auxiliary: f64) -> f64 {
        auxiliary * (at.mean[0] + 0.5 * at.variance[0]).exp()
    }

    fn predictive_variance(&self, at: Marginal, auxiliary: f64) -> f64 {
        let rate = self.predictive_mean(at, auxiliary);
        rate + rate * rate * at.variance[0].exp_m1()
    }
}

#[derive(Debug)]
struct SoftplusRate;

impl Density for SoftplusRate {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Counts(None)
    }

    fn log_density(&self, row: Row, f: &[f64]) -> f64 {
        if row.y == 0.0 {
            -row.auxiliary * softplus(f[0])
        } else {
            ln_poisson(row.y, row.auxiliary.ln() + ln_softplus(f[0]))
        }
    }

    fn derivatives(&self, row: Row, f: &[f64], gradient: &mut [f64], hessian: &mut [f64]) -> f64 {
        let (slope, bend) = (logistic(f[0]), logistic_slope(f[0]));
        let (ratio, ratio_slope, _) = ln_softplus_slopes(f[0]);
        gradient[0] = row.y * ratio - row.auxiliary * slope;
        hessian[0] = row.y * ratio_slope - row.auxiliary * bend;
        self.log_density(row, f)
    }

    fn add_curvature_slopes(&self, row: Row, f: &[f64], weights: &[f64], slopes: &mut [f64], _own: &mut [f64]) {
        slopes[0] += weights[0] * (row.auxiliary * logistic_bend(f[0]) - row.y * ln_softplus_slopes(f[0]).2);
    }

    fn mean(&self, f: &[f64], auxiliary: f64) -> f64 {
        auxiliary * softplus(f[0])
    }

    fn variance(&self, f: &[f64], auxiliary: f64) -> f64 {
        self.mean(f, auxiliary)
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        cdf(row.y, self.mean(f, row.auxiliary))
    }

    fn sample(&self, f: &[f64], auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        draw(self.mean(f, auxiliary), rng)
    }

    fn peak(&self, row: Row) -> f64 {
        softplus_inverse(row.y.max(0.01) / row.auxiliary)
    }
}

/// `ln ln(1 + eᶠ)`.
fn ln_softplus(f: f64) -> f64 {
    // ln ln(1 + e) = f − e/2 + O(e²) for small e = eᶠ.
    if f < -30.0 { f - 0.5 * f.exp() } else { softplus(f).ln() }
}

/// The first three derivatives of [`ln_softplus`]: `u = σ(f)/softplus(f)`, `u' = u (1 − σ(f) − u)` and the slope of
/// `u'`.
fn ln_softplus_slopes(f: f64) -> (f64, f64, f64) {
    let e = f.exp();
    if f < -8.0 {
        // Series in e, because the difference 1 − σ − u would cancel.
        let ratio = 1.0 - e * (0.5 - e * (5.0 / 12.0 - e * 3.0 / 8.0));
        let slope = -e * (0.5 - e * (5.0 / 6.0 - e * 9.0 / 8.0));
        return (ratio, slope, -e * (0.5 - e * (5.0 / 3.0 - e * 27.0 / 8.0)));
    }
    let ratio = logistic(f) / softplus(f);
    let rest = logistic(-f) - ratio;
    let slope = ratio * rest;
    (ratio, slope, slope * rest - ratio * (logistic_slope(f) + slope))
}
