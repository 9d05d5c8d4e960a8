//! The matrix-free GP as a model that everything can use.

use super::CgGp;
use crate::device::Compute;
use crate::error::Result;
use crate::likelihoods::Likelihood;
use crate::models::Observations;
use crate::models::gp_model::{GpModel, Size, UserUnits};
use crate::models::posterior::Posterior;
use crate::models::prior::Prior;
use crate::models::start::start;
use crate::scope::Scope;

impl GpModel for CgGp {
    fn title(&self) -> String {
        let (rank, probes) = (self.options.rank, self.options.count);
        format!("Matrix-free exact Gaussian process with a preconditioner of rank {rank} and {probes} probes")
    }

    fn prior(&self) -> &Prior {
        &self.prior
    }

    fn likelihood(&self) -> &dyn Likelihood {
        &self.likelihood
    }

    fn start(&mut self, data: &Observations, units: &UserUnits) {
        start(&mut self.likelihood, std::iter::empty(), data, units);
    }

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        let (rank, probes) = (self.options.rank.min(size.rows) as f64, self.options.count as f64);
        size.data(compute) + 8.0 * size.rows as f64 * (4.0 * rank + 8.0 * probes)
    }

    fn objective_error(&self, compute: Compute, data: &Observations) -> Result<Option<f64>> {
        Ok(Some(self.estimate(compute, &data.batch(&Scope::new(compute)?))?.standard_error))
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute, data)?))
    }
}
