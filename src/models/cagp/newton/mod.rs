//! Computation-aware GPs for any likelihood (Tatzel et al. 2025, *Accelerating non-conjugate
//! Gaussian processes by trading off computation for uncertainty*): Newton's method whose steps are solved in the span
//! of actions.
//!
//! At latent values f the likelihood has the gradient g and the curvature W of its log density: pseudo-targets
//! `ŷ = f + W⁻¹g` with noise `W⁻¹`. A step is the computation-aware posterior of those, and its mean the next f.
//! Actions S and their products `K S` serve all later steps: a product with K an action, none for a new W. What was not
//! computed stays in the variances, as for [Gaussian](super::IterativeCagp) targets, of which one step is all there is.
//!
//! Latent values of several functions stand one after another, and nothing of the order of their number squared is
//! made. Of classes, whose curvature ties a row's functions together, an action has a part for every function that sum
//! to 0 in each row; of others it is for one function alone, and functions stay as independent as they were.
//!
//! Training minimises a true bound of the negative log evidence at the actions and sites found, which it holds. Where a
//! likelihood is not log-concave, W is its Fisher information: the bound stays one.

pub(super) mod blocks;
mod bound;
mod directions;
mod face;
mod fixed;
mod gram;
mod learned;
mod products;
mod rows;
mod sites;
mod solve;
mod space;
mod span;
mod tied;

use burn::tensor::Tensor;
pub use directions::NewtonPolicy;
pub use learned::LearnedNewtonCagp;
pub use sites::{SiteRule, Sites};
pub use solve::NewtonReport;
use solve::{Found, Problem};
use span::Span;

use super::CagpPosterior;
use super::posterior::Conditioned;
use crate::device::Compute;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::likelihoods::{Likelihood, Row, Targets};
use crate::models::prior::{Prior, repeated};
use crate::models::{Batch, Held, Model, Observations};
use crate::params::{Parameter, Parameters};
use crate::scope::{Scope, to_f64};
use crate::solvers::itergp::{Basis, SolveReport};

/// Steps of Newton's method that actions are taken in.
const STEPS: usize = 50;

/// How far Newton's method goes, and in which steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NewtonOptions {
    /// Most actions in all.
    pub actions: usize,
    /// Most of them in one step: 1 is the best schedule where products with K are what costs.
    pub per_step: usize,
    /// The directions that are kept from step to step, those that the data say most about; all where none is given.
    /// Memory is n times that.
    pub kept: Option<usize>,
    /// Largest ‖g − v‖ / ‖g‖ at which no more actions are taken.
    pub relative: f64,
    /// Largest change of f, relative to its largest distance from the prior mean or 1, at which the steps that take no
    /// more actions end. They converge quadratically for log-concave likelihoods.
    pub settled: f64,
    /// Most steps.
    pub steps: usize,
    /// How actions are chosen.
    pub policy: NewtonPolicy,
}

impl NewtonOptions {
    /// At most so many actions in some fifty steps: one a step is best for few actions, of many the steps themselves
    /// come to cost as much.
    pub fn budget(actions: usize) -> Self {
        Self {
            actions,
            per_step: actions.div_ceil(STEPS),
            kept: None,
            relative: 1e-6,
            settled: 1e-7,
            steps: actions + 100,
            policy: NewtonPolicy::Gradient,
        }
    }
}

/// Latent functions with any likelihood, whose posterior comes from Newton's method in the span of actions.
#[derive(Debug, Clone)]
pub struct NewtonCagp {
    /// Of the latent functions: one for all of them, or one each.
    pub priors: Vec<Prior>,
    /// Of targets given the latent functions.
    pub likelihood: Box<dyn Likelihood>,
    /// How far Newton's method goes.
    pub options: NewtonOptions,
    /// What sites are tied to, once the actions are there.
    pub sites: SiteRule,
    /// Steps of an optimiser, at least 1, from one choice of actions and sites to the next.
    pub refresh: usize,
}

impl NewtonCagp {
    /// A model with zero mean, at most so many actions, sites at the mode.
    pub fn new(kernel: Kernel, likelihood: impl Likelihood + 'static, actions: usize) -> Self {
        Self::boxed(kernel.into(), Box::new(likelihood), NewtonOptions::budget(actions))
    }

    /// A model of a prior and a likelihood chosen at run time; latent functions that mean different things get a prior
    /// each.
    pub fn boxed(prior: Prior, likelihood: Box<dyn Likelihood>, options: NewtonOptions) -> Self {
        Self { priors: prior.of_latents(&*likelihood), likelihood, options, sites: SiteRule::Mode, refresh: 1 }
    }

    /// Newton's method at present parameters, for [`posterior`](Self::posterior) and bounds, from actions `[i, L n]`
    /// and their weights where there are some.
    fn solve(&self, scope: &Scope, batch: &Batch, from: Option<(&[f64], &[f64])>) -> Result<Found> {
        batch.check(scope)?;
        let plain = Scope::new(scope.compute())?.with_budget(scope.budget());
        let x = batch.x.clone().inner();
        let (rows, density, latents) = (self.rows(batch)?, self.likelihood.density(), self.likelihood.latents());
        let means = self.priors.iter().map(|prior| to_f64(prior.mean.at(&plain, &x)?));
        let mean = repeated(means.collect::<Result<_>>()?, latents).concat();
        let (priors, scope) = (&self.priors[..], &plain);
        let problem = Problem { density: &*density, rows: &rows, priors, scope, x: &x, mean: &mean, rule: self.sites };
        problem.solve(&self.options, from)
    }

    /// The negative evidence lower bound `[1]` for actions `s` `[L n, i]`, latent function after latent function, and
    /// sites of any kind: differentiable in the parameters, not in those. A row's actions sum to 0 where sites are
    /// centred.
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
        Ok(Sites::at(&*self.likelihood.density(), &self.rows(batch)?, f))
    }

    fn rows(&self, batch: &Batch) -> Result<Vec<Row>> {
        let auxiliary = batch.auxiliary.clone().map(to_f64).transpose()?;
        let y = to_f64(batch.y.clone())?;
        Ok(Targets { y: &y, auxiliary: auxiliary.as_deref() }.rows(self.likelihood.auxiliary()).collect())
    }

    /// What a posterior through actions is of.
    fn of(&self) -> Conditioned {
        Conditioned::of(&self.priors, &*self.likelihood, self.sites)
    }

    /// Conditions the prior on observations as far as Newton's method goes; also says how far that was.
    ///
    /// # Errors
    /// [`NotFinite`](crate::Error::NotFinite) when there is no finite way, and what products report.
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
        let Found { actions, factor, projected, report, .. } = self.solve(&scope, &data.batch(&scope), from)?;
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

/// The posterior after at most so many more actions, from where it stands.
pub(super) fn refined(posterior: &CagpPosterior, likelihood: &dyn Likelihood, more: usize) -> Result<CagpPosterior> {
    let CagpPosterior { of, compute, data, actions, weights, .. } = posterior;
    let (n, i, latents) = (data.n(), weights.len(), of.latents);
    let options = NewtonOptions::budget(i + more);
    let (priors, likelihood, sites) = (of.priors.clone(), likelihood.boxed(), of.sites);
    let model = NewtonCagp { priors, likelihood, options, sites, refresh: 1 };
    // Of one function `[n, i]`, of several `[n, L i]`.
    let columns = to_f64(actions.clone().into_dense()?)?;
    let width = latents * i;
    let of_action = |a: usize| (0..latents * n).map(move |e| (e % n) * width + e / n * i + a);
    let rows: Vec<f64> = (0..i).flat_map(of_action).map(|place| columns[place]).collect();
    Ok(model.posterior_from(*compute, data.clone(), Some((&rows, weights)))?.0)
}

impl Model for NewtonCagp {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        let Found { actions, sites, .. } = self.solve(scope, batch, None)?;
        self.objective_for(scope, batch, &Held::new(bound::packed(scope, &actions, &sites)))
    }

    fn refresh(&self) -> Option<usize> {
        Some(self.refresh.max(1))
    }

    fn choose(&self, scope: &Scope, batch: &Batch) -> Result<Option<Held>> {
        let Found { actions, sites, .. } = self.solve(scope, batch, None)?;
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
