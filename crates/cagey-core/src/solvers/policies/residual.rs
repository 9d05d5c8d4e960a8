//! Residuals as actions: conjugate gradients.

use burn::tensor::Tensor;

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
        Ok(Box::new(*self))
    }

    fn orthogonal(&self) -> bool {
        true
    }
}

impl Actor for Residual {
    fn next(&mut self, state: &dyn SolveState, _most: usize) -> Result<Option<Tensor<2>>> {
        Ok(Some(state.residual()?))
    }
}
