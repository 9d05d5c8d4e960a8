//! Training a model: [`train`] minimises its objective and priors as a function of one flat vector.

use std::time::Instant;

use crate::device::Compute;
use crate::error::{Error, Result};
use crate::linalg::jitter::watch;
use crate::models::{Batch, Held, Model, Observations};
use crate::params::{Parameter, Parameters};
use crate::scope::Scope;
use crate::train::{self, Evaluation, Group, Objective, Observer, Outcome, Step, TrainConfig};

/// Trains a model on observations and leaves it at the best point found.
///
/// Losses in the outcome are per datum: objective plus negative log priors, divided by the number of rows. If the model
/// [chooses](Model::choose) something, the loss at the end uses what it chooses at the end.
///
/// # Errors
/// [`Device`](crate::Error::Device) when the device is not available, and what the objective reports when it fails at
/// every starting point.
pub fn fit<M: Model + ?Sized>(
    model: &mut M,
    compute: Compute,
    data: &Observations,
    config: &TrainConfig,
    observers: &mut [&mut dyn Observer],
) -> Result<Outcome> {
    fit_for(model, compute, (data, data.n()), config, observers)
}

/// The same for data that represent `rows` rows.
pub(in crate::models) fn fit_for<M: Model + ?Sized>(
    model: &mut M,
    compute: Compute,
    (data, rows): (&Observations, usize),
    config: &TrainConfig,
    observers: &mut [&mut dyn Observer],
) -> Result<Outcome> {
    let start = model.free_raw();
    let config = config.clone().loss_scale(rows as f64);
    let mut loss = FullBatch::new(model, compute, data)?;
    let outcome = train::minimise(&mut loss, &start, &config, observers);
    let FullBatch { model, batch, chosen, evaluated, .. } = loss;
    let chosen = chosen.map(|(from, _)| from);
    model.set_free_raw(outcome.as_ref().map_or(&start, |outcome| &outcome.x))?;
    let mut outcome = outcome?;
    // At the end it may hold what was chosen at an earlier point, but its posterior chooses at this point.
    if model.refresh().is_some() && chosen.is_none_or(|from| from != outcome.x || !evaluated) {
        let found = evaluate(model, compute, &batch).map(|found| found.loss / outcome.loss_scale);
        let better = outcome.settled.take().filter(|(_, lowest)| !found.as_ref().is_ok_and(|loss| loss <= lowest));
        match (better, found) {
            // The steps since the last choice made the loss worse.
            (Some((x, loss)), _) => {
                model.set_free_raw(&x)?;
                (outcome.x, outcome.loss) = (x, loss);
            }
            (None, Ok(loss)) => outcome.loss = loss,
            (None, Err(_)) => {}
        }
        outcome.restarts[outcome.best_restart].loss = Some(outcome.loss);
    }
    Ok(outcome)
}

/// Parameters whose start is chosen from the data, not guessed: all restarts begin with the same values.
const PLACED: [&str; 2] = ["actions", "inducing"];

/// The free parameters that restarts leave at their start, with their learning rates: all for which `rate` gives a
/// rate, and the placed ones, whose rate is then 1.
pub(crate) fn groups(model: &(impl Parameters + ?Sized), rate: impl Fn(&str) -> Option<f64>) -> Vec<Group> {
    let (mut start, mut groups) = (0, Vec::new());
    for (path, parameter) in model.parameters().into_iter().filter(|(_, p)| !p.fixed) {
        let range = start..start + parameter.freedom();
        start = range.end;
        let placed = PLACED.contains(&parameter.name.as_str()).then_some(1.0);
        groups.extend(rate(&path).or(placed).map(|rate| Group::new(range, rate).spread(0.0)));
    }
    groups
}

/// Sets the raw values of parameters, those of one after those of another.
pub(super) fn put_raw<'a>(parameters: impl Iterator<Item = &'a mut Parameter>, mut raw: &[f64]) {
    for parameter in parameters {
        let (own, others) = raw.split_at(parameter.len());
        parameter.put_raw(own);
        raw = others;
    }
}

/// The objective of a model on a batch plus the negative log priors of its parameters, and its gradient in the raw
/// values.
///
/// # Errors
/// What the objective reports; [`NotFinite`](crate::Error::NotFinite) when a value or gradient is not finite.
pub fn evaluate<M: Model + ?Sized>(model: &M, compute: Compute, batch: &Batch) -> Result<Evaluation> {
    evaluate_for(model, compute, batch, None)
}

/// The same with what the model chose before, if given.
pub(in crate::models) fn evaluate_for<M: Model + ?Sized>(
    model: &M,
    compute: Compute,
    batch: &Batch,
    chosen: Option<&Held>,
) -> Result<Evaluation> {
    let found = match chosen {
        None => model.together(compute, batch),
        Some(_) => None,
    };
    let alone = || {
        let scope = Scope::training(compute)?.with_budget(model.budget(batch.y.dims()[0], compute.precision));
        let loss = match chosen {
            Some(chosen) => model.objective_for(&scope, batch, chosen)?,
            None => model.objective(&scope, batch)?,
        };
        let (loss, gradient) = scope.gradient(loss, model)?;
        Ok(Evaluation { loss, gradient })
    };
    let Evaluation { loss, mut gradient } = found.unwrap_or_else(alone)?;
    let priors = add_priors(model, &mut gradient);
    Ok(Evaluation { loss: loss + priors, gradient })
}

/// The negative log priors of all free parameters. Adds their derivatives to the gradient.
pub(crate) fn add_priors(model: &(impl Parameters + ?Sized), gradient: &mut [f64]) -> f64 {
    let (mut at, mut total) = (0, 0.0);
    for (_, parameter) in model.parameters().into_iter().filter(|(_, p)| !p.fixed) {
        if let Some((value, slopes)) = parameter.neg_log_prior() {
            total += value;
            gradient[at..].iter_mut().zip(parameter.freed(slopes)).for_each(|(g, s)| *g += s);
        }
        at += parameter.freedom();
    }
    total
}

fn choose<M: Model + ?Sized>(model: &M, compute: Compute, batch: &Batch) -> Result<Option<Held>> {
    if model.refresh().is_none() {
        return Ok(None);
    }
    let scope = Scope::new(compute)?.with_budget(model.budget(batch.y.dims()[0], compute.precision));
    model.choose(&scope, batch)
}

/// The seconds of an optimiser step that evaluates the objective once on these rows, including its share of the time
/// for a choice.
///
/// # Errors
/// What the objective reports.
pub fn seconds<M: Model + ?Sized>(model: &M, compute: Compute, rows: &Observations) -> Result<f64> {
    let batch = &rows.batch(&Scope::new(compute)?);
    let start = Instant::now();
    let chosen = choose(model, compute, batch)?;
    let choice = start.elapsed().as_secs_f64();
    evaluate_for(model, compute, batch, chosen.as_ref())?;
    let both = start.elapsed().as_secs_f64();
    Ok(match model.refresh() {
        Some(steps) => both - choice + both / steps as f64,
        None => both,
    })
}

/// The relative jitter that the first evaluation of a run needed, once there was one. Later evaluations must not need
/// more.
#[derive(Debug, Default)]
pub(crate) struct JitterLimit(Option<f64>);

impl JitterLimit {
    /// Refuses an evaluation that needed more, unless the model bears it.
    pub(crate) fn check(&mut self, jitter: f64, borne: bool) -> Result<()> {
        // More jitter gives the objective of a model with more noise, so training must not move to this point.
        if jitter > *self.0.get_or_insert(jitter) && !borne {
            return Err(Error::NotFinite(format!(
                "the objective without a jitter of {jitter:.0e} of the mean variance"
            )));
        }
        Ok(())
    }

    /// Its state for a checkpoint.
    pub(crate) fn state(&self) -> Vec<f64> {
        self.0.into_iter().collect()
    }

    /// Restores it from a checkpoint.
    pub(crate) fn restore(&mut self, state: &[f64]) -> Result<()> {
        if state.len() > 1 {
            return Err(Error::shape("saved state of the objective", "a jitter", format!("{} numbers", state.len())));
        }
        self.0 = state.first().copied();
        Ok(())
    }
}

/// The objective of a model on all rows, with the negative log priors of its parameters. [`fit`] minimises it over the
/// [free raw values](Parameters::free_raw); use it for a training loop of your own.
pub struct FullBatch<'a, M: ?Sized> {
    model: &'a mut M,
    compute: Compute,
    batch: Batch,
    limit: JitterLimit,
    /// What the model chose, and the parameters at which it chose.
    chosen: Option<(Vec<f64>, Option<Held>)>,
    /// Whether it has been evaluated with this choice.
    evaluated: bool,
}

impl<'a, M: Model + ?Sized> FullBatch<'a, M> {
    /// For a model, whose parameters each evaluation sets.
    ///
    /// # Errors
    /// [`Device`](crate::Error::Device) when the device is not available.
    pub fn new(model: &'a mut M, compute: Compute, data: &Observations) -> Result<Self> {
        let batch = data.batch(&Scope::new(compute)?);
        Ok(Self { model, compute, batch, limit: JitterLimit::default(), chosen: None, evaluated: false })
    }
}

impl<M: Model + ?Sized> Objective for FullBatch<'_, M> {
    fn dim(&self) -> usize {
        self.model.free_raw().len()
    }

    fn evaluate(&mut self, x: &[f64], _step: Step) -> Result<Evaluation> {
        self.model.set_free_raw(x)?;
        let chosen = self.chosen.as_ref().and_then(|(_, chosen)| chosen.as_ref());
        let (evaluation, jitter) = watch(|| evaluate_for(self.model, self.compute, &self.batch, chosen));
        self.limit.check(jitter, self.model.bears_jitter())?;
        self.evaluated = evaluation.is_ok();
        evaluation
    }

    fn groups(&self) -> Vec<Group> {
        groups(self.model, |_| None)
    }

    fn state(&self) -> Vec<f64> {
        self.limit.state()
    }

    fn restore(&mut self, state: &[f64]) -> Result<()> {
        self.limit.restore(state)
    }

    fn refresh(&self) -> Option<usize> {
        self.model.refresh()
    }

    fn choose(&mut self, x: &[f64]) -> Result<()> {
        if self.chosen.as_ref().is_some_and(|(from, _)| from == x) {
            return Ok(());
        }
        // Drops the earlier choice first: two would take twice the memory.
        (self.chosen, self.evaluated) = (None, false);
        self.model.set_free_raw(x)?;
        self.chosen = Some((x.to_vec(), choose(self.model, self.compute, &self.batch)?));
        Ok(())
    }
}
