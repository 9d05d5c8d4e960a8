//! When training ends, and why.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::exact;

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Termination {
    /// The largest component of the gradient is within the tolerance.
    GradientTolerance,
    /// The loss has hardly decreased over several steps.
    LossTolerance,
    /// All steps were made.
    Steps,
    /// The time limit was reached.
    MaxTime,
    /// The loss has not improved for `patience` steps.
    EarlyStop {
        /// The number of steps without improvement.
        patience: usize,
    },
    /// No step along the search direction decreases the loss.
    LineSearchFailed,
    /// An observer asked to stop.
    Interrupted,
    /// The objective failed at the initial point or at every point tried; holds its last message.
    Failed(String),
}

impl Termination {
    /// Whether the run is at a minimum as far as its optimiser can tell.
    pub fn converged(&self) -> bool {
        matches!(self, Self::GradientTolerance | Self::LossTolerance)
    }
}

impl fmt::Display for Termination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GradientTolerance => write!(f, "converged: the gradient is within the tolerance"),
            Self::LossTolerance => write!(f, "converged: the loss no longer decreases"),
            Self::Steps => write!(f, "all steps made"),
            Self::MaxTime => write!(f, "the time is up"),
            Self::EarlyStop { patience } => write!(f, "stopped early: no improvement in {patience} steps"),
            Self::LineSearchFailed => write!(f, "the line search found no lower loss"),
            Self::Interrupted => write!(f, "interrupted"),
            Self::Failed(problem) => write!(f, "failed: {problem}"),
        }
    }
}

/// Steps at the end of a training that tell whether more of them would pay.
pub(crate) const LAST: usize = 50;

/// More steps pay if so many of them lower the loss by more than this, such as nats per row.
#[doc(hidden)]
pub const PAYS: f64 = 1e-3;

/// By how much the last steps of a training lowered its loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fall {
    /// The number of steps.
    pub steps: usize,
    /// The decrease of the loss, divided by the loss scale.
    pub by: f64,
    /// Their mean learning rate as a share of the largest one of the training; 1 for L-BFGS.
    pub share: f64,
}

impl Fall {
    /// From the losses at the initial point and after each step, with the learning rates of an optimiser that has them.
    /// The losses of a stochastic objective with `epoch` steps in an epoch are compared as means over whole epochs, in
    /// which every row counts equally; those of the first half of a training are not, because it begins far away. There
    /// is none if there are too few steps.
    pub(crate) fn of(losses: &[f64], rates: Option<&[f64]>, epoch: Option<usize>) -> Option<Self> {
        let (steps, by) = match epoch {
            None => {
                let steps = LAST.min(losses.len() / 2);
                let earlier = losses.get(losses.len().checked_sub(steps + 1)?)?;
                (steps, earlier - losses[losses.len() - steps..].iter().copied().reduce(f64::min)?)
            }
            Some(epoch) => {
                let whole = losses.len() - losses.len() % epoch;
                let steps = (LAST.div_ceil(epoch) * epoch).min(whole / (4 * epoch) * epoch);
                let mean = |from: usize| losses[from..from + steps].iter().sum::<f64>() / steps as f64;
                (steps, if steps == 0 { return None } else { mean(whole - 2 * steps) - mean(whole - steps) })
            }
        };
        let share = rates.map_or(1.0, |rates| {
            let largest = rates.iter().copied().fold(0.0, f64::max);
            rates[rates.len() - steps..].iter().sum::<f64>() / (largest * steps as f64)
        });
        Some(Self { steps, by, share })
    }

    /// Whether more steps, at the largest rate, would lower the loss further.
    pub fn goes_on(&self) -> bool {
        self.by > PAYS * self.share
    }
}

/// Stop when the loss has not improved for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlyStopping {
    /// Stops after this many steps without improvement.
    pub patience: usize,
    /// The decrease that counts as improvement, relative to the magnitude of the loss.
    pub improvement: f64,
}

impl Default for EarlyStopping {
    /// 100 steps without an improvement of 1e-4.
    fn default() -> Self {
        Self { patience: 100, improvement: 1e-4 }
    }
}

/// Follows the losses of one run: smooths them, and finds which is the lowest and for how long none was lower.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Monitor {
    window: usize,
    seen: usize,
    /// The exponential moving average, not yet corrected for its start at 0.
    #[serde(with = "exact::number")]
    average: f64,
    #[serde(with = "exact::number")]
    lowest: f64,
    /// The loss from which the next improvement is measured.
    #[serde(with = "exact::number")]
    reference: f64,
    stale: usize,
}

impl Monitor {
    /// A monitor that averages over about `window` losses. With 1 it takes losses as they are.
    pub(crate) fn new(window: usize) -> Self {
        let window = window.max(1);
        Self { window, seen: 0, average: 0.0, lowest: f64::INFINITY, reference: f64::INFINITY, stale: 0 }
    }

    /// Takes the loss of a step. Returns the smoothed loss, and whether it is the lowest so far. Until the window is
    /// full, the latest loss counts as the lowest, because the average of a few batches says little.
    pub(crate) fn observe(&mut self, loss: f64, rule: Option<&EarlyStopping>) -> (f64, bool) {
        let keep = 1.0 - 1.0 / self.window as f64;
        self.seen += 1;
        self.average = keep * self.average + (1.0 - keep) * loss;
        let smoothed = if self.window == 1 { loss } else { self.average / (1.0 - keep.powf(self.seen as f64)) };
        let filling = self.seen < self.window;
        let lowest = filling || smoothed < self.lowest;
        if lowest {
            self.lowest = smoothed;
        }
        let improvement = rule.map_or(0.0, |rule| rule.improvement);
        let improved = self.reference.is_infinite() || smoothed < self.reference - improvement * self.reference.abs();
        if filling || improved {
            (self.reference, self.stale) = (smoothed, 0);
        } else {
            self.stale += 1;
        }
        (smoothed, lowest)
    }

    /// The reason to stop, if the rule gives one.
    pub(crate) fn verdict(&self, rule: Option<&EarlyStopping>) -> Option<Termination> {
        let patience = rule?.patience;
        (self.stale >= patience).then_some(Termination::EarlyStop { patience })
    }
}
