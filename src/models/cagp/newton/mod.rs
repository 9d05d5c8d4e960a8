//! Computation-aware GPs for any likelihood (Tatzel et al. 2025, *Accelerating non-conjugate Gaussian processes by
//! trading off computation for uncertainty*): Newton's method whose steps are solved in the span of actions.
//!
//! At latent values f, the log density of the likelihood has the gradient g and the curvature W. They define
//! pseudo-targets `ŷ = f + W⁻¹g` with noise `W⁻¹`. A step computes the computation-aware posterior of these
//! pseudo-targets, and its mean is the next f. Actions S and their products `K S` serve all later steps: each action
//! needs one product with K, and a new W needs none. The variances include the error of the limited computation, as for
//! [Gaussian](super::IterativeCagp) targets, which need only one step.
//!
//! Latent values of several functions are stored one function after another, and no array grows with the square of
//! their number. For classes, the curvature couples a row's functions: an action has a part for every function, and the
//! parts sum to 0 in each row. For other likelihoods, an action belongs to one function, and the functions stay as
//! independent as before.
//!
//! Training minimises a true bound of the negative log evidence at the actions and sites found, which it holds. If a
//! likelihood is not log-concave, W is its Fisher information, and the bound still holds.

mod act;
mod bound;
mod directions;
mod fixed;
mod learned;
mod low_rank;
mod model;
mod observed;
mod products;
mod report;
mod sites;
mod small;
mod solve;
mod space;
mod tied;
mod unrolled;

use burn::tensor::Tensor;
pub use directions::NewtonPolicy;
pub use learned::LearnedNewtonCagp;
use observed::{Observed, rows};
pub use report::NewtonReport;
pub use sites::Sites;
use solve::{Found, Problem};

use super::CagpPosterior;
use super::posterior::LatentModel;
use super::site_rule::SiteRule;
use super::span::Span;
use crate::device::Compute;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::likelihoods::Likelihood;
use crate::models::prior::{Prior, repeated};
use crate::models::{Batch, Held, Model, Observations};
use crate::params::{Parameter, Parameters};
use crate::scope::{Scope, to_f64};
use crate::solvers::itergp::{Basis, SolveReport};

/// Newton steps over which the actions are spread.
const STEPS: usize = 50;

/// How far Newton's method goes, and with which steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NewtonOptions {
    /// Most actions in all.
    pub actions: usize,
    /// Most of them in one step: 1 is the best schedule if products with K are the main cost.
    pub per_step: usize,
    /// How many directions to keep from step to step: those that the data say most about. None keeps all. Memory is n
    /// times that.
    pub kept: Option<usize>,
    /// No more actions are taken when ‖g − v‖ / ‖g‖ is at most this.
    pub relative: f64,
    /// The steps without new actions end when the largest change of f is at most this. The change is relative to the
    /// largest distance of f from the prior mean, or to 1. These steps converge quadratically for log-concave
    /// likelihoods.
    pub settled: f64,
    /// Most steps.
    pub steps: usize,
    /// How actions are chosen.
    pub policy: NewtonPolicy,
    /// Whether the actions that are left when the mean has converged explain variances: they follow the directions that
    /// the data say most about. If not, they are not taken.
    pub explain: bool,
}

impl NewtonOptions {
    /// At most so many actions in about fifty steps. One action a step is best for few actions; for many actions, the
    /// steps themselves become as expensive.
    pub fn budget(actions: usize) -> Self {
        Self {
            actions,
            per_step: actions.div_ceil(STEPS),
            kept: None,
            relative: 1e-6,
            settled: 1e-7,
            steps: actions + 100,
            policy: NewtonPolicy::Gradient,
            explain: false,
        }
    }
}

/// Latent functions with any likelihood, whose posterior comes from Newton's method in the span of actions.
#[derive(Debug, Clone)]
pub struct NewtonCagp {
    /// The priors of the latent functions: one for all of them, or one for each.
    pub priors: Vec<Prior>,
    /// The likelihood of targets given the latent functions.
    pub likelihood: Box<dyn Likelihood>,
    /// How far Newton's method goes.
    pub options: NewtonOptions,
    /// Where sites are taken, once the actions are known.
    pub sites: SiteRule,
    /// Steps of an optimiser, at least 1, between two choices of actions and sites.
    pub refresh: usize,
}

impl NewtonCagp {
    /// A model with zero mean, at most so many actions, and sites at the mode.
    pub fn new(kernel: Kernel, likelihood: impl Likelihood + 'static, actions: usize) -> Self {
        Self::boxed(kernel.into(), Box::new(likelihood), NewtonOptions::budget(actions))
    }

    /// A model with a prior and a likelihood chosen at run time. Latent functions that are not interchangeable get a
    /// prior each.
    pub fn boxed(prior: Prior, likelihood: Box<dyn Likelihood>, options: NewtonOptions) -> Self {
        Self { priors: prior.of_latents(&*likelihood), likelihood, options, sites: SiteRule::Mode, refresh: 1 }
    }

    /// Newton's method at the current parameters, for bounds, or to settled sites for [`posterior`](Self::posterior).
    /// Starts from actions `[i, L n]` and their weights, if given.
    fn solve(&self, scope: &Scope, batch: &Batch, from: Option<(&[f64], &[f64])>, settle: bool) -> Result<Found> {
        batch.check(scope)?;
        let plain = Scope::new(scope.compute())?.with_budget(scope.budget());
        let x = batch.x.clone().inner();
        let (rows, density, latents) =
            (rows(&*self.likelihood, batch)?, self.likelihood.density(), self.likelihood.latents());
        let means = self.priors.iter().map(|prior| to_f64(prior.mean.at(&plain, &x)?));
        let mean = repeated(means.collect::<Result<_>>()?, latents).concat();
        let (likelihood, batch) = (&*self.likelihood, (&plain, batch));
        let observed = Observed { likelihood, density: &*density, rows: &rows, batch, mean: &mean, settle };
        let problem = Problem { observed, priors: &self.priors, scope: &plain, x: &x, rule: self.sites };
        problem.solve(&self.options, from)
    }

    /// The negative evidence lower bound `[1]` for actions `s` `[L n, i]`, latent function after latent function, and
    /// sites of any kind. It is differentiable in the parameters, not in actions or sites. If sites are centred, a
    /// row's actions must sum to 0.
    ///
    /// # Errors
    /// [`NotPositiveDefinite`](crate::Error::NotPositiveDefinite) for dependent actions, and what the kernel reports.
    pub fn bound(&self, scope: &Scope, batch: &Batch, s: &Tensor<2>, sites: &Sites) -> Result<Tensor<1>> {
        batch.check(scope)?;
        let span = Span::Dense(s.clone());
        let products = span.products(&self.priors, scope, &batch.x)?;
        let noisy = tied::noisy(&*self.likelihood, scope, batch, sites, None)?;
        let told = bound::told(&self.priors, scope, &batch.x, (&span, products), &noisy)?;
        bound::bound((&self.priors, &*self.likelihood), scope, batch, told)
    }

    /// The sites at latent values `f` `[L, n]`.
    ///
    /// # Errors
    /// What reading tensors reports.
    pub fn sites(&self, batch: &Batch, f: Vec<f64>) -> Result<Sites> {
        Ok(Sites::at(&*self.likelihood.density(), &rows(&*self.likelihood, batch)?, f))
    }

    /// The sites averaged over latent values with these means `[L, n]` and variances `[L, n]`, or for classes with
    /// covariances `[L L, n]`; and the sum of the rows' average log densities.
    ///
    /// # Errors
    /// What expectations report.
    pub fn averaged_sites(&self, batch: (&Scope, &Batch), mean: Vec<f64>, spread: &[f64]) -> Result<(Sites, f64)> {
        let (likelihood, density, rows) =
            (&*self.likelihood, self.likelihood.density(), rows(&*self.likelihood, batch.1)?);
        let observed = Observed { likelihood, density: &*density, rows: &rows, batch, mean: &[], settle: false };
        Sites::expected(&observed, mean, spread)
    }

    /// What the posterior conditions on data.
    fn of(&self) -> LatentModel {
        LatentModel::of(&self.priors, &*self.likelihood, self.sites)
    }

    /// Conditions the prior on observations as far as Newton's method goes, and reports how far it went.
    ///
    /// # Errors
    /// [`NotFinite`](crate::Error::NotFinite) when no step has finite values, and what products report.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<(CagpPosterior, NewtonReport)> {
        self.posterior_from(compute, data, None)
    }

    fn posterior_from(
        &self,
        compute: Compute,
        data: Observations,
        from: Option<(&[f64], &[f64])>,
    ) -> Result<(CagpPosterior, NewtonReport)> {
        let scope = Scope::new(compute)?;
        let Found { actions, factor, projected, report, .. } = self.solve(&scope, &data.batch(&scope), from, true)?;
        let (n, i, latents) = (data.n(), projected.len(), self.likelihood.latents());
        let column = |place: usize| actions[place % i * latents * n + place / i * n..][..n].iter().copied();
        let columns: Vec<f64> = (0..latents * i).flat_map(column).collect();
        drop(actions);
        let basis = Basis::dense(scope.matrix(&columns, latents * i, n).transpose());
        let posterior = CagpPosterior::new(self.of(), compute, data, (basis, vec![1.0; i]), factor, projected)?;
        let NewtonReport { stop, actions, residual, scale, .. } = report;
        Ok((CagpPosterior { report: Some(SolveReport { stop, actions, residual, scale }), ..posterior }, report))
    }
}

/// The posterior after at most `more` more actions, starting from its present state.
pub(super) fn refined(posterior: &CagpPosterior, likelihood: &dyn Likelihood, more: usize) -> Result<CagpPosterior> {
    let CagpPosterior { of, compute, data, actions, weights, .. } = posterior;
    let (n, i, latents) = (data.n(), weights.len(), of.latents);
    let options = NewtonOptions { explain: true, ..NewtonOptions::budget(i + more) };
    let (priors, likelihood, sites) = (of.priors.clone(), likelihood.boxed(), of.sites);
    let model = NewtonCagp { priors, likelihood, options, sites, refresh: 1 };
    // `[n, i]` for one function, `[n, L i]` for several.
    let columns = to_f64(actions.clone().into_dense()?)?;
    let width = latents * i;
    let of_action = |a: usize| (0..latents * n).map(move |e| (e % n) * width + e / n * i + a);
    let rows: Vec<f64> = (0..i).flat_map(of_action).map(|place| columns[place]).collect();
    Ok(model.posterior_from(*compute, data.clone(), Some((&rows, weights)))?.0)
}

impl Model for NewtonCagp {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        let Found { actions, sites, .. } = self.solve(scope, batch, None, false)?;
        self.objective_for(scope, batch, &Held::new(bound::packed(scope, &actions, &sites)))
    }

    fn refresh(&self) -> Option<usize> {
        Some(self.refresh.max(1))
    }

    fn choose(&self, scope: &Scope, batch: &Batch) -> Result<Option<Held>> {
        let Found { actions, sites, .. } = self.solve(scope, batch, None, false)?;
        Ok(Some(Held::new(bound::packed(scope, &actions, &sites))))
    }

    fn objective_for(&self, scope: &Scope, batch: &Batch, chosen: &Held) -> Result<Tensor<1>> {
        let (s, sites) = bound::unpacked(chosen.get()?, batch.y.dims()[0], self.likelihood.density().is_centred())?;
        self.bound(scope, batch, &s.cast(scope.dtype()), &sites)
    }
}

impl Parameters for NewtonCagp {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        Prior::all_with(&self.priors, &*self.likelihood)
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        Prior::all_with_mut(&mut self.priors, &mut *self.likelihood)
    }
}
