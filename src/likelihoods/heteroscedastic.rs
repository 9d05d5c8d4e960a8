//! y = f₀(x) + ε, ε ~ N(0, σ² exp(f₁(x))): noise that varies with the inputs.

use std::sync::Arc;

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::density::{Density, Marginal, Slopes, Support};
use super::formula::Formula;
use super::targets::{Row, Targets};
use super::{Likelihood, level, predictive, spread};
use crate::arithmetic::Real;
use crate::arithmetic::special::{LN_TAU, log_normal_density, normal_cdf};
use crate::params::{Constraint, Parameter, Unit};

/// Gaussian noise with a learned variance times the exponential of a second latent function.
///
/// The log density is not concave in both functions together, so that Newton's method needs a guard.
#[derive(Debug, Clone)]
pub struct Heteroscedastic {
    /// σ², the noise variance at which the second function is 0.
    pub noise: Parameter,
}

impl Heteroscedastic {
    /// Makes noise with an initial variance in user units.
    pub fn new(noise: f64) -> Self {
        Self { noise: Parameter::new("noise", Unit::Variance, Constraint::Positive { floor: 1e-6 }, &[noise]) }
    }
}

crate::parameters!(Heteroscedastic { "noise": noise });

impl Likelihood for Heteroscedastic {
    fn text(&self) -> String {
        "heteroscedastic".into()
    }

    fn latents(&self) -> usize {
        2
    }

    fn others(&self) -> Vec<(&'static str, f64)> {
        vec![("log_noise", self.noise.values()[0].ln())]
    }

    fn scaled(&self) -> bool {
        true
    }

    fn set_units(&mut self, target_sd: f64) {
        self.noise.put_scale(vec![target_sd * target_sd], 0.0);
    }

    fn check_row(&self, _row: Row) -> Result<(), String> {
        Ok(())
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        if !self.noise.given {
            self.noise.put_internal(&[0.1 * spread(targets.y)]);
        }
        vec![level(targets.y), 0.0]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(VaryingNormal { noise: self.noise.internal()[0] })
    }
}

#[derive(Debug)]
struct VaryingNormal {
    noise: f64,
}

impl VaryingNormal {
    fn precision(&self, f: &[f64]) -> f64 {
        (-f[1]).exp() / self.noise
    }
}

impl Formula for VaryingNormal {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Real
    }

    fn latents(&self) -> usize {
        2
    }

    fn is_log_concave(&self) -> bool {
        false
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], own: &[A]) -> A {
        let residual = f[0] - row.y;
        (own[0].ln() + f[1] + residual * residual * (-f[1]).exp() / own[0] + LN_TAU) * -0.5
    }

    /// The Fisher information `diag(exp(−f₁)/σ², ½)`.
    fn curvature<A: Real>(&self, _row: Row, f: &[A], own: &[A], d: &mut [A]) {
        d[0] = (-f[1]).exp() / own[0];
        d[1] = A::constant(0.5);
    }
}

impl Density for VaryingNormal {
    fn own(&self) -> &[f64] {
        std::slice::from_ref(&self.noise)
    }

    /// `−½ [ln 2πσ² + m₁ + ((y − m₀)² + v₀) exp(−m₁ + v₁/2)/σ²]`.
    fn expectation(&self, row: Row, at: Marginal, slopes: Slopes) -> f64 {
        let residual = row.y - at.mean[0];
        let precision = (0.5 * at.variance[1] - at.mean[1]).exp() / self.noise;
        let square = (residual * residual + at.variance[0]) * precision;
        slopes.mean.copy_from_slice(&[residual * precision, 0.5 * (square - 1.0)]);
        slopes.variance.copy_from_slice(&[-0.5 * precision, -0.25 * square]);
        if let Some(own) = slopes.own.first_mut() {
            *own = 0.5 * (square - 1.0) / self.noise;
        }
        -0.5 * (LN_TAU + self.noise.ln() + at.mean[1] + square)
    }

    fn mean(&self, f: &[f64], _auxiliary: f64) -> f64 {
        f[0]
    }

    fn variance(&self, f: &[f64], _auxiliary: f64) -> f64 {
        self.precision(f).recip()
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        normal_cdf((row.y - f[0]) * self.precision(f).sqrt())
    }

    fn sample(&self, f: &[f64], auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        let z: f64 = StandardNormal.sample(rng);
        f[0] + z * self.variance(f, auxiliary).sqrt()
    }

    fn predictive_mean(&self, at: Marginal, _auxiliary: f64) -> f64 {
        at.mean[0]
    }

    fn predictive_variance(&self, at: Marginal, _auxiliary: f64) -> f64 {
        at.variance[0] + self.noise * (at.mean[1] + 0.5 * at.variance[1]).exp()
    }

    /// The first function is integrated in closed form, the second by quadrature. If a residual is far beyond what the
    /// first function explains, its density is largest where the noise is as large as the residual.
    fn predictive_log_density(&self, row: Row, at: Marginal) -> f64 {
        let square = (row.y - at.mean[0]).powi(2);
        let variance = |g: f64| at.variance[0] + self.noise * g.exp();
        let peak = if square > at.variance[0] { ((square - at.variance[0]) / self.noise).ln() } else { at.mean[1] };
        let slopes = |g: f64| {
            // The noise's share of the variance, and the squared residual over the variance.
            let (share, scaled) = (self.noise * g.exp() / variance(g), square / variance(g));
            [0.5 * share * (scaled - 1.0), 0.5 * share * ((1.0 - share) * (scaled - 1.0) - share * scaled)]
        };
        let log_density = |g: f64| log_normal_density(row.y - at.mean[0], variance(g));
        predictive::log_average(at.mean[1], at.variance[1], peak, &log_density, &slopes)
    }

    fn predictive_cdf(&self, row: Row, at: Marginal) -> f64 {
        predictive::average(at.mean[1], at.variance[1], at.mean[1], &|g| {
            normal_cdf((row.y - at.mean[0]) / (at.variance[0] + self.noise * g.exp()).sqrt())
        })
    }
}
