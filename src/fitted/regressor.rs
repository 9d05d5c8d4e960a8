//! The models that a fit can hold, behind one face.

use burn::tensor::Tensor;

use super::conditioned::Conditioned;
use super::settings::ModelChoice;
use crate::device::{Compute, Precision};
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::likelihoods::Likelihood;
use crate::models::cagp::{Cagp, IterativeCagp, SavedPosterior};
use crate::models::exact::ExactGp;
use crate::models::minibatch::Rows;
use crate::models::sgpr::Sgpr;
use crate::models::svgp::Svgp;
use crate::models::swsgp::Swsgp;
use crate::models::{Batch, Model, Observations, fit, minibatch};
use crate::params::{Parameter, Parameters};
use crate::scope::Scope;
use crate::solvers::itergp::SolveReport;
use crate::train::{Observer, Outcome, TrainConfig};

/// A regression model of any kind.
#[derive(Debug, Clone)]
pub enum Regressor {
    /// Without approximation.
    Exact(ExactGp),
    /// Computation-aware, with learned actions.
    Cagp(Cagp),
    /// Computation-aware, with actions from a policy.
    Iterative(IterativeCagp),
    /// Sparse, with the collapsed bound.
    Sgpr(Sgpr),
    /// Sparse and variational, for any likelihood.
    Svgp(Svgp),
    /// Sparse within sparse, for any likelihood of one latent function.
    Swsgp(Swsgp),
}

/// Calls a method that all models have.
macro_rules! each {
    ($self:expr, $model:ident => $call:expr) => {
        match $self {
            Regressor::Exact($model) => $call,
            Regressor::Cagp($model) => $call,
            Regressor::Iterative($model) => $call,
            Regressor::Sgpr($model) => $call,
            Regressor::Svgp($model) => $call,
            Regressor::Swsgp($model) => $call,
        }
    };
}

impl Regressor {
    /// The name of the model, for people.
    pub fn title(&self) -> String {
        match self {
            Self::Exact(_) => "Exact Gaussian process".into(),
            Self::Cagp(model) => {
                format!("Computation-aware Gaussian process with {} learned actions", model.actions.len())
            }
            Self::Iterative(model) => format!(
                "Computation-aware Gaussian process with at most {} actions by policy {}",
                model.options.actions,
                model.policy.name()
            ),
            Self::Sgpr(model) => {
                format!("Sparse Gaussian process with {} inducing inputs", model.process.len())
            }
            Self::Svgp(model) => format!(
                "Variational Gaussian process with {} inducing inputs, likelihood {}",
                model.processes[0].len(),
                model.likelihood.text()
            ),
            Self::Swsgp(model) => format!(
                "Sparse-within-sparse Gaussian process with {} of {} inducing inputs a row{}, divergence weighed {}, likelihood {}",
                model.neighbours,
                model.process.len(),
                if model.union { " and those of a batch together" } else { "" },
                model.divergence,
                model.likelihood.text()
            ),
        }
    }

    /// Prior covariance.
    pub fn kernel(&self) -> &Kernel {
        match self {
            Self::Exact(model) => &model.kernel,
            Self::Cagp(model) => &model.kernel,
            Self::Iterative(model) => &model.kernel,
            Self::Sgpr(model) => &model.process.kernel,
            Self::Svgp(model) => &model.processes[0].kernel,
            Self::Swsgp(model) => &model.process.kernel,
        }
    }

    /// Prior covariances of all latent functions that have one of their own.
    pub fn kernels(&self) -> Vec<&Kernel> {
        match self {
            Self::Svgp(model) => model.processes.iter().map(|process| &process.kernel).collect(),
            other => vec![other.kernel()],
        }
    }

    /// How targets scatter around the latent functions.
    pub fn likelihood(&self) -> &dyn Likelihood {
        match self {
            Self::Exact(model) => &model.likelihood,
            Self::Cagp(model) => &model.likelihood,
            Self::Iterative(model) => &model.likelihood,
            Self::Sgpr(model) => &model.likelihood,
            Self::Svgp(model) => &*model.likelihood,
            Self::Swsgp(model) => &*model.likelihood,
        }
    }

    /// Trains the model: on minibatches of `rows` where it can, else on all of `data`.
    ///
    /// # Errors
    /// What training reports.
    pub(super) fn train(
        &mut self,
        choice: &ModelChoice,
        compute: Compute,
        (data, rows): (&Observations, &dyn Rows),
        config: &TrainConfig,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Outcome> {
        match (self, choice) {
            (Self::Svgp(model), ModelChoice::Svgp { batches, .. }) => {
                minibatch::fit(model, compute, rows, batches, config, observers)
            }
            (Self::Swsgp(model), ModelChoice::Swsgp { batches, .. }) => {
                minibatch::fit(model, compute, rows, batches, config, observers)
            }
            (model, _) => fit::fit(model, compute, data, config, observers),
        }
    }

    /// Bytes that one evaluation of the objective and its gradient holds at most, roughly, for `n` rows of `d` columns and
    /// `batch` rows at a time where the model takes minibatches.
    pub fn bytes(&self, compute: Compute, (rows, d): (usize, usize), batch: usize) -> f64 {
        let (n, d, batch) = (rows as f64, d as f64, batch as f64);
        let number = compute.precision.bytes() as f64;
        let data = number * 6.0 * n * (d + 1.0);
        let budget = self.budget(rows, compute.precision) as f64;
        data + match self {
            Self::Exact(_) => 2.5 * number * n * n,
            Self::Cagp(model) => {
                let i = model.actions.len() as f64;
                (1.25 * number * n * i).min(budget) + 12.0 * 8.0 * i * i
            }
            Self::Iterative(model) => {
                let i = model.options.actions as f64;
                (number + 8.0) * 4.0 * n * i + 12.0 * 8.0 * i * i
            }
            Self::Sgpr(model) => {
                let m = model.process.len() as f64;
                (8.0 * n * m).min(budget) + 8.0 * 8.0 * m * m
            }
            Self::Svgp(model) => {
                let (m, latents) = (model.processes[0].len() as f64, model.variational.len() as f64);
                8.0 * (latents * 6.0 * m * m + 6.0 * m * batch.min(n))
            }
            Self::Swsgp(model) => {
                let (m, h, batch) = (model.process.len() as f64, model.neighbours as f64, batch.min(n));
                let seen = match model.union {
                    // Predictions are by all inducing inputs.
                    true => (6.0 * m.min(h * batch) * (m.min(h * batch) + batch)).max(4.0 * m * m),
                    false => 6.0 * h * h * batch,
                };
                8.0 * (8.0 * model.variational.root.len() as f64 + m * (d + 2.0) + seen)
            }
        }
    }

    /// The posterior through actions that was saved with the observations.
    ///
    /// # Errors
    /// [`Error::Data`] when the numbers are not those of such a posterior.
    pub(super) fn restore_posterior(
        &self,
        compute: Compute,
        data: Observations,
        saved: SavedPosterior,
        report: Option<SolveReport>,
    ) -> Result<Conditioned> {
        match self {
            Self::Cagp(model) => Ok(Conditioned::Cagp(model.restore(compute, data, saved)?, None)),
            Self::Iterative(model) => Ok(Conditioned::Cagp(model.restore(compute, data, saved)?, report)),
            _ => Err(Error::Data("has actions, which its model has not".into())),
        }
    }

    /// Whether its posterior is made from the observations, not from its parameters alone.
    pub(super) fn predicts_from_data(&self) -> bool {
        !matches!(self, Self::Svgp(_) | Self::Swsgp(_))
    }

    /// Conditions the prior on observations.
    ///
    /// # Errors
    /// As the model's own `posterior`.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<Conditioned> {
        Ok(match self {
            Self::Exact(model) => Conditioned::Exact(model.posterior(compute, data)?),
            Self::Cagp(model) => Conditioned::Cagp(model.posterior(compute, data)?, None),
            Self::Iterative(model) => {
                let (posterior, report) = model.posterior(compute, data)?;
                Conditioned::Cagp(posterior, Some(report))
            }
            Self::Sgpr(model) => Conditioned::Sgpr(model.posterior(compute, data)?),
            Self::Svgp(model) => Conditioned::Svgp(model.posterior(compute)?),
            Self::Swsgp(model) => Conditioned::Swsgp(model.posterior(compute)),
        })
    }
}

impl Model for Regressor {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        each!(self, model => model.objective(scope, batch))
    }

    fn refresh(&self) -> Option<usize> {
        each!(self, model => model.refresh())
    }

    fn choose(&self, scope: &Scope, batch: &Batch) -> Result<Option<Tensor<2>>> {
        each!(self, model => model.choose(scope, batch))
    }

    fn objective_for(&self, scope: &Scope, batch: &Batch, chosen: &Tensor<2>) -> Result<Tensor<1>> {
        each!(self, model => model.objective_for(scope, batch, chosen))
    }

    fn budget(&self, rows: usize, precision: Precision) -> usize {
        each!(self, model => model.budget(rows, precision))
    }
}

impl Parameters for Regressor {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        each!(self, model => model.parameters())
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        each!(self, model => model.parameters_mut())
    }
}
