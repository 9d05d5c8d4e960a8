//! Learned actions (the batch form, Algorithm S2), for any likelihood.

use burn::tensor::{DType, Tensor};

use super::evaluation::{Evaluation, Noisy};
use super::newton::{Fixed, Observed, Sites, Unrolled};
use super::numbers::{Numbers, Small};
use super::posterior::LatentModel;
use super::products::{self, Ks, OfActions};
use super::{Actions, CagpObjective, CagpPosterior, SiteRule};
use crate::device::{Compute, Precision};
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::likelihoods::{Gaussian, Likelihood};
use crate::models::posterior::SavedPosterior;
use crate::models::prior::Prior;
use crate::models::{Batch, Held, Model, Observations};
use crate::params::{Parameter, Parameters};
use crate::scope::{BUDGET, Scope, to_f64};
use crate::solvers::Group;
use crate::solvers::itergp::{Basis, epsilon, independent};

/// The relative change of latent values at which Newton's method has settled.
const SETTLED: f64 = 1e-9;

/// The same for products with K in single precision. On an H100, rounding errors alone change latent values by 1.2e-6.
const SETTLED_F32: f64 = 1e-5;

/// K S is stored whole up to so many bytes. Every pair of rows is then visited once instead of four times.
const WHOLE: usize = 1 << 30;

/// Latent functions whose posterior comes from learned projections of the data.
///
/// Targets with Gaussian noise are projected themselves. Other targets are replaced by pseudo-targets, which Newton's
/// method finds without further products with K; the bound holds for any of them. A column of block-sparse S has
/// non-zeros only on the rows of one block, so all products with K together cost as much as one. For classes, it has a
/// number for every function, and these sum to 0 in each row. For other likelihoods with several functions, each
/// function has its own columns.
#[derive(Debug, Clone)]
pub struct Cagp {
    /// The priors of the latent functions: one for all of them, or one for each.
    pub priors: Vec<Prior>,
    /// The likelihood of targets given the latent functions.
    pub likelihood: Box<dyn Likelihood>,
    /// The projections.
    pub actions: Actions,
    /// The training objective. Only Gaussian noise has another one than the ELBO.
    pub objective: CagpObjective,
    /// Where sites of other likelihoods are taken.
    pub sites: SiteRule,
    /// Steps of Newton's method that gradients go through, from sites at the mode. One step gives the total derivative
    /// where the sites have settled. With 0 the sites are held fixed: then each value belongs to one bound, and
    /// optimisers that compare values see one function.
    pub unrolled: usize,
    /// Steps of an optimiser, at least 1, between two choices of held sites.
    pub refresh: usize,
    /// The posterior takes further actions [until](CagpPosterior::until) what was not computed adds at most this share
    /// to the variance of a prediction.
    pub share: Option<f64>,
}

impl Cagp {
    /// A model of targets with Gaussian noise, with zero mean, a tenth of unit variance as noise and the ELBO as
    /// objective.
    pub fn new(kernel: Kernel, actions: Actions) -> Self {
        Self::boxed(kernel.into(), Box::new(Gaussian::new(0.1)), actions)
    }

    /// A model with a prior and a likelihood chosen at run time, and sites at the mode that are held for one step.
    /// Latent functions that are not interchangeable get a prior each.
    pub fn boxed(prior: Prior, likelihood: Box<dyn Likelihood>, actions: Actions) -> Self {
        let (priors, objective) = (prior.of_latents(&*likelihood), CagpObjective::Elbo);
        Self { priors, likelihood, actions, objective, sites: SiteRule::Mode, unrolled: 0, refresh: 1, share: None }
    }

    /// Whether every latent function has its own columns.
    pub(super) fn apart(&self) -> bool {
        self.likelihood.latents() > 1 && !self.likelihood.density().is_centred()
    }

    fn at<'a>(&'a self, scope: &'a Scope, batch: &'a Batch) -> Evaluation<'a> {
        Evaluation::new(&self.priors, &*self.likelihood, scope, batch)
    }

    /// S with unit columns, and the norms that they were divided by.
    fn unit(&self, at: &Evaluation) -> Result<(Basis, Tensor<1>)> {
        self.actions.check(at.functions.0 * at.rows())?;
        self.actions.unit(at.scope, at.functions)
    }

    /// Newton's method for these actions, given K S: the sites, settled or not, and the system there.
    fn find(observed: &Observed, s: &Basis, ks: &Ks) -> Result<(Sites, Small)> {
        let Some(group) = s.single() else { return Err(Error::Usage("learned actions come as one matrix".into())) };
        let settled = if observed.at.scope.dtype() == DType::F32 { SETTLED_F32 } else { SETTLED };
        let ks = OfActions { at: observed.at, s, ks };
        let fixed = Fixed::new(observed, Numbers::of(group)?, &ks, settled)?;
        let sites = fixed.sites()?;
        let small = fixed.at(&sites)?;
        fixed.averaged((sites, small))
    }

    /// The bound at sites.
    fn loss_at(&self, at: &Evaluation, s: &Basis, ks: Ks, sites: &Sites) -> Result<Tensor<1>> {
        if self.unrolled == 0 {
            return at.loss(self.objective, s, ks, &Noisy::of(at.scope, sites));
        }
        let ks = match ks {
            Ks::Whole(ks) => ks,
            _ => products::times(at, s)?,
        };
        let noisy = Unrolled::new(at, s, &ks)?.sites(sites, self.unrolled)?;
        at.loss(self.objective, s, Ks::Whole(ks), &noisy)
    }

    /// Conditions the prior on observations through the actions.
    ///
    /// # Errors
    /// [`Error::Shape`] when the actions are for another number of rows, [`Error::Usage`] when they are linearly
    /// dependent, and what products and factorisations report.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<CagpPosterior> {
        let scope = Scope::new(compute)?.with_budget(self.budget(data.n(), compute.precision));
        let batch = data.batch(&scope);
        let at = self.at(&scope, &batch);
        let (basis, norms) = self.unit(&at)?;
        if let Some(Group::Dense(s)) = basis.single() {
            let s = s.clone().cast(scope.wide());
            let squares = to_f64(s.clone().transpose().matmul(s))?;
            let kept = independent(&squares, &squares, epsilon(&scope))?;
            if kept < self.actions.len() {
                return Err(Error::Usage(format!("action {kept} lies in the span of those before it: leave it out")));
            }
        }
        let small = match at.known() {
            Some(noisy) => at.small(&basis, None, &noisy)?,
            None => Self::find(&Observed::new(at, self.sites, true)?, &basis, &Ks::best(&at, &basis)?)?.1,
        };
        Ok(CagpPosterior::new(self.of(), compute, data, (basis, to_f64(norms)?), small))
    }

    fn of(&self) -> LatentModel {
        LatentModel::new(&self.priors, &*self.likelihood, self.sites)
    }

    /// The posterior that was [saved](crate::models::posterior::Posterior::saved), given the parameters and
    /// observations of that time; none if nothing was saved.
    ///
    /// # Errors
    /// [`Error::Data`] when the sizes do not match.
    pub fn restored(
        &self,
        compute: Compute,
        data: Observations,
        saved: SavedPosterior,
    ) -> Result<Option<CagpPosterior>> {
        let (scope, of) = (Scope::new(compute)?, self.of());
        // Rows that came later have actions that only the file knows.
        let own = match self.actions.check(of.functions.0 * data.n()) {
            Ok(()) => {
                let (basis, norms) = self.actions.unit(&scope, of.functions)?;
                Some((basis, to_f64(norms)?))
            }
            Err(other) if saved.arrays.is_empty() => return Err(other),
            Err(_) => None,
        };
        CagpPosterior::from_arrays(of, compute, data, own, saved)
    }
}

impl Model for Cagp {
    fn budget(&self, rows: usize, precision: Precision) -> usize {
        let columns = self.actions.len() * if self.apart() { 1 } else { self.likelihood.latents() };
        // Includes room for the part of it that is being computed.
        let whole = rows.saturating_mul(columns).saturating_mul(precision.bytes() * 5 / 4);
        if whole <= WHOLE { whole.max(BUDGET) } else { BUDGET }
    }

    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        let at = self.at(scope, batch);
        let (s, _) = self.unit(&at)?;
        if let Some(noisy) = at.known() {
            return at.loss(self.objective, &s, Ks::Anew, &noisy);
        }
        self.objective.check(&*self.likelihood)?;
        // Sites are found without gradients.
        let plain = Scope::new(scope.compute())?.with_budget(scope.budget());
        let inner = batch.clone().inner();
        let there = self.at(&plain, &inner);
        let (observed, (held, _)) = (Observed::new(there, self.sites, false)?, self.unit(&there)?);
        let chunked = if self.unrolled == 0 { Ks::in_chunks(&there, &held)? } else { None };
        let (plain, ks) = match chunked {
            Some(ks) => (None, ks),
            None => {
                let ks = products::times(&at, &s)?;
                (Some(Ks::Whole(ks.clone().inner())), Ks::Whole(ks))
            }
        };
        let (sites, _) = Self::find(&observed, &held, plain.as_ref().unwrap_or(&ks))?;
        self.loss_at(&at, &s, ks, &sites)
    }

    fn refresh(&self) -> Option<usize> {
        (self.unrolled == 0 && self.likelihood.noise().is_none()).then_some(self.refresh.max(1))
    }

    fn choose(&self, scope: &Scope, batch: &Batch) -> Result<Option<Held>> {
        let at = self.at(scope, batch);
        if at.known().is_some() {
            return Ok(None);
        }
        let ((s, _), observed) = (self.unit(&at)?, Observed::new(at, self.sites, false)?);
        Ok(Some(Held::new(Self::find(&observed, &s, &Ks::best(&at, &s)?)?.0)))
    }

    fn objective_for(&self, scope: &Scope, batch: &Batch, chosen: &Held) -> Result<Tensor<1>> {
        batch.check(scope)?;
        let at = self.at(scope, batch);
        self.loss_at(&at, &self.unit(&at)?.0, Ks::Anew, chosen.get()?)
    }
}

impl Parameters for Cagp {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        let mut all = Prior::all_with(&self.priors, &*self.likelihood);
        all.push(("actions".into(), &self.actions.values));
        all
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        let mut all = Prior::all_with_mut(&mut self.priors, &mut *self.likelihood);
        all.push(("actions".into(), &mut self.actions.values));
        all
    }
}
