//! y = f₀(x) + ε, ε ~ N(0, σ² exp(f₁(x))): noise that varies with the inputs.

use std::sync::Arc;

use cagey_base::likelihoods::Density;
use cagey_base::likelihoods::heteroscedastic::VaryingNormal;
use cagey_base::likelihoods::{Row, Targets};

use super::{Likelihood, level, spread};
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
