//! Residuals as actions: conjugate gradients.

use super::{Actor, Policy, SolveState};
use crate::error::Result;
use crate::solvers::LinearSystem;

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
