//! Objectives over all rows for the trainer. No tensor holds all these rows.

use std::time::Instant;

use burn::tensor::Tensor;

use super::Experts;
use super::rows::Data;
use crate::device::Compute;
use crate::error::Result;
use crate::linalg::jitter::watch;
use crate::models::fit::{JitterLimit, add_priors, groups};
use crate::models::{Model, Observations};
use crate::scope::Scope;
use crate::train::{self, Evaluation, Group, Objective, Observer, Outcome, Step, TrainConfig};

/// A model made of parts of the rows.
pub(super) trait OfParts: Model + Clone {
    /// The parts, and where their rows are.
    fn experts(&self) -> &Experts;

    /// The objective on rows on the host.
    fn objective_over(&self, scope: &Scope, data: Data) -> Result<Tensor<1>>;
}

/// An objective plus the negative log priors of the parameters, as a function of the free raw values.
struct Whole<'a, M> {
    model: M,
    compute: Compute,
    data: &'a Observations,
    limit: JitterLimit,
}

/// The objective with priors, and its gradient in the free raw values.
///
/// # Errors
/// Errors of an expert.
pub(super) fn evaluate(model: &impl OfParts, compute: Compute, data: &Observations) -> Result<Evaluation> {
    let data = model.experts().seen(data);
    let scope = Scope::training(compute)?.with_budget(model.budget(data.n(), compute.precision));
    let loss = model.objective_over(&scope, data)?;
    let (loss, mut gradient) = scope.gradient(loss, model)?;
    let priors = add_priors(model, &mut gradient);
    Ok(Evaluation { loss: loss + priors, gradient })
}

/// Measures the seconds that an evaluation takes.
///
/// # Errors
/// As [`evaluate`].
pub(super) fn seconds(model: &impl OfParts, compute: Compute, data: &Observations) -> Result<f64> {
    let start = Instant::now();
    evaluate(model, compute, data)?;
    Ok(start.elapsed().as_secs_f64())
}

/// Minimises the objective with the ordinary optimiser and leaves the model at the best point found.
///
/// # Errors
/// As [`fit`](crate::models::fit::fit).
pub(super) fn train(
    model: &mut impl OfParts,
    compute: Compute,
    data: &Observations,
    config: &TrainConfig,
    observers: &mut [&mut dyn Observer],
) -> Result<Outcome> {
    let start = model.free_raw();
    let config = config.clone().loss_scale(model.experts().rows() as f64);
    let mut whole = Whole { model: model.clone(), compute, data, limit: JitterLimit::default() };
    let outcome = train::minimise(&mut whole, &start, &config, observers)?;
    model.set_free_raw(&outcome.x)?;
    Ok(outcome)
}

impl<M: OfParts> Objective for Whole<'_, M> {
    fn dim(&self) -> usize {
        self.model.free_raw().len()
    }

    fn evaluate(&mut self, x: &[f64], _step: Step) -> Result<Evaluation> {
        self.model.set_free_raw(x)?;
        let (evaluation, jitter) = watch(|| evaluate(&self.model, self.compute, self.data));
        self.limit.check(jitter, self.model.bears_jitter())?;
        evaluation
    }

    fn groups(&self) -> Vec<Group> {
        groups(&self.model, |_| None)
    }

    fn state(&self) -> Vec<f64> {
        self.limit.state()
    }

    fn restore(&mut self, state: &[f64]) -> Result<()> {
        self.limit.restore(state)
    }
}
