//! The options of Laplace's approximation: none.

use serde::{Deserialize, Serialize};

use super::LaplaceGp;
use crate::advice::Advice;
use crate::error::Result;
use crate::likelihoods::Likelihood;
use crate::models::gp_model::GpModel;
use crate::models::options::{Context, Kind, ModelOptions, Parts};
use crate::models::prior::alike;
use crate::models::start::variance_of_classes;
use crate::params;

/// Any likelihood, approximated around the mode and not further: n³ time, n² memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LaplaceOptions {}

impl Kind for LaplaceOptions {
    const NAME: &'static str = "laplace";
    const ANY_LIKELIHOOD: bool = true;
}

impl ModelOptions for LaplaceOptions {
    fn build(&self, Parts { likelihood, prior }: Parts, _context: &Context) -> Result<Box<dyn GpModel>> {
        let corrected = alike(&*likelihood);
        Ok(Box::new(LaplaceGp { corrected, ..LaplaceGp::boxed(prior, likelihood) }))
    }

    fn leaves_targets_out(&self, latents: usize) -> bool {
        latents == 1
    }

    fn variance_prior(&self, likelihood: &dyn Likelihood) -> Option<params::Prior> {
        variance_of_classes(likelihood)
    }

    fn smaller(&self) -> Advice {
        Advice::from("choose a variational model").about("Settings::model")
    }
}

#[cfg(feature = "command")]
mod command {
    use super::{LaplaceOptions, Result};
    use crate::models::command::{Given, NoArguments, Offered};

    /// Up to so many rows of counts or two classes, it has the scores of a variational model in less time. For more
    /// classes, whose evidence has no correction, its scores are worse.
    const ROWS: usize = 2000;

    impl Offered for LaplaceOptions {
        const ABOUT: &'static str = "Any likelihood about the mode: time grows with the cube of the rows";

        type Arguments = NoArguments;

        fn from_arguments(_arguments: NoArguments, _given: &Given) -> Result<Self> {
            Ok(Self {})
        }

        fn is_usual(likelihood: &str, rows: usize) -> bool {
            let name = likelihood.split('(').next();
            matches!(name, Some("poisson" | "negative-binomial" | "bernoulli")) && rows <= ROWS
        }
    }
}
