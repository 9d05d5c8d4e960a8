//! Real targets that scatter about a function, with a learned noise.

use std::sync::Arc;

use burn::tensor::Tensor;
use cagey_base::likelihoods::real::{Normal, Student, VaryingNormal};
use serde::{Deserialize, Serialize};

use super::level::{level, spread};
use super::{Auxiliary, Density, Likelihood, Targets};
use crate::params::{Constraint, Parameter, Unit, shown};
use crate::scope::Scope;

/// The smallest learned noise variance, as a share of the target's variance. It keeps factorisations exact in double
/// precision.
const NOISE_FLOOR: f64 = 1e-6;

/// A noise variance or squared scale with an initial value in user units.
fn noise(variance: f64) -> Parameter {
    Parameter::new("noise", Unit::Variance, Constraint::Positive { floor: NOISE_FLOOR }, &[variance])
}

/// The level of the targets. Noise that the user did not give becomes a tenth of their variance.
fn start(noise: &mut Parameter, targets: Targets) -> f64 {
    if !noise.given {
        noise.put_internal(&[0.1 * spread(targets.y)]);
    }
    level(targets.y)
}

/// y = f(x) + ε, ε ~ N(0, σ² + known variance of the row): Gaussian noise with a learned variance, plus a known
/// variance for each row if there is one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Gaussian {
    /// σ², never below a millionth of the target's variance.
    pub noise: Parameter,
}

impl Gaussian {
    /// Makes noise with an initial variance in user units.
    pub fn new(variance: f64) -> Self {
        Self { noise: noise(variance) }
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
        Likelihood::set_units(self, target_sd);
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
        Some(self.variances(&scope.widened(), n, known))
    }

    fn scaled(&self) -> bool {
        true
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        vec![start(&mut self.noise, targets)]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(Normal { noise: self.noise.internal()[0] })
    }
}

/// y = f₀(x) + ε, ε ~ N(0, σ² exp(f₁(x))): Gaussian noise with a learned variance times the exponential of a second
/// latent function, which varies with the inputs.
///
/// The log density is not concave in both functions together, so that Newton's method needs a guard.
#[derive(Debug, Clone)]
pub struct Heteroscedastic {
    /// σ², the noise variance at which the second function is 0.
    pub noise: Parameter,
}

impl Heteroscedastic {
    /// Makes noise with an initial variance in user units.
    pub fn new(variance: f64) -> Self {
        Self { noise: noise(variance) }
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

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        vec![start(&mut self.noise, targets), 0.0]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(VaryingNormal { noise: self.noise.internal()[0] })
    }
}

/// y = f(x) + σ t, where t has Student's distribution: outliers have little influence.
///
/// The log density is not concave: its second derivative is positive beyond `|y − f| = σ√ν`.
#[derive(Debug, Clone)]
pub struct StudentT {
    /// σ², the squared scale; the variance is `σ² ν/(ν − 2)`.
    pub noise: Parameter,
    /// Degrees of freedom ν, above 1.
    pub df: Parameter,
}

impl StudentT {
    /// Makes noise with an initial squared scale in user units and initial degrees of freedom.
    pub fn new(square: f64, df: f64) -> Self {
        let df = Parameter::new("df", Unit::None, Constraint::Positive { floor: 1.0 }, &[df]);
        Self { noise: noise(square), df }
    }
}

crate::parameters!(StudentT { "noise": noise, "df": df });

impl Likelihood for StudentT {
    fn text(&self) -> String {
        format!("student-t({})", shown(self.df.values()[0]))
    }

    fn scaled(&self) -> bool {
        true
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        vec![start(&mut self.noise, targets)]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(Student { own: [self.noise.internal()[0], self.df.internal()[0]] })
    }
}
