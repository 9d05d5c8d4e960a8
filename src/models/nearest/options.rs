//! The options of the GP on nearest neighbours.

use serde::{Deserialize, Serialize};

use super::NearestGp;
use crate::advice::Advice;
use crate::error::{Error, Result};
use crate::likelihoods::Gaussian;
use crate::models::gp_model::GpModel;
use crate::models::minibatch::Minibatches;
use crate::models::options::{Context, Kind, ModelOptions, Parts, setters};
use crate::train::{Adam, Cooling, Optimizer, TrainConfig};

/// A GP that predicts each row from the rows nearest to it: H³ time for a row, any number of rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NearestOptions {
    /// The number H of rows that predict a row.
    pub neighbours: usize,
    /// The same in training, at most H.
    pub trained: usize,
    /// How training goes through the data.
    pub batches: Minibatches,
}

impl Default for NearestOptions {
    fn default() -> Self {
        Self { neighbours: 256, trained: 100, batches: Minibatches { size: 128, ..Minibatches::default() } }
    }
}

setters!(NearestOptions { neighbours: usize, trained: usize, batches: Minibatches });

impl Kind for NearestOptions {
    const NAME: &'static str = "nearest";
}

impl ModelOptions for NearestOptions {
    fn build(&self, Parts { prior, .. }: Parts, _context: &Context) -> Result<Box<dyn GpModel>> {
        let (neighbours, trained) = (self.neighbours, self.trained.min(self.neighbours));
        Ok(Box::new(NearestGp { prior, likelihood: Gaussian::new(0.1), neighbours, trained }))
    }

    fn check(&self, _rows: usize) -> Result<()> {
        match self.neighbours.min(self.trained) {
            0 => Err(Error::Usage("a row needs at least one neighbour".into()).about("NearestOptions::neighbours")),
            _ => Ok(()),
        }
    }

    fn minibatches(&self) -> Option<&Minibatches> {
        Some(&self.batches)
    }

    /// Ends when the loss is flat, which the epochs of many rows are too long to tell.
    fn training(&self, rows: usize) -> TrainConfig {
        let adam = Adam { rate: 0.1, ..Adam::default() };
        let steps = if rows <= 100 * self.batches.size { 400 } else { 200 };
        TrainConfig::new(Optimizer::Adam(adam), steps).cooling(Cooling { steps: 80 })
    }

    fn smaller(&self) -> Advice {
        Advice::from("predict from fewer rows").about("NearestOptions::neighbours")
    }
}

#[cfg(feature = "command")]
mod command {
    use super::{Minibatches, NearestOptions, Result};
    use crate::models::command::{Given, Offered};
    use crate::values::{self, MOST};

    /// The default up to so many rows, all of which every step compares with those of its batch.
    const ROWS: usize = 2_000_000;

    /// The arguments of the GP on nearest neighbours. Their help is also for the models that share them.
    #[derive(Debug, Clone, clap::Args)]
    #[group(skip)]
    pub struct Arguments {
        /// Number of nearest rows (nearest) or inducing inputs (swsgp) that predict a row [default: 256; swsgp: 16]
        #[arg(long, value_name = "H", value_parser = values::count(1..=MOST))]
        neighbors: Option<usize>,
        /// Rows of a minibatch [default: 128; svgp and swsgp: 1024]
        #[arg(long, value_name = "ROWS", value_parser = values::count(1..=MOST))]
        batch: Option<usize>,
    }

    impl Offered for NearestOptions {
        const ABOUT: &'static str = "Each row from its nearest rows: any number of rows, all their detail";

        const INSTEAD_OF_EXACT: Option<&'static str> = Some("a model of nearest rows");

        type Arguments = Arguments;

        fn from_arguments(Arguments { neighbors, batch }: Arguments, _given: &Given) -> Result<Self> {
            let usual = Self::default();
            let size = batch.unwrap_or(usual.batches.size);
            let neighbours = neighbors.unwrap_or(usual.neighbours);
            Ok(Self { neighbours, batches: Minibatches { size, ..usual.batches }, ..usual })
        }

        fn is_usual(likelihood: &str, rows: usize) -> bool {
            likelihood.starts_with("gaussian") && rows <= ROWS
        }
    }
}
