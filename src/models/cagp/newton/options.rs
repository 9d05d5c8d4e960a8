//! How far Newton's method goes, and how far it went.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::solvers::itergp::{SolveReport, Stop};

/// Newton steps over which the actions are spread.
const STEPS: usize = 50;

/// Which directions compression keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Compression {
    /// Those that the data say most about, by the eigenvalues of SᵀKS against M, and that of the mean: two at least
    #[default]
    Information,
    /// Those of the largest eigenvalues of M, as the paper has it (Algorithm 3), for orthonormal actions. They may be
    /// directions of rows without curvature, which say nothing; what the mean has outside them is lost
    Largest,
}

/// When Newton's method ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Stopping {
    /// When no more actions are taken and the latent values have settled
    #[default]
    Settled,
    /// When a step changes f − m by a hundredth of its norm, as the paper has it (section B.2). A step's actions end
    /// when ‖ŷ − m − K̂v‖ is below the tolerance, absolute or relative to ‖ŷ − m‖. Steps are taken in full, even if the
    /// log posterior falls
    Change,
}

/// How far Newton's method goes, besides the number of actions and the tolerance of any solve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NewtonOptions {
    /// Most actions in one step: 1 is the best schedule if products with K are the main cost.
    pub per_step: usize,
    /// How many directions to keep from step to step. None keeps all. Memory is n times that.
    pub kept: Option<usize>,
    /// Which directions to keep.
    pub compression: Compression,
    /// When to end.
    pub stopping: Stopping,
    /// The steps without new actions end when the largest change of f is at most this. The change is relative to the
    /// largest distance of f from the prior mean, or to 1. These steps converge quadratically for log-concave
    /// likelihoods. With [`Stopping::Change`] all steps end when ‖Δf‖ / ‖f − m‖ is at most this.
    pub settled: f64,
    /// Most steps.
    pub steps: usize,
    /// Whether the actions that are left when the mean has converged explain variances: they follow the directions that
    /// the data say most about. If not, they are not taken.
    pub explain: bool,
}

impl NewtonOptions {
    /// So many actions in about fifty steps. One action a step is best for few actions; for many actions, the steps
    /// themselves become as expensive.
    pub fn spread(actions: usize) -> Self {
        let per_step = actions.div_ceil(STEPS);
        let (compression, stopping) = (Compression::default(), Stopping::default());
        let (settled, steps) = (1e-7, actions + 100);
        Self { per_step, kept: None, compression, stopping, settled, steps, explain: false }
    }
}

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

impl From<NewtonReport> for SolveReport {
    fn from(NewtonReport { stop, actions, residual, scale, .. }: NewtonReport) -> Self {
        Self { stop, actions, residual, scale }
    }
}

/// A solve whose sites are known takes one step.
impl From<SolveReport> for NewtonReport {
    fn from(SolveReport { stop, actions, residual, scale }: SolveReport) -> Self {
        Self { stop, steps: 1, halvings: 0, actions, products: actions, residual, scale, flat: 0.0 }
    }
}
