//! IterGP: a linear solve that quantifies the error of its limited computation (Wenger, Pleiss, Pförtner, Hennig and
//! Cunningham 2022, Algorithm 1; Wenger, Wu, Hennig, Gardner, Pleiss and Cunningham 2024, Algorithm S1).
//!
//! With K̂ = K + diag(noise), a [`Policy`] chooses actions s one after another, or several at once. For each action,
//!
//! `z = K̂s; d = s − Cz; η = zᵀd; v += d (sᵀr)/η; C += ddᵀ/η; r = y − K̂v`,
//!
//! where C = S M̂⁻¹Sᵀ and M̂ = SᵀK̂S. C is stored as the actions S and the Cholesky factor of M̂. Each step adds a row
//! to this factor, whose last entry is √η. For several actions at once, η becomes a block, and one product serves all
//! columns.
//!
//! The solve is a tensor graph. In a [training scope](crate::scope::Scope::training) everything that it returns is
//! differentiable, through the residuals into the actions and through every product ("unrolled"). In any other scope,
//! actions are plain numbers, and a batch form at fixed S gives the gradients ("detached").

mod run;

use std::fmt;
use std::ops::ControlFlow;

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

pub use super::basis::Basis;
pub use super::linear_system::{LinearSystem, System};
use super::policies::{Actor, Policy};
use crate::error::Result;
use crate::linalg::{Factor, cholesky_solve};
use run::Run;
#[doc(hidden)]
pub use run::{epsilon, independent};

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

/// The result: v = S ṽ and C = S M̂⁻¹ Sᵀ as factors.
#[derive(Debug, Clone)]
pub struct Solve {
    /// The actions of the earlier solve that this one continued, if any.
    pub earlier: Basis,
    /// S, with unit columns.
    pub actions: Basis,
    /// K̂S.
    pub products: Basis,
    /// The lower Cholesky factor of M̂ = SᵀK̂S `[i, i]`, in f64 if the device supports it.
    pub factor: Tensor<2>,
    /// ṽ = M̂⁻¹Sᵀy `[i, 1]`, in f64 if the device supports it.
    pub coefficients: Tensor<2>,
    /// What the solve reached.
    pub report: SolveReport,
}

impl Solve {
    /// The representer weights v = Sṽ `[n, 1]`.
    ///
    /// # Errors
    /// What block-sparse products report.
    pub fn weights(&self) -> Result<Tensor<2>> {
        self.earlier.beside(&self.actions).times(&self.coefficients)
    }

    /// C V = S M̂⁻¹ Sᵀ V for `v [n, t]`: the approximation of K̂⁻¹V.
    ///
    /// # Errors
    /// What the triangular solves report.
    pub fn precision_times(&self, v: &Tensor<2>) -> Result<Tensor<2>> {
        let all = self.earlier.beside(&self.actions);
        let projected = all.transposed_times(v)?.cast(self.factor.dtype());
        all.times(&cholesky_solve(self.factor.clone(), projected)?)
    }
}

/// The result of an earlier solve, from which to continue.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// Its actions.
    pub actions: &'a Basis,
    /// The factor of its M̂.
    pub factor: &'a Factor<f64>,
    /// Its ṽ.
    pub coefficients: &'a [f64],
}

/// Solves K̂v = y as far as the options allow, with the actions that a policy chooses.
///
/// # Errors
/// [`Usage`](crate::Error::Usage) when the policy has no first action, [`NotFinite`](crate::Error::NotFinite) when an
/// action or product is not finite, and what the policy and products report.
pub fn itergp(
    system: &dyn LinearSystem,
    policy: &dyn Policy,
    options: &IterGpOptions,
    observer: Option<&mut dyn SolveObserver>,
) -> Result<Solve> {
    Run::new(system, None)?.solve(policy, options, observer)
}

/// Continues an earlier solve of the same system. The factor and the coefficients of the [`Solve`] belong to earlier
/// and new actions together. Each block needs one product more than in a first solve, because products with the old
/// actions are not stored. A policy of residuals continues where the earlier solve ended. Other policies start again,
/// and end when an action depends on the earlier ones, so give them their own rows, seeds or inputs.
///
/// # Errors
/// As [`itergp`].
pub fn itergp_from(
    system: &dyn LinearSystem,
    start: Start,
    policy: &dyn Policy,
    options: &IterGpOptions,
    observer: Option<&mut dyn SolveObserver>,
) -> Result<Solve> {
    Run::new(system, Some(start))?.solve(policy, options, observer)
}

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
    /// Called after each block of actions. `Break` ends the solve as [`Stop::Interrupted`].
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

/// Actions that serve several systems with one covariance matrix K but other noise and targets, as the steps of
/// Newton's method have them (Tatzel et al. 2025, Algorithm 3). An action needs one product with K, whatever number of
/// systems it serves. In a training scope all solves are one graph.
pub struct Recycled<'p> {
    policy: &'p dyn Policy,
    actor: Box<dyn Actor>,
    /// S `[n, i]`, with unit columns.
    actions: Basis,
    /// KS `[n, i]`.
    products: Basis,
}

impl<'p> Recycled<'p> {
    /// No actions yet. The policy starts with the first system, for at most `budget` actions in all.
    ///
    /// # Errors
    /// What the policy reports.
    pub fn new(first: &dyn LinearSystem, policy: &'p dyn Policy, budget: usize) -> Result<Self> {
        let (actions, products) = Default::default();
        Ok(Self { policy, actor: policy.start(first, budget)?, actions, products })
    }

    /// S `[n, i]` of all systems so far.
    pub fn actions(&self) -> &Basis {
        &self.actions
    }

    /// KS `[n, i]`.
    pub fn products(&self) -> &Basis {
        &self.products
    }

    /// The solution of a system in the span of the earlier actions and of new ones, at most `options.actions`.
    ///
    /// # Errors
    /// As [`itergp`].
    pub fn solve(&mut self, system: &dyn LinearSystem, options: &IterGpOptions) -> Result<Solve> {
        let mut run = Run::recycled(system, self.actions.clone(), self.products.clone())?;
        let options = IterGpOptions { actions: self.actions.len() + options.actions, ..*options };
        let stop = run.take(&mut *self.actor, self.policy.orthogonal(), &options, None)?;
        let (solve, products) = run.finish(stop)?;
        self.actions = solve.actions.clone();
        self.products = products.unwrap_or_default();
        Ok(solve)
    }
}
