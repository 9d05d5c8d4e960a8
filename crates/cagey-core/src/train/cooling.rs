//! A learning rate that stays as long as it pays and then falls.

use serde::{Deserialize, Serialize};

use super::exact;
use super::stop::{LAST, PAYS};

/// A constant learning rate as long as the loss falls by a thousandth over fifty steps, or over whole epochs of fifty
/// steps or more; then a rate that falls linearly to a tenth, after which the run ends. The fall ends with the last
/// step of the training at the latest. For first-order optimisers, which do not converge at a constant rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cooling {
    /// Steps over which the rate falls.
    pub steps: usize,
}

/// The share of the learning rate at the end.
const END: f64 = 0.1;

impl Cooling {
    /// The factor on the learning rate at update `k` of `steps`, for a loss that became flat after `flat` updates.
    pub(crate) fn factor(&self, k: usize, flat: Option<usize>, steps: usize) -> f64 {
        let over = self.steps.min(steps).max(1);
        let start = flat.unwrap_or(steps).min(steps - over.min(steps));
        1.0 + (END - 1.0) * (k.saturating_sub(start) as f64 / over as f64).min(1.0)
    }

    /// Whether the rate has fallen after `updates`.
    pub(crate) fn is_over(&self, updates: usize, flat: Option<usize>) -> bool {
        flat.is_some_and(|flat| updates >= flat + self.steps)
    }
}

/// Whether the loss still falls, from the means of one block of steps and the next. A block of a stochastic objective
/// has whole epochs, over which every row counts equally.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pace {
    block: usize,
    seen: usize,
    #[serde(with = "exact::number")]
    sum: f64,
    /// The mean of the last whole block.
    #[serde(with = "exact::number")]
    before: f64,
    /// The updates after which the loss no longer fell.
    pub(crate) flat: Option<usize>,
}

impl Pace {
    /// For an objective with so many steps in an epoch.
    pub(crate) fn new(epoch: usize) -> Self {
        let epoch = epoch.max(1);
        Self { block: LAST.div_ceil(epoch) * epoch, seen: 0, sum: 0.0, before: f64::INFINITY, flat: None }
    }

    /// Takes the loss after `updates` updates.
    pub(crate) fn observe(&mut self, loss: f64, updates: usize) {
        self.seen += 1;
        self.sum += loss;
        if self.seen == self.block {
            let mean = self.sum / self.block as f64;
            if self.before - mean <= PAYS {
                self.flat.get_or_insert(updates);
            }
            (self.before, self.sum, self.seen) = (mean, 0.0, 0);
        }
    }
}
