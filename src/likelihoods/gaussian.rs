//! y = f(x) + ε, ε ~ N(0, σ² + known variance of the row).

use std::sync::Arc;

use burn::tensor::Tensor;
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::density::{Density, Marginal, Slopes, Support};
use super::formula::Formula;
use super::targets::{Auxiliary, Row, Targets};
use super::{Likelihood, level, spread};
use crate::arithmetic::Real;
use crate::arithmetic::special::{LN_TAU, log_normal_density, normal_cdf};
use crate::params::{Constraint, Parameter, Unit};
use crate::scope::Scope;

/// Gaussian noise with a learned variance, plus a known variance for each row if there is one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Gaussian {
    /// σ², never below a millionth of the target's variance.
    pub noise: Parameter,
}

/// The smallest learned noise variance, as a share of the target's variance. It keeps factorisations exact in double
/// precision.
const NOISE_FLOOR: f64 = 1e-6;

impl Gaussian {
    /// Makes noise with an initial variance in user units.
    pub fn new(noise: f64) -> Self {
        Self { noise: Parameter::new("noise", Unit::Variance, Constraint::Positive { floor: NOISE_FLOOR }, &[noise]) }
    }

    /// The noise variance of each of `n` rows `[n]`, with the known variances added.
    pub fn variances(&self, scope: &Scope, n: usize, known: Option<&Tensor<1>>) -> Tensor<1> {
        let learned = scope.value(&self.noise).expand([n]);
        match known {
            Some(known) => learned + known.clone().cast(scope.dtype()),
            None => learned,
        }
    }

    /// Sets the unit of the target.
    pub fn set_units(&mut self, target_sd: f64) {
        self.noise.put_scale(vec![target_sd * target_sd], 0.0);
    }
}

crate::parameters!(Gaussian { "noise": noise });

impl Likelihood for Gaussian {
    fn text(&self) -> String {
        "gaussian".into()
    }

    fn auxiliary(&self) -> Auxiliary {
        Auxiliary::NoiseVariance
    }

    fn noise(&self) -> Option<f64> {
        Some(self.noise.internal()[0])
    }

    fn noise_of_rows(&self, scope: &Scope, n: usize, known: Option<&Tensor<1>>) -> Option<Tensor<1>> {
        let learned = scope.wide_value(&self.noise).expand([n]);
        Some(known.map_or(learned.clone(), |known| learned + known.clone().cast(scope.wide())))
    }

    fn scaled(&self) -> bool {
        true
    }

    fn set_units(&mut self, target_sd: f64) {
        Self::set_units(self, target_sd);
    }

    fn check_row(&self, _row: Row) -> Result<(), String> {
        Ok(())
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        if !self.noise.given {
            self.noise.put_internal(&[0.1 * spread(targets.y)]);
        }
        vec![level(targets.y)]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(Normal { noise: self.noise.internal()[0] })
    }
}

#[derive(Debug)]
struct Normal {
    noise: f64,
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
