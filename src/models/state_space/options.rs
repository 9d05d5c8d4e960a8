//! The options of the state-space model.

use serde::{Deserialize, Serialize};

use super::{Program, StateSpaceGp, StateSpaceLaplaceGp};
use crate::advice::Advice;
use crate::error::Result;
use crate::likelihoods::{Gaussian, Likelihood};
use crate::models::gp_model::GpModel;
use crate::models::options::{Context, Kind, ModelOptions, Parts};
use crate::models::start::variance_of_classes;
use crate::params;

/// Over one input column in n time: without approximation, or about the mode for other likelihoods than the Gaussian.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StateSpaceOptions {}

impl Kind for StateSpaceOptions {
    const NAME: &'static str = "state-space";
    const ANY_LIKELIHOOD: bool = true;
}

impl ModelOptions for StateSpaceOptions {
    fn build(&self, Parts { likelihood, prior }: Parts, context: &Context) -> Result<Box<dyn GpModel>> {
        Program::of(&prior.kernel, context.data.d)?;
        Ok(match likelihood.noise() {
            Some(_) => Box::new(StateSpaceGp { prior, likelihood: Gaussian::new(0.1) }),
            None => Box::new(StateSpaceLaplaceGp::boxed(prior, likelihood)?),
        })
    }

    fn variance_prior(&self, likelihood: &dyn Likelihood) -> Option<params::Prior> {
        variance_of_classes(likelihood)
    }

    fn leaves_one_out(&self) -> bool {
        true
    }

    fn leaves_targets_out(&self, latents: usize) -> bool {
        latents == 1
    }

    fn smaller(&self) -> Advice {
        Advice::from("fit fewer rows")
    }
}

#[cfg(feature = "command")]
mod command {
    use super::{Result, StateSpaceOptions};
    use crate::models::command::{Given, NoArguments, Offered};

    impl Offered for StateSpaceOptions {
        const ABOUT: &'static str = "Without approximation over one input column, such as time, or about the mode for \
             counts and classes: time grows with the rows";

        const EXAMPLE: Option<&'static str> = Some(
            "cagey fit series.csv --dates --model state-space \
                 --kernel \"wiener(order=2) + periodic(period=1, fix=period) * wiener\"",
        );

        type Arguments = NoArguments;

        fn from_arguments(_arguments: NoArguments, _given: &Given) -> Result<Self> {
            Ok(Self {})
        }
    }
}
