//! What more actions would change, and what they cannot change.

use super::{CagpPosterior, newton};
use crate::error::Result;
use crate::models::exact::{ExactGp, ExactObjective};
use crate::models::laplace::LaplaceGp;
use crate::models::posterior::{ComputationAware, Marginals, Posterior, Uncertainty};
use crate::solvers::itergp::IterGpOptions;
use crate::solvers::policies::Residual;

/// Most observations for which the exact variances are computed, which takes half a gigabyte and a few seconds.
pub const EXACT_ROWS: usize = 8000;

impl ComputationAware for CagpPosterior {
    fn refined(&self, actions: usize) -> Result<Box<dyn Posterior>> {
        if let Some(likelihood) = &self.of.other {
            return Ok(Box::new(newton::refined(self, &**likelihood, actions)?));
        }
        let (posterior, report) = self.compute_more(&Residual, &IterGpOptions::budget(actions), None)?;
        Ok(Box::new(Self { report: Some(report), ..posterior }))
    }

    fn uncertainty(&self, x: &[f64]) -> Result<Uncertainty> {
        let Marginals { mean, variance: total, .. } = self.predict(x)?;
        if self.data.n() > EXACT_ROWS {
            return Ok(Uncertainty { mean, total, mathematical: None, computational: None });
        }
        let data = self.data.clone();
        let exact = match &self.of.other {
            Some(likelihood) => {
                let dense =
                    LaplaceGp { priors: self.of.priors.clone(), likelihood: likelihood.clone(), corrected: false };
                dense.posterior(self.compute, data)?.predict(x)?.variance
            }
            None => {
                let (prior, likelihood) = (self.prior().clone(), self.gaussian()?.clone());
                let dense = ExactGp { prior, likelihood, objective: ExactObjective::MarginalLikelihood };
                dense.posterior(self.compute, data)?.predict(x)?.variance
            }
        };
        let mathematical: Vec<f64> = exact.iter().zip(&total).map(|(exact, total)| exact.min(*total)).collect();
        let computational = total.iter().zip(&mathematical).map(|(total, exact)| total - exact).collect();
        Ok(Uncertainty { mean, total, mathematical: Some(mathematical), computational: Some(computational) })
    }
}
