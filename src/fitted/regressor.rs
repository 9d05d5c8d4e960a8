//! The models that a fit can hold, behind one face.

use burn::tensor::Tensor;

use super::settings::{ActionPolicy, ModelChoice};
use crate::device::{Compute, Precision};
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::likelihoods::Gaussian;
use crate::means::Mean;
use crate::models::cagp::{Actions, Cagp, CagpPosterior, IterativeCagp};
use crate::models::exact::{ExactGp, ExactPosterior};
use crate::models::inducing::{self, Choice};
use crate::models::posterior::{Joint, Marginals, Posterior};
use crate::models::sgpr::Sgpr;
use crate::models::whitened::WhitenedPosterior;
use crate::models::{Batch, Model, Observations};
use crate::params::{Parameter, Parameters};
use crate::scope::Scope;
use crate::solvers::Probes;
use crate::solvers::itergp::{IterGpOptions, SolveReport};
use crate::solvers::policies::{Eigenvector, Lanczos, LanczosSeed, Pivots, Policy, Random, Residual, UnitVector};

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
}

/// A regression model's posterior.
#[derive(Debug, Clone)]
pub enum Conditioned {
    /// Of an exact GP.
    Exact(ExactPosterior),
    /// Of a computation-aware GP, with how far its solve went if there was one.
    Cagp(CagpPosterior, Option<SolveReport>),
    /// Of a sparse GP.
    Sgpr(WhitenedPosterior),
}

/// Calls a method that all models have.
macro_rules! each {
    ($self:expr, $model:ident => $call:expr) => {
        match $self {
            Regressor::Exact($model) => $call,
            Regressor::Cagp($model) => $call,
            Regressor::Iterative($model) => $call,
            Regressor::Sgpr($model) => $call,
        }
    };
}

impl Regressor {
    /// A model for observations, with everything that is not a hyperparameter chosen from them by a seed.
    ///
    /// # Errors
    /// [`Error::Usage`] for more actions than rows, and what the kernel reports.
    pub fn new(choice: &ModelChoice, kernel: Kernel, mean: Mean, data: &Observations, seed: u64) -> Result<Self> {
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
                let z = inducing::choose(Choice::Kmeans, &kernel, &data.x, data.d, inducing, seed)?;
                Self::Sgpr(sparse(kernel, mean, &z, data.d)?)
            }
        })
    }

    /// A model with saved parameters.
    ///
    /// # Errors
    /// [`Error::Data`] when they are not those of such a model.
    pub fn restore(
        choice: &ModelChoice,
        kernel: Kernel,
        mean: Mean,
        data: &Observations,
        parameters: Vec<Parameter>,
    ) -> Result<Self> {
        let mut model = match choice {
            ModelChoice::Sgpr { .. } => {
                let saved = parameters.iter().find(|p| p.name == "inducing");
                let z = saved.ok_or_else(|| Error::Data("it lacks the inducing inputs".into()))?.internal();
                Self::Sgpr(sparse(kernel, mean, &z, data.d)?)
            }
            _ => Self::new(choice, kernel, mean, data, 0)?,
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
        }
    }

    /// Prior covariance.
    pub fn kernel(&self) -> &Kernel {
        match self {
            Self::Exact(model) => &model.kernel,
            Self::Cagp(model) => &model.kernel,
            Self::Iterative(model) => &model.kernel,
            Self::Sgpr(model) => &model.process.kernel,
        }
    }

    /// Observation noise.
    pub fn likelihood(&self) -> &Gaussian {
        each!(self, model => &model.likelihood)
    }

    /// Observation noise, to change it.
    pub fn likelihood_mut(&mut self) -> &mut Gaussian {
        each!(self, model => &mut model.likelihood)
    }

    /// Bytes that one evaluation of the objective and its gradient holds at most, roughly, for `n` rows of `d` columns.
    pub fn bytes(&self, compute: Compute, n: usize, d: usize) -> f64 {
        let (n, d) = (n as f64, d as f64);
        let number = match compute.precision {
            Precision::F32 => 4.0,
            Precision::F64 => 8.0,
        };
        let data = number * 6.0 * n * (d + 1.0);
        let budget = crate::scope::BUDGET as f64;
        data + match self {
            Self::Exact(_) => 2.5 * number * n * n,
            Self::Cagp(model) => {
                let i = model.actions.len() as f64;
                (number * n * i).min(budget) + 12.0 * 8.0 * i * i
            }
            Self::Iterative(model) => {
                let i = model.options.actions as f64;
                (number + 8.0) * 4.0 * n * i + 12.0 * 8.0 * i * i
            }
            Self::Sgpr(model) => {
                let m = model.process.len() as f64;
                (8.0 * n * m).min(budget) + 8.0 * 8.0 * m * m
            }
        }
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
        })
    }
}

fn sparse(kernel: Kernel, mean: Mean, z: &[f64], d: usize) -> Result<Sgpr> {
    let mut model = Sgpr::new(kernel, z, d)?;
    model.process.mean = mean;
    Ok(model)
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
}

impl Parameters for Regressor {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        each!(self, model => model.parameters())
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        each!(self, model => model.parameters_mut())
    }
}

impl Conditioned {
    /// The exact posterior.
    ///
    /// # Errors
    /// [`Error::Usage`] for other models; `what` needs it.
    pub fn exact(&self, what: &str) -> Result<&ExactPosterior> {
        match self {
            Self::Exact(posterior) => Ok(posterior),
            _ => Err(Error::Usage(format!("{what} is for exact models; fit with `--model exact`"))),
        }
    }

    /// The computation-aware posterior, if it is one.
    pub fn computation_aware(&self) -> Option<&CagpPosterior> {
        match self {
            Self::Cagp(posterior, _) => Some(posterior),
            _ => None,
        }
    }

    fn any(&self) -> &dyn Posterior {
        match self {
            Self::Exact(posterior) => posterior,
            Self::Cagp(posterior, _) => posterior,
            Self::Sgpr(posterior) => posterior,
        }
    }
}

impl Posterior for Conditioned {
    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        self.any().predict(x)
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        self.any().predict_joint(x)
    }
}
