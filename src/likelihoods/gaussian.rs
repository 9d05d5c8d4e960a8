//! y = f(x) + ε, ε ~ N(0, σ² + known variance of the row).

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::params::{Constraint, Parameter, Parameters, Unit};
use crate::scope::Scope;

/// Gaussian noise with a learned variance, on top of a known variance per row where there is one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Gaussian {
    /// σ², never below a millionth of the target's variance unless fixed.
    pub noise: Parameter,
}

/// Smallest learned noise variance, as a share of the target's variance: keeps factorisations in double precision exact.
const NOISE_FLOOR: f64 = 1e-6;

impl Gaussian {
    /// Noise with an initial variance in user units.
    pub fn new(noise: f64) -> Self {
        Self { noise: Parameter::new("noise", Unit::Variance, Constraint::Positive { floor: NOISE_FLOOR }, &[noise]) }
    }

    /// The noise variance of each of `n` rows `[n]`, with the known variances added.
    pub fn variances(&self, scope: &Scope, n: usize, known: Option<&Tensor<1>>) -> Tensor<1> {
        let learned = scope.value(&self.noise).expand([n]);
        match known {
            Some(known) => learned + known.clone(),
            None => learned,
        }
    }

    /// Tells the noise the unit of the target.
    pub fn set_units(&mut self, target_sd: f64) {
        self.noise.set_scale(vec![target_sd * target_sd], 0.0);
    }
}

impl Parameters for Gaussian {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        vec![("noise".into(), &self.noise)]
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        vec![("noise".into(), &mut self.noise)]
    }
}
