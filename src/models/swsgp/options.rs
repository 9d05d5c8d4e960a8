//! The options of the sparse-within-sparse GP.

use serde::{Deserialize, Serialize};

use super::Swsgp;
use crate::advice::Advice;
use crate::error::Result;
use crate::models::gp_model::GpModel;
use crate::models::minibatch::Minibatches;
use crate::models::options::{Context, Kind, ModelOptions, Parts, setters};
use crate::models::svgp::{Svgp, SvgpOptions};
use crate::models::variational::Covariance;
use crate::train::TrainConfig;

/// A sparse-within-sparse GP: every row sees only its nearest inducing inputs, in b H³ time for each step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SwsgpOptions {
    /// The number of inducing inputs M.
    pub inducing: usize,
    /// The number of neighbours H of a row.
    pub neighbours: usize,
    /// The weight of the divergence in the objective, more than 0.
    pub divergence: f64,
    /// Whether all rows of a minibatch see the neighbours of all its rows (SWSGP-U).
    pub union: bool,
    /// The [noise](Swsgp::nugget) of inducing values. If it is 0, q starts far from the prior; otherwise it starts
    /// there, and a model in which each row sees all inducing inputs is the variational one.
    pub nugget: f64,
    /// The covariance of the distribution of inducing values.
    pub covariance: Covariance,
    /// How training goes through the data.
    pub batches: Minibatches,
}

/// With fewer rows than this for each inducing input, intervals were too narrow in experiments.
const ROWS_PER_INDUCING: usize = 16;

/// With at least so many inducing values, their covariances cost far more than the rest of a step.
const MANY_INDUCING: usize = 2048;

/// The noise of inducing values by default, as a share of their prior variance.
const NUGGET: f64 = 1e-3;

impl SwsgpOptions {
    /// Whether each row sees all of so many inducing inputs, with the usual weight of the divergence: what remains is
    /// the variational model.
    fn sees_all(&self, inducing: usize) -> bool {
        self.nugget > 0.0 && self.neighbours >= inducing && self.divergence == 1.0
    }
}

impl Default for SwsgpOptions {
    /// 512 inducing inputs, 16 of them for each row.
    fn default() -> Self {
        let (covariance, batches) = (Covariance::Full, Minibatches::default());
        Self { inducing: 512, neighbours: 16, divergence: 1.0, union: false, nugget: NUGGET, covariance, batches }
    }
}

setters!(SwsgpOptions {
    inducing: usize,
    neighbours: usize,
    divergence: f64,
    union: bool,
    nugget: f64,
    covariance: Covariance,
    batches: Minibatches,
});

impl Kind for SwsgpOptions {
    const NAME: &'static str = "swsgp";
    const ANY_LIKELIHOOD: bool = true;
}

impl ModelOptions for SwsgpOptions {
    fn build(&self, Parts { likelihood, prior }: Parts, context: &Context) -> Result<Box<dyn GpModel>> {
        let (z, d) = (context.inducing(&prior.kernel, self.inducing)?, context.data.d);
        if self.sees_all(z.len() / d.max(1)) {
            let mut model = Svgp::boxed(prior.kernel, &z, d, likelihood)?.covariance(self.covariance);
            model.processes[0].prior.mean = prior.mean;
            return Ok(Box::new(model));
        }
        // If the data have few distinct rows, there are fewer inducing inputs than asked for.
        let neighbours = self.neighbours.min(z.len() / d.max(1));
        let mut model = Swsgp::boxed(prior.kernel, &z, d, neighbours, likelihood)?.covariance(self.covariance);
        (model.process.prior.mean, model.nugget) = (prior.mean, self.nugget);
        (model.divergence, model.union) = (self.divergence, self.union);
        Ok(Box::new(model))
    }

    fn minibatches(&self) -> Option<&Minibatches> {
        Some(&self.batches)
    }

    fn training(&self, rows: usize) -> TrainConfig {
        SvgpOptions { inducing: self.inducing, covariance: self.covariance, batches: self.batches.clone() }
            .training(rows)
    }

    /// Warns of too many inducing inputs for the rows: each is then held to the prior by few neighbours only.
    fn warnings(&self, rows: usize) -> Vec<Advice> {
        let Self { inducing, neighbours, divergence, union, ref batches, .. } = *self;
        let seen = if union { inducing.min(neighbours * batches.size.min(rows)) } else { neighbours };
        let (most, once) = ((rows / ROWS_PER_INDUCING).max(1), inducing as f64 / seen as f64);
        let crowded = inducing > most && divergence < 0.5 * once;
        let warning = crowded.then(|| {
            let text = format!(
                "{inducing} inducing inputs are many for {rows} rows: a sparse within sparse GP with {neighbours} \
                 neighbours becomes overconfident. Hold them to the prior by a larger weight of the divergence, take \
                 fewer of them or the union of neighbours, or compare with a variational model"
            );
            Advice::from(text)
                .set("SwsgpOptions::divergence", format_args!("{once:.0}"))
                .set("SwsgpOptions::inducing", most)
                .about("SwsgpOptions::union")
                .about("Settings::model")
        });
        warning.into_iter().collect()
    }

    /// Advises on covariances that take most of a step: it moves those of all inducing values, but a batch sees only a
    /// few of the values.
    fn shorter(&self, rows: usize) -> Option<Advice> {
        let inducing = self.inducing.min(rows);
        let covariances = self.covariance == Covariance::Full && inducing >= MANY_INDUCING;
        covariances.then(|| {
            let millions = (inducing * (inducing + 1) / 2) as f64 / 1e6;
            let text = format!(
                "the covariances of {inducing} inducing values are {millions:.1} million numbers, and a step moves \
                 all of them; without covariances it moves variances only"
            );
            Advice::from(text).set("SwsgpOptions::covariance", "diagonal")
        })
    }

    fn smaller(&self) -> Advice {
        Advice::from("choose fewer inducing inputs").about("SwsgpOptions::inducing")
    }
}

#[cfg(feature = "command")]
mod command {
    use super::{Covariance, Minibatches, NUGGET, Result, SwsgpOptions};
    use crate::models::command::{BatchArguments, Given, InducingArguments, Offered};
    use crate::values::{self, MOST};

    /// The arguments of the sparse-within-sparse GP.
    #[derive(Debug, Clone, clap::Args)]
    #[group(skip)]
    pub struct Arguments {
        #[command(flatten)]
        inducing: InducingArguments,
        #[command(flatten)]
        batches: BatchArguments,
        /// Number of nearest inducing inputs (swsgp) or rows (nearest) that predict a row [default: 16; nearest: 256]
        #[arg(long, value_name = "H", value_parser = values::count(1..=MOST))]
        neighbors: Option<usize>,
        /// Weight of the divergence from the prior in the objective of swsgp: 1 as published; with the ratio of
        /// inducing inputs to neighbours, each inducing value counts about once [default: 1]
        #[arg(long, value_name = "WEIGHT", value_parser = values::positive)]
        divergence: Option<f64>,
        /// Use the neighbours of all rows of a minibatch of swsgp for each of its rows, and all inducing inputs in
        /// predictions (SWSGP-U): slower and closer to the variational model
        #[arg(long)]
        union: bool,
    }

    impl Offered for SwsgpOptions {
        const ABOUT: &'static str = "Sparse within sparse: each row sees its nearest inducing inputs only";

        const TAKES_MINIBATCHES: bool = true;

        type Arguments = Arguments;

        fn from_arguments(arguments: Arguments, given: &Given) -> Result<Self> {
            let Arguments { inducing, batches, neighbors, divergence, union } = arguments;
            let (count, covariance) = (inducing.count(), batches.covariance());
            let plain = Self {
                inducing: count,
                neighbours: neighbors.unwrap_or(16),
                divergence: divergence.unwrap_or(1.0),
                union,
                nugget: NUGGET,
                covariance,
                batches: Minibatches { size: batches.size(), natural: None, ..Minibatches::default() },
            };
            let natural = plain.sees_all(count.min(given.rows)) && covariance == Covariance::Full && !given.lbfgs;
            let batches = Minibatches { natural: natural.then_some(0.1), ..plain.batches.clone() };
            Ok(Self { batches, ..plain })
        }
    }
}
