//! Policies that follow the solve: residuals, gradients and Lanczos vectors.

use super::{Actor, Policy, SolveState};
use crate::error::Result;
use crate::solvers::{LinearSystem, Probes};

/// s = r. The means are those of conjugate gradients (Wenger et al. 2022, section 2.1). To keep them so in floating
/// point, each residual is orthogonalised against the earlier ones.
#[derive(Debug, Clone, Copy, Default)]
pub struct Residual;

impl Policy for Residual {
    fn name(&self) -> &'static str {
        "cg"
    }

    fn start(&self, _system: &dyn LinearSystem, _budget: usize) -> Result<Box<dyn Actor>> {
        Ok(Box::new(|state: &dyn SolveState, _| state.residual().map(Some)))
    }

    fn orthogonal(&self) -> bool {
        true
    }
}

/// s = N⁻¹r for the noise N: the residual, scaled by what the data say. With one noise variance for all rows it is the
/// [residual](super::Residual) of conjugate gradients.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gradient {
    /// For classes, the gradient of each class as an action of its own. So one product with K, of as many columns as
    /// for the whole gradient, gives as many actions as there are classes, and the gradient is in their span.
    pub per_class: bool,
}

impl Policy for Gradient {
    fn name(&self) -> &'static str {
        if self.per_class { "class-gradients" } else { "gradient" }
    }

    fn start(&self, _system: &dyn LinearSystem, _budget: usize) -> Result<Box<dyn Actor>> {
        Ok(Box::new(|state: &dyn SolveState, _| state.gradient().map(Some)))
    }

    fn orthogonal(&self) -> bool {
        true
    }

    fn per_class(&self) -> bool {
        self.per_class
    }
}

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
