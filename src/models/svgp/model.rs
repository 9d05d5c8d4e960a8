//! The variational GP as a model of any kind.

use std::time::Instant;

use super::Svgp;
use crate::device::Compute;
use crate::error::Result;
use crate::likelihoods::Likelihood;
use crate::models::gp_model::{GpModel, Size, Training, UserUnits};
use crate::models::minibatch::{self, Minibatches, SumOverRows};
use crate::models::posterior::Posterior;
use crate::models::prior::Prior;
use crate::models::start::start_all;
use crate::models::{Observations, fit};
use crate::scope::Scope;
use crate::train::{Observer, Outcome};

impl GpModel for Svgp {
    fn title(&self) -> String {
        let (m, likelihood) = (self.processes[0].len(), self.likelihood.text());
        format!("Variational Gaussian process with {m} inducing inputs, likelihood {likelihood}")
    }

    fn prior(&self) -> &Prior {
        &self.processes[0].prior
    }

    fn priors(&self) -> Vec<&Prior> {
        self.processes.iter().map(|process| &process.prior).collect()
    }

    fn likelihood(&self) -> &dyn Likelihood {
        &*self.likelihood
    }

    fn start(&mut self, data: &Observations, units: &UserUnits) {
        for process in &mut self.processes {
            process.set_units(&units.input_mean, &units.input_sd);
        }
        let priors = self.processes.iter_mut().map(|process| &mut process.prior);
        start_all(&mut *self.likelihood, priors, data, units);
    }

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        let (m, latents) = (self.processes[0].len() as f64, self.variational.len() as f64);
        size.data(compute) + 8.0 * (latents * 6.0 * m * m + 6.0 * m * size.batch as f64)
    }

    fn seconds(&self, compute: Compute, rows: &Observations, batches: Option<&Minibatches>) -> Result<f64> {
        let seconds = fit::seconds(self, compute, rows)?;
        let Some(rate) = batches.and_then(|batches| batches.natural) else { return Ok(seconds) };
        let (mut model, start) = (self.clone(), Instant::now());
        // A step that fails because it is too long takes as much time.
        let _ = model.natural_step(compute, &rows.batch(&Scope::new(compute)?), rate);
        Ok(seconds + start.elapsed().as_secs_f64())
    }

    fn train(&mut self, training: Training, observers: &mut [&mut dyn Observer]) -> Result<Outcome> {
        minibatch::train(self, training, observers)
    }

    fn sum_over_rows(&self) -> Option<&dyn SumOverRows> {
        Some(self)
    }

    fn updated(&self, compute: Compute, _data: &Observations, more: &Observations) -> Result<Option<Box<dyn GpModel>>> {
        Ok(Some(Box::new(Self::updated(self, compute, more)?)))
    }

    fn condition(&self, compute: Compute, _data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute)?))
    }
}
