//! L-BFGS (Nocedal and Wright 2006, algorithms 7.4 and 7.5).
//!
//! This is not the L-BFGS of `argmin`, for three reasons. Its line searches return an error at an infinite or NaN trial
//! value, and then its L-BFGS ends without a point. It evaluates loss and gradient separately. It drops curvature pairs
//! by the iteration count, so that its memory can neither be cleared nor skip a pair.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::line_search::{Search, search};
use super::point::{Point, Probe, Stepped, dot, max_abs, shifted};
use super::{Termination, exact};
use crate::{Error, Result};

/// How far any coordinate moves at most in the first trial of a step along the negative gradient, whose length has no
/// meaning yet.
const FIRST_MOVE: f64 = 1.0;
/// The same for later steps: parameters are logarithms and similar, where ten is very far.
const LARGEST_MOVE: f64 = 10.0;
/// The smallest cosine between the changes of the point and of the gradient for which the pair is stored.
const LEAST_CURVATURE: f64 = 1e-10;

/// The settings of L-BFGS, for objectives without noise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lbfgs {
    /// Number of curvature pairs kept.
    pub memory: usize,
    /// Converged when `max |gradient|`, divided by the loss scale, is at most this.
    pub gradient_tolerance: f64,
    /// Converged when the relative decrease of the loss is at most this in [`patience`](Self::patience) steps in a row.
    /// Also converged when, in as many [choices](crate::train::Objective::choose) of the objective, the loss decreases
    /// by at most this below its earlier minimum.
    pub loss_tolerance: f64,
    /// Number of steps for [`loss_tolerance`](Self::loss_tolerance).
    pub patience: usize,
    /// Most evaluations in one line search.
    pub line_search: usize,
}

impl Default for Lbfgs {
    fn default() -> Self {
        Self { memory: 20, gradient_tolerance: 1e-6, loss_tolerance: 1e-9, patience: 5, line_search: 30 }
    }
}

impl Lbfgs {
    pub(crate) fn validate(&self) -> Result<()> {
        let counts = [("memory", self.memory), ("patience", self.patience), ("line search", self.line_search)];
        if let Some((what, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(Error::Usage(format!("L-BFGS: the number for {what} must be at least 1")));
        }
        let tolerances = [("gradient", self.gradient_tolerance), ("loss", self.loss_tolerance)];
        match tolerances.into_iter().find(|(_, value)| !(value.is_finite() && *value >= 0.0)) {
            Some((what, value)) => {
                Err(Error::Usage(format!("L-BFGS: the {what} tolerance {value} must not be negative")))
            }
            None => Ok(()),
        }
    }
}

/// A stored step: how the point and the gradient changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Pair {
    #[serde(with = "exact::vector")]
    s: Vec<f64>,
    #[serde(with = "exact::vector")]
    y: Vec<f64>,
}

/// The memory of L-BFGS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LbfgsState {
    pairs: VecDeque<Pair>,
    /// Steps in a row that hardly decreased the loss.
    quiet: usize,
    /// Choices of the objective in a row that hardly lowered the loss.
    #[serde(default)]
    settled: usize,
}

impl LbfgsState {
    pub(crate) fn fits(&self, dim: usize) -> bool {
        self.pairs.iter().all(|pair| pair.s.len() == dim && pair.y.len() == dim)
    }

    /// Records that the objective has chosen: from now on the loss is another function with a similar curvature. `loss`
    /// is its value now, and `lowest` was the lowest value before.
    pub(crate) fn chosen(&mut self, settings: &Lbfgs, lowest: Option<f64>, loss: f64) {
        self.quiet = 0;
        let lower = lowest.is_none_or(|lowest| lowest - loss > settings.loss_tolerance * lowest.abs().max(loss.abs()));
        self.settled = if lower { 0 } else { self.settled + 1 };
    }

    /// One line search from `from`. If it finds nothing, a second one along the negative gradient with an empty memory.
    pub(crate) fn step(&mut self, settings: &Lbfgs, from: &Point, probe: &mut Probe) -> Stepped {
        if from.gradient_norm() <= settings.gradient_tolerance {
            return Err(Termination::GradientTolerance);
        }
        if self.quiet.max(self.settled) >= settings.patience {
            return Err(Termination::LossTolerance);
        }
        let steepest = || (from.gradient.iter().map(|g| -g).collect(), true);
        let known = self.direction(&from.gradient).map(|direction| (direction, false));
        let mut failure = Termination::LineSearchFailed;
        for (direction, is_steepest) in known.into_iter().chain(std::iter::once_with(steepest)) {
            let most = if is_steepest { FIRST_MOVE } else { LARGEST_MOVE };
            let first = (most / max_abs(&direction)).min(1.0);
            match search(from, &direction, first, settings.line_search, probe) {
                Search::Found(found) => {
                    if is_steepest {
                        self.pairs.clear();
                    }
                    self.remember(settings, from, &found.to);
                    return Ok(found);
                }
                Search::OutOfTime => return Err(Termination::MaxTime),
                Search::Nothing(problem) => {
                    failure = problem.map_or(Termination::LineSearchFailed, Termination::Failed);
                }
            }
        }
        Err(failure)
    }

    /// `−H g` by the two-loop recursion; none without memory, or if rounding errors have destroyed the descent.
    fn direction(&self, gradient: &[f64]) -> Option<Vec<f64>> {
        let last = self.pairs.back()?;
        let mut d: Vec<f64> = gradient.iter().map(|g| -g).collect();
        let mut weights = Vec::with_capacity(self.pairs.len());
        for Pair { s, y } in self.pairs.iter().rev() {
            let weight = dot(s, &d) / dot(s, y);
            d = shifted(&d, -weight, y);
            weights.push(weight);
        }
        let scale = dot(&last.s, &last.y) / dot(&last.y, &last.y);
        d.iter_mut().for_each(|d| *d *= scale);
        for (Pair { s, y }, weight) in self.pairs.iter().zip(weights.into_iter().rev()) {
            d = shifted(&d, weight - dot(y, &d) / dot(s, y), s);
        }
        (d.iter().all(|d| d.is_finite()) && dot(&d, gradient) < 0.0).then_some(d)
    }

    fn remember(&mut self, settings: &Lbfgs, from: &Point, to: &Point) {
        let s = shifted(&to.x, -1.0, &from.x);
        let y = shifted(&to.gradient, -1.0, &from.gradient);
        if dot(&s, &y) > LEAST_CURVATURE * (dot(&s, &s) * dot(&y, &y)).sqrt() {
            if self.pairs.len() >= settings.memory {
                self.pairs.pop_front();
            }
            self.pairs.push_back(Pair { s, y });
        }
        let little = settings.loss_tolerance * from.loss.abs().max(to.loss.abs());
        self.quiet = if from.loss - to.loss <= little { self.quiet + 1 } else { 0 };
    }
}
