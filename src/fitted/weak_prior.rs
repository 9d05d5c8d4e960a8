//! The priors that parameters of kernels get by default.
//!
//! Where columns are many and rows few, the likelihood is highest where some columns explain the targets to the last
//! digit: error bars are then far too narrow. Distances grow with the root of the number of columns, so lengthscales
//! are expected there (Hvarfner, Hellsten and Nardi 2024, *Vanilla Bayesian optimization performs great in high
//! dimensions*); heavy tails let those of columns that matter, and of those that do not, go where enough rows say so.
//!
//! Some approximations would have the variances of latent functions of classes very large; their
//! [options](crate::models::options::ModelOptions::variance_prior) tell a prior.

use std::collections::HashSet;

use crate::kernels::Kernel;
use crate::models::Observations;
use crate::models::diagnose::entry_columns;
use crate::models::gp_model::GpModel;
use crate::models::options::ModelOptions;
use crate::params::{Constraint, Parameter, Parameters, Prior, Unit};

/// The prior is set for tables with at least this many columns.
const COLUMNS: usize = 5;
/// With so many rows a column or more it is not set. Measured: up to six it helps, from ten on it costs more than it
/// gains.
const ROWS: usize = 8;
/// Degrees of freedom of the logarithm: what a column pays for a lengthscale of its own hardly grows with how far off
/// it is.
const HEAVY: f64 = 0.25;

/// Sets the priors that parameters of kernels have where nothing is asked of them; tells them in words. `data` are some
/// of `rows` rows.
pub fn set(model: &mut dyn GpModel, data: &Observations, rows: usize, options: &dyn ModelOptions) -> Option<String> {
    let told: Vec<String> =
        [lengthscales(model, data, rows), variances(model, options)].into_iter().flatten().collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// The prior of the lengthscales that a kernel has for each column.
fn lengthscales(model: &mut dyn GpModel, data: &Observations, rows: usize) -> Option<String> {
    if rows >= ROWS * data.d {
        return None;
    }
    let kernels: Vec<&Kernel> = model.priors().into_iter().map(|prior| &prior.kernel).collect();
    let columns = entry_columns(&kernels, data.d);
    let mut told = None;
    for (_, parameter) in model.parameters_mut() {
        let Some(columns) = columns.get(&parameter.id()).filter(|columns| columns.len() >= COLUMNS) else { continue };
        if !parameter.is_length() || is_asked(parameter) {
            continue;
        }
        let location = 0.5 * (columns.len() as f64).ln();
        let sd = Prior::LogStudent(HEAVY, location, 1.0);
        for (entry, column) in columns.iter().enumerate() {
            parameter.set_prior(Some(entry), sd.scaled(data.sd(*column) * parameter.unit_of(entry)));
        }
        told = Some(format!("lengthscales ~ logstudent({HEAVY}, {location:.2}, 1) sd, for few rows a column"));
    }
    told
}

/// The prior of the variances that a kind of model would have too large.
fn variances(model: &mut dyn GpModel, options: &dyn ModelOptions) -> Option<String> {
    let prior = options.variance_prior(model.likelihood())?;
    let kernels = model.priors().into_iter().flat_map(|prior| prior.kernel.parameters());
    let places: HashSet<u64> = kernels.map(|(_, parameter)| parameter.id()).collect();
    let mut told = None;
    for (_, parameter) in model.parameters_mut() {
        let is_variance = parameter.unit == Unit::Variance && places.contains(&parameter.id());
        if is_variance && !is_asked(parameter) {
            parameter.set_prior(None, prior.scaled(parameter.unit_of(0)));
            told = Some(format!("variance ~ {prior}, for classes that can be told apart"));
        }
    }
    told
}

/// Whether the user said anything of a parameter.
fn is_asked(parameter: &Parameter) -> bool {
    let free = parameter.priors().is_empty() && parameter.constraint() == Constraint::FREE;
    parameter.given || parameter.fixed || !free
}
