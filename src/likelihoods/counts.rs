//! Counts: of trials, or without end.

use std::sync::Arc;

pub use cagey_base::likelihoods::counts::RateLink;
use cagey_base::likelihoods::counts::{Counts, GammaPoisson, Successes};

use super::{Auxiliary, Density, Likelihood, Row, Targets};
use crate::arithmetic::special::{logit, softplus_inverse};
use crate::params::{Constraint, Parameter, Unit, shown};

/// The number of events per unit of exposure, never 0.
fn rate(targets: Targets) -> f64 {
    let rows = targets.rows(Auxiliary::Exposure);
    let (events, exposure) = rows.fold((0.0, 0.0), |(y, e), row| (y + row.y, e + row.auxiliary));
    f64::max(events, 0.5) / f64::max(exposure, f64::MIN_POSITIVE)
}

/// Numbers of successes among trials: y ~ Binomial(trials, 1/(1 + e⁻ᶠ)). The auxiliary column has the numbers of
/// trials.
#[derive(Debug, Clone)]
pub struct Binomial;

crate::parameters!(Binomial {});

impl Likelihood for Binomial {
    fn text(&self) -> String {
        "binomial".into()
    }

    fn auxiliary(&self) -> Auxiliary {
        Auxiliary::Trials
    }

    fn check_row(&self, row: Row) -> Result<(), String> {
        if row.y < 0.0 || row.y.fract() != 0.0 {
            Err("is not a number of successes: give whole numbers from 0, and shares as successes and trials".into())
        } else if row.y > row.auxiliary {
            Err(format!(
                "exceeds its number of trials, {}; name the column of trials, and check that the two are not swapped",
                row.auxiliary
            ))
        } else {
            Ok(())
        }
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        let rows = targets.rows(Auxiliary::Trials);
        let (successes, trials) = rows.fold((0.5, 1.0), |(y, n), row| (y + row.y, n + row.auxiliary));
        vec![logit(successes / trials)]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(Successes)
    }
}

/// Counts whose variance equals their mean: y ~ Poisson(exposure · g(f)).
#[derive(Debug, Clone)]
pub struct Poisson {
    /// The map from the latent function to the rate.
    pub link: RateLink,
}

crate::parameters!(Poisson {});

impl Likelihood for Poisson {
    fn text(&self) -> String {
        self.link.text()
    }

    fn auxiliary(&self) -> Auxiliary {
        Auxiliary::Exposure
    }

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        let rate = rate(targets);
        vec![match self.link {
            RateLink::Exp => rate.ln(),
            RateLink::Softplus => softplus_inverse(rate),
        }]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(Counts { link: self.link })
    }
}

/// Counts that scatter more than with Poisson, with mean μ = exposure · exp(f) and variance μ + αμ²: those of a Poisson
/// distribution whose rate has a gamma distribution.
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

    fn initialise(&mut self, targets: Targets) -> Vec<f64> {
        vec![rate(targets).ln()]
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(GammaPoisson::new(self.dispersion.internal()[0]))
    }
}
