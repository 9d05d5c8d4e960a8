//! The models that a fit can hold, behind one face.

use burn::tensor::Tensor;

use super::conditioned::Conditioned;
use super::settings::{ActionPolicy, ModelChoice};
use crate::data::TargetScale;
use crate::device::{Compute, Precision};
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::likelihoods::{Likelihood, Support, Targets};
use crate::means::Mean;
use crate::models::cagp::{Actions, Cagp, IterativeCagp, SavedPosterior};
use crate::models::exact::ExactGp;
use crate::models::inducing::{self, Choice};
use crate::models::minibatch::Rows;
use crate::models::sgpr::Sgpr;
use crate::models::svgp::{Covariance, Svgp};
use crate::models::swsgp::Swsgp;
use crate::models::{Batch, Model, Observations, fit, minibatch};
use crate::params::{Parameter, Parameters, keeping_internal};
use crate::scope::Scope;
use crate::solvers::Probes;
use crate::solvers::itergp::{IterGpOptions, SolveReport};
use crate::solvers::policies::{Eigenvector, Lanczos, LanczosSeed, Pivots, Policy, Random, Residual, UnitVector};
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
    /// A model for observations, with everything that is not a hyperparameter chosen from them by a seed.
    ///
    /// # Errors
    /// [`Error::Usage`] for more actions than rows, and what the kernel reports.
    pub fn new(
        choice: &ModelChoice,
        likelihood: Box<dyn Likelihood>,
        kernel: Kernel,
        mean: Mean,
        data: &Observations,
        seed: u64,
    ) -> Result<Self> {
        let z = |m| inducing::choose(Choice::Kmeans, &kernel, &data.x, data.d, m, seed);
        Ok(match *choice {
            ModelChoice::Exact { objective } => Self::Exact(ExactGp { mean, objective, ..ExactGp::new(kernel) }),
            ModelChoice::Cagp { actions, policy: ActionPolicy::Learned, objective, .. } => {
                let actions = Actions::blocks(data.n(), actions, seed)?;
                Self::Cagp(Cagp { mean, objective, ..Cagp::new(kernel, actions) })
            }
            ModelChoice::Cagp { actions, policy, objective, .. } => {
                if actions == 0 || actions > data.n() {
                    let n = data.n();
                    return Err(Error::Usage(format!("{actions} actions for {n} rows: need between 1 and {n}")));
                }
                let options = match policy {
                    ActionPolicy::Cg | ActionPolicy::Lanczos => IterGpOptions { actions, ..IterGpOptions::default() },
                    _ => IterGpOptions::budget(actions),
                };
                let model = IterativeCagp::new(kernel, chooser(policy, seed), options);
                Self::Iterative(IterativeCagp { mean, objective, ..model })
            }
            ModelChoice::Sgpr { inducing } => {
                let z = z(inducing)?;
                Self::Sgpr(sparse(kernel, mean, &z, data.d)?)
            }
            ModelChoice::Svgp { inducing, covariance, .. } => {
                let z = z(inducing)?;
                Self::Svgp(variational(likelihood, kernel, mean, &z, data.d, covariance)?)
            }
            ModelChoice::Swsgp { inducing, neighbours, divergence, covariance, .. } => {
                let z = z(inducing)?;
                let model = nearest(likelihood, kernel, mean, &z, data.d, neighbours, covariance)?;
                Self::Swsgp(Swsgp { divergence, ..model })
            }
        })
    }

    /// A model with saved parameters.
    ///
    /// # Errors
    /// [`Error::Data`] when they are not those of such a model.
    pub fn restore(
        choice: &ModelChoice,
        likelihood: Box<dyn Likelihood>,
        kernel: Kernel,
        mean: Mean,
        data: &Observations,
        parameters: Vec<Parameter>,
    ) -> Result<Self> {
        let saved = || match parameters.iter().find(|p| p.name == "inducing") {
            Some(inducing) => Ok(inducing.internal()),
            None => Err(Error::Data("lacks the inducing inputs".into())),
        };
        let mut model = match *choice {
            ModelChoice::Sgpr { .. } => Self::Sgpr(sparse(kernel, mean, &saved()?, data.d)?),
            ModelChoice::Svgp { covariance, .. } => {
                Self::Svgp(variational(likelihood, kernel, mean, &saved()?, data.d, covariance)?)
            }
            ModelChoice::Swsgp { neighbours, divergence, covariance, .. } => {
                let model = nearest(likelihood, kernel, mean, &saved()?, data.d, neighbours, covariance)?;
                Self::Swsgp(Swsgp { divergence, ..model })
            }
            _ => Self::new(choice, likelihood, kernel, mean, data, 0)?,
        };
        let slots = model.parameters_mut();
        if slots.len() != parameters.len() {
            let (got, want) = (parameters.len(), slots.len());
            return Err(Error::Data(format!("has {got} parameters where its model has {want}")));
        }
        for ((path, slot), parameter) in slots.into_iter().zip(parameters) {
            if slot.len() != parameter.len() {
                let (got, want) = (parameter.len(), slot.len());
                return Err(Error::Data(format!("has {got} values of {path} where its model has {want}")));
            }
            *slot = parameter;
        }
        Ok(model)
    }

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
                "Sparse-within-sparse Gaussian process with {} of {} inducing inputs a row, divergence weighed {}, likelihood {}",
                model.neighbours,
                model.process.len(),
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

    /// Starts the likelihood's parameters, and the levels of latent functions of targets that are not standardised, where
    /// the targets suggest; tells those that models made of their own the units of inputs and target.
    pub(super) fn start(&mut self, data: &Observations, (input_sd, target): (&[f64], &TargetScale)) {
        let targets = Targets { y: &data.y, extra: data.noise.as_deref() };
        let gaussian = match self {
            Self::Exact(model) => &mut model.likelihood,
            Self::Cagp(model) => &mut model.likelihood,
            Self::Iterative(model) => &mut model.likelihood,
            Self::Sgpr(model) => &mut model.likelihood,
            Self::Svgp(model) => {
                for (latent, process) in model.processes.iter_mut().enumerate() {
                    // Other functions than the first, such as the logarithm of a noise, have no units.
                    let (level, sd) = if latent == 0 { (target.mean, target.sd) } else { (0.0, 1.0) };
                    keeping_internal(&mut process.kernel, |kernel| kernel.set_units(input_sd, sd));
                    process.mean.set_units(input_sd, level, sd);
                }
                let means = model.processes.iter_mut().map(|process| &mut process.mean);
                return start(&mut *model.likelihood, means, targets, target.sd);
            }
            Self::Swsgp(model) => {
                model.process.mean.set_units(input_sd, target.mean, target.sd);
                return start(&mut *model.likelihood, std::iter::once(&mut model.process.mean), targets, target.sd);
            }
        };
        start(gaussian, std::iter::empty(), targets, target.sd);
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
                let (m, h) = (model.process.len() as f64, model.neighbours as f64);
                8.0 * (8.0 * model.variational.root.len() as f64 + m * (d + 2.0) + 6.0 * h * h * batch.min(n))
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

fn sparse(kernel: Kernel, mean: Mean, z: &[f64], d: usize) -> Result<Sgpr> {
    let mut model = Sgpr::new(kernel, z, d)?;
    model.process.mean = mean;
    Ok(model)
}

/// Likelihoods of several latent functions that mean different things have a process for each; those of classes share one.
fn variational(
    likelihood: Box<dyn Likelihood>,
    kernel: Kernel,
    mean: Mean,
    z: &[f64],
    d: usize,
    covariance: Covariance,
) -> Result<Svgp> {
    let classes = matches!(likelihood.density().support(likelihood.auxiliary().neutral()), Support::Classes(_));
    let mean = levelled(mean, &*likelihood, classes, d)?;
    let mut model = Svgp::boxed(kernel, z, d, likelihood)?.covariance(covariance);
    model.processes[0].mean = mean;
    Ok(if classes { model } else { model.separate() })
}

fn nearest(
    likelihood: Box<dyn Likelihood>,
    kernel: Kernel,
    mean: Mean,
    z: &[f64],
    d: usize,
    neighbours: usize,
    covariance: Covariance,
) -> Result<Swsgp> {
    let mean = levelled(mean, &*likelihood, false, d)?;
    let mut model = Swsgp::boxed(kernel, z, d, neighbours, likelihood)?.covariance(covariance);
    model.process.mean = mean;
    Ok(model)
}

/// Only the latent function of standardised targets has the level 0; those of several classes have no level of their own.
fn levelled(mean: Mean, likelihood: &dyn Likelihood, classes: bool, d: usize) -> Result<Mean> {
    let several = likelihood.latents() > 1;
    let level = if several { !classes } else { !likelihood.scaled() };
    match mean {
        Mean::Zero if level => Mean::named("constant", d),
        mean => Ok(mean),
    }
}

/// Starts a likelihood, and constant means at the levels that fit the targets.
fn start<'a>(
    likelihood: &mut dyn Likelihood,
    means: impl Iterator<Item = &'a mut Mean>,
    targets: Targets,
    target_sd: f64,
) {
    likelihood.set_units(target_sd);
    for (mean, level) in means.zip(likelihood.initialise(targets)) {
        if let Mean::Constant(constant) | Mean::Linear { constant, .. } = mean {
            constant.set_internal(&[level]);
        }
    }
}

fn chooser(policy: ActionPolicy, seed: u64) -> Box<dyn Policy> {
    match policy {
        ActionPolicy::Learned | ActionPolicy::Cg => Box::new(Residual),
        ActionPolicy::Cholesky => Box::new(UnitVector { pivots: Pivots::Largest }),
        ActionPolicy::Lanczos => Box::new(Lanczos { seed: LanczosSeed::Targets }),
        ActionPolicy::Eigenvector => Box::new(Eigenvector),
        ActionPolicy::Random => Box::new(Random { probes: Probes::Gaussian, seed }),
    }
}

impl Model for Regressor {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        each!(self, model => model.objective(scope, batch))
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
