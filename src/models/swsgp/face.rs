//! The sparse within sparse GP as a model of any kind.

use super::Swsgp;
use crate::device::Compute;
use crate::error::Result;
use crate::likelihoods::Likelihood;
use crate::models::Observations;
use crate::models::gp_model::{GpModel, Size, Training, UserUnits};
use crate::models::minibatch::{self, SumOverRows};
use crate::models::posterior::Posterior;
use crate::models::prior::Prior;
use crate::models::start::start;
use crate::train::{Observer, Outcome};

impl GpModel for Swsgp {
    fn title(&self) -> String {
        format!(
            "Sparse-within-sparse Gaussian process with {} of {} inducing inputs a row{}, divergence weighed {}, \
             likelihood {}",
            self.neighbours,
            self.process.len(),
            if self.union { " and those of a batch together" } else { "" },
            self.divergence,
            self.likelihood.text()
        )
    }

    fn prior(&self) -> &Prior {
        &self.process.prior
    }

    fn likelihood(&self) -> &dyn Likelihood {
        &*self.likelihood
    }

    fn start(&mut self, data: &Observations, units: &UserUnits) {
        self.process.prior.mean.set_units(&units.input_sd, units.target_mean, units.target_sd);
        self.process.set_units(&units.input_mean, &units.input_sd);
        start(&mut *self.likelihood, std::iter::once(&mut self.process.prior.mean), data, units);
    }

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        let (m, h, batch) = (self.process.len() as f64, self.neighbours as f64, size.batch as f64);
        let seen = match self.union {
            // Predictions are by all inducing inputs.
            true => (6.0 * m.min(h * batch) * (m.min(h * batch) + batch)).max(4.0 * m * m),
            false => 6.0 * h * h * batch,
        };
        size.data(compute) + 8.0 * (8.0 * self.variational.root.len() as f64 + m * (size.columns as f64 + 2.0) + seen)
    }

    fn train(&mut self, training: Training, observers: &mut [&mut dyn Observer]) -> Result<Outcome> {
        minibatch::train(self, training, observers)
    }

    fn condition(&self, compute: Compute, _data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute)))
    }
}

impl SumOverRows for Swsgp {
    fn is_variational(&self, path: &str) -> bool {
        path.starts_with("variational")
    }
}
