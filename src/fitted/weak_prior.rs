//! The prior that lengthscales have unasked where columns are many and rows few.
//!
//! Where columns are many and rows few, the likelihood is highest where some columns explain the targets to the last
//! digit: error bars are then far too narrow. Distances grow with the root of the number of columns, so lengthscales
//! are expected there (Hvarfner, Hellsten and Nardi 2024, *Vanilla Bayesian optimization performs great in high
//! dimensions*); heavy tails let those of columns that matter, and of those that do not, go where enough rows say so.

use crate::kernels::Kernel;
use crate::models::Observations;
use crate::models::diagnose::entry_columns;
use crate::models::gp_model::GpModel;
use crate::params::{Constraint, Prior};

/// The prior is set for tables with at least this many columns.
const COLUMNS: usize = 5;
/// With so many rows a column or more it is not set. Measured: up to six it helps, from ten on it costs more than it
/// gains.
const ROWS: usize = 8;
/// Degrees of freedom of the logarithm: what a column pays for a lengthscale of its own hardly grows with how far off
/// it is.
const HEAVY: f64 = 0.25;

/// Sets the prior of the lengthscales that a kernel has for each column and of which nothing is asked; says so. `data`
/// are some of `rows` rows.
pub fn set(model: &mut dyn GpModel, data: &Observations, rows: usize) -> Option<String> {
    if rows >= ROWS * data.d {
        return None;
    }
    let kernels: Vec<&Kernel> = model.priors().into_iter().map(|prior| &prior.kernel).collect();
    let columns = entry_columns(&kernels, data.d);
    let mut said = None;
    for (_, parameter) in model.parameters_mut() {
        let Some(columns) = columns.get(&parameter.id()).filter(|columns| columns.len() >= COLUMNS) else { continue };
        let asked = parameter.given || !parameter.priors().is_empty() || parameter.constraint() != Constraint::FREE;
        if !parameter.is_length() || parameter.fixed || asked {
            continue;
        }
        let location = 0.5 * (columns.len() as f64).ln();
        let sd = Prior::LogStudent(HEAVY, location, 1.0);
        for (entry, column) in columns.iter().enumerate() {
            parameter.set_prior(Some(entry), sd.scaled(data.sd(*column) * parameter.unit_of(entry)));
        }
        said = Some(format!(
            "lengthscales ~ logstudent({HEAVY}, {location:.2}, 1) sd, for few rows a column; `--prior none` leaves it \
             out"
        ));
    }
    said
}
