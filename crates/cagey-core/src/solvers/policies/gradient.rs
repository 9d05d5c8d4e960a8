//! Gradients of the log posterior as actions.

use super::{Actor, Policy, SolveState};
use crate::error::Result;
use crate::solvers::LinearSystem;

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
