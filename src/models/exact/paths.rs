//! Paths of an exact posterior.

use super::ExactPosterior;
use crate::device::Compute;
use crate::error::Result;
use crate::models::functions::Pathwise;
use crate::models::prior::Prior;
use crate::scope::{Scope, to_f64};

/// The weights are K̂⁻¹(y − m − f − ε) for samples f of the prior and noise ε at the data.
impl Pathwise for ExactPosterior {
    fn prior(&self) -> &Prior {
        &self.model.prior
    }

    fn compute(&self) -> Compute {
        self.compute
    }

    fn centres(&self) -> (&[f64], usize) {
        self.rows()
    }

    fn corrections(&self, mut samples: Vec<f64>, normal: &mut dyn FnMut() -> f64) -> Result<Vec<f64>> {
        let (scope, n) = (Scope::new(self.compute)?.widened(), self.data.n());
        let known = self.data.batch(&scope).auxiliary;
        let noise = to_f64(self.model.likelihood.variances(&scope, n, known.as_ref()))?;
        let count = samples.len() / n;
        for (row, noise) in samples.chunks_exact_mut(count).zip(&noise) {
            row.iter_mut().for_each(|value| *value += noise.sqrt() * normal());
        }
        self.factor.solve(&mut samples)?;
        for (row, weight) in samples.chunks_exact_mut(count).zip(&self.weights) {
            row.iter_mut().for_each(|value| *value = weight - *value);
        }
        Ok(samples)
    }
}
