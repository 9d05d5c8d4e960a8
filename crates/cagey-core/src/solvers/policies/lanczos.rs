//! Lanczos vectors as actions.

use super::{Actor, Policy, SolveState};
use crate::error::Result;
use crate::solvers::LinearSystem;
use crate::solvers::Probes;

/// Where the Krylov space starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LanczosSeed {
    /// At y: gives the span of conjugate gradients.
    Targets,
    /// At a Gaussian vector with this seed, independent of the targets.
    Gaussian(u64),
}

/// s₁ is a seed vector, and each next s is K̂ times the action before, made orthonormal: approximate top eigenvectors.
#[derive(Debug, Clone, Copy)]
pub struct Lanczos {
    /// The first action.
    pub seed: LanczosSeed,
}

impl Policy for Lanczos {
    fn name(&self) -> &'static str {
        "lanczos"
    }

    fn start(&self, _system: &dyn LinearSystem, _budget: usize) -> Result<Box<dyn Actor>> {
        let seed = self.seed;
        // The index of this policy's last action among all actions.
        let mut last: Option<usize> = None;
        Ok(Box::new(move |state: &dyn SolveState, _| {
            let action = match (last, seed) {
                (Some(last), _) if last < state.taken() => state.products(last, 1)?,
                // The last one depended on those before it: the chain ends.
                (Some(_), _) => return Ok(None),
                (None, LanczosSeed::Targets) => state.system().right_hand_side().clone(),
                (None, LanczosSeed::Gaussian(seed)) => {
                    let n = state.system().order();
                    state.system().scope().matrix(&Probes::Gaussian.block(n, 1, seed), n, 1)
                }
            };
            last = Some(state.taken());
            Ok(Some(action))
        }))
    }

    fn orthogonal(&self) -> bool {
        true
    }
}
