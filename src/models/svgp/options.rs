//! The options of the variational GP.

use serde::{Deserialize, Serialize};

use super::Svgp;
use crate::advice::Advice;
use crate::error::Result;
use crate::models::gp_model::GpModel;
use crate::models::minibatch::Minibatches;
use crate::models::options::{Context, Kind, ModelOptions, Parts, setters};
use crate::models::prior::alike;
use crate::models::variational::Covariance;
use crate::train::{Adam, Cooling, Optimizer, TrainConfig};

/// A sparse variational GP on minibatches with any likelihood, in m³ + b m² time for each step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SvgpOptions {
    /// The number of inducing inputs m.
    pub inducing: usize,
    /// The covariance of the distribution of inducing values.
    pub covariance: Covariance,
    /// How training goes through the data.
    pub batches: Minibatches,
}

impl Default for SvgpOptions {
    /// 512 inducing inputs with all covariances, moved by natural gradients.
    fn default() -> Self {
        let batches = Minibatches { natural: Some(0.1), ..Minibatches::default() };
        Self { inducing: 512, covariance: Covariance::Full, batches }
    }
}

setters!(SvgpOptions { inducing: usize, covariance: Covariance, batches: Minibatches });

impl Kind for SvgpOptions {
    const NAME: &'static str = "svgp";
    const ANY_LIKELIHOOD: bool = true;
}

impl ModelOptions for SvgpOptions {
    fn build(&self, Parts { likelihood, prior }: Parts, context: &Context) -> Result<Box<dyn GpModel>> {
        let (z, d) = (context.inducing(&prior.kernel, self.inducing)?, context.data.d);
        // Latent functions with different meanings get a process each. The latent functions of classes share one.
        let (alike, mean) = (alike(&*likelihood), prior.mean);
        let mut model = Svgp::boxed(prior.kernel, &z, d, likelihood)?.covariance(self.covariance);
        model.processes[0].prior.mean = mean;
        // No other places are better than those of all rows.
        let all = context.rows() == context.data.n() && context.rows() <= self.inducing;
        model.processes[0].inducing.fixed = all;
        Ok(Box::new(if alike { model } else { model.separate() }))
    }

    fn minibatches(&self) -> Option<&Minibatches> {
        Some(&self.batches)
    }

    fn training(&self, rows: usize) -> TrainConfig {
        match self.batches.natural {
            None => self.batches.training(),
            // Where inducing inputs stay at the rows, q and the hyperparameters are soon found together.
            Some(_) if rows <= self.inducing.min(self.batches.size) => TrainConfig::while_it_pays(),
            Some(_) => {
                let adam = Adam { rate: 0.05, ..Adam::default() };
                TrainConfig::new(Optimizer::Adam(adam), 2000).cooling(Cooling { steps: 250 })
            }
        }
    }

    fn smaller(&self) -> Advice {
        Advice::from("choose fewer inducing inputs").about("SvgpOptions::inducing")
    }
}

#[cfg(feature = "command")]
mod command {
    use super::{Covariance, Minibatches, Result, SvgpOptions};
    use crate::models::command::{BatchArguments, Given, InducingArguments, Offered};
    use crate::values;

    /// The arguments of the variational GP.
    #[derive(Debug, Clone, clap::Args)]
    #[group(skip)]
    pub struct Arguments {
        #[command(flatten)]
        inducing: InducingArguments,
        #[command(flatten)]
        batches: BatchArguments,
        /// Rate, up to 1, of the natural-gradient steps of the variational distribution. With 0 the optimiser moves the
        /// distribution, as with --mean-field and L-BFGS [default: 0.1]
        #[arg(long, value_name = "RATE", value_parser = values::rate)]
        natural_gradients: Option<f64>,
    }

    impl Offered for SvgpOptions {
        const ABOUT: &'static str = "Sparse and variational: minibatches, any likelihood";

        const INSTEAD_OF_EXACT: Option<&'static str> = Some("a variational one on minibatches");

        const TAKES_MINIBATCHES: bool = true;

        type Arguments = Arguments;

        fn from_arguments(arguments: Arguments, _given: &Given) -> Result<Self> {
            let Arguments { inducing, batches, natural_gradients } = arguments;
            let covariance = batches.covariance();
            let natural = match natural_gradients {
                None if covariance == Covariance::Diagonal => None,
                None => Some(0.1),
                rate => rate.filter(|rate| *rate > 0.0),
            };
            let batches = Minibatches { size: batches.size(), natural, ..Minibatches::default() };
            Ok(Self { inducing: inducing.count(), covariance, batches })
        }

        fn is_usual(_likelihood: &str, _rows: usize) -> bool {
            true
        }
    }
}
