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

mod options;
mod recycled;
mod run;

use std::ops::ControlFlow;

use burn::tensor::Tensor;

pub use options::{IterGpOptions, SolveReport, Stop};
pub use recycled::Recycled;

pub use super::basis::Basis;
pub use super::linear_system::{LinearSystem, System};
use super::policies::Policy;
use crate::error::Result;
use crate::linalg::{Factor, cholesky_solve};
use run::Run;
#[doc(hidden)]
pub use run::{epsilon, independent};

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
        self.all().times(&self.coefficients)
    }

    /// Earlier and new actions.
    fn all(&self) -> Basis {
        let mut all = self.earlier.clone();
        all.extend(&self.actions);
        all
    }

    /// C V = S M̂⁻¹ Sᵀ V for `v [n, t]`: the approximation of K̂⁻¹V.
    ///
    /// # Errors
    /// What the triangular solves report.
    pub fn precision_times(&self, v: &Tensor<2>) -> Result<Tensor<2>> {
        let all = self.all();
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
