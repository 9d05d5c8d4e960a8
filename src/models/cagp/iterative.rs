//! Actions that a policy chooses (Algorithm S1): CaGP-CG, CaGP-Chol and others, and IterNCGP for any likelihood.

use burn::tensor::Tensor;

use super::evaluation::{Evaluation, Noisy};
use super::newton::{Found, Linearised, NewtonGraph, Observed, Problem, Sites, climb};
use super::numbers::Small;
use super::posterior::LatentModel;
use super::products::Ks;
use super::{CagpObjective, CagpPosterior, NewtonOptions, NewtonReport, SiteRule};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::likelihoods::{Gaussian, Likelihood};
use crate::linalg::dense::decompositions::orthonormal;
use crate::models::posterior::SavedPosterior;
use crate::models::prior::Prior;
use crate::models::{Batch, Held, Model, Observations};
use crate::params::{Parameter, Parameters, prefixed};
use crate::scope::{Scope, to_f64};
use crate::solvers::itergp::{Basis, IterGpOptions, Solve, SolveObserver, SolveReport, System, itergp};
use crate::solvers::policies::{Gradient, Pivots, Policy, Residual, UnitVector};

/// Latent functions whose posterior comes from an iterative solve.
///
/// Targets with Gaussian noise need one solve, by [IterGP](itergp()). For other likelihoods it is Newton's method in
/// the span of the actions, which serve all its steps.
#[derive(Debug, Clone)]
pub struct IterativeCagp {
    /// The priors of the latent functions: one for all of them, or one for each.
    pub priors: Vec<Prior>,
    /// The likelihood of targets given the latent functions.
    pub likelihood: Box<dyn Likelihood>,
    /// What chooses the actions.
    pub policy: Box<dyn Policy>,
    /// When the solve ends. Newton's method ends when ‖g − v‖ / ‖g‖ is within the relative tolerance.
    pub options: IterGpOptions,
    /// How Newton's method goes.
    pub newton: NewtonOptions,
    /// The training objective. Only Gaussian noise has another one than the ELBO.
    pub objective: CagpObjective,
    /// Steps of Newton's method that gradients go through, in every step of an optimiser: the exact gradient of what is
    /// computed, also in a policy's parameters. Targets with Gaussian noise need one. Memory grows with several times n
    /// times the number of actions, for each step.
    ///
    /// With 0 the actions are held: one wide product and its adjoint, however long the solve was. The ELBO is a bound
    /// for any actions, so this is the gradient of a bound, and training keeps the actions for
    /// [some steps](IterativeCagp::refresh). The loss of projected data is a loss of different data for different
    /// actions: do not use it to compare policies whose number of actions varies. A policy's own parameters have no
    /// gradient then and stay as they are.
    pub unrolled: usize,
    /// Where sites of other likelihoods are taken, once the actions are known.
    pub sites: SiteRule,
    /// Steps of an optimiser, at least 1, between two choices of held actions and sites. Between them the bound
    /// uses actions that were chosen at earlier parameters. More steps save solves, but move the hyperparameters to
    /// where these actions do best instead of newly chosen ones.
    pub refresh: usize,
    /// The posterior takes further actions [until](CagpPosterior::until) what was not computed adds at most this share
    /// to the variance of a prediction.
    pub share: Option<f64>,
}

/// What training keeps between two choices.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The actions S `[L n, i]`, latent function after latent function.
    pub actions: Tensor<2>,
    /// The sites of targets that do not have Gaussian noise.
    pub sites: Option<Sites>,
}

/// Actions and weights that a solve starts from.
type Start<'a> = Option<(&'a [f64], &'a [f64])>;

impl IterativeCagp {
    /// A model of targets with Gaussian noise, with zero mean, a tenth of unit variance as noise, the ELBO as objective
    /// and held actions.
    pub fn new(kernel: Kernel, policy: Box<dyn Policy>, options: IterGpOptions) -> Self {
        Self::boxed(kernel.into(), Box::new(Gaussian::new(0.1)), policy, options)
    }

    /// A model with a prior and a likelihood chosen at run time, and sites at the mode. Latent functions that are not
    /// interchangeable get a prior each.
    pub fn boxed(
        prior: Prior,
        likelihood: Box<dyn Likelihood>,
        policy: Box<dyn Policy>,
        options: IterGpOptions,
    ) -> Self {
        Self {
            priors: prior.of_latents(&*likelihood),
            likelihood,
            policy,
            options,
            newton: NewtonOptions::spread(options.actions),
            objective: CagpObjective::Elbo,
            unrolled: 0,
            sites: SiteRule::Mode,
            refresh: 1,
            share: None,
        }
    }

    /// CaGP-CG: residuals as actions, at most `actions`, to the tolerance of the paper (1e-4).
    pub fn cg(kernel: Kernel, actions: usize) -> Self {
        Self::new(kernel, Box::new(Residual), IterGpOptions { actions, ..IterGpOptions::default() })
    }

    /// CaGP-Chol: unit vectors of `actions` rows that pivoted Cholesky chooses.
    pub fn cholesky(kernel: Kernel, actions: usize) -> Self {
        let policy = UnitVector { pivots: Pivots::Largest };
        Self::new(kernel, Box::new(policy), IterGpOptions::budget(actions))
    }

    /// IterNCGP for any likelihood: gradients of the log posterior as actions, at most `actions`, with zero mean.
    pub fn newton(kernel: Kernel, likelihood: impl Likelihood + 'static, actions: usize) -> Self {
        let options = IterGpOptions { relative: 1e-6, ..IterGpOptions::budget(actions) };
        Self::boxed(kernel.into(), Box::new(likelihood), Box::new(Gradient::default()), options)
    }

    fn at<'a>(&'a self, scope: &'a Scope, batch: &'a Batch) -> Evaluation<'a> {
        Evaluation::new(&self.priors, &*self.likelihood, scope, batch)
    }

    /// The targets with their noise.
    fn known(&self, scope: &Scope, batch: &Batch) -> Result<Noisy> {
        let problem =
            || format!("the {} likelihood has no linear system: Newton's method solves many", self.likelihood.text());
        self.at(scope, batch).known().ok_or_else(|| Error::Usage(problem()))
    }

    /// Runs the solve for K̂v = y − m in a scope, for Gaussian noise. It is differentiable in a training scope.
    ///
    /// # Errors
    /// As [`itergp()`], and [`Error::Usage`] for other likelihoods.
    pub fn solve(&self, scope: &Scope, batch: &Batch, observer: Option<&mut dyn SolveObserver>) -> Result<Solve> {
        let noise = self.known(scope, batch)?.spread.cast(scope.dtype()).squeeze_dim(1);
        let residual = self.priors[0].residuals(scope, batch)?;
        let system = System::new(&self.priors[0].kernel, scope, batch.x.clone(), noise, residual)?;
        itergp(&system, self.policy.as_ref(), &self.options, observer)
    }

    /// The actions of such a solve, their products with K and its report.
    fn solved(&self, scope: &Scope, batch: &Batch, noisy: &Noisy) -> Result<(Tensor<2>, Tensor<2>, SolveReport)> {
        let Solve { actions, products, report, .. } = self.solve(scope, batch, None)?;
        let (s, products) = (actions.into_dense()?, products.into_dense()?);
        let noise = noisy.spread.clone().cast(products.dtype());
        Ok((s.clone(), products - s * noise, report))
    }

    /// Newton's method at the current parameters, for bounds, or to settled sites for a posterior. Starts from actions
    /// `[i, L n]` and their weights, if given.
    fn climb(&self, at: Evaluation, from: Start, settle: bool) -> Result<Found> {
        let (scope, batch) = Linearised::wide(&at);
        let problem = Problem {
            observed: Observed::new(at, self.sites, settle)?,
            wide: self.at(&scope, &batch),
            policy: &*self.policy,
            options: self.newton,
            budget: self.options.actions,
            relative: self.options.relative,
        };
        problem.solve(from)
    }

    /// Newton's method as a tensor graph on the scope's device: as many steps as gradients go through, which share the
    /// actions. It is differentiable in a training scope, in all parameters, the policy's included.
    ///
    /// # Errors
    /// [`Error::NotFinite`] when values are not finite, and what the policy and products report.
    pub fn newton_graph(&self, scope: &Scope, batch: &Batch) -> Result<NewtonGraph> {
        let (scope, batch) = Linearised::wide(&self.at(scope, batch));
        let (steps, budget) = (self.unrolled.max(1), self.options.actions);
        let per_step = self.newton.per_step.max(budget.div_ceil(steps));
        climb(self.at(&scope, &batch), &*self.policy, NewtonOptions { steps, per_step, ..self.newton }, budget)
    }

    /// The actions and sites at the current parameters, as numbers.
    ///
    /// # Errors
    /// What solves report.
    pub fn chosen(&self, scope: &Scope, batch: &Batch) -> Result<Chosen> {
        batch.check(scope)?;
        self.objective.check(&*self.likelihood)?;
        let plain = Scope::new(scope.compute())?.with_budget(scope.budget());
        let inner = batch.clone().inner();
        let at = self.at(&plain, &inner);
        if at.known().is_some() {
            return Ok(Chosen { actions: self.solve(&plain, &inner, None)?.actions.into_dense()?, sites: None });
        }
        let Found { actions, sites, .. } = self.climb(at, None, false)?;
        Ok(Chosen { actions: whitened(&plain, &actions, &sites).cast(plain.dtype()), sites: Some(sites) })
    }

    /// The objective for actions `s` `[L n, i]`, latent function after latent function, at whatever parameters they
    /// were chosen. Targets with Gaussian noise need no sites; with sites it is the bound. It is differentiable in the
    /// parameters, not in actions or sites. If sites are centred, a row's actions must sum to 0.
    ///
    /// # Errors
    /// [`NotPositiveDefinite`](Error::NotPositiveDefinite) for dependent actions, [`Error::Usage`] for other targets
    /// without sites, and what the kernel reports.
    pub fn objective_at(
        &self,
        scope: &Scope,
        batch: &Batch,
        s: &Tensor<2>,
        sites: Option<&Sites>,
    ) -> Result<Tensor<1>> {
        batch.check(scope)?;
        let noisy = match sites {
            Some(sites) => Noisy::of(scope, sites),
            None => self.known(scope, batch)?,
        };
        self.at(scope, batch).loss(self.objective, &Basis::dense(s.clone()), Ks::Anew, &noisy)
    }

    /// The sites averaged over latent values with these means `[L, n]` and variances `[L, n]`, or for classes with
    /// covariances `[L L, n]`; and the sum of the rows' average log densities.
    ///
    /// # Errors
    /// What expectations report.
    pub fn averaged_sites(&self, scope: &Scope, batch: &Batch, mean: Vec<f64>, spread: &[f64]) -> Result<(Sites, f64)> {
        Sites::expected(&Observed::new(self.at(scope, batch), self.sites, false)?, mean, spread)
    }

    fn of(&self) -> LatentModel {
        LatentModel::new(&self.priors, &*self.likelihood, self.sites)
    }

    /// Conditions the prior on observations as far as the solve goes, and reports how far it went.
    ///
    /// # Errors
    /// What solves report.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<(CagpPosterior, NewtonReport)> {
        self.posterior_from(compute, data, None)
    }

    fn posterior_from(
        &self,
        compute: Compute,
        data: Observations,
        from: Start,
    ) -> Result<(CagpPosterior, NewtonReport)> {
        let scope = Scope::new(compute)?;
        let batch = data.batch(&scope);
        let at = self.at(&scope, &batch);
        let (s, small, report) = match at.known() {
            Some(noisy) => {
                let (s, ks, report) = self.solved(&scope, &batch, &noisy)?;
                let s = Basis::dense(s);
                let small = at.small(&s, Some(ks), &noisy)?;
                (s, small, report.into())
            }
            None => {
                let Found { actions, small, report, .. } = self.climb(at, from, true)?;
                let i = small.weights.len();
                let s = scope.matrix(&actions, i, actions.len() / i).transpose();
                (Basis::dense(s), small, report)
            }
        };
        let norms = vec![1.0; small.weights.len()];
        let posterior = CagpPosterior::new(self.of(), compute, data, (s, norms), small);
        Ok((CagpPosterior { report: Some(report.into()), ..posterior }, report))
    }

    /// As [`Cagp::restored`](super::Cagp::restored).
    ///
    /// # Errors
    /// [`Error::Data`] when the sizes do not match.
    pub fn restored(
        &self,
        compute: Compute,
        data: Observations,
        saved: SavedPosterior,
    ) -> Result<Option<CagpPosterior>> {
        CagpPosterior::from_arrays(self.of(), compute, data, None, saved)
    }

    /// The posterior of another likelihood than the Gaussian after at most `more` more actions, starting from its
    /// present state.
    pub(super) fn refined(posterior: &CagpPosterior, more: usize) -> Result<CagpPosterior> {
        let CagpPosterior { of, compute, data, actions, small: Small { weights, .. }, .. } = posterior;
        let options = IterGpOptions { relative: 1e-6, ..IterGpOptions::budget(weights.len() + more) };
        let (prior, likelihood) = (of.priors[0].clone(), of.likelihood.clone());
        let model = Self::boxed(prior, likelihood, Box::new(Gradient::default()), options);
        let newton = NewtonOptions { explain: true, ..model.newton };
        let model = Self { priors: of.priors.clone(), newton, sites: of.sites, ..model };
        let rows = to_f64(actions.clone().into_dense()?.transpose())?;
        Ok(model.posterior_from(*compute, data.clone(), Some((&rows, weights)))?.0)
    }
}

/// Other columns `[L n, i]` with the span of actions `[i, L n]` and `SᵀW⁻¹S = I`, so that no eigenvalue of M is below
/// 1, whatever K becomes.
fn whitened(scope: &Scope, actions: &[f64], sites: &Sites) -> Tensor<2> {
    let n = sites.f.len();
    let i = actions.len() / n;
    let roots: Vec<f64> = sites.curvature.iter().map(|d| d.sqrt()).collect();
    let white: Vec<f64> = (0..n * i).map(|e| actions[e % i * n + e / i] / roots[e / i]).collect();
    let mut values = orthonormal(&white, i);
    values.chunks_exact_mut(i.max(1)).zip(&roots).for_each(|(row, root)| row.iter_mut().for_each(|x| *x *= root));
    scope.matrix_in(&values, n, i, scope.wide())
}

impl Model for IterativeCagp {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        if self.unrolled == 0 {
            return self.objective_for(scope, batch, &Held::new(self.chosen(scope, batch)?));
        }
        batch.check(scope)?;
        self.objective.check(&*self.likelihood)?;
        let at = self.at(scope, batch);
        let (s, ks, noisy) = match at.known() {
            Some(noisy) => {
                let (s, ks, _) = self.solved(scope, batch, &noisy)?;
                (s, ks, noisy)
            }
            None => {
                let NewtonGraph { actions, products, latent, derivatives, .. } = self.newton_graph(scope, batch)?;
                (actions, products, Noisy::new(latent, derivatives))
            }
        };
        at.loss(self.objective, &Basis::dense(s), Ks::Whole(ks), &noisy)
    }

    fn refresh(&self) -> Option<usize> {
        (self.unrolled == 0).then_some(self.refresh.max(1))
    }

    fn choose(&self, scope: &Scope, batch: &Batch) -> Result<Option<Held>> {
        Ok(Some(Held::new(self.chosen(scope, batch)?)))
    }

    fn objective_for(&self, scope: &Scope, batch: &Batch, chosen: &Held) -> Result<Tensor<1>> {
        let Chosen { actions, sites } = chosen.get()?;
        self.objective_at(scope, batch, actions, sites.as_ref())
    }
}

impl Parameters for IterativeCagp {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        let mut all = Prior::all_with(&self.priors, &*self.likelihood);
        all.extend(prefixed("policy", self.policy.parameters()));
        all
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        let mut all = Prior::all_with_mut(&mut self.priors, &mut *self.likelihood);
        all.extend(prefixed("policy", self.policy.parameters_mut()));
        all
    }
}
