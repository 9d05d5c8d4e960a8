//! Computation-aware GPs as models of any kind.

use super::{Cagp, IterativeCagp};
use crate::device::Compute;
use crate::error::Result;
use crate::likelihoods::Likelihood;
use crate::models::gp_model::{GpModel, Size, UserUnits};
use crate::models::posterior::{Posterior, SavedPosterior};
use crate::models::prior::Prior;
use crate::models::start::start;
use crate::models::{Model, Observations};
use crate::products;

/// Bytes of the small matrices for `i` actions.
pub(super) fn small(i: usize) -> f64 {
    12.0 * 8.0 * (i as f64).powi(2)
}

impl GpModel for Cagp {
    fn title(&self) -> String {
        format!("Computation-aware Gaussian process with {} learned actions", self.actions.len())
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
        let (number, i) = (compute.precision.bytes() as f64, self.actions.len());
        let entries = size.rows as f64 * i as f64;
        let most = self.budget(size.rows, compute.precision) as f64;
        let own = match compute.kind.is_cpu() {
            true => (1.25 * number * entries).min(most),
            // The graph from K S on holds about ten such matrices.
            false if 8.0 * entries <= products::whole(compute.kind) as f64 => 80.0 * entries,
            false => most,
        };
        size.data(compute) + own + small(i)
    }

    fn is_comparable(&self) -> bool {
        true
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute, data)?))
    }

    fn restore(&self, compute: Compute, data: Observations, saved: SavedPosterior) -> Result<Box<dyn Posterior>> {
        match self.restored(compute, data.clone(), saved)? {
            Some(posterior) => Ok(Box::new(posterior)),
            None => self.condition(compute, data),
        }
    }
}

impl GpModel for IterativeCagp {
    fn title(&self) -> String {
        let (most, policy) = (self.options.actions, self.policy.name());
        format!("Computation-aware Gaussian process with at most {most} actions by policy {policy}")
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
        let (number, i) = (compute.precision.bytes() as f64, self.options.actions);
        size.data(compute) + (number + 8.0) * 4.0 * size.rows as f64 * i as f64 + small(i)
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute, data)?.0))
    }

    fn restore(&self, compute: Compute, data: Observations, saved: SavedPosterior) -> Result<Box<dyn Posterior>> {
        match self.restored(compute, data.clone(), saved)? {
            Some(posterior) => Ok(Box::new(posterior)),
            None => self.condition(compute, data),
        }
    }
}
