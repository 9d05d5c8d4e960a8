//! Builds models for data from settings.

use super::columns::Units;
use super::{Settings, structure};
use crate::error::{Error, Result};
use crate::kernels::{Kernel, initial, text};
use crate::likelihoods::Likelihood;
use crate::models::diagnose::entry_columns;
use crate::models::gp_model::GpModel;
use crate::models::options::{Context, ModelOptions, Parts};
use crate::models::prior::Prior;
use crate::models::registry::Registry;
use crate::models::start::mean_for;
use crate::params::Belief;

/// Builds the model that settings describe, with initial values, priors, bounds and fixed parameters. The kernel is
/// within each series, if the input with the number `series` tells several apart.
///
/// # Errors
/// Errors in the kernel's text, in the model's options and in the names of parameters.
pub fn build(
    settings: &Settings,
    options: &dyn ModelOptions,
    likelihood: Box<dyn Likelihood>,
    context: &Context,
    units: &Units,
    series: Option<usize>,
    registry: &Registry,
) -> Result<Box<dyn GpModel>> {
    let (data, names) = (context.data, context.names);
    let mut kernel = match series {
        None => text::parse_named(&settings.kernel, names, &registry.kernels)?,
        Some(at) => {
            let mut names = names.to_vec();
            names.remove(at);
            text::parse_named(&settings.kernel, &names, &registry.kernels)?.within(at, data.d)?
        }
    };
    kernel.spread_periods(data.d);
    kernel.set_units(&units.inputs.sd, units.target.sd);
    initial::initialise(&mut kernel, &data.x, data.d);
    let mut mean = mean_for(&settings.mean, &*likelihood, data.d)?;
    mean.set_units(&units.inputs.sd, units.target.mean, units.target.sd);
    let parts = Parts { likelihood, prior: Prior { kernel, mean } };
    let mut model = options.build(parts, context)?;
    model.start(data, &units.of_user());
    if let Some(at) = series {
        structure::start_within(&mut *model, data, at);
    }
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
    for (name, belief) in &settings.priors {
        believe(&mut *model, name, *belief, context)?;
    }
    for name in &settings.fix {
        for parameter in model.find_mut(name)? {
            parameter.fixed = true;
        }
    }
    structure::start(&mut *model, data, units);
    structure::spread(&mut *model, data);
    match model.parameters().into_iter().find_map(|(path, p)| Some((path, p.problem()?))) {
        Some((path, problem)) => Err(Error::Data(format!("the parameter `{path}` {problem}"))),
        None => Ok(model),
    }
}

/// Gives a prior to the parameters of a name, or, for a name with a column (`lengthscale[age]`), to their entry for
/// that column.
fn believe(model: &mut dyn GpModel, name: &str, belief: Belief, context: &Context) -> Result<()> {
    let (data, names) = (context.data, context.names);
    let (name, column) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
        Some((name, column)) => (name, Some(column.trim())),
        None => (name, None),
    };
    let wrong = |problem: String| Err(Error::Usage(format!("prior of {name}: {problem}")));
    let at = column.map(|column| names.iter().position(|name| name == column));
    if at == Some(None) {
        let (column, names) = (column.unwrap_or_default(), names.join(", "));
        return wrong(format!("there is no input column `{column}`; there are {names}"));
    }
    let kernels: Vec<&Kernel> = model.priors().into_iter().map(|prior| &prior.kernel).collect();
    let columns = entry_columns(&kernels, data.d);
    for parameter in model.find_mut(name)? {
        let columns = columns.get(&parameter.id());
        match (columns, belief) {
            (None, _) if column.is_some() => {
                return wrong("it has no value for each column; give the kernel `ard`".into());
            }
            (None, Belief::Units(prior)) => parameter.set_prior(None, prior)?,
            (None, Belief::Deviations { .. }) => {
                return wrong("units of sd are for lengthscales of a kernel with `ard`; leave `sd` out".into());
            }
            (Some(columns), _) => {
                let chosen = |(_, other): &(usize, &usize)| at.is_none_or(|at| at == Some(**other));
                for (entry, column) in columns.iter().enumerate().filter(chosen) {
                    let prior = match belief {
                        Belief::Units(prior) => prior,
                        Belief::Deviations { sd } => sd.scaled(data.sd(*column) * parameter.unit_of(entry)),
                    };
                    parameter.set_prior(Some(entry), prior)?;
                }
            }
        }
    }
    Ok(())
}
