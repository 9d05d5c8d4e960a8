//! Paths of a computation-aware posterior.

use super::CagpPosterior;
use crate::device::Compute;
use crate::error::Result;
use crate::linalg::Factor;
use crate::linalg::dense::{product, transpose, view, view_mut};
use crate::models::functions::Pathwise;
use crate::models::prior::Prior;
use crate::scope::{Scope, to_f64};
use crate::solvers::itergp::Basis;

impl CagpPosterior {
    /// The lower root of M̂ − SᵀKS, the covariance of the noise of Sᵀy, `[i, i]`. O(n² i).
    fn noise_root(&self, scope: &Scope, actions: &Basis) -> Result<Vec<f64>> {
        let train = self.train(scope);
        let ks = self.prior().covariance(scope, &train).times(&actions.clone().into_dense()?)?;
        let explained = to_f64(actions.transposed_times(&ks)?)?;
        let (i, lower) = (self.small.weights.len(), self.small.factor.clone().lower());
        let mut noise = vec![0.0; i * i];
        product::add_lower(view_mut(&mut noise, i), view(&lower, i), view(&lower, i).transpose(), 1.0);
        transpose::mirror(view_mut(&mut noise, i));
        noise.iter_mut().zip(explained).for_each(|(all, own)| *all -= own);
        Ok(Factor::new(noise, "the noise of the actions' targets")?.lower())
    }
}

/// Only Sᵀy is observed: the weights are S M̂⁻¹Sᵀ(y − m − f − ε) for samples f of the prior and noise ε at the data.
/// For targets that are not Gaussian, y are the sites' pseudo-targets, and Sᵀε is drawn by its covariance.
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
        let (count, known) = (samples.len() / n, self.of.likelihood.noise().is_some());
        if known {
            let noise = to_f64(self.noise(&scope, &self.data)?)?;
            for (row, noise) in samples.chunks_exact_mut(count).zip(&noise) {
                row.iter_mut().for_each(|value| *value += noise.sqrt() * normal());
            }
        }
        let actions = self.actions.cast(scope.dtype())?;
        let mut projected = to_f64(actions.transposed_times(&scope.matrix(&samples, n, count))?)?;
        if !known {
            let (root, i) = (self.noise_root(&scope, &actions)?, self.small.weights.len());
            let z: Vec<f64> = (0..projected.len()).map(|_| normal()).collect();
            product::add(view_mut(&mut projected, count), view(&root, i), view(&z, count), 1.0);
        }
        self.small.factor.solve(&mut projected)?;
        for (row, weight) in projected.chunks_exact_mut(count).zip(&self.small.weights) {
            row.iter_mut().for_each(|value| *value = weight - *value);
        }
        to_f64(actions.times(&scope.matrix(&projected, self.small.weights.len(), count))?)
    }
}
