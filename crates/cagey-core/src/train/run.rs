//! One run of an optimiser from one initial point. Its state can be saved between any two steps.

use std::time::Instant;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::adam::AdamState;
use super::cooling::Pace;
use super::lbfgs::LbfgsState;
use super::point::{Answer, Move, Point, Refusal};
use super::stop::Monitor;
use super::{Evaluation, Objective, Optimizer, RestartReport, Step, Termination, TrainConfig, exact};
use crate::params::all_finite;
use crate::threads::{self, GRAIN};
use crate::{Error, Result};

/// The number of steps over which the losses of a stochastic objective are averaged, if an epoch has fewer.
const LEAST_WINDOW: usize = 10;

/// The memory of an optimiser.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Memory {
    Adam(AdamState),
    Lbfgs(LbfgsState),
    Descent,
}

/// The lowest point of a run. Its loss is divided by the loss scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Best {
    #[serde(with = "exact::vector")]
    pub(crate) x: Vec<f64>,
    #[serde(with = "exact::number")]
    pub(crate) loss: f64,
}

/// What the objective chose, represented by the point where it chose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Choice {
    /// The step after which it chose.
    since: usize,
    #[serde(with = "exact::vector")]
    x: Vec<f64>,
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) iteration: usize,
    pub(crate) evaluations: usize,
    /// The gradient is empty before the first evaluation.
    pub(crate) point: Point,
    memory: Memory,
    monitor: Monitor,
    /// Whether the loss still falls, if the learning rate depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pace: Option<Pace>,
    #[serde(default)]
    choice: Option<Choice>,
    pub(crate) best: Option<Best>,
    /// The lowest of the points where the objective chose: only there do its losses belong to one function.
    #[serde(default)]
    pub(crate) lowest: Option<Best>,
    pub(crate) ended: Option<Termination>,
    /// The state of the objective, apart from the parameters, while another run makes a step.
    #[serde(default, with = "exact::vector")]
    pub(crate) objective: Vec<f64>,
}

/// What stays constant during a call of the trainer.
pub(crate) struct Setting<'a> {
    pub(crate) config: &'a TrainConfig,
    /// The learning-rate factor of every parameter.
    pub(crate) rates: &'a [f64],
    pub(crate) deadline: Option<Instant>,
}

/// The result of advancing a run.
pub(crate) enum Advance {
    /// A step, or the initial evaluation, was made.
    Moved { smoothed: f64, rate: f64 },
    /// The run is over.
    Ended,
    /// The time limit was reached, and the run is unchanged.
    OutOfTime,
    /// The objective failed at the initial point.
    Failed(Error),
}

impl Run {
    /// A run that will begin at `x`.
    pub(crate) fn new(x: Vec<f64>, config: &TrainConfig, objective: &dyn Objective) -> Self {
        let memory = match config.optimizer {
            Optimizer::Adam(_) => Memory::Adam(AdamState::new(x.len())),
            Optimizer::Lbfgs(_) => Memory::Lbfgs(LbfgsState::default()),
            Optimizer::Descent(_) => Memory::Descent,
        };
        let cools = config.cooling.is_some() && !matches!(config.optimizer, Optimizer::Lbfgs(_));
        let window = if objective.stochastic() { objective.steps_per_epoch().max(LEAST_WINDOW) } else { 1 };
        Self {
            iteration: 0,
            evaluations: 0,
            point: Point { x, loss: f64::NAN, gradient: Vec::new() },
            memory,
            monitor: Monitor::new(window),
            pace: cools.then(|| Pace::new(objective.steps_per_epoch())),
            choice: None,
            best: None,
            lowest: None,
            ended: None,
            objective: objective.state(),
        }
    }

    /// Whether a state that was read belongs to `dim` parameters and this optimiser.
    pub(crate) fn fits(&self, dim: usize, optimizer: &Optimizer) -> bool {
        let memory = match (&self.memory, optimizer) {
            (Memory::Adam(memory), Optimizer::Adam(_)) => memory.fits(dim),
            (Memory::Lbfgs(memory), Optimizer::Lbfgs(_)) => memory.fits(dim),
            (Memory::Descent, Optimizer::Descent(_)) => true,
            _ => false,
        };
        let started = self.point.gradient.len() == dim && self.best.as_ref().is_some_and(|best| best.x.len() == dim);
        let fresh = self.point.gradient.is_empty() && self.best.is_none();
        let choice = self.choice.as_ref().is_none_or(|choice| choice.x.len() == dim);
        memory && choice && self.point.x.len() == dim && (started || fresh)
    }

    /// Whether there is something to do before step `limit`.
    pub(crate) fn unfinished(&self, limit: usize) -> bool {
        self.ended.is_none() && (self.best.is_none() || self.iteration < limit)
    }

    pub(crate) fn report(&self, limit: usize) -> RestartReport {
        let steps = || (self.iteration >= limit).then_some(Termination::Steps);
        RestartReport {
            loss: self.best.as_ref().map(|best| best.loss),
            iterations: self.iteration,
            evaluations: self.evaluations,
            termination: self.ended.clone().or_else(steps),
        }
    }

    /// The next step; 0 is the evaluation of the initial point.
    fn next(&self, objective: &dyn Objective, setting: &Setting) -> Step {
        let iteration = self.iteration + usize::from(self.best.is_some());
        let epoch = iteration as f64 / objective.steps_per_epoch().max(1) as f64;
        Step { iteration, epoch, seed: setting.config.seed, factor: self.factor(setting.config) }
    }

    /// The factor on the learning rate of the next update.
    fn factor(&self, config: &TrainConfig) -> f64 {
        let (made, steps) = (self.iteration, config.steps);
        let scheduled = match &config.optimizer {
            Optimizer::Adam(adam) => adam.schedule.factor(made, steps),
            Optimizer::Descent(descent) => descent.schedule.factor(made, steps),
            Optimizer::Lbfgs(_) => 1.0,
        };
        let flat = self.pace.as_ref().and_then(|pace| pace.flat);
        scheduled * config.cooling.as_ref().map_or(1.0, |cooling| cooling.factor(made, flat, steps))
    }

    /// Lets the objective choose when a choice is due. The current point then has another value.
    fn refresh(&mut self, objective: &mut dyn Objective, setting: &Setting) -> Answer<()> {
        let Some(steps) = objective.refresh() else { return Ok(()) };
        let valid = self.choice.take_if(|choice| self.iteration < choice.since + steps.max(1));
        let again = valid.is_none() && self.best.is_some();
        if again && setting.out_of_time() {
            return Err(Refusal::OutOfTime);
        }
        let choice = valid.unwrap_or_else(|| Choice { since: self.iteration, x: self.point.x.clone() });
        objective.choose(&choice.x).map_err(Refusal::Outside)?;
        if again {
            let step = self.next(objective, setting);
            let found = probed(objective, setting, step, (&mut self.evaluations, &mut self.best), &choice.x)?;
            let loss = found.loss;
            if let (Memory::Lbfgs(memory), Optimizer::Lbfgs(lbfgs)) = (&mut self.memory, &setting.config.optimizer) {
                memory.chosen(lbfgs, self.lowest.as_ref().map(|best| best.loss), loss);
            }
            if self.lowest.as_ref().is_none_or(|best| loss < best.loss) {
                self.lowest = Some(Best { x: choice.x.clone(), loss });
            }
            self.best.clone_from(&self.lowest);
            self.point = Point::new(choice.x.clone(), found);
        }
        self.choice = Some(choice);
        Ok(())
    }

    /// Evaluates the initial point, or makes a step.
    pub(crate) fn advance(&mut self, objective: &mut dyn Objective, setting: &Setting) -> Advance {
        let rule = setting.config.early_stopping.as_ref();
        let started = self.best.is_some();
        if started && let Some(reason) = self.monitor.verdict(rule) {
            self.ended = Some(reason);
            return Advance::Ended;
        }
        let flat = self.pace.as_ref().and_then(|pace| pace.flat);
        if started && setting.config.cooling.as_ref().is_some_and(|cooling| cooling.is_over(self.iteration, flat)) {
            self.ended = Some(Termination::LossTolerance);
            return Advance::Ended;
        }
        match self.refresh(objective, setting) {
            Ok(()) => {}
            Err(Refusal::OutOfTime) => return Advance::OutOfTime,
            Err(Refusal::Outside(error)) => {
                // A lower point was found with a choice that can no longer be made.
                if self.lowest.is_some() {
                    self.best.clone_from(&self.lowest);
                }
                return self.failed(error);
            }
        }
        let step = self.next(objective, setting);
        let Self { evaluations, point, memory, best, .. } = self;
        let mut probe = |x: &[f64]| probed(objective, setting, step, (&mut *evaluations, &mut *best), x);
        let stepped = if started {
            match (memory, &setting.config.optimizer) {
                (Memory::Adam(memory), Optimizer::Adam(adam)) => {
                    memory.step(adam, setting.rates, step.factor, point, &mut probe)
                }
                (Memory::Lbfgs(memory), Optimizer::Lbfgs(lbfgs)) => memory.step(lbfgs, point, &mut probe),
                (Memory::Descent, Optimizer::Descent(descent)) => {
                    descent.step(setting.rates, step.factor, point, &mut probe)
                }
                // A state is checked when it is read, so this never happens.
                _ => Err(Termination::Failed("the state is that of another optimiser".into())),
            }
        } else {
            match probe(&point.x) {
                Ok(found) => Ok(Move { to: Point::new(point.x.clone(), found), rate: 0.0 }),
                Err(Refusal::OutOfTime) => Err(Termination::MaxTime),
                Err(Refusal::Outside(error)) => return self.failed(error),
            }
        };
        match stepped {
            Ok(Move { to, rate }) => {
                self.iteration = step.iteration;
                if !started && self.choice.is_some() {
                    self.lowest.clone_from(&self.best);
                }
                if let Some(pace) = &mut self.pace {
                    pace.observe(to.loss, self.iteration);
                }
                let (smoothed, lowest) = self.monitor.observe(to.loss, rule);
                // While a rate falls, losses on batches fall or rise with it: the last point is the best one.
                if objective.stochastic() && (lowest || setting.config.cooling.is_some()) {
                    self.best = Some(Best { x: to.x.clone(), loss: smoothed });
                }
                self.point = to;
                Advance::Moved { smoothed, rate }
            }
            Err(Termination::MaxTime) => Advance::OutOfTime,
            // The run may end for what was chosen earlier, but not for what would be chosen here.
            Err(_) if self.choice.take_if(|choice| choice.since < self.iteration).is_some() => {
                self.advance(objective, setting)
            }
            Err(reason) => {
                self.ended = Some(reason);
                Advance::Ended
            }
        }
    }

    /// Ends the run because of an error.
    fn failed(&mut self, error: Error) -> Advance {
        self.ended = Some(Termination::Failed(error.to_string()));
        if self.best.is_some() { Advance::Ended } else { Advance::Failed(error) }
    }
}

impl Setting<'_> {
    fn out_of_time(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// The values of the objective at `x` for optimisers. Counts evaluations, and keeps the lowest point unless the
/// objective is noisy.
fn probed(
    objective: &mut dyn Objective,
    setting: &Setting,
    step: Step,
    (evaluations, best): (&mut usize, &mut Option<Best>),
    x: &[f64],
) -> Answer<Evaluation> {
    if setting.out_of_time() {
        return Err(Refusal::OutOfTime);
    }
    *evaluations += 1;
    let found = evaluated(objective, x, step, setting.config.loss_scale).map_err(Refusal::Outside)?;
    if !objective.stochastic() && best.as_ref().is_none_or(|best| found.loss < best.loss) {
        *best = Some(Best { x: x.to_vec(), loss: found.loss });
    }
    Ok(found)
}

/// The objective at `x` divided by `scale`. Returns an error if anything is not finite.
fn evaluated(objective: &mut dyn Objective, x: &[f64], step: Step, scale: f64) -> Result<Evaluation> {
    let mut found = objective.evaluate(x, step)?;
    if found.gradient.len() != x.len() {
        return Err(Error::shape("gradient of the loss", x.len().to_string(), found.gradient.len().to_string()));
    }
    found.loss /= scale;
    threads::for_each(found.gradient.par_iter_mut().with_min_len(GRAIN), |g| *g /= scale);
    if !found.loss.is_finite() {
        return Err(Error::NotFinite(format!("the loss ({}) at step {}", found.loss, step.iteration)));
    }
    if !all_finite(&found.gradient) {
        let index = found.gradient.iter().position(|g| !g.is_finite()).unwrap_or_default();
        return Err(Error::NotFinite(format!("the derivative of the loss by parameter {index}")));
    }
    Ok(found)
}
