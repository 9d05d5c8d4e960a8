//! What the optimisers share: evaluated points, and steps that are shortened until the objective has a value.

use serde::{Deserialize, Serialize};

use super::{Evaluation, Termination, exact};
use crate::Error;

/// A point with its loss and gradient, both divided by the loss scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    #[serde(with = "exact::vector")]
    pub(crate) x: Vec<f64>,
    #[serde(with = "exact::number")]
    pub(crate) loss: f64,
    #[serde(with = "exact::vector")]
    pub(crate) gradient: Vec<f64>,
}

impl Point {
    /// A point that was evaluated.
    pub(crate) fn new(x: Vec<f64>, Evaluation { loss, gradient }: Evaluation) -> Self {
        Self { x, loss, gradient }
    }

    /// `max |gradient|`.
    pub(crate) fn gradient_norm(&self) -> f64 {
        max_abs(&self.gradient)
    }
}

/// A step that an optimiser made.
pub(crate) struct Move {
    pub(crate) to: Point,
    /// The learning rate or step length.
    pub(crate) rate: f64,
}

/// Why a point has no value.
pub(crate) enum Refusal {
    /// The point lies outside the domain: an error, or a value that is not finite.
    Outside(Error),
    /// The time limit was reached before the evaluation.
    OutOfTime,
}

/// The answer of the objective.
pub(crate) type Answer<T> = Result<T, Refusal>;

/// Evaluates the objective at a point.
pub(crate) type Probe<'a> = dyn FnMut(&[f64]) -> Answer<Evaluation> + 'a;

/// The outcome of one step of an optimiser. If it is an error, the optimiser's state is unchanged.
pub(crate) type Stepped = Result<Move, Termination>;

/// How often a step that leaves the domain of the objective is halved before the run ends.
const HALVINGS: usize = 20;

/// A step to the point that `end` gives for a share of the whole step. A step out of the domain of the objective is
/// halved until it ends inside.
pub(crate) fn halved(rate: f64, probe: &mut Probe, mut end: impl FnMut(f64) -> Vec<f64>) -> Stepped {
    let (mut share, mut problem) = (1.0, String::new());
    for _ in 0..=HALVINGS {
        let x = end(share);
        match probe(&x) {
            Ok(found) => return Ok(Move { to: Point::new(x, found), rate: rate * share }),
            Err(Refusal::OutOfTime) => return Err(Termination::MaxTime),
            Err(Refusal::Outside(error)) => problem = error.to_string(),
        }
        share *= 0.5;
    }
    Err(Termination::Failed(problem))
}

/// `max |v|`.
pub(crate) fn max_abs(v: &[f64]) -> f64 {
    let mut most = [0.0f64; 8];
    let parts = v.chunks_exact(8);
    let rest = parts.remainder().iter().fold(0.0f64, |most, value| value.abs().max(most));
    for part in parts {
        most.iter_mut().zip(part).for_each(|(most, value)| *most = value.abs().max(*most));
    }
    most.into_iter().fold(rest, f64::max)
}

/// `u·v`.
pub(crate) fn dot(u: &[f64], v: &[f64]) -> f64 {
    u.iter().zip(v).map(|(a, b)| a * b).sum()
}

/// `x + a d`.
#[doc(hidden)]
pub fn shifted(x: &[f64], a: f64, d: &[f64]) -> Vec<f64> {
    x.iter().zip(d).map(|(x, d)| x + a * d).collect()
}
