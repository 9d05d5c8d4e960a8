//! Computation-aware GPs for any likelihood of one latent function (Tatzel et al. 2025, *Accelerating non-conjugate
//! Gaussian processes by trading off computation for uncertainty*): Newton's method whose steps are solved in the span
//! of actions.
//!
//! At latent values f the likelihood has the gradient g and the curvature W of its log density: pseudo-targets
//! `ŷ = f + W⁻¹g` with noise `W⁻¹`. A step is the computation-aware posterior of those, and its mean the next f.
//! Actions S and their products `K S` serve all later steps: a product with K an action, none for a new W. What was not
//! computed stays in the variances, as for [Gaussian](super::IterativeCagp) targets, of which one step is all there is.
//!
//! Training minimises a true bound of the negative log evidence at the actions and sites found, which it holds. Where a
//! likelihood is not log-concave, W is its Fisher information: the bound stays one.

mod bound;
mod face;
mod sites;
mod solve;
mod space;

use burn::tensor::Tensor;
pub use sites::Sites;
pub use solve::NewtonReport;
use solve::{Found, Problem};

use super::CagpPosterior;
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::likelihoods::{Likelihood, Row, Targets};
use crate::models::prior::Prior;
use crate::models::{Batch, Held, Model, Observations};
use crate::params::{Parameter, Parameters, prefixed};
use crate::scope::{Scope, to_f64};
use crate::solvers::itergp::{Basis, SolveReport};

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
}

impl NewtonOptions {
    /// At most so many actions in some fifty steps: one a step is best for few actions, of many the steps themselves
    /// come to cost as much.
    pub fn budget(actions: usize) -> Self {
        Self {
            actions,
            per_step: actions.div_ceil(50),
            kept: None,
            relative: 1e-6,
            settled: 1e-7,
            steps: actions + 100,
        }
    }
}

/// A GP with any likelihood of one latent function, whose posterior comes from Newton's method in the span of actions.
#[derive(Debug, Clone)]
pub struct NewtonCagp {
    /// Of the latent function.
    pub prior: Prior,
    /// Of targets given it.
    pub likelihood: Box<dyn Likelihood>,
    /// How far Newton's method goes.
    pub options: NewtonOptions,
    /// Steps of an optimiser, at least 1, from one choice of actions and sites to the next.
    pub refresh: usize,
}

impl NewtonCagp {
    /// A model with zero mean, at most so many actions.
    ///
    /// # Errors
    /// As [`boxed`](Self::boxed).
    pub fn new(kernel: Kernel, likelihood: impl Likelihood + 'static, actions: usize) -> Result<Self> {
        Self::boxed(kernel.into(), Box::new(likelihood), NewtonOptions::budget(actions))
    }

    /// A model of a prior and a likelihood chosen at run time.
    ///
    /// # Errors
    /// [`Error::Usage`] for a likelihood of several latent functions.
    pub fn boxed(prior: Prior, likelihood: Box<dyn Likelihood>, options: NewtonOptions) -> Result<Self> {
        match likelihood.latents() {
            1 => Ok(Self { prior, likelihood, options, refresh: 1 }),
            count => Err(Error::Usage(format!(
                "computation-aware models take likelihoods of one latent function, and {} has {count}: choose another \
                 --model",
                likelihood.text()
            ))),
        }
    }

    /// Newton's method at present parameters, for [`posterior`](Self::posterior) and bounds.
    fn solve(&self, scope: &Scope, batch: &Batch) -> Result<Found> {
        batch.check(scope)?;
        let plain = Scope::new(scope.compute())?.with_budget(scope.budget());
        let x = batch.x.clone().inner();
        let rows = self.rows(batch)?;
        let (density, mean) = (self.likelihood.density(), to_f64(self.prior.mean.at(&plain, &x)?)?);
        let (kernel, scope) = (&self.prior.kernel, &plain);
        Problem { density: &*density, rows: &rows, kernel, scope, x: &x, mean: &mean }.solve(&self.options)
    }

    /// The negative evidence lower bound `[1]` for actions `s` `[n, i]` and sites of any kind: differentiable in the
    /// parameters, not in those.
    ///
    /// # Errors
    /// [`NotPositiveDefinite`](crate::Error::NotPositiveDefinite) for dependent actions, and what the kernel reports.
    pub fn bound(&self, scope: &Scope, batch: &Batch, s: &Tensor<2>, sites: &Sites) -> Result<Tensor<1>> {
        batch.check(scope)?;
        bound::bound((&self.prior, &*self.likelihood), scope, batch, s, sites)
    }

    /// The sites at latent values `f` `[n]`.
    ///
    /// # Errors
    /// What reading tensors reports.
    pub fn sites(&self, batch: &Batch, f: Vec<f64>) -> Result<Sites> {
        Ok(Sites::at(&*self.likelihood.density(), &self.rows(batch)?, f))
    }

    fn rows(&self, batch: &Batch) -> Result<Vec<Row>> {
        let extra = batch.noise.clone().map(to_f64).transpose()?;
        let y = to_f64(batch.y.clone())?;
        Ok(Targets { y: &y, extra: extra.as_deref() }.rows(self.likelihood.auxiliary()).collect())
    }

    /// Conditions the prior on observations as far as Newton's method goes; also says how far that was.
    ///
    /// # Errors
    /// [`NotFinite`](crate::Error::NotFinite) when there is no finite way, and what products report.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<(CagpPosterior, NewtonReport)> {
        let scope = Scope::new(compute)?;
        let Found { actions, factor, projected, report, .. } = self.solve(&scope, &data.batch(&scope))?;
        let (n, i) = (data.n(), projected.len());
        let basis = Basis::dense(scope.matrix(&actions, i, n).transpose());
        let prior = (self.prior.clone(), None);
        let posterior = CagpPosterior::new(prior, compute, data, (basis, vec![1.0; i]), factor, projected)?;
        let NewtonReport { stop, actions, residual, scale, .. } = report;
        Ok((CagpPosterior { report: Some(SolveReport { stop, actions, residual, scale }), ..posterior }, report))
    }
}

impl Model for NewtonCagp {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        let Found { actions, sites, .. } = self.solve(scope, batch)?;
        self.objective_for(scope, batch, &Held::new(bound::packed(scope, &actions, &sites)))
    }

    fn refresh(&self) -> Option<usize> {
        Some(self.refresh.max(1))
    }

    fn choose(&self, scope: &Scope, batch: &Batch) -> Result<Option<Held>> {
        let Found { actions, sites, .. } = self.solve(scope, batch)?;
        Ok(Some(Held::new(bound::packed(scope, &actions, &sites))))
    }

    fn objective_for(&self, scope: &Scope, batch: &Batch, chosen: &Held) -> Result<Tensor<1>> {
        let (s, sites) = bound::unpacked(chosen.get()?)?;
        self.bound(scope, batch, &s.cast(scope.dtype()), &sites)
    }
}

impl Parameters for NewtonCagp {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        let mut all = self.prior.parameters();
        all.extend(prefixed("likelihood", self.likelihood.parameters()));
        all
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        let mut all = self.prior.parameters_mut();
        all.extend(prefixed("likelihood", self.likelihood.parameters_mut()));
        all
    }
}
