//! The sparse-within-sparse GP as a model of any kind.

use super::Swsgp;
use crate::device::Compute;
use crate::error::Result;
use crate::likelihoods::Likelihood;
use crate::models::gp_model::{GpModel, Size, Training, UserUnits};
use crate::models::minibatch::{self, Rows, SumOverRows};
use crate::models::posterior::Posterior;
use crate::models::prior::Prior;
use crate::models::start::start;
use crate::models::{Held, Observations};
use crate::products::Neighbours;
use crate::train::{Observer, Optimizer, Outcome};

/// The number of rows whose neighbours are searched at once.
const ROWS: usize = 1 << 16;

impl GpModel for Swsgp {
    fn title(&self) -> String {
        format!(
            "Sparse-within-sparse Gaussian process with {} of {} inducing inputs a row{}, divergence weighted {}, \
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
            // Predictions use all inducing inputs.
            true => (6.0 * m.min(h * batch) * (m.min(h * batch) + batch)).max(4.0 * m * m),
            false => 6.0 * h * h * batch,
        };
        size.data(compute) + 8.0 * (8.0 * self.variational.root.len() as f64 + m * (size.columns as f64 + 2.0) + seen)
    }

    fn train(&mut self, training: Training, observers: &mut [&mut dyn Observer]) -> Result<Outcome> {
        if self.nugget > 0.0 && training.config.resume.is_none() {
            self.start_at_prior(training.compute)?;
        }
        let mut config = training.config.clone();
        if let Optimizer::Adam(adam) = &mut config.optimizer {
            adam.lazy |= self.keeps_neighbours() && self.variational.is_diagonal();
        }
        minibatch::train(self, Training { config: &config, ..training }, observers)
    }

    fn condition(&self, compute: Compute, _data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute)))
    }
}

impl SumOverRows for Swsgp {
    /// The neighbours of all rows, if Z is fixed.
    fn hold(&self, compute: Compute, rows: &dyn Rows) -> Result<Option<Held>> {
        if !self.keeps_neighbours() {
            return Ok(None);
        }
        let mut all = Neighbours { indices: Vec::new(), each: self.neighbours };
        for first in (0..rows.count()).step_by(ROWS) {
            let part: Vec<usize> = (first..rows.count().min(first + ROWS)).collect();
            all.indices.extend(self.neighbours(compute, &rows.gather(&part)?.x)?.indices);
        }
        Ok(Some(Held::new(all)))
    }

    fn held_of(&self, all: &Held, rows: &[usize]) -> Result<Held> {
        let all: &Neighbours = all.get()?;
        let indices = rows.iter().flat_map(|&row| all.of(row)).copied().collect();
        Ok(Held::new(Neighbours { indices, each: all.each }))
    }
}
