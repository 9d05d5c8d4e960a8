//! One run of an optimiser from one initial point, as a state that can be saved between any two steps.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::adam::AdamState;
use super::lbfgs::LbfgsState;
use super::point::{Move, Point, Refusal};
use super::stop::Monitor;
use super::{Evaluation, Objective, Optimizer, RestartReport, Step, Termination, TrainConfig, exact};
use crate::params::all_finite;
use crate::{Error, Result};

/// The number of steps over which the losses of a stochastic objective are averaged, if an epoch has fewer.
const LEAST_WINDOW: usize = 10;

/// The memory of an optimiser.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Memory {
    Adam(AdamState),
    Lbfgs(LbfgsState),
}

/// The lowest point of a run; its loss is divided by the loss scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Best {
    #[serde(with = "exact::vector")]
    pub(crate) x: Vec<f64>,
    #[serde(with = "exact::number")]
    pub(crate) loss: f64,
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) iteration: usize,
    pub(crate) evaluations: usize,
    /// Before the first evaluation the gradient is empty.
    pub(crate) point: Point,
    memory: Memory,
    monitor: Monitor,
    pub(crate) best: Option<Best>,
    pub(crate) ended: Option<Termination>,
}

/// What stays the same during a call of the trainer.
pub(crate) struct Setting<'a> {
    pub(crate) config: &'a TrainConfig,
    /// The learning-rate factor of every parameter.
    pub(crate) rates: Vec<f64>,
    pub(crate) deadline: Option<Instant>,
}

/// What came of advancing a run.
pub(crate) enum Advance {
    /// A step, or the initial evaluation, is made.
    Moved { smoothed: f64, rate: f64 },
    /// The run is over.
    Ended,
    /// The time was up; the run is as before.
    OutOfTime,
    /// The objective failed at the initial point.
    Failed(Error),
}

impl Run {
    /// A run that is to begin at `x`.
    pub(crate) fn new(x: Vec<f64>, config: &TrainConfig, objective: &dyn Objective) -> Self {
        let memory = match config.optimizer {
            Optimizer::Adam(_) => Memory::Adam(AdamState::new(x.len())),
            Optimizer::Lbfgs(_) => Memory::Lbfgs(LbfgsState::default()),
        };
        let window = if objective.stochastic() { objective.steps_per_epoch().max(LEAST_WINDOW) } else { 1 };
        Self {
            iteration: 0,
            evaluations: 0,
            point: Point { x, loss: f64::NAN, gradient: Vec::new() },
            memory,
            monitor: Monitor::new(window),
            best: None,
            ended: None,
        }
    }

    /// Whether a state that was read belongs to `dim` parameters and this optimiser.
    pub(crate) fn fits(&self, dim: usize, optimizer: &Optimizer) -> bool {
        let memory = match (&self.memory, optimizer) {
            (Memory::Adam(memory), Optimizer::Adam(_)) => memory.fits(dim),
            (Memory::Lbfgs(memory), Optimizer::Lbfgs(_)) => memory.fits(dim),
            _ => false,
        };
        let started = self.point.gradient.len() == dim && self.best.as_ref().is_some_and(|best| best.x.len() == dim);
        let fresh = self.point.gradient.is_empty() && self.best.is_none();
        memory && self.point.x.len() == dim && (started || fresh)
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

    /// Evaluates the initial point, or makes a step.
    pub(crate) fn advance(&mut self, objective: &mut dyn Objective, setting: &Setting) -> Advance {
        let rule = setting.config.early_stopping.as_ref();
        let Self { iteration, evaluations, point, memory, monitor, best, ended } = self;
        let started = best.is_some();
        let stochastic = objective.stochastic();
        let step = Step {
            iteration: *iteration + usize::from(started),
            epoch: (*iteration + usize::from(started)) as f64 / objective.steps_per_epoch().max(1) as f64,
            seed: setting.config.seed,
        };
        let mut probe = |x: &[f64]| {
            if setting.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Refusal::OutOfTime);
            }
            *evaluations += 1;
            let found = evaluated(objective, x, step, setting.config.loss_scale).map_err(Refusal::Outside)?;
            if !stochastic && best.as_ref().is_none_or(|best| found.loss < best.loss) {
                *best = Some(Best { x: x.to_vec(), loss: found.loss });
            }
            Ok(found)
        };
        let stepped = if started {
            if let Some(reason) = monitor.verdict(rule) {
                *ended = Some(reason);
                return Advance::Ended;
            }
            match (memory, &setting.config.optimizer) {
                (Memory::Adam(memory), Optimizer::Adam(adam)) => {
                    memory.step(adam, &setting.rates, setting.config.steps, point, &mut probe)
                }
                (Memory::Lbfgs(memory), Optimizer::Lbfgs(lbfgs)) => memory.step(lbfgs, point, &mut probe),
                // Checked when a state is read, and so never the case.
                _ => Err(Termination::Failed("the state is that of another optimiser".into())),
            }
        } else {
            match probe(&point.x) {
                Ok(Evaluation { loss, gradient }) => {
                    Ok(Move { to: Point { x: point.x.clone(), loss, gradient }, rate: 0.0 })
                }
                Err(Refusal::OutOfTime) => Err(Termination::MaxTime),
                Err(Refusal::Outside(error)) => {
                    *ended = Some(Termination::Failed(error.to_string()));
                    return Advance::Failed(error);
                }
            }
        };
        match stepped {
            Ok(Move { to, rate }) => {
                *iteration = step.iteration;
                let (smoothed, lowest) = monitor.observe(to.loss, rule);
                if stochastic && lowest {
                    *best = Some(Best { x: to.x.clone(), loss: smoothed });
                }
                *point = to;
                Advance::Moved { smoothed, rate }
            }
            Err(Termination::MaxTime) => Advance::OutOfTime,
            Err(reason) => {
                *ended = Some(reason);
                Advance::Ended
            }
        }
    }
}

/// The objective at `x` divided by `scale`; an error if anything is not finite.
fn evaluated(objective: &mut dyn Objective, x: &[f64], step: Step, scale: f64) -> Result<Evaluation> {
    let mut found = objective.evaluate(x, step)?;
    if found.gradient.len() != x.len() {
        return Err(Error::shape("gradient of the loss", x.len().to_string(), found.gradient.len().to_string()));
    }
    found.loss /= scale;
    found.gradient.iter_mut().for_each(|g| *g /= scale);
    if !found.loss.is_finite() {
        return Err(Error::NotFinite(format!("the loss ({}) at step {}", found.loss, step.iteration)));
    }
    if !all_finite(&found.gradient) {
        let index = found.gradient.iter().position(|g| !g.is_finite()).unwrap_or_default();
        return Err(Error::NotFinite(format!("the derivative of the loss by parameter {index}")));
    }
    Ok(found)
}
