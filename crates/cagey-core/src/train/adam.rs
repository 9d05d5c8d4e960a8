//! Adam (Kingma and Ba 2015, algorithm 1) with learning rates by group, a schedule and gradient clipping.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::point::{Point, Probe, Stepped, dot, halved};
use super::{Schedule, exact};
use crate::linalg::real::vectorised;
use crate::threads::{self, GRAIN};
use crate::{Error, Result};

/// The settings of Adam: `x ← x − α m̂ / (√v̂ + ε)`, with `m̂`, `v̂` the bias-corrected moving averages of the gradient
/// and its square.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Adam {
    /// The learning rate `α`. Groups and the schedule multiply it.
    pub rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// `ε`.
    pub epsilon: f64,
    /// How the learning rate changes over the steps.
    pub schedule: Schedule,
    /// The largest Euclidean norm of the gradient (divided by the loss scale). Longer gradients are scaled down to it.
    pub clip: Option<f64>,
    /// Whether parameters with gradient 0 keep their values and their moments ("lazy" Adam), because a minibatch does
    /// not contain them. Bias corrections count all steps.
    // Omitted if not set, so that the settings of older checkpoints stay the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lazy: bool,
}

impl Default for Adam {
    fn default() -> Self {
        Self {
            rate: 0.01,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            schedule: Schedule::Constant,
            clip: None,
            lazy: false,
        }
    }
}

impl Adam {
    pub(crate) fn validate(&self) -> Result<()> {
        let wrong = |what: &str, value: f64, range: &str| {
            Err(Error::Usage(format!("Adam: the {what} {value} must be {range}")))
        };
        let positive = |value: f64| value.is_finite() && value > 0.0;
        match self {
            Self { rate, .. } if !positive(*rate) => wrong("learning rate", *rate, "positive"),
            Self { beta1, .. } if !(0.0..1.0).contains(beta1) => wrong("decay beta1", *beta1, "in [0, 1)"),
            Self { beta2, .. } if !(0.0..1.0).contains(beta2) => wrong("decay beta2", *beta2, "in [0, 1)"),
            Self { epsilon, .. } if !positive(*epsilon) => wrong("epsilon", *epsilon, "positive"),
            Self { clip: Some(clip), .. } if !positive(*clip) => wrong("gradient clip", *clip, "positive"),
            _ => self.schedule.validate(),
        }
    }
}

/// The moments of Adam after `updates` updates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct AdamState {
    updates: usize,
    #[serde(with = "exact::vector")]
    first: Vec<f64>,
    #[serde(with = "exact::vector")]
    second: Vec<f64>,
}

impl AdamState {
    #[doc(hidden)]
    pub fn new(dim: usize) -> Self {
        Self { updates: 0, first: vec![0.0; dim], second: vec![0.0; dim] }
    }

    pub(crate) fn fits(&self, dim: usize) -> bool {
        self.first.len() == dim && self.second.len() == dim
    }

    /// One update from `from`. A step out of the domain of the objective is halved until it ends inside.
    pub(crate) fn step(
        &mut self,
        settings: &Adam,
        rates: &[f64],
        factor: f64,
        from: &Point,
        probe: &mut Probe,
    ) -> Stepped {
        let rate = settings.rate * factor;
        let next = self.updated(settings, &from.gradient);
        let stepped = halved(rate, probe, |share| next.moved(settings, rates, rate * share, (&from.x, &from.gradient)));
        if stepped.is_ok() {
            *self = next;
        }
        stepped
    }

    /// Returns `x` after one update with a constant rate, whatever the loss is there.
    #[doc(hidden)]
    pub fn update(&mut self, settings: &Adam, x: &[f64], gradient: &[f64]) -> Vec<f64> {
        *self = self.updated(settings, gradient);
        self.moved(settings, &vec![1.0; x.len()], settings.rate, (x, gradient))
    }

    /// Appends the number of updates and the moments as numbers.
    #[doc(hidden)]
    pub fn write(&self, into: &mut Vec<f64>) {
        into.push(self.updates as f64);
        into.extend(self.first.iter().chain(&self.second));
    }

    /// Reads the numbers that [`write`](Self::write) made.
    #[doc(hidden)]
    pub fn read(numbers: &[f64]) -> Self {
        let Some((updates, moments)) = numbers.split_first() else { return Self::new(0) };
        let (first, second) = moments.split_at(moments.len() / 2);
        Self { updates: *updates as usize, first: first.to_vec(), second: second.to_vec() }
    }

    /// The moments after the gradient `g`.
    fn updated(&self, settings: &Adam, g: &[f64]) -> Self {
        let &Adam { beta1, beta2, clip, lazy, .. } = settings;
        let shrink = clip.map_or(1.0, |most| (most / dot(g, g).sqrt()).min(1.0));
        let (keep1, keep2) = (1.0 - beta1, 1.0 - beta2);
        let pairs = |moments| g.par_iter().zip(moments).with_min_len(GRAIN);
        let shrunk = |g: &f64| shrink * g;
        let still = |g: &f64| lazy && *g == 0.0;
        Self {
            updates: self.updates + 1,
            first: threads::map(pairs(&self.first), |(g, m)| if still(g) { *m } else { beta1 * m + keep1 * shrunk(g) }),
            second: threads::map(pairs(&self.second), |(g, v)| {
                if still(g) { *v } else { beta2 * v + keep2 * (shrunk(g) * shrunk(g)) }
            }),
        }
    }

    /// Returns `x` after a step at this rate, for the gradient there.
    fn moved(&self, settings: &Adam, rates: &[f64], rate: f64, (x, gradient): (&[f64], &[f64])) -> Vec<f64> {
        let correction1 = 1.0 - settings.beta1.powf(self.updates as f64);
        let correction2 = 1.0 - settings.beta2.powf(self.updates as f64);
        let mut moved = threads::map(x.par_iter().with_min_len(GRAIN), |x| *x);
        let moments = self.first.par_chunks(GRAIN).zip(self.second.par_chunks(GRAIN));
        let blocks = moved.par_chunks_mut(GRAIN).zip(rates.par_chunks(GRAIN)).zip(moments);
        threads::for_each(blocks, |((x, rates), (m, v))| {
            vectorised(|| {
                for (((x, factor), m), v) in x.iter_mut().zip(rates).zip(m).zip(v) {
                    *x -= rate * factor * (m / correction1) / ((v / correction2).sqrt() + settings.epsilon);
                }
            });
        });
        if settings.lazy {
            let still = moved.iter_mut().zip(x).zip(gradient).filter(|(_, g)| **g == 0.0);
            still.for_each(|((moved, x), _)| *moved = *x);
        }
        moved
    }
}
