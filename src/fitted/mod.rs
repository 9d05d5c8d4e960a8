//! A model together with the data it was fitted to: from a table to predictions in the table's units, and to one file.

mod advice;
mod alternatives;
pub mod average;
mod build;
mod calibrate;
mod copies;
mod file;
mod fit;
mod forecast;
mod functions;
mod leak;
mod mixing;
mod outside;
mod plan;
mod precision;
mod predict;
mod settings;
pub mod structure;
mod trust;
mod useless;
mod weak_prior;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use alternatives::Alternative;
pub use average::Member;
pub use copies::{Copies, knows_noise, rows_that_count};
pub use fit::Fit;
pub use forecast::Ahead;
pub use functions::Paths;
pub use outside::Outside;
pub use plan::{Cost, Plan};
pub use settings::{Calibrate, Settings};
pub use trust::LeftOut;

use crate::advice::Advice;
use crate::data::{Dataset, InputScale, Schema, TargetScale};
pub use crate::distributed::{Reading, Rows, Shard, Tables, Whereabouts};
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::metrics::{Calibration, Predictive, Source, Temperature};
use crate::models::Observations;
use crate::models::columns::{self, Inputs, Units};
use crate::models::gp_model::GpModel;
use crate::models::posterior::{Aggregates, Exact, Posterior};
use crate::models::race::Race;
pub use crate::models::registry::Registry;
use crate::threads::helped;
use crate::train::{History, Observer, Termination, TrainConfig};

/// How a model was trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Rows of training data.
    pub rows: usize,
    /// `Adam`, `L-BFGS` or `gradient descent`.
    pub optimizer: String,
    /// Why training ended, in words.
    pub termination: String,
    /// Best objective per row, priors included.
    pub loss: f64,
    /// Its standard error, if it is a random estimate.
    pub loss_error: Option<f64>,
    /// Steps of all runs.
    pub iterations: usize,
    /// Evaluations of the objective in all runs.
    pub evaluations: usize,
    /// Seconds of training.
    pub seconds: f64,
    /// Seed of restarts and minibatches.
    pub seed: u64,
    /// Final loss of each restart; none if it failed.
    pub restarts: Vec<Option<f64>>,
    /// In words, the priors that parameters of the kernel have by default.
    pub weak_prior: Option<String>,
    /// How the starts compared, if there were several.
    pub race: Option<Race>,
    /// What was chosen before the training, by trials or a search, in words.
    #[serde(default)]
    pub chosen: Option<String>,
    /// The models of a search, each with its evidence or why it takes no part; empty if there was none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trail: Vec<String>,
    /// Models of an average that are left out because they have hardly any weight, or a transform of
    /// the inputs breaks them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unheard: Vec<String>,
    /// Warnings about what looks degenerate, with advice.
    pub warnings: Vec<Advice>,
    /// Whether the first warning says that predictions are no better than those without inputs.
    pub useless: bool,
    /// The range of each input over the training rows, standardised; for rows in a file, over a sample of them.
    pub ranges: Option<Vec<[f64; 2]>>,
    /// The learning curve.
    pub history: History,
}

impl Summary {
    /// Whether the training was ended by a time limit or an observer before it came to an end by itself.
    pub fn is_cut_short(&self) -> bool {
        [Termination::MaxTime, Termination::Interrupted].iter().any(|reason| self.termination == reason.to_string())
    }
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
    /// The distribution of residuals that replaces the normal one in its predictions of targets.
    pub calibration: Option<Calibration>,
    /// The temperature that sharpens or flattens its probabilities of classes.
    pub temperature: Option<Temperature>,
    data: Observations,
    /// Where the rows are, if none are in `data`.
    whereabouts: Option<Whereabouts>,
    posterior: Arc<dyn Posterior>,
    /// The models of an average, the heaviest first: all other fields are its. None of a single model.
    members: Arc<[Member]>,
}

impl Fitted {
    /// Fits a model to a table: makes a [`Plan`] and trains it. [`Fit`] does the same with defaults.
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

    /// The posterior over the latent functions, in standardised units; of an average, that of its heaviest member.
    pub fn posterior(&self) -> &dyn Posterior {
        &*self.posterior
    }

    /// What only exact posteriors can compute.
    ///
    /// # Errors
    /// [`Error::Usage`] for other models. The message names `what` needs it.
    pub fn exact(&self, what: &str) -> Result<&dyn Exact> {
        let problem = || Error::Usage(format!("{what} is for exact models; fit one")).set("Settings::model", "exact");
        self.posterior.exact().ok_or_else(problem)
    }

    /// The prior covariance; that of the first latent function if they differ.
    pub fn kernel(&self) -> &Kernel {
        &self.model.prior().kernel
    }

    /// The observations conditioned on, in standardised units. If predictions need none, only some of them, to draw.
    pub fn data(&self) -> &Observations {
        &self.data
    }

    /// The targets of [`data`](Self::data), in the data's units.
    fn targets(&self) -> Vec<f64> {
        self.data.y.iter().map(|z| self.target_scale.inverse(*z)).collect()
    }

    /// The tables of a model whose rows stayed with their ranks.
    pub fn whereabouts(&self) -> Option<&Whereabouts> {
        self.whereabouts.as_ref()
    }

    /// Checks the targets of a table, and its auxiliary column, against the likelihood.
    ///
    /// # Errors
    /// [`Error::Data`] naming the first row that does not fit.
    pub fn check_targets(&self, data: &Dataset) -> Result<()> {
        self.schema.check(data)?;
        columns::check_targets(self.model.likelihood(), data, self.settings.auxiliary_column.as_deref())
    }

    /// Names of the input columns, in the order of the kernel's `dims`.
    pub fn input_names(&self) -> Vec<String> {
        columns::input_names(&self.schema, self.settings.auxiliary_column.as_deref())
    }

    /// A warning if all predictions are poor: after a training on one row, or on one value of the target.
    pub fn caution(&self) -> Option<String> {
        advice::few(self.summary.rows, &self.data, &self.schema.target)
    }

    /// Whether targets are Gaussian given the latent function, so that their distributions have a closed form.
    pub fn is_gaussian(&self) -> bool {
        self.noise().is_some()
    }

    /// The learned noise variance of a Gaussian likelihood, standardised.
    pub fn noise(&self) -> Option<f64> {
        self.model.likelihood().noise()
    }

    /// The same model with more rows, without another training: parameters and scales stay the same; of an average,
    /// the weights move too, unless they came from rows set apart.
    ///
    /// # Errors
    /// [`Error::Usage`] for models whose posterior cannot grow, and as [`predict`](Self::predict) and
    /// [`check_targets`](Self::check_targets) for the rows.
    pub fn update(&self, more: &Dataset) -> Result<Self> {
        if !self.members.is_empty() {
            return self.mixed_update(more);
        }
        self.check_targets(more)?;
        let (inputs, target) = (self.input_scale.clone(), self.target_scale);
        let units = Units { inputs, target, auxiliary: self.model.likelihood().auxiliary() };
        let more = units.observe(Inputs::of(more, self.settings.auxiliary_column.as_deref())?, more)?;
        let compute = self.settings.compute;
        let data = self.data.extended(&more)?;
        let model = helped(|| self.model.updated(compute, &self.data, &more))?;
        let posterior = match &model {
            Some(model) => Some(helped(|| model.condition(compute, data.clone()))?),
            None => helped(|| self.posterior.updated(&more))?,
        };
        let Some(posterior) = posterior else {
            return Err(Error::Usage(format!(
                "more rows without another training are for svgp, experts in one table and models whose posterior has \
                 a closed form, and this is: {}; train it again on all rows",
                self.model.title()
            )));
        };
        let wider = |([low, high], [least, most]): ([f64; 2], [f64; 2])| [low.min(least), high.max(most)];
        let ranges = Some(self.ranges().into_iter().zip(more.ranges()).map(wider).collect());
        let summary = Summary { rows: self.summary.rows + more.n(), ranges, ..self.summary.clone() };
        let model = model.unwrap_or_else(|| self.model.clone());
        Ok(Self { model, posterior: posterior.into(), data, summary, ..self.clone() })
    }

    /// The same model with at most `actions` more actions: more computation, less of the variance for what was not
    /// computed, the same parameters. A calibration by residuals was fitted to the former variance: it is fitted anew
    /// if it came from leaving rows out, and dropped if its rows are gone.
    ///
    /// # Errors
    /// [`Error::Usage`] for models whose uncertainty does not depend on computation, and errors of the solve.
    pub fn refined(&self, actions: usize) -> Result<Self> {
        if !self.members.is_empty() {
            return self.each(|member| member.refined(actions));
        }
        let Some(posterior) = self.posterior.computation_aware() else {
            return Err(Error::Usage(format!(
                "more actions are for computation-aware models, and this is: {}",
                self.model.title()
            )));
        };
        let plain = Self {
            posterior: posterior.refined(actions)?.into(),
            calibration: None,
            temperature: None,
            ..self.clone()
        };
        match self.calibration.map(|calibration| calibration.source) {
            Some(Source::LeaveOneOut) => Ok(plain.calibrated_by_leaving_out().unwrap_or(plain)),
            Some(Source::FewRows) => Ok(Self { calibration: self.calibration, ..plain }),
            _ => Ok(plain),
        }
    }

    /// The same model with another rule that combines the predictions of its parts; of an average, those members that
    /// have parts. Nothing is computed again. A calibration by residuals is dropped, because it was fitted for another
    /// rule.
    ///
    /// # Errors
    /// [`Error::Usage`] for models without parts, and for an unknown rule.
    pub fn aggregated(&self, rule: &str) -> Result<Self> {
        if !self.members.is_empty() {
            self.aggregates()?;
            return self.each(|member| match member.posterior.aggregates() {
                Some(_) => member.aggregated(rule),
                None => Ok(member.clone()),
            });
        }
        Ok(Self {
            posterior: self.aggregates()?.by(rule)?.into(),
            calibration: self.calibration.filter(|calibration| calibration.source == Source::FewRows),
            temperature: None,
            ..self.clone()
        })
    }

    /// The rules that combine the predictions of the model's parts; of an average, those of its heaviest member that
    /// has parts.
    ///
    /// # Errors
    /// [`Error::Usage`] for models without parts.
    pub fn aggregates(&self) -> Result<&dyn Aggregates> {
        let of_members = || self.members.iter().find_map(|member| member.fitted.posterior.aggregates());
        self.posterior.aggregates().or_else(of_members).ok_or_else(|| {
            let model = self.model.title();
            Error::Usage(format!("an aggregation is for models that several parts predict for, and this is: {model}"))
        })
    }

    /// The training targets, and their leave-one-out predictions in closed form.
    ///
    /// # Errors
    /// [`Error::Usage`] for models without such a form.
    pub fn leave_one_out(&self) -> Result<(Vec<f64>, Vec<Predictive>)> {
        let LeftOut { y, predictions, .. } = self.closed()?;
        Ok((y, predictions))
    }

    /// [`left_out`](Self::left_out), or an error that says for which models it is.
    fn closed(&self) -> Result<LeftOut> {
        let problem = || {
            Error::Usage(format!(
                "leaving one out in closed form is for models that solve one linear system of all rows, with gaussian \
                 targets; this is: {}",
                self.model.title()
            ))
        };
        self.left_out()?.ok_or_else(problem)
    }
}
