//! Training a model: its objective and priors as a function of one flat vector, minimised by [`train`].

use super::{Batch, Model, Observations};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::linalg::jitter::watch;
use crate::params::Parameters;
use crate::scope::Scope;
use crate::train::{self, Evaluation, Objective, Observer, Outcome, Step, TrainConfig};

/// Trains a model on observations and leaves it at the best point found.
///
/// Losses in the outcome are per datum: objective plus negative log priors, divided by the number of rows.
///
/// # Errors
/// [`Device`](crate::Error::Device) when the device is not available, and what the objective reports when it fails at
/// every starting point.
pub fn fit<M: Model>(
    model: &mut M,
    compute: Compute,
    data: &Observations,
    config: &TrainConfig,
    observers: &mut [&mut dyn Observer],
) -> Result<Outcome> {
    let start = model.free_raw();
    let batch = data.batch(&Scope::new(compute)?);
    let config = config.clone().loss_scale(data.n() as f64);
    let outcome = train::fit(&mut Loss { model, compute, batch, jitter: None }, &start, &config, observers)?;
    model.set_free_raw(&outcome.x)?;
    Ok(outcome)
}

/// The objective of a model on a batch plus the negative log priors of its parameters, and its gradient in the raw values.
///
/// # Errors
/// What the objective reports; [`NotFinite`](crate::Error::NotFinite) when a value or gradient is not finite.
pub fn evaluate<M: Model>(model: &M, compute: Compute, batch: &Batch) -> Result<Evaluation> {
    let scope = Scope::training(compute)?.with_budget(model.budget(batch.y.dims()[0], compute.precision));
    let loss = model.objective(&scope, batch)?;
    let (loss, mut gradient) = scope.gradient(loss, model)?;
    let priors = add_priors(model, &mut gradient);
    Ok(Evaluation { loss: loss + priors, gradient })
}

/// The negative log priors of all free parameters, their slopes added to the gradient.
pub(super) fn add_priors(model: &impl Parameters, gradient: &mut [f64]) -> f64 {
    let (mut at, mut total) = (0, 0.0);
    for (_, parameter) in model.parameters().into_iter().filter(|(_, p)| !p.fixed) {
        if let Some((value, slopes)) = parameter.neg_log_prior() {
            total += value;
            gradient[at..].iter_mut().zip(&slopes).for_each(|(g, s)| *g += s);
        }
        at += parameter.len();
    }
    total
}

struct Loss<'a, M> {
    model: &'a mut M,
    compute: Compute,
    batch: Batch,
    /// The relative jitter that the first evaluation needed.
    jitter: Option<f64>,
}

impl<M: Model> Objective for Loss<'_, M> {
    fn dim(&self) -> usize {
        self.model.free_raw().len()
    }

    fn evaluate(&mut self, x: &[f64], _step: Step) -> Result<Evaluation> {
        self.model.set_free_raw(x)?;
        let (evaluation, jitter) = watch(|| evaluate(self.model, self.compute, &self.batch));
        // With jitter it is the objective of another model, one with more noise: no point to move to.
        if jitter > *self.jitter.get_or_insert(jitter) {
            return Err(Error::NotFinite(format!(
                "the objective without a jitter of {jitter:.0e} of the mean variance"
            )));
        }
        evaluation
    }
}
