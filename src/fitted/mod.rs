//! A model together with the data it was fitted to: from a table to predictions in its own units, and to one file.

mod advice;
mod build;
mod columns;
mod file;
mod plan;
mod precision;
mod registry;
mod settings;
mod stored;
mod weak_prior;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use plan::{Cost, Plan};
pub use registry::Registry;
pub use settings::Settings;

use crate::data::{Dataset, InputScale, Schema, TargetScale};
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::metrics::{Predictive, TargetPrediction};
use crate::models::Observations;
use crate::models::exact::ExactPosterior;
use crate::models::gp_model::GpModel;
use crate::models::posterior::{Marginals, Posterior};
use crate::models::race::Race;
use crate::train::{History, Observer, TrainConfig};
use columns::{Inputs, row_values};

/// How a model came to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Rows of training data.
    pub rows: usize,
    /// `Adam` or `L-BFGS`.
    pub optimizer: String,
    /// Why training ended, in words.
    pub termination: String,
    /// Best objective per row, priors included.
    pub loss: f64,
    /// Steps of all runs.
    pub iterations: usize,
    /// Evaluations of the objective in all runs.
    pub evaluations: usize,
    /// Seconds of training.
    pub seconds: f64,
    /// Seed of restarts and minibatches.
    pub seed: u64,
    /// Final loss of each restart, none where it failed.
    pub restarts: Vec<Option<f64>>,
    /// The prior that lengthscales have unasked, in words.
    #[serde(default)]
    pub weak_prior: Option<String>,
    /// How the starts compared, where there were several.
    #[serde(default)]
    pub race: Option<Race>,
    /// What looks degenerate, with advice.
    pub warnings: Vec<String>,
    /// The learning curve.
    pub history: History,
}

/// A fitted model: what `cagey fit` writes and every other command reads.
#[derive(Debug, Clone)]
pub struct Fitted {
    /// How columns are read.
    pub schema: Schema,
    /// What was asked for.
    pub settings: Settings,
    /// The inputs' standardisation.
    pub input_scale: InputScale,
    /// The target's transform and standardisation.
    pub target_scale: TargetScale,
    /// The model with its learned parameters.
    pub model: Box<dyn GpModel>,
    /// How it was trained.
    pub summary: Summary,
    data: Observations,
    posterior: Arc<dyn Posterior>,
}

impl Fitted {
    /// Fits a model to a table: a [`Plan`], carried out.
    ///
    /// # Errors
    /// As [`Plan::new`] and [`Plan::train`].
    pub fn fit(
        schema: Schema,
        data: &Dataset,
        settings: Settings,
        config: &TrainConfig,
        registry: &Registry,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Self> {
        Plan::new(schema, data, settings, config.seed, registry)?.train(config, observers)
    }

    /// The posterior over the latent functions, in standardised units.
    pub fn posterior(&self) -> &dyn Posterior {
        &*self.posterior
    }

    /// The exact posterior.
    ///
    /// # Errors
    /// [`Error::Usage`] for other models; `what` needs it.
    pub fn exact(&self, what: &str) -> Result<&ExactPosterior> {
        let problem = || Error::Usage(format!("{what} is for exact models; fit with `--model exact`"));
        self.posterior.exact().ok_or_else(problem)
    }

    /// Prior covariance, of the first latent function where they differ.
    pub fn kernel(&self) -> &Kernel {
        &self.model.prior().kernel
    }

    /// The observations conditioned on, in standardised units; where predictions need none, only some of them to draw.
    pub fn data(&self) -> &Observations {
        &self.data
    }

    /// Standardised inputs of a table, and the auxiliary values of its rows.
    ///
    /// # Errors
    /// [`Error::Data`] when the column of those is missing or has a value that is none, [`Error::Shape`] when columns differ.
    pub fn standardise(&self, data: &Dataset) -> Result<(Vec<f64>, Option<Vec<f64>>)> {
        let Inputs { x, extra, .. } = Inputs::of(data, self.settings.row_column.as_deref())?;
        let auxiliary = self.model.likelihood().auxiliary();
        for (value, row) in extra.iter().flatten().zip(&data.rows) {
            if let Some(problem) = auxiliary.problem(*value) {
                return Err(Error::Data(format!("row {row}: {problem}")));
            }
        }
        Ok((self.input_scale.apply(&x)?, extra.map(|extra| row_values(auxiliary, extra, &self.target_scale))))
    }

    /// Checks the targets of a table, and what goes with its rows, against the likelihood.
    ///
    /// # Errors
    /// [`Error::Data`] naming the first row that does not fit.
    pub fn check_targets(&self, data: &Dataset) -> Result<()> {
        columns::check_targets(self.model.likelihood(), data, self.settings.row_column.as_deref())
    }

    /// Names of the input columns, in the order of the kernel's `dims`.
    pub fn input_names(&self) -> Vec<String> {
        columns::input_names(&self.schema, self.settings.row_column.as_deref())
    }

    /// What makes predictions poor whatever they are asked for: a training on one row, or on one value of the target.
    pub fn caution(&self) -> Option<String> {
        advice::few(self.summary.rows, &self.data.y, &self.schema.target)
    }

    /// Whether targets are Gaussian given the latent function, so that their distributions have a closed form.
    pub fn is_gaussian(&self) -> bool {
        self.noise().is_some()
    }

    /// The learned noise variance of a Gaussian likelihood, standardised.
    pub fn noise(&self) -> Option<f64> {
        self.model.likelihood().noise()
    }

    /// The distribution of y at the rows of a table, for a Gaussian likelihood.
    ///
    /// # Errors
    /// As [`standardise`](Self::standardise); [`Error::Usage`] for other likelihoods, which
    /// [`predict_targets`](Self::predict_targets) is for.
    pub fn predict(&self, data: &Dataset) -> Result<Vec<Predictive>> {
        let Some(learned) = self.noise() else {
            let likelihood = self.model.likelihood().text();
            return Err(Error::Usage(format!("predictions under the {likelihood} likelihood have no closed form")));
        };
        let (x, known) = self.standardise(data)?;
        let mut marginals = self.posterior.predict(&x)?;
        for (i, variance) in marginals.variance.iter_mut().enumerate() {
            *variance += learned + known.as_ref().map_or(0.0, |known| known[i]);
        }
        Ok(self.in_user_units(&marginals))
    }

    /// The distribution of y at the rows of a table, for any likelihood and an untransformed target.
    ///
    /// # Errors
    /// As [`standardise`](Self::standardise).
    pub fn predict_targets(&self, data: &Dataset) -> Result<Vec<TargetPrediction>> {
        let (x, extra) = self.standardise(data)?;
        self.targets_at(&x, extra.as_deref())
    }

    /// The distribution of y at standardised inputs, row-major, for any likelihood and an untransformed target; without auxiliary
    /// values with the neutral one: exposure 1, one trial.
    ///
    /// # Errors
    /// As the posterior's.
    pub fn targets_at(&self, x: &[f64], extra: Option<&[f64]>) -> Result<Vec<TargetPrediction>> {
        let latents = self.posterior.marginals(x)?;
        let likelihood = self.model.likelihood();
        let TargetScale { mean, sd, .. } = self.target_scale;
        (0..latents[0].mean.len())
            .map(|i| {
                let means: Vec<f64> = latents.iter().map(|latent| latent.mean[i]).collect();
                let variances: Vec<f64> = latents.iter().map(|latent| latent.variance[i]).collect();
                let standardised = likelihood.predict(&means, &variances, extra.map(|extra| extra[i]))?;
                Ok(TargetPrediction { standardised, mean, sd })
            })
            .collect()
    }

    /// The distribution of the latent function f at the rows of a table.
    ///
    /// # Errors
    /// As [`standardise`](Self::standardise).
    pub fn predict_latent(&self, data: &Dataset) -> Result<Vec<Predictive>> {
        let (x, _) = self.standardise(data)?;
        Ok(self.in_user_units(&self.posterior.predict(&x)?))
    }

    /// The same model with at most so many more actions: more computation, narrower error bars, the same parameters.
    ///
    /// # Errors
    /// [`Error::Usage`] for models whose uncertainty does not depend on computation, and what the solve reports.
    pub fn refined(&self, actions: usize) -> Result<Self> {
        let Some(posterior) = self.posterior.computation_aware() else {
            return Err(Error::Usage(format!(
                "more actions are for computation-aware models, and this is: {}",
                self.model.title()
            )));
        };
        Ok(Self { posterior: posterior.refined(actions)?.into(), ..self.clone() })
    }

    /// Leave-one-out predictions of the training targets, in closed form, with those targets.
    ///
    /// # Errors
    /// [`Error::Usage`] for models other than the exact one.
    pub fn leave_one_out(&self) -> Result<(Vec<f64>, Vec<Predictive>)> {
        let marginals = self.exact("leaving one out in closed form")?.leave_one_out();
        let y = self.data.y.iter().map(|z| self.target_scale.inverse(*z)).collect();
        Ok((y, self.in_user_units(&marginals)))
    }

    /// Marginals in standardised units as distributions in the user's.
    pub fn in_user_units(&self, marginals: &Marginals) -> Vec<Predictive> {
        let pairs = marginals.mean.iter().zip(&marginals.variance);
        pairs.map(|(mean, variance)| self.target_scale.predictive(*mean, variance.sqrt())).collect()
    }
}
