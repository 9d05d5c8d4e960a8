//! Races of starts: short trainings from several lengthscales. The training then begins at the best of them.
//!
//! A kernel with a lengthscale per column includes the kernel with a single lengthscale. Yet its training from the
//! data's own start may end above the optimum of the single lengthscale. So the other start is this optimum.
//!
//! With one input column, a function with many waves looks like a trend with noise from the data's own start. So there
//! the other start has a lengthscale of a few rows.
//!
//! A checkpoint keeps the trainings of a race that are over. So a training that goes on has the numbers of one that was
//! not interrupted, wherever that happened.

mod lengths;

use std::fmt::{Display, Formatter};
use std::time::{Duration, Instant};

use lengths::{Lengths, make_equal, tie};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::index;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fit;
use super::minibatch::Rows;
use crate::error::Result;
use crate::models::gp_model::{GpModel, Training};
use crate::models::{Batch, Observations};
use crate::scope::Scope;
use crate::train::checkpoint::Before;
use crate::train::{Lbfgs, Observer, Optimizer, Outcome, Steps, Termination, TrainConfig, exact};

/// Where training begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Starts {
    /// At the better result of two short trainings: from the data's own start, and from the optimum with one
    /// lengthscale or, with one input column, from a short lengthscale
    #[default]
    Race,
    /// At the data's own start
    Data,
}

/// A start, and the objective per row after a short training from it; none if the training failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Its name.
    pub name: String,
    /// Objective per row, priors included; that of a [lighter](GpModel::lighter) model if there is one.
    pub loss: Option<f64>,
}

/// The result of a race.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Race {
    /// The starts, the best first.
    pub starts: Vec<Start>,
    /// Rows that were trained on.
    pub rows: usize,
    /// Steps of all trainings.
    pub steps: usize,
    /// Evaluations of the objective.
    pub evaluations: usize,
    /// Seconds.
    pub seconds: f64,
}

impl Race {
    /// A sentence about the best start and the others.
    pub fn sentence(&self) -> Option<String> {
        let (best, others) = self.starts.split_first()?;
        let loss = |start: &Start| start.loss.map_or("failed".into(), |loss| format!("{loss:.3}"));
        let others: Vec<String> = others.iter().map(|start| format!("{} {}", start.name, loss(start))).collect();
        Some(format!("{} (objective {}; {})", best.name, loss(best), others.join(", ")))
    }
}

/// Most rows with different inputs that a race trains on if a sample is enough.
const ROWS: usize = 1000;
/// Steps from each start.
const STEPS: usize = 15;
/// A start is judged after so many steps in a row that lower its loss by less than this share.
const ENOUGH: f64 = 1e-4;
const PATIENCE: usize = 2;
/// Most steps to the optimum with one lengthscale.
const ISOTROPIC: usize = 40;
/// A result found on a sample replaces the data's own start only if its objective per row, on all rows, is lower by
/// this.
const LEAD: f64 = 0.01;
/// The share of the training's time that its race may take. With a checkpoint it may take all: only a whole race is
/// worth going on from.
const SHARE: f64 = 0.25;

/// What a race is for.
pub struct Track<'a> {
    /// The training to come.
    pub training: Training<'a>,
    /// Whether a sample of many rows is enough to compare starts.
    pub sampled: bool,
}

/// The result of a race.
pub struct Raced {
    /// What to report.
    pub race: Race,
    /// The best result on some of the rows, if not all raced.
    pub fallback: Option<Fallback>,
    /// What a checkpoint of the training keeps of the race; none if the race was cut short.
    pub prelude: Option<Value>,
}

/// A training of a race that is over.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Leg {
    /// The raw values of all parameters at the end.
    #[serde(with = "exact::vector")]
    raw: Vec<f64>,
    /// None if it failed.
    loss: Option<f64>,
    steps: usize,
    evaluations: usize,
    seconds: f64,
}

/// A start with the result of its short training. If the best one of a race on some of the rows has a lower loss than
/// the training at its end, the training should begin again from there.
pub struct Fallback {
    name: &'static str,
    model: Box<dyn GpModel>,
    /// Objective per row; infinite if the short training failed.
    loss: f64,
}

impl Fallback {
    /// Whether a training that ended with this objective per row should begin again.
    pub fn is_below(&self, loss: f64) -> bool {
        self.loss < loss - 0.1 * LEAD
    }

    /// A copy of a model at this result.
    pub fn applied(&self, model: &dyn GpModel) -> Box<dyn GpModel> {
        let mut moved = model.boxed();
        copy(&*self.model, &mut *moved);
        moved
    }

    /// Reports that a training began here, after a `first` one that ended higher.
    pub fn lead(&self, race: &mut Race, first: &Outcome) {
        race.starts.sort_by_key(|start| start.name != self.name);
        race.steps += first.iterations;
        race.evaluations += first.evaluations;
        race.seconds += first.seconds;
    }
}

impl Display for Fallback {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "the better start ({}, objective {:.3})", self.name, self.loss)
    }
}

/// Trains `model`, or a [lighter](GpModel::lighter) one in its place, from two starts and leaves it at the better
/// result. Does nothing if both starts would be the same, if the training has no more steps than the short one from
/// each start, or if one evaluation takes all the time that a race may.
///
/// # Errors
/// What the device reports; a start that fails is left out.
pub fn race(model: &mut Box<dyn GpModel>, track: &Track, observers: &mut [&mut dyn Observer]) -> Result<Option<Raced>> {
    let Some(lengths) = Lengths::of(&**model, track.training.data) else { return Ok(None) };
    if track.training.config.steps <= STEPS {
        return Ok(None);
    }
    let Training { data, config, .. } = track.training;
    let Before { prelude, over } = Before::load(config)?;
    let saved: Vec<Leg> = serde_json::from_value(prelude).unwrap_or_default();
    let began = Instant::now();
    let sample = if track.sampled { sample(data, config.seed)? } else { None };
    // A training that goes on has its own start, but after a sample it may end above the best result.
    if over && saved.is_empty() && sample.is_none() {
        return Ok(None);
    }
    let shown = sample.as_ref().unwrap_or(data);
    let mut race = Race { rows: shown.n(), ..Race::default() };
    let mut legs =
        Legs { track, observers, began, race: &mut race, saved, begun: 0, kept: !over, cut: false, over: false };
    // Also notices a path that cannot be written.
    legs.save()?;

    let light = model.lighter();
    let mut other = Fallback { name: lengths.start(), model: light.boxed(), loss: f64::INFINITY };
    match &lengths {
        Lengths::Columns(columns) => {
            make_equal(&mut *other.model, columns);
            tie(&mut *other.model, columns, true);
            other.loss = legs.run(&mut *other.model, shown, ISOTROPIC);
            tie(&mut *other.model, columns, false);
        }
        Lengths::Single { places, short } => {
            let mut parameters = other.model.parameters_mut();
            places.iter().for_each(|at| parameters[*at].1.put_internal(&[*short]));
        }
    }
    let mut own = Fallback { name: "data's own", model: light, loss: f64::INFINITY };
    own.loss = legs.run(&mut *own.model, shown, STEPS);
    // If the isotropic optimum already leads, it needs no further steps.
    if other.loss.is_infinite() || other.loss > own.loss {
        other.loss = legs.run(&mut *other.model, shown, STEPS);
    }
    if legs.came_to_nothing() {
        return Ok(None);
    }
    let (mut lead, mut fallback) = (0.0, None);
    if sample.is_some() {
        let batch = data.batch(&Scope::new(track.training.compute)?);
        for runner in [&mut own, &mut other] {
            let known = runner.loss.is_finite() && !legs.over;
            runner.loss = if known { legs.judge(&*runner.model, &batch) } else { f64::INFINITY };
        }
        let Fallback { name, model: best, loss } = if other.loss < own.loss { &other } else { &own };
        fallback = loss.is_finite().then(|| Fallback { name, model: best.boxed(), loss: *loss });
        // The result of training on the sample counts as a better start only if it is clearly better.
        (own.model, lead) = (model.boxed(), LEAD);
    }
    let leads = other.loss + lead < own.loss;
    let runners = if leads { [other, own] } else { [own, other] };
    let Legs { saved, cut, .. } = legs;
    race.seconds += began.elapsed().as_secs_f64();
    let finite = |loss: f64| loss.is_finite().then_some(loss);
    race.starts = runners.iter().map(|run| Start { name: run.name.into(), loss: finite(run.loss) }).collect();
    if runners[0].loss.is_finite() {
        copy(&*runners[0].model, &mut **model);
    }
    Ok(Some(Raced { race, fallback, prelude: (!cut).then(|| json!(saved)) }))
}

/// Copies parameters from a model to one of the same kind.
fn copy(from: &dyn GpModel, to: &mut dyn GpModel) {
    let found = from.parameters().into_iter().map(|(_, found)| found.clone());
    to.parameters_mut().into_iter().zip(found).for_each(|((_, own), found)| *own = found);
}

/// Sets all raw values of a model; false if there are not as many.
fn placed(model: &mut dyn GpModel, raw: &[f64]) -> bool {
    let fits = model.parameters().iter().map(|(_, p)| p.len()).sum::<usize>() == raw.len();
    if fits {
        fit::put_raw(model.parameters_mut().into_iter().map(|(_, parameter)| parameter), raw);
    }
    fits
}

/// Rows drawn by the seed, if there are more than a race uses. Rows with the same inputs stay together, because the
/// noise is learned from them, and count as one; unless an auxiliary column distinguishes them.
fn sample(data: &Observations, seed: u64) -> Result<Option<Observations>> {
    let groups = if data.auxiliary.is_none() { data.groups() } else { (0..data.n()).collect() };
    let count = groups.iter().max().map_or(0, |last| last + 1);
    if count <= ROWS {
        return Ok(None);
    }
    let mut drawn = vec![false; count];
    index::sample(&mut Xoshiro256PlusPlus::seed_from_u64(seed), count, ROWS)
        .iter()
        .for_each(|group| drawn[group] = true);
    let rows: Vec<usize> = (0..data.n()).filter(|row| drawn[groups[*row]]).collect();
    data.gather(&rows).map(Some)
}

/// The short trainings.
struct Legs<'a, 'b, 'c> {
    track: &'a Track<'a>,
    observers: &'a mut [&'b mut dyn Observer],
    began: Instant,
    race: &'c mut Race,
    /// Those that are over.
    saved: Vec<Leg>,
    /// How many have begun.
    begun: usize,
    /// Whether they are saved: not in place of a training that they preceded.
    kept: bool,
    /// Whether one was cut short.
    cut: bool,
    /// Whether an observer asked to stop.
    over: bool,
}

impl Legs<'_, '_, '_> {
    /// Trains the model for at most so many steps and returns the loss at the end; infinite if there is none.
    fn run(&mut self, model: &mut dyn GpModel, data: &Observations, steps: usize) -> f64 {
        if self.over || self.came_to_nothing() {
            return f64::INFINITY;
        }
        self.begun += 1;
        if let Some(leg) = self.saved.get(self.begun - 1).cloned()
            && placed(model, &leg.raw)
        {
            self.race.seconds += leg.seconds;
            return self.count(&leg);
        }
        self.saved.truncate(self.begun - 1);
        let (began, config) = (Instant::now(), self.track.training.config);
        let share = if config.checkpoint.is_some() { 1.0 } else { SHARE };
        let left = |all: Duration| all.mul_f64(share).saturating_sub(self.began.elapsed());
        // With L-BFGS, whatever the main training uses.
        let lbfgs = Lbfgs { loss_tolerance: ENOUGH, patience: PATIENCE, ..Lbfgs::default() };
        let config = TrainConfig {
            max_time: config.max_time.map(left),
            seed: config.seed,
            ..TrainConfig::new(Optimizer::Lbfgs(lbfgs), steps)
        };
        let training = Training { data, rows: data, batches: None, config: &config, ..self.track.training };
        let outcome = model.train(training, &mut [&mut Steps(self.observers)]).ok();
        let termination = outcome.as_ref().map(|outcome| outcome.termination.clone());
        self.over = termination == Some(Termination::Interrupted);
        self.cut |= self.over || termination == Some(Termination::MaxTime);
        let leg = Leg {
            raw: model.parameters().iter().flat_map(|(_, p)| p.raw().to_vec()).collect(),
            loss: outcome.as_ref().map(|outcome| outcome.loss),
            steps: outcome.as_ref().map_or(0, |outcome| outcome.iterations),
            evaluations: outcome.as_ref().map_or(0, |outcome| outcome.evaluations),
            seconds: began.elapsed().as_secs_f64(),
        };
        if !self.cut {
            self.saved.push(leg.clone());
            // A race is more valuable than its saved state.
            let _ = self.save();
        }
        self.count(&leg)
    }

    /// Whether the time was up with the first evaluation: then the starts cannot be told apart, and each further
    /// evaluation is lost to the training. A checkpoint is for whole races only.
    fn came_to_nothing(&self) -> bool {
        let whole = self.track.training.config.checkpoint.is_some();
        self.cut && !self.over && !whole && self.race.steps == 0
    }

    fn count(&mut self, leg: &Leg) -> f64 {
        self.race.steps += leg.steps;
        self.race.evaluations += leg.evaluations;
        leg.loss.unwrap_or(f64::INFINITY)
    }

    /// Saves the trainings that are over where the training's state will be.
    fn save(&self) -> Result<()> {
        if self.kept { Before::save(self.track.training.config, json!(self.saved)) } else { Ok(()) }
    }

    /// The loss on all rows; infinite if it cannot be evaluated.
    fn judge(&mut self, model: &dyn GpModel, batch: &Batch) -> f64 {
        self.race.evaluations += 1;
        let Training { compute, data, .. } = self.track.training;
        fit::evaluate(model, compute, batch).map_or(f64::INFINITY, |found| found.loss / data.n() as f64)
    }
}
