//! Models made for data from settings, and made again from saved parameters.

use super::columns::Units;
use super::{ActionPolicy, ModelChoice, Regressor, Settings};
use crate::data::{InputScale, TargetScale};
use crate::error::{Error, Result};
use crate::kernels::registry::Registry;
use crate::kernels::{Kernel, initial, text};
use crate::likelihoods::{self, Likelihood, Support, Targets};
use crate::means::Mean;
use crate::models::Observations;
use crate::models::cagp::{Actions, Cagp, IterativeCagp};
use crate::models::exact::ExactGp;
use crate::models::inducing::{self, Choice};
use crate::models::sgpr::Sgpr;
use crate::models::svgp::Svgp;
use crate::models::swsgp::Swsgp;
use crate::params::{Parameter, Parameters, keeping_internal};
use crate::solvers::Probes;
use crate::solvers::itergp::IterGpOptions;
use crate::solvers::policies::{Eigenvector, Lanczos, LanczosSeed, Pivots, Policy, Random, Residual, UnitVector};

/// What every model is made of.
#[derive(Debug, Clone)]
pub struct Parts {
    /// Of targets given the latent functions; exact, SGPR and computation-aware models take the Gaussian one.
    pub likelihood: Box<dyn Likelihood>,
    /// Prior covariance.
    pub kernel: Kernel,
    /// Prior mean.
    pub mean: Mean,
}

/// Refuses more actions than rows.
pub fn check_actions(choice: &ModelChoice, n: usize) -> Result<()> {
    match *choice {
        ModelChoice::Cagp { actions, .. } if actions == 0 || actions > n => {
            Err(Error::Usage(format!("{actions} actions for {n} rows: choose from 1 to {n} (`--actions`)")))
        }
        _ => Ok(()),
    }
}

/// The model of settings, with initial values, priors, bounds and fixed parameters.
///
/// # Errors
/// What the kernel's text, the model and the names of parameters report.
pub fn build(
    settings: &Settings,
    likelihood: Box<dyn Likelihood>,
    (data, names): (&Observations, &[String]),
    Units { inputs, target, .. }: &Units,
    seed: u64,
    registry: &Registry,
) -> Result<Regressor> {
    let mut kernel = text::parse_named(&settings.kernel, names, registry)?;
    kernel.set_units(&inputs.sd, target.sd);
    initial::initialise(&mut kernel, &data.x, data.d);
    let mut mean = Mean::named(&settings.mean, data.d)?;
    mean.set_units(&inputs.sd, target.mean, target.sd);
    let mut model = Regressor::new(&settings.model, Parts { likelihood, kernel, mean }, data, seed)?;
    model.start(data, inputs, target);
    if let Some((name, value)) = likelihoods::text::given(&settings.likelihood) {
        for parameter in model.find_mut(&format!("likelihood.{name}"))? {
            parameter.give(&[value])?;
        }
    }
    for (name, values) in &settings.init {
        for parameter in model.find_mut(name)? {
            parameter.give(values)?;
        }
    }
    for (name, lower, upper) in &settings.bounds {
        for parameter in model.find_mut(name)? {
            parameter.set_bounds(*lower, *upper)?;
        }
    }
    for (name, prior) in &settings.priors {
        for parameter in model.find_mut(name)? {
            parameter.prior = Some(*prior);
        }
    }
    for name in &settings.fix {
        for parameter in model.find_mut(name)? {
            parameter.fixed = true;
        }
    }
    match model.parameters().into_iter().find_map(|(path, p)| Some((path, p.problem()?))) {
        Some((path, problem)) => Err(Error::Data(format!("the parameter `{path}` {problem}"))),
        None => Ok(model),
    }
}

impl Regressor {
    /// A model for observations, with everything that is not a hyperparameter chosen from them by a seed.
    ///
    /// # Errors
    /// [`Error::Usage`] for more actions than rows, and what the kernel reports.
    pub fn new(choice: &ModelChoice, parts: Parts, data: &Observations, seed: u64) -> Result<Self> {
        let z = |kernel: &Kernel, m| inducing::choose(Choice::Kmeans, kernel, &data.x, data.d, m, seed);
        Self::of(choice, parts, data, seed, z)
    }

    /// A model with saved parameters.
    ///
    /// # Errors
    /// [`Error::Data`] when they are not those of such a model.
    pub fn restore(
        choice: &ModelChoice,
        parts: Parts,
        data: &Observations,
        parameters: Vec<Parameter>,
    ) -> Result<Self> {
        let z = |_: &Kernel, _| match parameters.iter().find(|p| p.name == "inducing") {
            Some(inducing) => Ok(inducing.internal()),
            None => Err(Error::Data("lacks the inducing inputs".into())),
        };
        let mut model = Self::of(choice, parts, data, 0, z)?;
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

    /// A model whose inducing inputs, `m` of them, are those that `z` gives for a kernel.
    fn of(
        choice: &ModelChoice,
        Parts { likelihood, kernel, mean }: Parts,
        data: &Observations,
        seed: u64,
        z: impl Fn(&Kernel, usize) -> Result<Vec<f64>>,
    ) -> Result<Self> {
        let (n, d) = (data.n(), data.d);
        check_actions(choice, n)?;
        Ok(match *choice {
            ModelChoice::Exact { objective } => Self::Exact(ExactGp { mean, objective, ..ExactGp::new(kernel) }),
            ModelChoice::Cagp { actions, policy: ActionPolicy::Learned, objective, .. } => {
                let actions = Actions::averages(n, actions)?;
                Self::Cagp(Cagp { mean, objective, ..Cagp::new(kernel, actions) })
            }
            ModelChoice::Cagp { actions, policy, objective, refresh, tolerance, .. } => {
                let usual = match policy {
                    ActionPolicy::Cg | ActionPolicy::Lanczos => IterGpOptions::default(),
                    _ => IterGpOptions::budget(actions),
                };
                let options = IterGpOptions { actions, relative: tolerance.unwrap_or(usual.relative), ..usual };
                let model = IterativeCagp::new(kernel, chooser(policy, seed), options);
                Self::Iterative(IterativeCagp { mean, objective, refresh, ..model })
            }
            ModelChoice::Sgpr { inducing } => {
                let z = z(&kernel, inducing)?;
                let mut model = Sgpr::new(kernel, &z, d)?;
                model.process.mean = mean;
                Self::Sgpr(model)
            }
            ModelChoice::Svgp { inducing, covariance, .. } => {
                let z = z(&kernel, inducing)?;
                // Latent functions that mean different things have a process each; those of classes share one.
                let support = likelihood.density().support(likelihood.auxiliary().neutral());
                let classes = matches!(support, Support::Classes(_));
                let mean = levelled(mean, &*likelihood, classes, d)?;
                let mut model = Svgp::boxed(kernel, &z, d, likelihood)?.covariance(covariance);
                model.processes[0].mean = mean;
                Self::Svgp(if classes { model } else { model.separate() })
            }
            ModelChoice::Swsgp { inducing, neighbours, divergence, union, covariance, .. } => {
                let z = z(&kernel, inducing)?;
                let mean = levelled(mean, &*likelihood, false, d)?;
                // Data with few distinct rows have fewer inducing inputs than asked for.
                let neighbours = neighbours.min(z.len() / d.max(1));
                let mut model = Swsgp::boxed(kernel, &z, d, neighbours, likelihood)?.covariance(covariance);
                (model.process.mean, model.divergence, model.union) = (mean, divergence, union);
                Self::Swsgp(model)
            }
        })
    }

    /// Starts the likelihood's parameters, and the levels of latent functions of targets that are not standardised, where
    /// the targets suggest; tells those that models made of their own the units of inputs and target.
    fn start(&mut self, data: &Observations, inputs: &InputScale, target: &TargetScale) {
        let targets = Targets { y: &data.y, extra: data.noise.as_deref() };
        let gaussian = match self {
            Self::Exact(model) => &mut model.likelihood,
            Self::Cagp(model) => &mut model.likelihood,
            Self::Iterative(model) => &mut model.likelihood,
            Self::Sgpr(model) => {
                model.process.set_units(&inputs.mean, &inputs.sd);
                &mut model.likelihood
            }
            Self::Svgp(model) => {
                for (latent, process) in model.processes.iter_mut().enumerate() {
                    // Other functions than the first, such as the logarithm of a noise, have no units.
                    let (level, sd) = if latent == 0 { (target.mean, target.sd) } else { (0.0, 1.0) };
                    keeping_internal(&mut process.kernel, |kernel| kernel.set_units(&inputs.sd, sd));
                    process.mean.set_units(&inputs.sd, level, sd);
                    process.set_units(&inputs.mean, &inputs.sd);
                }
                let means = model.processes.iter_mut().map(|process| &mut process.mean);
                return start(&mut *model.likelihood, means, targets, target.sd);
            }
            Self::Swsgp(model) => {
                model.process.mean.set_units(&inputs.sd, target.mean, target.sd);
                model.process.set_units(&inputs.mean, &inputs.sd);
                return start(&mut *model.likelihood, std::iter::once(&mut model.process.mean), targets, target.sd);
            }
        };
        start(gaussian, std::iter::empty(), targets, target.sd);
    }
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
