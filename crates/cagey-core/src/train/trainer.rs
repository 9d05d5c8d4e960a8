//! The trainer: decides which run makes the next step, informs observers and saves the state.

use std::time::Instant;

use super::checkpoint::{TrainingState, Writer};
use super::run::{Advance, Run, Setting};
use super::{Fall, History, Objective, Observer, Optimizer, Plan, Report, RestartReport, Termination, TrainConfig};
use crate::params::shown;
use crate::{Error, Result};

/// The result of a training.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The best point seen, whatever ended the training. If an objective [chooses](Objective::choose) something, it is
    /// the best of the points where it chose and of those after the last choice.
    pub x: Vec<f64>,
    /// Its loss divided by the loss scale; for a stochastic objective, the smoothed loss there.
    pub loss: f64,
    /// The best of the points where an objective chose something, with its loss. Only there do the losses belong to one
    /// function: a later point with a lower loss may lose its advantage once the objective chooses there.
    pub settled: Option<(Vec<f64>, f64)>,
    /// What losses were divided by.
    pub loss_scale: f64,
    /// Why the training, or its best restart, ended.
    pub termination: Termination,
    /// By how much the last steps of the best restart lowered the loss; none if they are too few to tell.
    pub fall: Option<Fall>,
    /// The learning curves of all restarts.
    pub history: History,
    /// Steps of all restarts.
    pub iterations: usize,
    /// Evaluations of the objective in all restarts.
    pub evaluations: usize,
    /// Wall-clock time, including the time before a resume.
    pub seconds: f64,
    /// The result of each restart.
    pub restarts: Vec<RestartReport>,
    /// The index of the restart that found `x`.
    pub best_restart: usize,
    /// Why the final state could not be saved, if so.
    pub unsaved: Option<String>,
}

impl Outcome {
    /// The loss as the objective defines it.
    pub fn total_loss(&self) -> f64 {
        self.loss * self.loss_scale
    }

    /// Why training ended, in words. If all steps were made, whether more of them would lower the loss.
    pub fn ending(&self) -> String {
        let Termination::Steps = self.termination else { return self.termination.to_string() };
        let made = format!("all {} steps are made", self.restarts[self.best_restart].iterations);
        let row = if self.loss_scale == 1.0 { "" } else { " per row" };
        match self.fall {
            None => format!("{made}, too few to tell whether the training has converged"),
            Some(fall) => {
                let (steps, by) = (fall.steps, shown(fall.by.max(0.0)));
                match fall.goes_on() {
                    true => format!(
                        "{made}, and the last {steps} still lowered the objective by {by}{row}: more steps will lower \
                         it further"
                    ),
                    false => format!("converged: the last {steps} steps lowered the objective by {by}{row}"),
                }
            }
        }
    }
}

/// Minimises `objective` from `x0`.
///
/// The objective keeps its [state](Objective::state) at the end of the best run.
///
/// # Errors
/// As [`Trainer::new`] and [`Trainer::go_on`].
pub fn minimise(
    objective: &mut dyn Objective,
    x0: &[f64],
    config: &TrainConfig,
    observers: &mut [&mut dyn Observer],
) -> Result<Outcome> {
    Trainer::new(objective, x0, config.clone())?.go_to(objective, config.steps, observers)
}

/// A training that continues step by step and keeps the state of its optimisers, however often it is interrupted.
///
/// ```
/// use cagey::train::{Evaluation, TrainConfig, Trainer, from_fn};
///
/// let mut bowl = from_fn(1, |x, _| Ok(Evaluation { loss: x[0].powi(2), gradient: vec![2.0 * x[0]] }));
/// let mut trainer = Trainer::new(&bowl, &[3.0], TrainConfig::default())?;
/// while trainer.go_on(&mut bowl, 2, &mut [])?.loss > 1e-6 {
///     println!("now at {:?}", trainer.point());
/// }
/// # Ok::<(), cagey::Error>(())
/// ```
#[derive(Debug)]
pub struct Trainer {
    state: TrainingState,
    config: TrainConfig,
    rates: Vec<f64>,
}

impl Trainer {
    /// A training that will start at `x0`, or continue from the checkpoint that `config` names.
    ///
    /// # Errors
    /// [`Error::Usage`] for settings or groups without valid values and for L-BFGS on a stochastic objective,
    /// [`Error::Shape`] if `x0` has another length than `objective.dim()`, and [`Error::Io`] or [`Error::ModelFile`]
    /// for a checkpoint that cannot be written, read or continued.
    pub fn new(objective: &dyn Objective, x0: &[f64], config: TrainConfig) -> Result<Self> {
        config.validate()?;
        let rates = check(objective, x0, &config.optimizer)?;
        let load = |path| TrainingState::load(path, x0.len(), &config);
        let saved = config.resume.as_deref().map(load).transpose()?.flatten();
        let state = saved.unwrap_or_else(|| {
            let points = config.restarts.points(x0, &objective.groups(), config.seed);
            TrainingState::new(points.into_iter().map(|x| Run::new(x, &config, objective)).collect(), &config)
        });
        if let Some(plan) = &config.checkpoint {
            state.save(&plan.path)?;
        }
        Ok(Self { state, config, rates })
    }

    /// The number of steps that the leading run has made.
    pub fn steps(&self) -> usize {
        self.state.runs.iter().map(|run| run.iteration).max().unwrap_or(0)
    }

    /// The point from which the leading run continues, which is not its best point.
    pub fn point(&self) -> &[f64] {
        let ahead = self.state.runs.iter().max_by_key(|run| run.iteration);
        ahead.map_or(&[], |run| &run.point.x)
    }

    /// Makes up to `steps` more steps. `objective` must be the same function as before. Learning rates that decrease
    /// with the steps use the number of steps in the settings, or the number of all steps made if it is larger.
    ///
    /// # Errors
    /// The first error of the objective if it fails at every initial point, [`Error::Shape`] for another state of the
    /// objective.
    pub fn go_on(
        &mut self,
        objective: &mut dyn Objective,
        steps: usize,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Outcome> {
        self.go_to(objective, self.steps() + steps, observers)
    }

    /// Makes the remaining steps up to `limit`.
    fn go_to(
        &mut self,
        objective: &mut dyn Objective,
        limit: usize,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Outcome> {
        let began = Instant::now();
        self.config.steps = self.config.steps.max(limit);
        let Self { state, config, rates } = self;
        let config = &*config;
        let mut writer = config.checkpoint.as_ref().map(Writer::new);
        let plan = Plan {
            dim: objective.dim(),
            optimizer: config.optimizer.name(),
            steps: limit,
            restarts: config.restarts.count,
            loss_scale: config.loss_scale,
            resumed: state.runs.iter().map(|run| run.iteration).sum(),
        };
        observers.iter_mut().for_each(|observer| observer.start(&plan));

        let earlier = state.seconds;
        let mut setting = Setting { config, rates, deadline: None };
        let mut first_error = None;
        let mut cut_short = None;
        let mut unsaved = None;
        let mut active = None;
        while let Some((restart, end)) = next_step(&state.runs, config, limit) {
            if active != Some(restart) {
                state.keep(active, objective);
                objective.restore(&state.runs[restart].objective)?;
                active = Some(restart);
            }
            // Without any point there is no result, so the first one is evaluated however little time there is.
            let any = state.runs.iter().any(|run| run.best.is_some());
            setting.deadline = config.max_time.filter(|_| any).and_then(|budget| began.checked_add(budget));
            let run = &mut state.runs[restart];
            let advance = run.advance(objective, &setting);
            state.seconds = earlier + began.elapsed().as_secs_f64();
            match advance {
                Advance::Moved { smoothed, rate } => {
                    let report = Report {
                        restart,
                        iteration: run.iteration,
                        limit: end,
                        evaluations: run.evaluations,
                        loss: run.point.loss,
                        smoothed,
                        gradient_norm: run.point.gradient_norm(),
                        rate,
                        seconds: state.seconds,
                        x: &run.point.x,
                    };
                    let _ = state.history.step(&report);
                    for observer in observers.iter_mut() {
                        if observer.step(&report).is_break() {
                            cut_short = Some(Termination::Interrupted);
                        }
                    }
                    if let Some(writer) = &mut writer
                        && writer.due()
                    {
                        state.keep(active, objective);
                        // A training is more valuable than its saved state.
                        unsaved = writer.save(state).err();
                    }
                }
                Advance::Ended => {}
                Advance::OutOfTime => cut_short = Some(Termination::MaxTime),
                Advance::Failed(error) => {
                    first_error.get_or_insert(error);
                }
            }
            if cut_short.is_some() {
                break;
            }
        }
        state.keep(active, objective);
        if let Some(writer) = &mut writer {
            unsaved = writer.save(state).err();
        }
        if let Some(best) = best(&state.runs) {
            objective.restore(&state.runs[best].objective)?;
        }
        let epoch = objective.stochastic().then(|| objective.steps_per_epoch());
        let outcome =
            outcome(state, (config, limit, epoch), cut_short).map_err(|problem| first_error.unwrap_or(problem))?;
        let outcome = Outcome { unsaved: unsaved.map(|error: Error| error.to_string()), ..outcome };
        observers.iter_mut().for_each(|observer| observer.finish(&outcome));
        Ok(outcome)
    }
}

/// Checks the initial point, the groups and whether the optimiser suits the objective. Returns the learning-rate factor
/// of every parameter.
fn check(objective: &dyn Objective, x0: &[f64], optimizer: &Optimizer) -> Result<Vec<f64>> {
    let dim = objective.dim();
    if objective.stochastic() && matches!(optimizer, Optimizer::Lbfgs(_)) {
        return Err(Error::Usage(
            "L-BFGS compares losses, and those of minibatches differ by their rows: train by Adam, or on batches of \
             all rows"
                .into(),
        ));
    }
    if x0.len() != dim {
        return Err(Error::shape("initial parameters", dim.to_string(), x0.len().to_string()));
    }
    if let Some(index) = x0.iter().position(|x| !x.is_finite()) {
        return Err(Error::NotFinite(format!("initial parameter {index} ({})", x0[index])));
    }
    let mut rates = vec![1.0; dim];
    let mut taken = vec![false; dim];
    for group in objective.groups() {
        let range = || format!("parameter group {}..{}", group.range.start, group.range.end);
        if group.range.start > group.range.end || group.range.end > dim {
            return Err(Error::Usage(format!("{} does not lie within the {dim} parameters", range())));
        }
        if !(group.rate.is_finite() && group.rate > 0.0 && group.spread.is_finite() && group.spread >= 0.0) {
            let problem = format!(
                "{}: the learning-rate factor {} must be positive, the spread {} not negative",
                range(),
                group.rate,
                group.spread
            );
            return Err(Error::Usage(problem));
        }
        if taken[group.range.clone()].contains(&true) {
            return Err(Error::Usage(format!("{} overlaps another one", range())));
        }
        taken[group.range.clone()].fill(true);
        rates[group.range].fill(group.rate);
    }
    Ok(rates)
}

/// The run that makes the next step, and the step at which it stops. Both depend only on the state, so nothing else
/// needs saving. In a race, all runs reach its end before the best continues.
fn next_step(runs: &[Run], config: &TrainConfig, steps: usize) -> Option<(usize, usize)> {
    let race = config.restarts.race.filter(|_| runs.len() > 1).map(|race| race.min(steps));
    let limit = race.unwrap_or(steps);
    let unfinished = runs.iter().position(|run| run.unfinished(limit)).map(|index| (index, limit));
    if unfinished.is_some() || race.is_none() {
        return unfinished;
    }
    let ahead = runs.iter().position(|run| run.iteration > limit);
    let winner = ahead.or_else(|| best(runs))?;
    runs[winner].unfinished(steps).then_some((winner, steps))
}

/// The run with the lowest loss.
fn best(runs: &[Run]) -> Option<usize> {
    let losses = runs.iter().enumerate().filter_map(|(index, run)| Some((index, run.best.as_ref()?.loss)));
    losses.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(index, _)| index)
}

/// The result that a state gives, or the failure of its first run if it has no result.
fn outcome(
    state: &TrainingState,
    (config, limit, epoch): (&TrainConfig, usize, Option<usize>),
    cut_short: Option<Termination>,
) -> Result<Outcome> {
    let restarts: Vec<_> = state.runs.iter().map(|run| run.report(limit)).collect();
    let found = best(&state.runs).and_then(|index| Some((index, state.runs[index].best.clone()?)));
    let Some((best_restart, best)) = found else {
        let problem = restarts.first().and_then(|run| run.termination.as_ref()).map(Termination::to_string);
        return Err(Error::Data(problem.unwrap_or_default()));
    };
    let ended = restarts[best_restart].termination.clone();
    let lowest = state.runs[best_restart].lowest.clone();
    let curve = state.history.records.iter().filter(|record| record.restart == best_restart);
    let (losses, rates): (Vec<f64>, Vec<f64>) = curve.map(|record| (record.loss, record.rate)).unzip();
    let rates = (!matches!(config.optimizer, Optimizer::Lbfgs(_))).then_some(rates);
    Ok(Outcome {
        x: best.x,
        loss: best.loss,
        settled: lowest.map(|lowest| (lowest.x, lowest.loss)),
        loss_scale: config.loss_scale,
        termination: cut_short.or(ended).unwrap_or(Termination::Steps),
        iterations: restarts.iter().map(|run| run.iterations).sum(),
        evaluations: restarts.iter().map(|run| run.evaluations).sum(),
        seconds: state.seconds,
        fall: Fall::of(&losses, rates.as_deref(), epoch),
        history: state.history.clone(),
        restarts,
        best_restart,
        unsaved: None,
    })
}
