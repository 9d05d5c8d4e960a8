//! What a run of Newton's method reports.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::solvers::itergp::Stop;

/// How far Newton's method went.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NewtonReport {
    /// Why no more actions were taken.
    pub stop: Stop,
    /// Steps, each with its own sites.
    pub steps: usize,
    /// Halvings of all steps.
    pub halvings: usize,
    /// Actions taken.
    pub actions: usize,
    /// Products with K: one for each action, or one for several if classes share it, and a second one if an action is
    /// nearly in the span of the earlier ones. Columns of K for a preconditioner do not count.
    pub products: usize,
    /// ‖g − v‖: the norm of the log posterior's gradient in the span of all possible actions.
    pub residual: f64,
    /// ‖g‖.
    pub scale: f64,
    /// The share of rows whose curvature is below rounding.
    pub flat: f64,
}

impl fmt::Display for NewtonReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stop, steps, halvings, actions, residual, scale, flat, .. } = self;
        write!(
            f,
            "{actions} actions in {steps} Newton steps ({halvings} halvings), then {stop}; gradient {residual:.3e} of \
             {scale:.3e}, \
             {:.0} % of rows without curvature",
            100.0 * flat
        )
    }
}
