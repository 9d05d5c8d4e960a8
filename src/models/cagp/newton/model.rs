//! Newton's method in the span of actions as a model that everything can use.

use super::{LearnedNewtonCagp, NewtonCagp, NewtonOptions, STEPS};
use crate::device::Compute;
use crate::error::Result;
use crate::likelihoods::Likelihood;
use crate::models::cagp::CagpPosterior;
use crate::models::cagp::model::small;
use crate::models::gp_model::{GpModel, Size, UserUnits};
use crate::models::posterior::{Posterior, SavedPosterior};
use crate::models::prior::Prior;
use crate::models::start::start_all;
use crate::models::{Model, Observations};
use crate::products::whole;

/// A lighter model has this many times fewer actions, but not fewer than `FEW`.
const LIGHTER: usize = 8;
const FEW: usize = 32;

impl GpModel for NewtonCagp {
    fn title(&self) -> String {
        let (most, likelihood) = (self.options.actions, self.likelihood.text());
        format!(
            "Computation-aware Gaussian process with at most {most} actions by Newton's method, likelihood {likelihood}"
        )
    }

    fn prior(&self) -> &Prior {
        &self.priors[0]
    }

    fn priors(&self) -> Vec<&Prior> {
        self.priors.iter().collect()
    }

    fn likelihood(&self) -> &dyn Likelihood {
        &*self.likelihood
    }

    fn start(&mut self, data: &Observations, units: &UserUnits) {
        start_all(&mut *self.likelihood, self.priors.iter_mut(), data, units);
    }

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        let (i, latents) = (self.options.actions, self.likelihood.latents());
        let each = i.div_ceil(latents);
        let rank = self.options.policy.rank().unwrap_or(0).max(if self.options.explain { each } else { 0 });
        let near = 8.0 * (self.priors.len() * size.rows * rank) as f64 + small(latents * rank);
        size.data(compute) + 8.0 * 7.0 * (latents * size.rows) as f64 * i as f64 + near + small(i)
    }

    /// The same model with an eighth of the actions.
    fn lighter(&self) -> Box<dyn GpModel> {
        let NewtonOptions { actions, per_step, .. } = self.options;
        let fewer = (actions / LIGHTER).max(actions.min(FEW));
        let options = NewtonOptions { actions: fewer, per_step: per_step.min(fewer.div_ceil(STEPS)), ..self.options };
        Box::new(Self { options, ..self.clone() })
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute, data)?.0))
    }

    fn restore(&self, compute: Compute, data: Observations, saved: SavedPosterior) -> Result<Box<dyn Posterior>> {
        match CagpPosterior::from_arrays(self.of(), compute, data.clone(), None, saved)? {
            Some(posterior) => Ok(Box::new(posterior)),
            None => self.condition(compute, data),
        }
    }
}

impl GpModel for LearnedNewtonCagp {
    fn title(&self) -> String {
        let (count, likelihood) = (self.actions.len(), self.likelihood.text());
        format!(
            "Computation-aware Gaussian process with {count} learned actions by Newton's method, likelihood \
             {likelihood}"
        )
    }

    fn prior(&self) -> &Prior {
        &self.priors[0]
    }

    fn priors(&self) -> Vec<&Prior> {
        self.priors.iter().collect()
    }

    fn likelihood(&self) -> &dyn Likelihood {
        &*self.likelihood
    }

    fn start(&mut self, data: &Observations, units: &UserUnits) {
        start_all(&mut *self.likelihood, self.priors.iter_mut(), data, units);
    }

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        let (i, latents) = (self.actions.len(), self.likelihood.latents());
        let precision = compute.precision.bytes() as f64;
        let separate = latents == 1 || self.apart();
        // Of one latent function, and of all of them.
        let each = size.rows as f64 * i as f64;
        let entries = each * if self.apart() { latents * latents } else { latents } as f64;
        let is_large = |entries: f64| 8.0 * entries > whole(compute.kind) as f64;
        let own = match compute.kind.is_cpu() {
            // With fused products, K S is all that is stored, with room for the part that is being computed.
            true if separate => 1.25 * precision * latents as f64 * each,
            // Products come in chunks: for the sites, and for the bound unless its graph of each function is small.
            false if separate && self.unrolled == 0 && is_large(entries) => {
                let budget = self.budget(size.rows, compute.precision) as f64;
                if is_large(each) { budget } else { budget.max(80.0 * latents as f64 * each) }
            }
            _ => (2.0 * precision + 8.0 * 6.0) * entries,
        };
        size.data(compute) + own + small(i)
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
