//! What a training will take, known before it.

use super::Plan;
use crate::advice::Advice;
use crate::error::Result;
use crate::fitted::average;
use crate::models::gp_model::Size;
use crate::models::minibatch::Rows;
use crate::train::TrainConfig;

/// The cost of one evaluation of the objective and its gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Measured seconds.
    pub seconds: f64,
    /// Computed bytes, roughly.
    pub bytes: f64,
}

impl Plan {
    /// Rows that a training step sees.
    fn batch(&self) -> usize {
        let rows = self.data.n();
        self.options.minibatches().map_or(rows, |batches| batches.size.min(rows))
    }

    /// Bytes that a training step takes, roughly; computed without touching the data.
    pub fn bytes(&self) -> f64 {
        let size = Size { rows: self.data.n(), columns: self.data.d, batch: self.batch() };
        self.together() as f64 * self.model.bytes(self.settings.compute, size)
    }

    /// Evaluates the objective and its gradient once, as a training step does, to measure the cost.
    ///
    /// # Errors
    /// As the objective.
    pub fn cost(&self) -> Result<Cost> {
        let few = match self.batch() {
            all if all == self.data.n() => None,
            some => Some(self.data.gather(&(0..some).collect::<Vec<_>>())?),
        };
        let rows = few.as_ref().unwrap_or(&self.data);
        let seconds = self.model.seconds(self.settings.compute, rows, self.options.minibatches())?;
        Ok(Cost { seconds, bytes: self.bytes() })
    }

    /// Seconds of all steps that a configuration allows, measured as [`cost`](Self::cost); of an average of different
    /// models, of the steps of each.
    ///
    /// # Errors
    /// As the objective.
    pub fn seconds(&self, config: &TrainConfig) -> Result<f64> {
        let steps = |config: &TrainConfig| config.steps as f64 * config.restarts.count as f64;
        if !self.is_of_kinds() {
            return Ok(self.cost()?.seconds * steps(config) * self.models() as f64 / self.together() as f64);
        }
        let all: Vec<&Self> = std::iter::once(self).chain(&self.others).collect();
        let own = average::own(&all, config);
        all.into_iter().zip(own).map(|(plan, config)| Ok(plan.cost()?.seconds * steps(&config))).sum()
    }

    /// Whether this is an average of different kinds of models.
    pub fn is_of_kinds(&self) -> bool {
        self.others.iter().any(|other| other.settings.model.kind() != self.settings.model.kind())
    }

    /// Advice that makes steps far shorter, if one of the settings takes most of their time.
    pub fn shorter(&self) -> Option<Advice> {
        let rows = self.stored.as_ref().map_or(self.data.n(), |stored| stored.count());
        self.options.shorter(rows)
    }
}
