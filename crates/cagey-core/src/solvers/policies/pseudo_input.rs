//! Covariances with pseudo-inputs as actions.

use super::{Actor, Policy, SolveState};
use crate::error::{Error, Result};
use crate::params::{Parameter, Unit};
use crate::solvers::LinearSystem;

/// s = k(X, z) for one pseudo-input z after another, for each latent function. These actions are large where z explains
/// most. The pseudo-inputs are parameters.
#[derive(Debug, Clone)]
pub struct PseudoInput {
    /// Row-major `[m, d]`.
    pub inputs: Parameter,
    d: usize,
}

impl PseudoInput {
    /// Pseudo-inputs, row-major `[m, d]`.
    ///
    /// # Errors
    /// [`Error::Shape`] unless there are whole rows.
    pub fn new(inputs: &[f64], d: usize) -> Result<Self> {
        if d == 0 || inputs.is_empty() || !inputs.len().is_multiple_of(d) {
            let got = format!("{} values", inputs.len());
            return Err(Error::shape("pseudo-inputs", format!("rows of {d} columns"), got));
        }
        Ok(Self { inputs: Parameter::real("inputs", Unit::None, inputs), d })
    }
}

impl Policy for PseudoInput {
    fn name(&self) -> &'static str {
        "pseudo-input"
    }

    fn start(&self, system: &dyn LinearSystem, _budget: usize) -> Result<Box<dyn Actor>> {
        let m = self.inputs.len() / self.d;
        let (inputs, mut at) = (system.scope().value(&self.inputs).reshape([m, self.d]), 0);
        Ok(Box::new(move |state: &dyn SolveState, most: usize| {
            let first = at;
            at = m.min(at + most);
            let next = || state.system().cross(&inputs.clone().narrow(0, first, at - first));
            (at > first).then(next).transpose()
        }))
    }

    fn parameters(&self) -> Vec<(String, &Parameter)> {
        vec![("inputs".into(), &self.inputs)]
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        vec![("inputs".into(), &mut self.inputs)]
    }
}
