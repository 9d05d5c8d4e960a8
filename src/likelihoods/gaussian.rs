//! y = f(x) + ε, ε ~ N(0, σ² + known variance of the row).

use std::sync::Arc;

use burn::tensor::Tensor;
use cagey_base::likelihoods::Density;
use cagey_base::likelihoods::gaussian::Normal;
use cagey_base::likelihoods::{Auxiliary, Row, Targets};
use serde::{Deserialize, Serialize};

use super::{Likelihood, level, spread};
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
