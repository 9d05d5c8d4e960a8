//! The options of the regression of labels.

use serde::{Deserialize, Serialize};

use super::LabelRegression;
use crate::advice::Advice;
use crate::error::{Error, Result};
use crate::likelihoods::Likelihood;
use crate::means::Mean;
use crate::models::gp_model::GpModel;
use crate::models::options::{Context, Kind, ModelOptions, Parts, setters};
use crate::params;
use crate::train::{EarlyStopping, Optimizer, TrainConfig};

/// A regression of the labels of classes: one factorisation for all classes, n³ time, n² memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LabelRegressionOptions {
    /// The most rows that hyperparameters and the scale are learned from.
    pub subset: usize,
    /// The most rows that it is conditioned on; of more, so many at random.
    pub rows: usize,
}

impl Default for LabelRegressionOptions {
    fn default() -> Self {
        Self { subset: 3000, rows: 20_000 }
    }
}

setters!(LabelRegressionOptions { subset: usize, rows: usize });

impl Kind for LabelRegressionOptions {
    const NAME: &'static str = "label-regression";
    const CLASSES: bool = true;
}

impl ModelOptions for LabelRegressionOptions {
    fn build(&self, Parts { likelihood, prior }: Parts, context: &Context) -> Result<Box<dyn GpModel>> {
        if let Mean::Linear { .. } = prior.mean {
            let problem = "a regression of labels has the shares of the classes as its mean, and no slopes";
            return Err(Error::Usage(problem.into()).set("Settings::mean", "auto"));
        }
        let model = LabelRegression::boxed(prior.kernel, likelihood);
        Ok(Box::new(LabelRegression {
            subset: self.subset.max(1),
            rows: self.rows.max(1),
            seed: context.seed,
            ..model
        }))
    }

    /// A race would evaluate all rows.
    fn races(&self) -> bool {
        false
    }

    /// Only the ratio of the kernel's variance to that of the noise matters: the prior keeps both near the labels'.
    fn variance_prior(&self, _likelihood: &dyn Likelihood) -> Option<params::Prior> {
        Some(params::Prior::Gamma(2.0, 1.0))
    }

    /// Left-out rows can be overfitted, by many lengthscales too: it ends once steps hardly pay.
    fn training(&self, _rows: usize) -> TrainConfig {
        let rule = EarlyStopping { patience: 10, improvement: 1e-2 };
        TrainConfig::new(Optimizer::default(), 200).early_stopping(rule)
    }

    fn smaller(&self) -> Advice {
        Advice::from("condition on fewer rows").about("LabelRegressionOptions::rows")
    }
}

#[cfg(feature = "command")]
mod command {
    use super::{LabelRegressionOptions, Result};
    use crate::models::command::{Given, Offered};
    use crate::values::{self, MOST};

    /// The arguments of the regression of labels.
    #[derive(Debug, Clone, clap::Args)]
    #[group(skip)]
    pub struct Arguments {
        /// Rows that the hyperparameters of a regression of labels are learned from [default: 3000]
        #[arg(long, value_name = "ROWS", value_parser = values::count(1..=MOST))]
        subset: Option<usize>,
        /// Rows that a regression of labels is conditioned on; of more, so many at random [default: 20000]
        #[arg(long, value_name = "ROWS", value_parser = values::count(1..=MOST))]
        most_rows: Option<usize>,
    }

    impl Offered for LabelRegressionOptions {
        const ABOUT: &'static str = "Classes as a regression of their labels: many classes for the time of one";

        type Arguments = Arguments;

        fn from_arguments(Arguments { subset, most_rows }: Arguments, _given: &Given) -> Result<Self> {
            let usual = Self::default();
            Ok(Self { subset: subset.unwrap_or(usual.subset), rows: most_rows.unwrap_or(usual.rows) })
        }
    }
}
