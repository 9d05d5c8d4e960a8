//! The priors that parameters of kernels get by default.
//!
//! With many columns and few rows, the likelihood is highest where some columns explain the targets to the last digit:
//! error bars are then far too narrow. Distances grow with the root of the number of columns, so the prior expects
//! lengthscales to grow with it too (Hvarfner, Hellsten and Nardi 2024, *Vanilla Bayesian optimization performs great
//! in high dimensions*). Its heavy tails let the lengthscales of columns that matter, and of those that do not, move
//! far if there are enough rows. With few rows and few columns, the likelihood hardly falls where a lengthscale is
//! below the gaps between rows, and there no row predicts another; the prior expects several standard deviations.
//!
//! Some approximations would make the variances of latent functions of classes very large; their
//! [options](crate::models::options::ModelOptions::variance_prior) give a prior.

use std::collections::HashSet;

use crate::kernels::Kernel;
use crate::models::Observations;
use crate::models::diagnose::entry_columns;
use crate::models::gp_model::GpModel;
use crate::models::options::ModelOptions;
use crate::params::{Constraint, Parameter, Parameters, Prior, Unit};

/// With fewer columns than this, the prior only keeps lengthscales from the gaps between few rows.
const MANY: usize = 5;
/// Its location there. Measured on 5 to 30 rows of servo, power_plant, sunspots_yearly, mauna_loa_co2 and mcycle: with
/// 0, densities of smooth targets are up to .3 nats a row lower than without a prior; with 2, at most .04.
const SMOOTH: f64 = 2.0;
/// The prior is not set with this many rows per column or more. Measured on random rows of 16 tables: with ten rows per
/// column, held-out densities are better on eleven tables and worse on four.
const ROWS: usize = 12;
/// Degrees of freedom of the logarithm. With so few, the penalty for an unusual lengthscale hardly grows with its
/// distance.
const HEAVY: f64 = 0.25;

/// Sets the default priors of parameters of kernels, and returns them in words. `data` are some of `rows` rows.
pub fn set(model: &mut dyn GpModel, data: &Observations, rows: usize, options: &dyn ModelOptions) -> Option<String> {
    let told: Vec<String> =
        [lengthscales(model, data, rows), variances(model, options)].into_iter().flatten().collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// Sets the prior of the lengthscales of kernels.
fn lengthscales(model: &mut dyn GpModel, data: &Observations, rows: usize) -> Option<String> {
    if rows >= ROWS * data.d {
        return None;
    }
    let kernels: Vec<&Kernel> = model.priors().into_iter().map(|prior| &prior.kernel).collect();
    let columns = entry_columns(&kernels, data.d);
    let all: Vec<usize> = (0..data.d).collect();
    let mut told = None;
    for (_, parameter) in model.parameters_mut() {
        if !parameter.is_length() || is_asked(parameter) {
            continue;
        }
        let columns = columns.get(&parameter.id()).unwrap_or(&all);
        let location = if columns.len() < MANY { SMOOTH } else { 0.5 * (columns.len() as f64).ln() };
        let sd = Prior::LogStudent(HEAVY, location, 1.0);
        for entry in 0..parameter.len() {
            // A lengthscale of several columns is in the unit of none of them.
            let unit = if parameter.len() == columns.len() { data.sd(columns[entry]) } else { 1.0 };
            parameter.set_prior(Some(entry), sd.scaled(unit * parameter.unit_of(entry))).ok()?;
        }
        told = Some(format!("lengthscales ~ logstudent({HEAVY}, {location:.2}, 1) sd, for few rows a column"));
    }
    told
}

/// Sets the prior of the variances that a kind of model would make too large.
fn variances(model: &mut dyn GpModel, options: &dyn ModelOptions) -> Option<String> {
    let prior = options.variance_prior(model.likelihood())?;
    let kernels = model.priors().into_iter().flat_map(|prior| prior.kernel.parameters());
    let places: HashSet<u64> = kernels.map(|(_, parameter)| parameter.id()).collect();
    let mut told = None;
    for (_, parameter) in model.parameters_mut() {
        let is_variance = parameter.unit == Unit::Variance && places.contains(&parameter.id());
        if is_variance && !is_asked(parameter) {
            parameter.set_prior(None, prior.scaled(parameter.unit_of(0))).ok()?;
            told = Some(format!("variance ~ {prior}, for classes that can be told apart"));
        }
    }
    told
}

/// Whether the user said anything about a parameter.
fn is_asked(parameter: &Parameter) -> bool {
    let free = parameter.priors().is_empty() && parameter.constraint() == Constraint::FREE;
    parameter.given || parameter.fixed || !free
}
