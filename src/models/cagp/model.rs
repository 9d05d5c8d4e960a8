//! Computation-aware GPs as models that everything can use.

use super::{Cagp, CagpPosterior, IterativeCagp, NewtonOptions, enough};
use crate::device::Compute;
use crate::error::Result;
use crate::likelihoods::Likelihood;
use crate::models::gp_model::{GpModel, Size, UserUnits};
use crate::models::posterior::{Posterior, SavedPosterior};
use crate::models::prior::Prior;
use crate::models::start::{start, start_all};
use crate::models::{Model, Observations};
use crate::products;

/// A lighter model has this many times fewer actions, but not fewer than `FEW`.
const LIGHTER: usize = 8;
const FEW: usize = 32;

/// Bytes of the small matrices for `i` actions.
fn small(i: usize) -> f64 {
    12.0 * 8.0 * (i as f64).powi(2)
}

/// What every computation-aware model offers in the same way.
macro_rules! latent_functions {
    () => {
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
            match self.likelihood.noise() {
                // The prior of targets with Gaussian noise has its units already.
                Some(_) => start(&mut *self.likelihood, std::iter::empty(), data, units),
                None => start_all(&mut *self.likelihood, self.priors.iter_mut(), data, units),
            }
        }

        fn restore(&self, compute: Compute, data: Observations, saved: SavedPosterior) -> Result<Box<dyn Posterior>> {
            match self.restored(compute, data.clone(), saved)? {
                Some(posterior) => Ok(Box::new(posterior)),
                None => self.condition(compute, data),
            }
        }
    };
}

impl GpModel for Cagp {
    fn title(&self) -> String {
        let (count, newton) = (self.actions.len(), by_newton("by", &*self.likelihood));
        format!("Computation-aware Gaussian process with {count} learned actions{newton}")
    }

    latent_functions!();

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        let (i, latents) = (self.actions.len(), self.likelihood.latents());
        let precision = compute.precision.bytes() as f64;
        let (separate, known) = (latents == 1 || self.apart(), self.likelihood.noise().is_some());
        // Of one latent function, and of all of them.
        let each = size.rows as f64 * i as f64;
        let entries = each * if self.apart() { latents * latents } else { latents } as f64;
        let is_large = |entries: f64| 8.0 * entries > products::whole(compute.kind) as f64;
        let budget = self.budget(size.rows, compute.precision) as f64;
        let own = match compute.kind.is_cpu() {
            // With fused products, K S is all that is stored, with room for the part that is being computed.
            true if separate => latents as f64 * (1.25 * precision * each).min(budget),
            // Products come in chunks: for the sites, and for the bound unless its graph of each function is small.
            false if separate && self.unrolled == 0 && is_large(entries) => {
                if is_large(each) {
                    budget
                } else {
                    budget.max(80.0 * latents as f64 * each)
                }
            }
            // The graph from K S on holds about ten such matrices.
            false if known => 80.0 * entries,
            _ => (2.0 * precision + 8.0 * 6.0) * entries,
        };
        size.data(compute) + own + small(i) + self.share.map_or(0.0, |_| enough::bytes(size.rows))
    }

    fn is_comparable(&self) -> bool {
        self.likelihood.noise().is_some()
    }
    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        grown(self.posterior(compute, data)?, self.share)
    }
}

impl GpModel for IterativeCagp {
    fn title(&self) -> String {
        let (most, policy, newton) = (self.options.actions, self.policy.name(), by_newton("and", &*self.likelihood));
        format!("Computation-aware Gaussian process with at most {most} actions by policy {policy}{newton}")
    }

    fn unlearned(&self) -> Vec<String> {
        let own = self.policy.parameters().into_iter().filter(|(_, p)| !p.fixed);
        own.filter(|_| self.unrolled == 0).map(|(path, _)| format!("policy.{path}")).collect()
    }

    latent_functions!();

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        let (i, latents) = (self.options.actions, self.likelihood.latents());
        let entries = (latents * size.rows) as f64 * i as f64;
        let own = match self.likelihood.noise() {
            Some(_) => (compute.precision.bytes() as f64 + 8.0) * 4.0 * entries,
            None => {
                let directions = if self.newton.explain { i.div_ceil(latents) } else { 0 };
                let rank = self.policy.rank().unwrap_or(0).max(directions);
                8.0 * (7.0 * entries + (self.priors.len() * size.rows * rank) as f64) + small(latents * rank)
            }
        };
        // A graph keeps what each of its steps computed.
        let graph = if self.likelihood.noise().is_none() { 32.0 * entries * self.unrolled as f64 } else { 0.0 };
        size.data(compute) + own + graph + small(i) + self.share.map_or(0.0, |_| enough::bytes(size.rows))
    }

    /// If Newton's method solves many systems, the same model with an eighth of the actions.
    fn lighter(&self) -> Box<dyn GpModel> {
        let mut lighter = self.clone();
        if self.likelihood.noise().is_none() {
            let actions = self.options.actions;
            lighter.options.actions = (actions / LIGHTER).max(actions.min(FEW));
            let spread = NewtonOptions::spread(lighter.options.actions);
            lighter.newton.per_step = self.newton.per_step.min(spread.per_step);
        }
        Box::new(lighter)
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        grown(self.posterior(compute, data)?.0, self.share)
    }
}

/// A posterior with as many actions as its computational variance needs.
fn grown(posterior: CagpPosterior, share: Option<f64>) -> Result<Box<dyn Posterior>> {
    Ok(match share {
        Some(share) => Box::new(posterior.until(share)?),
        None => Box::new(posterior),
    })
}

/// How a likelihood is dealt with, for titles.
fn by_newton(word: &str, likelihood: &dyn Likelihood) -> String {
    match likelihood.noise() {
        Some(_) => String::new(),
        None => format!(" {word} Newton's method, likelihood {}", likelihood.text()),
    }
}
