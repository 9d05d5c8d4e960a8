//! y = f(x) + ε, ε ~ N(0, σ² + known variance of the row).

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use super::density::{Density, Marginal, Slopes, Support};
use super::formula::Formula;
use super::targets::Row;
use crate::arithmetic::Real;
use crate::arithmetic::special::{LN_TAU, log_normal_density, normal_cdf};

/// Gaussian noise.
#[derive(Debug)]
pub struct Normal {
    /// σ².
    pub noise: f64,
}

impl Formula for Normal {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Real
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], own: &[A]) -> A {
        let (residual, variance) = (f[0] - row.y, own[0] + row.auxiliary);
        (variance.ln() + residual * residual / variance + LN_TAU) * -0.5
    }
}

impl Density for Normal {
    fn built_in(&self) -> Option<String> {
        Some("gaussian".into())
    }

    fn own(&self) -> &[f64] {
        std::slice::from_ref(&self.noise)
    }

    /// `ln N(y; m, σ²) − v / 2σ²`.
    fn expectation(&self, row: Row, at: Marginal, slopes: Slopes) -> f64 {
        let noise = self.noise + row.auxiliary;
        let (residual, variance) = (row.y - at.mean[0], at.variance[0]);
        slopes.mean[0] = residual / noise;
        slopes.variance[0] = -0.5 / noise;
        if let Some(own) = slopes.own.first_mut() {
            *own = 0.5 * ((residual * residual + variance) / noise - 1.0) / noise;
        }
        log_normal_density(residual, noise) - 0.5 * variance / noise
    }

    fn mean(&self, f: &[f64], _auxiliary: f64) -> f64 {
        f[0]
    }

    fn variance(&self, _f: &[f64], auxiliary: f64) -> f64 {
        self.noise + auxiliary
    }

    fn cdf(&self, row: Row, f: &[f64]) -> f64 {
        normal_cdf((row.y - f[0]) / (self.noise + row.auxiliary).sqrt())
    }

    fn sample(&self, f: &[f64], auxiliary: f64, rng: &mut dyn Rng) -> f64 {
        let z: f64 = StandardNormal.sample(rng);
        f[0] + z * (self.noise + auxiliary).sqrt()
    }

    fn peak(&self, row: Row) -> f64 {
        row.y
    }

    fn predictive_mean(&self, at: Marginal, _auxiliary: f64) -> f64 {
        at.mean[0]
    }

    fn predictive_variance(&self, at: Marginal, auxiliary: f64) -> f64 {
        at.variance[0] + self.noise + auxiliary
    }

    fn predictive_log_density(&self, row: Row, at: Marginal) -> f64 {
        log_normal_density(row.y - at.mean[0], self.predictive_variance(at, row.auxiliary))
    }

    fn predictive_cdf(&self, row: Row, at: Marginal) -> f64 {
        normal_cdf((row.y - at.mean[0]) / self.predictive_variance(at, row.auxiliary).sqrt())
    }
}
