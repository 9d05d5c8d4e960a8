//! When an iterative solve ends, and its report.

use std::fmt;

use serde::{Deserialize, Serialize};

/// When the solve ends, and how wide its products are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IterGpOptions {
    /// Most actions.
    pub actions: usize,
    /// Largest ‖r‖ / ‖y‖.
    pub relative: f64,
    /// Largest ‖r‖. The looser of the two tolerances applies.
    pub absolute: f64,
    /// Most actions in one product, if the policy can choose an action without the result of the one before.
    pub block: usize,
}

impl Default for IterGpOptions {
    fn default() -> Self {
        Self { actions: 512, relative: 1e-4, absolute: 0.0, block: 64 }
    }
}

impl IterGpOptions {
    /// At most `actions` actions, and no other condition to end.
    pub fn budget(actions: usize) -> Self {
        Self { actions, relative: 0.0, ..Self::default() }
    }
}

/// Why the solve ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Stop {
    /// The residual is within the tolerance.
    Converged,
    /// The budget of actions is used up.
    Budget,
    /// The policy has no more actions.
    Exhausted,
    /// η ≤ 0 up to rounding: the action lies in the span of those before it, or K̂ is not positive definite in this
    /// precision.
    Dependent,
    /// The observer ended it.
    Interrupted,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Converged => "converged",
            Self::Budget => "the budget of actions is spent",
            Self::Exhausted => "the policy has no more actions",
            Self::Dependent => "the next action depends on those before it",
            Self::Interrupted => "interrupted",
        })
    }
}

/// What the solve reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SolveReport {
    /// Why it ended.
    pub stop: Stop,
    /// Actions taken.
    pub actions: usize,
    /// ‖y − K̂v‖, computed from the final weights.
    pub residual: f64,
    /// ‖y‖.
    pub scale: f64,
}

impl fmt::Display for SolveReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stop, actions, residual, scale } = self;
        write!(f, "{actions} actions, then {stop}; residual {residual:.3e} of {scale:.3e}")
    }
}
