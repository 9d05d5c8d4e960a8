//! The options of the exact GP.

use serde::{Deserialize, Serialize};

use super::{ExactGp, ExactObjective};
use crate::advice::Advice;
use crate::error::Result;
use crate::likelihoods::Gaussian;
use crate::models::gp_model::GpModel;
use crate::models::options::{Context, Kind, ModelOptions, Parts, setters};
use crate::models::prior::Prior;

/// Without approximation: n³ time, n² memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExactOptions {
    /// What to minimise.
    pub objective: ExactObjective,
}

impl Default for ExactOptions {
    fn default() -> Self {
        Self { objective: ExactObjective::MarginalLikelihood }
    }
}

setters!(ExactOptions { objective: ExactObjective });

impl ExactOptions {
    pub(in crate::models) fn model(self, prior: Prior) -> ExactGp {
        ExactGp { prior, likelihood: Gaussian::new(0.1), objective: self.objective }
    }
}

impl Kind for ExactOptions {
    const NAME: &'static str = "exact";
}

impl ModelOptions for ExactOptions {
    fn build(&self, Parts { prior, .. }: Parts, _context: &Context) -> Result<Box<dyn GpModel>> {
        Ok(Box::new(self.model(prior)))
    }

    fn leaves_one_out(&self) -> bool {
        true
    }

    fn smaller(&self) -> Advice {
        Advice::from("choose an approximation").about("Settings::model")
    }
}

#[cfg(feature = "command")]
mod command {
    use super::{ExactObjective, ExactOptions, Result};
    use crate::models::command::{Given, Offered};

    /// Most rows for which the exact model is the default. Training on so many takes minutes.
    const ROWS: usize = 5_000;

    /// The arguments of the exact GP.
    #[derive(Debug, Clone, clap::Args)]
    #[group(skip)]
    pub struct Arguments {
        /// What an exact model minimises [default: ml]
        #[arg(long, value_name = "NAME", value_enum)]
        objective: Option<ExactObjective>,
    }

    impl Offered for ExactOptions {
        const ABOUT: &'static str = "Without approximation: time grows with the cube of the rows";

        type Arguments = Arguments;

        fn from_arguments(Arguments { objective }: Arguments, _given: &Given) -> Result<Self> {
            Ok(objective.map_or(Self::default(), |objective| Self { objective }))
        }

        fn is_usual(likelihood: &str, rows: usize) -> bool {
            likelihood.starts_with("gaussian") && rows <= ROWS
        }
    }
}
