//! Paths of a computation-aware posterior.

use super::CagpPosterior;
use crate::device::Compute;
use crate::error::Result;
use crate::models::functions::Pathwise;
use crate::models::prior::Prior;
use crate::scope::{Scope, to_f64};

/// Only Sᵀy is observed: the weights are S M̂⁻¹Sᵀ(y − m − f − ε) for samples f of the prior and noise ε at the data.
impl Pathwise for CagpPosterior {
    fn prior(&self) -> &Prior {
        self.prior()
    }

    fn compute(&self) -> Compute {
        self.compute
    }

    fn centres(&self) -> (&[f64], usize) {
        (&self.data.x, self.data.d)
    }

    fn corrections(&self, mut samples: Vec<f64>, normal: &mut dyn FnMut() -> f64) -> Result<Vec<f64>> {
        let (scope, n) = (Scope::new(self.compute)?.widened(), self.data.n());
        let noise = to_f64(self.noise(&scope, &self.data)?)?;
        let count = samples.len() / n;
        for (row, noise) in samples.chunks_exact_mut(count).zip(&noise) {
            row.iter_mut().for_each(|value| *value += noise.sqrt() * normal());
        }
        let actions = self.actions.cast(scope.dtype())?;
        let mut projected = to_f64(actions.transposed_times(&scope.matrix(&samples, n, count))?)?;
        self.factor.solve(&mut projected)?;
        for (row, weight) in projected.chunks_exact_mut(count).zip(&self.weights) {
            row.iter_mut().for_each(|value| *value = weight - *value);
        }
        to_f64(actions.times(&scope.matrix(&projected, self.weights.len(), count))?)
    }
}
