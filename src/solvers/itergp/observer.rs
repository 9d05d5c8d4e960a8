//! Observers of an iterative solve.

use std::ops::ControlFlow;

/// The state after a block of actions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Actions taken so far.
    pub actions: usize,
    /// ‖r‖ of the recursion.
    pub residual: f64,
    /// ‖y‖.
    pub scale: f64,
    /// The decrease of the summed posterior variance at the data that this block alone causes: tr(K ΔC K) ≥ 0.
    pub explained: f64,
}

/// Sees every step of a solve and may end it. The decrease of uncertainty is computed only for an observer.
pub trait SolveObserver {
    /// Called after each block of actions. `Break` ends the solve as [`Stop::Interrupted`](super::Stop::Interrupted).
    fn step(&mut self, step: &Step) -> ControlFlow<()>;
}

/// Records every step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SolveHistory {
    /// The steps in order.
    pub steps: Vec<Step>,
}

impl SolveObserver for SolveHistory {
    fn step(&mut self, step: &Step) -> ControlFlow<()> {
        self.steps.push(*step);
        ControlFlow::Continue(())
    }
}
