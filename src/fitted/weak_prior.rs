//! The prior that lengthscales of many columns have unasked.
//!
//! Where columns are many and rows few, the likelihood is highest where some columns explain the targets to the last digit: error bars are
//! then far too narrow. Distances grow with the root of the number of columns, so lengthscales are expected there (Hvarfner, Hellsten and Nardi
//! 2024, *Vanilla Bayesian optimization performs great in high dimensions*); heavy tails let those of columns that matter, and of those that
//! do not, go where enough rows say so.

use crate::kernels::Kernel;
use crate::models::Observations;
use crate::models::diagnose::entry_columns;
use crate::models::gp_model::GpModel;
use crate::params::{Belief, Constraint, Prior};

/// Columns from which on it is set: below, it was not measured to help.
const COLUMNS: usize = 10;
/// Degrees of freedom of the logarithm: what a column pays for a lengthscale of its own hardly grows with how far off it is.
const HEAVY: f64 = 0.25;

/// Sets the prior of the lengthscales that a kernel has for each of many columns and of which nothing is asked; says so.
pub fn set(model: &mut dyn GpModel, data: &Observations) -> Option<String> {
    let kernels: Vec<&Kernel> = model.priors().into_iter().map(|prior| &prior.kernel).collect();
    let columns = entry_columns(&kernels, data.d);
    let mut said = None;
    for (_, parameter) in model.parameters_mut() {
        let Some(columns) = columns.get(&parameter.id()).filter(|columns| columns.len() >= COLUMNS) else { continue };
        let asked = parameter.given || !parameter.priors().is_empty() || parameter.constraint() != Constraint::FREE;
        if !parameter.is_length() || parameter.fixed || asked {
            continue;
        }
        let sd = Prior::LogStudent(HEAVY, 0.5 * (columns.len() as f64).ln(), 1.0);
        for (entry, column) in columns.iter().enumerate() {
            parameter.set_prior(Some(entry), sd.scaled(data.sd(*column) * parameter.unit_of(entry)));
        }
        said = Some(format!(
            "lengthscales ~ {}, columns' standard deviations; `--prior none` leaves it out",
            Belief::Deviations { sd }
        ));
    }
    said
}
