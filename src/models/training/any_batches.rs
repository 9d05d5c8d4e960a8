//! Minibatches for any model: all it needs is an objective for the rows of a batch and their scale.

use super::batches::{Order, Rows, some_rows};
use super::fit::{evaluate_for, groups};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::models::{Batch, Model};
use crate::scope::Scope;
use crate::train::{self, Evaluation, Group, Objective, Observer, Outcome, Step, TrainConfig};

/// The [objective](Model::objective) of any model on minibatches, with the negative log priors of its parameters; for a
/// training loop of your own. A batch has the scale n/b, so that a sum over its rows estimates that over all rows.
pub struct Batched<'a, M: ?Sized> {
    model: &'a mut M,
    compute: Compute,
    data: &'a dyn Rows,
    size: usize,
    order: Order,
}

impl<'a, M: Model + ?Sized> Batched<'a, M> {
    /// For batches of about `size` rows. Each evaluation sets the model's parameters.
    ///
    /// # Errors
    /// [`Error::Usage`] for no rows; for a model that chooses something, which minibatches cannot keep.
    pub fn new(model: &'a mut M, compute: Compute, data: &'a dyn Rows, size: usize) -> Result<Self> {
        some_rows(data, size)?;
        if model.refresh().is_some() {
            return Err(Error::Usage("a model that chooses actions or sites trains on all rows at once".into()));
        }
        Ok(Self { model, compute, data, size, order: Order::default() })
    }
}

impl<M: Model + ?Sized> Objective for Batched<'_, M> {
    fn dim(&self) -> usize {
        self.model.free_raw().len()
    }

    fn evaluate(&mut self, x: &[f64], step: Step) -> Result<Evaluation> {
        let (n, parts) = (self.data.count(), self.steps_per_epoch());
        let rows = self.data.gather(&self.order.rows(n, parts, step.seed, step.iteration))?;
        self.model.set_free_raw(x)?;
        let scale = n as f64 / rows.n() as f64;
        let batch = Batch { scale, ..rows.batch(&Scope::new(self.compute)?) };
        evaluate_for(self.model, self.compute, &batch, None)
    }

    fn groups(&self) -> Vec<Group> {
        groups(self.model, |_| None)
    }

    fn steps_per_epoch(&self) -> usize {
        self.data.count().div_ceil(self.size)
    }

    fn stochastic(&self) -> bool {
        self.steps_per_epoch() > 1
    }
}

/// Trains any model on minibatches of about `size` rows and leaves it at the best point found. Every epoch uses each
/// row once, in an order of its own that the seed determines. Losses are per datum, priors included, smoothed over an
/// epoch.
///
/// # Errors
/// As [`Batched::new`], and what the objective reports at the start.
pub fn fit_any<M: Model + ?Sized>(
    model: &mut M,
    compute: Compute,
    data: &dyn Rows,
    size: usize,
    config: &TrainConfig,
    observers: &mut [&mut dyn Observer],
) -> Result<Outcome> {
    let start = model.free_raw();
    let config = config.clone().loss_scale(data.count() as f64);
    let outcome = train::minimise(&mut Batched::new(model, compute, data, size)?, &start, &config, observers);
    model.set_free_raw(outcome.as_ref().map_or(&start, |outcome| &outcome.x))?;
    outcome
}
