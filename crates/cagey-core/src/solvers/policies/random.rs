//! Random actions.

use super::{Actor, Policy, SolveState};
use crate::error::{Error, Result};
use crate::solvers::LinearSystem;
use crate::solvers::Probes;

/// s with independent entries, ±1 or standard normal. The same seed gives the same actions, in blocks of any size.
#[derive(Debug, Clone, Copy)]
pub struct Random {
    /// The distribution of an entry.
    pub probes: Probes,
    /// The seed.
    pub seed: u64,
}

impl Policy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn start(&self, _system: &dyn LinearSystem, _budget: usize) -> Result<Box<dyn Actor>> {
        if self.probes == Probes::Unit {
            return Err(Error::Usage("random actions are Rademacher or Gaussian, not unit vectors".into()));
        }
        // Each column adds 1 to the seed. The factor keeps neighbouring seeds from giving the same columns.
        let (probes, mut seed) = (self.probes, self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        Ok(Box::new(move |state: &dyn SolveState, most| {
            let n = state.system().order();
            let columns: Vec<f64> =
                (0..most as u64).flat_map(|column| probes.block(n, 1, seed.wrapping_add(column))).collect();
            seed = seed.wrapping_add(most as u64);
            Ok(Some(state.system().scope().matrix(&columns, most, n).transpose()))
        }))
    }
}
