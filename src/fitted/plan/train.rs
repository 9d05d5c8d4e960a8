//! Carries out a plan: from the initial model to one that is trained and conditioned on the data.

use std::sync::Arc;
use std::time::Instant;

use super::super::columns::{Units, input_names};
use super::super::{Fitted, Summary, Tables, advice, average, precision, structure};
use super::Plan;
use crate::advice::Advice;
use crate::data::Classes;
use crate::distributed::{FileRows, Spread};
use crate::error::Result;
use crate::linalg::jitter::watch;
use crate::models::blueprint::Blueprint;
use crate::models::gp_model::{GpModel, Training};
use crate::models::minibatch::Rows;
use crate::models::posterior::Posterior;
use crate::models::race::{Fallback, Race, Raced, Starts, Track, race};
use crate::models::registry::usual;
use crate::models::{Observations, diagnose};
use crate::train::{self, Observer, TrainConfig};

impl Plan {
    /// The processes that share minibatches, if the objective is a sum over rows.
    fn spread(&self) -> Option<Spread> {
        self.model.sum_over_rows()?;
        let blueprint = Blueprint {
            likelihood: self.settings.likelihood.clone(),
            classes: self.schema.classes.as_ref().map(Classes::len),
            ..Blueprint::new(self.settings.model.clone(), &*self.model, self.data.d)
        };
        Some(Spread::new(self.crew.clone()?, blueprint, self.source()))
    }

    /// Moves the model to the better of two starts if their losses can be compared. Does nothing if a start is given in
    /// any way.
    fn race(&mut self, config: &TrainConfig, observers: &mut [&mut dyn Observer]) -> Result<Option<Raced>> {
        // Models other than the exact one may have parts that belong to the rows.
        let sampled = self.settings.model.kind() == usual().kind();
        if self.settings.starts != Starts::Race || !self.options.races() {
            return Ok(None);
        }
        let data = &self.data;
        let compute = self.settings.compute;
        let training = Training { compute, data, rows: data, batches: None, config, spread: None };
        race(&mut self.model, &Track { training, sampled }, observers)
    }

    /// Trains the model and conditions it on the data; of an average, every model, each on one thread. What the
    /// configuration allows in time is shared among them. One that fails is left out, with a warning.
    ///
    /// # Errors
    /// As training.
    pub fn train(mut self, config: &TrainConfig, observers: &mut [&mut dyn Observer]) -> Result<Fitted> {
        match (self.search.take(), std::mem::take(&mut self.others)) {
            (Some(search), others) => Self::searched(*search, (self, others), config, observers),
            (None, others) if others.is_empty() => self.alone(config, observers),
            (None, others) => average::train(std::iter::once(self).chain(others).collect(), config, observers),
        }
    }

    /// The same plan with a start at the parameters of another model that have the same names and numbers.
    ///
    /// # Errors
    /// Those of setting parameters.
    pub(in crate::fitted) fn starting_from(mut self, other: &dyn GpModel) -> Result<Self> {
        let known = other.parameters();
        for (name, parameter) in self.model.parameters_mut() {
            let same = known.iter().find(|(other, p)| *other == name && p.len() == parameter.len());
            if let (Some((_, other)), false) = (same, parameter.fixed) {
                parameter.set_internal(&other.internal())?;
            }
        }
        self.settings.starts = Starts::Data;
        Ok(self)
    }

    /// The same plan with a start at the parameters of a simpler structural model.
    pub(in crate::fitted) fn extending(mut self, simpler: &Fitted) -> Self {
        let (own, other) = (&self.settings.kernel, &simpler.settings.kernel);
        structure::extend((&mut *self.model, own), (&*simpler.model, other), &self.data);
        self.settings.starts = Starts::Data;
        self
    }

    /// Trains a single model.
    pub(in crate::fitted) fn alone(
        mut self,
        config: &TrainConfig,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Fitted> {
        let compute = self.settings.compute;
        let began = Instant::now();
        let raced = self.race(config, observers)?;
        let left = config.max_time.map(|time| time.saturating_sub(began.elapsed()));
        let mut config = TrainConfig { max_time: left, ..config.clone() };
        let (mut race, mut fallback) = (None, None);
        if let Some(Raced { race: report, fallback: found, prelude }) = raced {
            // A training from a start that is not yet chosen cannot go on as it would have without the interruption.
            config.checkpoint = config.checkpoint.filter(|_| prelude.is_some());
            config.prelude = prelude.unwrap_or_default();
            (race, fallback) = (Some(report), found);
        }
        let config = &config;
        let spread = self.spread();
        let stored = self.stored.clone();
        let rows = stored.as_deref().map_or(&self.data as &dyn Rows, |stored| stored);
        let count = self.tables.as_ref().map_or(rows.count(), Tables::rows);
        let batches = self.options.minibatches();
        let training = Training { compute, data: &self.data, rows, batches, config, spread: spread.as_ref() };
        let raced = (&mut race, fallback);
        let (outcome, failed) = trained(&mut self.model, training, raced, observers)?;
        self.warnings.extend(failed);
        self.judge(&outcome, config);
        let Self { schema, settings, units, model, data, tables, apart, weak_prior, said, mut warnings, .. } = self;
        let (posterior, jitter) = watch(|| model.condition(compute, data.clone()));
        let posterior: Arc<dyn Posterior> = posterior?.into();
        warnings.extend(posterior.remarks(&some(&data)?.x)?);
        let added = posterior.computation_aware().and_then(|aware| aware.added());
        let (added, open) = added.unzip();
        warnings.extend(open.flatten());
        let chosen: Vec<String> = said.into_iter().chain(added).collect();
        if posterior.exact().is_some() {
            warnings.extend(precision::jitter(&*model, compute, &data, jitter, units.target.sd));
        }
        // An estimate of this is not worth a failure.
        let loss_error = model.objective_error(compute, &data).ok().flatten().map(|error| error / data.n() as f64);
        let ranges = Some(match &tables {
            Some(tables) => units.ranges(&tables.moments()),
            None => data.ranges(),
        });
        let before = race.clone().unwrap_or_default();
        let summary = Summary {
            rows: count,
            optimizer: config.optimizer.name().into(),
            termination: outcome.ending(),
            loss: outcome.loss,
            loss_error,
            iterations: before.steps + outcome.iterations,
            evaluations: before.evaluations + outcome.evaluations,
            seconds: before.seconds + outcome.seconds,
            seed: config.seed,
            restarts: outcome.restarts.iter().map(|restart| restart.loss).collect(),
            weak_prior,
            race,
            chosen: (!chosen.is_empty()).then(|| chosen.join("; ")),
            trail: Vec::new(),
            unheard: Vec::new(),
            warnings,
            useless: false,
            ranges,
            history: outcome.history,
        };
        let seen = some(&data)?;
        let data = match &tables {
            // Rows that only their own rank may see are not in the file either.
            Some(_) => Observations::none(data.d),
            None if posterior.needs_data() => match &stored {
                Some(stored) if stored.count() > data.n() => all(stored)?,
                _ => data,
            },
            None => some(&data)?,
        };
        let whereabouts = tables.as_ref().map(Tables::whereabouts);
        let Units { inputs: input_scale, target: target_scale, .. } = units;
        let (calibration, temperature) = (None, None);
        let mut fitted = Fitted {
            schema,
            settings,
            input_scale,
            target_scale,
            model,
            summary,
            calibration,
            temperature,
            data,
            whereabouts,
            posterior,
            members: Arc::default(),
        };
        if let Ok(Some(warning)) = fitted.useless(&seen) {
            fitted.summary.warnings.insert(0, warning);
            fitted.summary.useless = true;
        }
        Ok(fitted.calibrate(apart.as_ref()))
    }
}

impl Plan {
    /// Adds warnings about what looks wrong with the trained model.
    fn judge(&mut self, outcome: &train::Outcome, config: &TrainConfig) {
        let (model, data, warnings) = (&*self.model, &self.data, &mut self.warnings);
        let names = input_names(&self.schema, self.settings.auxiliary_column.as_deref());
        let free = (!self.bounded.is_empty()).then(|| structure::unbound(model, &self.bounded));
        warnings.extend(diagnose::warnings(free.as_deref().unwrap_or(model), data, &names));
        warnings.extend(structure::multiples(model, data, &self.units));
        // After an interrupt, the user waits for the model.
        if outcome.termination != train::Termination::Interrupted {
            warnings.extend(precision::warning(model, self.settings.compute, data));
        }
        if let Some(problem) = &outcome.unsaved {
            warnings.push(format!("the state at the end of the training is not saved: {problem}").into());
        }
        warnings.extend(advice::unfinished(outcome, config));
        warnings.extend(advice::cut_short(outcome, config));
        warnings.extend(advice::worse(outcome));
    }
}

/// Trains a model; begins again from the best result of its race if the training ends above that. Returns a warning if
/// only this second training fails.
fn trained(
    model: &mut Box<dyn GpModel>,
    training: Training,
    (race, fallback): (&mut Option<Race>, Option<Fallback>),
    observers: &mut [&mut dyn Observer],
) -> Result<(train::Outcome, Option<Advice>)> {
    let (began, config) = (Instant::now(), training.config);
    let first = model.train(training, observers)?;
    let left = config.max_time.map(|time| time.saturating_sub(began.elapsed()));
    let over = left.is_some_and(|left| left.is_zero()) || first.termination == train::Termination::Interrupted;
    let fallback = fallback.filter(|found| !over && found.is_below(first.loss));
    let (Some(found), Some(race)) = (fallback, race) else { return Ok((first, None)) };
    // The saved state stays that of the first training, from which this one follows.
    let config = TrainConfig { max_time: left, resume: None, checkpoint: None, ..config.clone() };
    let mut moved = found.applied(&**model);
    match moved.train(Training { config: &config, ..training }, observers) {
        Ok(again) if again.loss < first.loss => {
            found.lead(race, &first);
            *model = moved;
            Ok((again, None))
        }
        Ok(_) => Ok((first, None)),
        Err(error) => Ok((first, Some(format!("the training from {found} failed: {error}").into()))),
    }
}

/// All rows of a file.
fn all(stored: &FileRows) -> Result<Observations> {
    stored.collected(&(0..stored.count()).collect::<Vec<_>>())
}

/// Most rows to keep of data that predictions do not need.
const KEPT: usize = 2000;

/// Evenly spaced rows, enough to draw and to know where the data lie.
fn some(data: &Observations) -> Result<Observations> {
    let rows: Vec<usize> = (0..data.n()).step_by(data.n().div_ceil(KEPT).max(1)).collect();
    data.gather(&rows)
}
