//! What more actions would change, and what they cannot change.

use super::{CagpPosterior, IterativeCagp};
use crate::error::Result;
use crate::likelihoods::Gaussian;
use crate::models::exact::{ExactGp, ExactObjective};
use crate::models::laplace::LaplaceGp;
use crate::models::posterior::{ComputationAware, Marginals, Posterior, Uncertainty};
use crate::solvers::itergp::IterGpOptions;
use crate::solvers::policies::Residual;

/// Most observations for which the exact variances are computed, which takes half a gigabyte and a few seconds.
pub const EXACT_ROWS: usize = 8000;

impl ComputationAware for CagpPosterior {
    fn refined(&self, actions: usize) -> Result<Box<dyn Posterior>> {
        if self.of.likelihood.noise().is_none() {
            return Ok(Box::new(IterativeCagp::refined(self, actions)?));
        }
        let (posterior, report) = self.compute_more(&Residual, &IterGpOptions::budget(actions), None)?;
        Ok(Box::new(Self { report: Some(report), ..posterior }))
    }

    fn uncertainty(&self, x: &[f64]) -> Result<Uncertainty> {
        let Marginals { mean, variance: total, .. } = self.predict(x)?;
        if self.data.n() > EXACT_ROWS {
            return Ok(Uncertainty { mean, total, mathematical: None, computational: None });
        }
        let (data, priors, likelihood) = (self.data.clone(), self.of.priors.clone(), self.of.likelihood.clone());
        let dense: Box<dyn Posterior> = match likelihood.noise() {
            Some(noise) => {
                let (prior, objective) = (self.prior().clone(), ExactObjective::MarginalLikelihood);
                let mut likelihood = Gaussian::new(1.0);
                likelihood.noise.put_internal(&[noise]);
                Box::new(ExactGp { prior, likelihood, objective }.posterior(self.compute, data)?)
            }
            None => Box::new(LaplaceGp { priors, likelihood, corrected: false }.posterior(self.compute, data)?),
        };
        let exact = dense.predict(x)?.variance;
        let mathematical: Vec<f64> = exact.iter().zip(&total).map(|(exact, total)| exact.min(*total)).collect();
        let computational = total.iter().zip(&mathematical).map(|(total, exact)| total - exact).collect();
        Ok(Uncertainty { mean, total, mathematical: Some(mathematical), computational: Some(computational) })
    }
}
