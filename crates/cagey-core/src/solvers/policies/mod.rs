//! How an iterative solve chooses its actions. A user's own policy implements [`Policy`].
//!
//! A policy is a setting. [`start`](Policy::start) makes the [`Actor`] that holds the state of one solve.

mod combined;
mod following;
mod listed;

use std::fmt::Debug;

use burn::tensor::Tensor;

pub use combined::{Mixed, Order, Preconditioned};
pub use following::{Gradient, Lanczos, LanczosSeed, Residual};
pub use listed::{Eigenvector, Pivots, PseudoInput, Random, UnitVector};

use super::linear_system::LinearSystem;
use crate::error::Result;
use crate::params::Parameter;

/// A rule by which an iterative solve chooses actions.
///
/// The posterior depends only on the span of the actions, so a policy need not scale them.
pub trait Policy: Debug + Send + Sync + ClonePolicy {
    /// The name, as in `cg`.
    fn name(&self) -> &'static str;

    /// Starts a solve of at most `budget` actions.
    ///
    /// # Errors
    /// When the system does not suit the policy.
    fn start(&self, system: &dyn LinearSystem, budget: usize) -> Result<Box<dyn Actor>>;

    /// Whether the solve must make the actions orthonormal, because rounding would make them dependent. The solve then
    /// asks for one action at a time.
    fn orthogonal(&self) -> bool {
        false
    }

    /// Whether Newton's method splits each action into one for each class, which share a product with K.
    fn per_class(&self) -> bool {
        false
    }

    /// The rank of the approximation of K that preconditions actions in Newton's method. It takes columns of K only,
    /// and serves all steps, in place of this policy's actor.
    fn rank(&self) -> Option<usize> {
        None
    }

    /// The policy's parameters, with names. They have gradients only in an unrolled solve.
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        Vec::new()
    }

    /// The same parameters, mutable.
    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        Vec::new()
    }
}

/// A policy in one particular solve: often a closure of the state and of the most actions wanted.
pub trait Actor {
    /// The next actions `[n, t]`, 1 ≤ t ≤ `most`, in the dtype of the scope; none when there are no more.
    ///
    /// # Errors
    /// When they cannot be computed.
    fn next(&mut self, state: &dyn SolveState, most: usize) -> Result<Option<Tensor<2>>>;
}

impl<F: FnMut(&dyn SolveState, usize) -> Result<Option<Tensor<2>>>> Actor for F {
    fn next(&mut self, state: &dyn SolveState, most: usize) -> Result<Option<Tensor<2>>> {
        self(state, most)
    }
}

/// The state of the solve that an actor sees. In Newton's method the system changes from step to step.
pub trait SolveState {
    /// The system.
    fn system(&self) -> &dyn LinearSystem;

    /// r = y − K̂v `[n, 1]`.
    ///
    /// # Errors
    /// What the device reports.
    fn residual(&self) -> Result<Tensor<2>>;

    /// N⁻¹r `[n, 1]` for the noise N: the gradient of the log posterior.
    ///
    /// # Errors
    /// As [`LinearSystem::noise_solve`].
    fn gradient(&self) -> Result<Tensor<2>> {
        self.system().noise_solve(&self.residual()?)
    }

    /// The number of actions of this solve so far.
    fn taken(&self) -> usize;

    /// Actions `first..first + count` of this solve `[n, count]`.
    ///
    /// # Errors
    /// When there are not so many.
    fn actions(&self, first: usize, count: usize) -> Result<Tensor<2>>;

    /// K̂ times these actions `[n, count]`.
    ///
    /// # Errors
    /// When there are not so many.
    fn products(&self, first: usize, count: usize) -> Result<Tensor<2>>;
}

/// Cloning behind a pointer. Every policy that is [`Clone`] implements it.
pub trait ClonePolicy {
    /// A separate copy of the policy.
    fn boxed(&self) -> Box<dyn Policy>;
}

impl<P: Policy + Clone + 'static> ClonePolicy for P {
    fn boxed(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Policy> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}
