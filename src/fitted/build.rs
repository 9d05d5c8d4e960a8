//! Models made for data from settings, and made again from saved parameters.

use super::Settings;
use super::columns::Units;
use super::registry::Registry;
use crate::error::{Error, Result};
use crate::kernels::{initial, text};
use crate::likelihoods::Likelihood;
use crate::means::Mean;
use crate::models::Observations;
use crate::models::gp_model::GpModel;
use crate::models::options::{ModelOptions, Parts, Site};
use crate::models::prior::Prior;
use crate::params::Parameter;

/// The model of settings, with initial values, priors, bounds and fixed parameters.
///
/// # Errors
/// What the kernel's text, the model and the names of parameters report.
pub fn build(
    settings: &Settings,
    options: &dyn ModelOptions,
    likelihood: Box<dyn Likelihood>,
    (data, names): (&Observations, &[String]),
    units: &Units,
    seed: u64,
    registry: &Registry,
) -> Result<Box<dyn GpModel>> {
    let mut kernel = text::parse_named(&settings.kernel, names, &registry.kernels)?;
    kernel.set_units(&units.inputs.sd, units.target.sd);
    initial::initialise(&mut kernel, &data.x, data.d);
    let mut mean = Mean::named(&settings.mean, data.d)?;
    mean.set_units(&units.inputs.sd, units.target.mean, units.target.sd);
    let parts = Parts { likelihood, prior: Prior { kernel, mean } };
    let mut model = options.build(parts, &Site { data, seed, saved: None })?;
    model.start(data, &units.of_user());
    if let Some((name, value)) = registry.likelihoods.given(&settings.likelihood) {
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

/// A model with saved parameters.
///
/// # Errors
/// [`Error::Data`] when they are not those of such a model.
pub fn restore(
    options: &dyn ModelOptions,
    parts: Parts,
    data: &Observations,
    parameters: Vec<Parameter>,
) -> Result<Box<dyn GpModel>> {
    let mut model = options.build(parts, &Site { data, seed: 0, saved: Some(&parameters) })?;
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
