//! Solves of one system after another in the span of the same actions.

use super::run::Run;
use super::{Basis, IterGpOptions, LinearSystem, Solve};
use crate::error::Result;
use crate::solvers::policies::{Actor, Policy};

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
    /// As [`itergp`](super::itergp()).
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
