//! The options of the state-space model.

use serde::{Deserialize, Serialize};

use super::{Program, StateSpaceGp};
use crate::advice::Advice;
use crate::error::Result;
use crate::likelihoods::Gaussian;
use crate::models::gp_model::GpModel;
use crate::models::options::{Context, Kind, ModelOptions, Parts};

/// Without approximation over one input column: n time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateSpaceOptions {}

impl Kind for StateSpaceOptions {
    const NAME: &'static str = "state-space";
}

impl ModelOptions for StateSpaceOptions {
    fn build(&self, Parts { prior, .. }: Parts, context: &Context) -> Result<Box<dyn GpModel>> {
        Program::of(&prior.kernel, context.data.d)?;
        Ok(Box::new(StateSpaceGp { prior, likelihood: Gaussian::new(0.1) }))
    }

    fn leaves_one_out(&self) -> bool {
        true
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
        const ABOUT: &'static str =
            "Without approximation over one input column, such as time: time grows with the rows";

        type Arguments = NoArguments;

        fn from_arguments(_arguments: NoArguments, _given: &Given) -> Result<Self> {
            Ok(Self {})
        }

        fn example() -> Option<&'static str> {
            Some(
                "cagey fit series.csv --dates --model state-space --kernel \"wiener(order=2) + periodic(period=365.25) * wiener\"",
            )
        }
    }
}
