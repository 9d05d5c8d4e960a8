//! Learned block-sparse actions for any likelihood.

use burn::tensor::{DType, Tensor};

use super::bound;
use super::fixed::Fixed;
use super::observed::{Observed, rows, variances};
use super::products::{Products, only};
use super::sites::Sites;
use super::small::Small;
use super::tied::{Through, noisy};
use super::unrolled::Unrolled;
use crate::device::{Compute, Precision};
use crate::error::{Error, Result};
use crate::likelihoods::Likelihood;
use crate::models::cagp::posterior::LatentModel;
use crate::models::cagp::site_rule::SiteRule;
use crate::models::cagp::span::Span;
use crate::models::cagp::{Actions, CagpPosterior, Layout, budget};
use crate::models::posterior::SavedPosterior;
use crate::models::prior::Prior;
use crate::models::{Batch, Held, Model, Observations};
use crate::params::{Parameter, Parameters};
use crate::products::{BlockSparse, Prepared};
use crate::scope::{Scope, to_f64};
use crate::solvers::itergp::Basis;

/// The relative change of latent values at which Newton's method has settled.
const SETTLED: f64 = 1e-9;

/// The same for products with K in single precision, whose rounding errors are not much smaller.
const SETTLED_F32: f64 = 1e-6;

/// Latent functions with any likelihood, whose posterior comes from learned projections of pseudo-targets.
///
/// A column of S has non-zeros only on the rows of one block, so all products with K together cost as much as one. For
/// classes, it has a number for every function, and these sum to 0 in each row. For other likelihoods with several
/// functions, each function has its own columns. The bound holds for any actions and sites. Newton's method finds the
/// sites from the parameters without further products with K.
#[derive(Debug, Clone)]
pub struct LearnedNewtonCagp {
    /// The priors of the latent functions: one for all of them, or one for each.
    pub priors: Vec<Prior>,
    /// The likelihood of targets given the latent functions.
    pub likelihood: Box<dyn Likelihood>,
    /// Non-zeros `[L n]`, and the blocks of n rows.
    pub actions: Actions,
    /// Where sites are taken.
    pub sites: SiteRule,
    /// Steps of Newton's method that gradients go through, from sites at the mode. One step gives the total derivative
    /// where the sites have settled. With 0 the sites are held fixed: then each value belongs to one bound, and
    /// optimisers that compare values see one function.
    pub unrolled: usize,
    /// Steps of an optimiser, at least 1, between two choices of held sites.
    pub refresh: usize,
}

impl LearnedNewtonCagp {
    /// A model with a prior and a likelihood, `i` blocks of rows in their order, and sites at the mode that are held
    /// for one step.
    ///
    /// # Errors
    /// [`Error::Usage`] unless 1 ≤ i ≤ n.
    pub fn new(prior: Prior, likelihood: Box<dyn Likelihood>, data: &Observations, i: usize) -> Result<Self> {
        let latents = likelihood.latents();
        let (values, offsets) = Actions::average_blocks(data.n(), i)?;
        let values: Vec<f64> = match likelihood.density().is_centred() {
            // Equal numbers for all classes carry no information: the classes of a block's rows make the difference.
            true => {
                (0..latents).flat_map(|l| data.y.iter().map(move |y| f64::from(u8::from(*y == l as f64)))).collect()
            }
            false => values.repeat(latents),
        };
        let actions = Actions::from_blocks(&values, offsets);
        let priors = prior.of_latents(&*likelihood);
        Ok(Self { priors, likelihood, actions, sites: SiteRule::Mode, unrolled: 0, refresh: 1 })
    }

    fn offsets(&self) -> Result<&[usize]> {
        match &self.actions.layout {
            Layout::Blocks(offsets) => Ok(offsets),
            Layout::Dense(_) => Err(Error::Usage("learned actions for Newton's method are blocks".into())),
        }
    }

    /// Whether every latent function has its own columns.
    pub(super) fn apart(&self) -> bool {
        let density = self.likelihood.density();
        density.latents() > 1 && !density.is_centred()
    }

    /// S.
    fn span(&self, scope: &Scope, n: usize) -> Result<Span> {
        let (latents, offsets) = (self.likelihood.latents(), self.offsets()?);
        if self.actions.values.len() != latents * n {
            let got = self.actions.values.len().to_string();
            return Err(Error::shape("learned actions", format!("{latents} × {n} numbers"), got));
        }
        let mut values = scope.value(&self.actions.values).reshape([latents, n]);
        if self.likelihood.density().is_centred() {
            values = values.clone() - values.mean_dim(0);
        }
        let part = |l: usize| BlockSparse::new(values.clone().narrow(0, l, 1).reshape([n]), offsets.to_vec());
        Ok(Span::Blocks { blocks: (0..latents).map(part).collect::<Result<_>>()?, apart: self.apart() })
    }

    /// The sites at the current parameters, settled or not, and the system there, given K S as numbers.
    fn find(
        &self,
        scope: &Scope,
        batch: &Batch,
        (span, ks): (&Span, &Products),
        settle: bool,
    ) -> Result<(Sites, Small)> {
        let (rows, density) = (rows(&*self.likelihood, batch)?, self.likelihood.density());
        let latents = density.latents();
        let mean = to_f64(bound::means(&self.priors, scope, &batch.x, latents)?)?;
        let (gram, values) = (ks.gram(scope)?, span.values()?);
        let (offsets, apart) = (self.offsets()?, self.apart());
        let likelihood = &*self.likelihood;
        let observed =
            Observed { likelihood, density: &*density, rows: &rows, batch: (scope, batch), mean: &mean, settle };
        let settled = if scope.dtype() == DType::F32 { SETTLED_F32 } else { SETTLED };
        let fixed = Fixed { observed, gram: &gram, values: &values, offsets, apart, settled };
        // Gaussian targets are their own pseudo-targets at any latent mean.
        let sites = match self.likelihood.noise() {
            Some(_) => observed.sites(mean.clone()),
            None => fixed.sites(|weights| ks.times(scope, weights))?,
        };
        let small = fixed.at(&sites)?;
        if self.sites == SiteRule::Mode {
            return Ok((sites, small));
        }
        let prior = variances(&self.priors, scope, &batch.x, latents)?;
        let functions = (latents, density.is_centred());
        let tell = |sites: &Sites, small: &Small| ks.told(scope, (sites, small), functions);
        let diverged = |sites: &Sites, small: &Small| small.divergence(fixed.noise(sites));
        observed.averaged((sites, small), &prior, (tell, diverged), |sites| fixed.at(sites))
    }

    /// A plain scope and its batch, to compute without gradients at the current parameters.
    fn plain(&self, scope: &Scope, batch: &Batch) -> Result<(Scope, Batch)> {
        let plain = Scope::new(scope.compute())?.with_budget(scope.budget());
        let Batch { x, y, auxiliary, scale } = batch.clone();
        Ok((plain, Batch { x: x.inner(), y: y.inner(), auxiliary: auxiliary.map(Tensor::inner), scale }))
    }

    /// The bound at sites, for actions and, if known, their products as numbers.
    fn loss(
        &self,
        scope: &Scope,
        batch: &Batch,
        (span, prepared): (&Span, Option<Vec<Prepared>>),
        sites: &Sites,
    ) -> Result<Tensor<1>> {
        let (priors, x) = (&self.priors[..], &batch.x);
        if self.unrolled > 0 {
            return self.loss_with(scope, batch, (span, span.products(priors, scope, x)?), sites);
        }
        let noisy = noisy(&*self.likelihood, scope, batch, sites, None)?;
        let told = match (span.separate(), span.together().zip(only(priors))) {
            (Some(blocks), _) => Some(bound::told_apart(priors, scope, x, (blocks, prepared), &noisy)?),
            (None, Some((blocks, prior))) => {
                let prepared = prepared.and_then(|mut all| all.pop());
                bound::told_together(prior, scope, x, (blocks, prepared), &noisy)?
            }
            (None, None) => None,
        };
        let told = match told {
            Some(told) => told,
            None => bound::told(priors, scope, x, (span, span.products(priors, scope, x)?), &noisy)?,
        };
        bound::bound((priors, &*self.likelihood), scope, batch, told)
    }

    /// The bound at sites, or after Newton steps from them, for actions and their differentiable products.
    fn loss_with(
        &self,
        scope: &Scope,
        batch: &Batch,
        (span, ks): (&Span, Tensor<2>),
        sites: &Sites,
    ) -> Result<Tensor<1>> {
        let steps = |mut f: Tensor<1>, at: &dyn Fn(Tensor<1>) -> Result<Tensor<2>>| {
            let (density, rows) = (self.likelihood.density(), rows(&*self.likelihood, batch)?);
            let (latents, wide) = (density.latents(), scope.wide());
            let unrolled = Unrolled {
                scope,
                density: &*density,
                rows: &rows,
                span,
                products: ks.clone().cast(wide),
                gram: span.gram(&ks, wide)?,
                mean: bound::means(&self.priors, scope, &batch.x, latents)?,
            };
            for _ in 0..self.unrolled {
                f = unrolled.step(f.clone(), at(f)?)?;
            }
            Ok(f)
        };
        let through: Option<Through> = if self.unrolled > 0 { Some(&steps) } else { None };
        let noisy = noisy(&*self.likelihood, scope, batch, sites, through)?;
        let told = bound::told(&self.priors, scope, &batch.x, (span, ks), &noisy)?;
        bound::bound((&self.priors, &*self.likelihood), scope, batch, told)
    }

    /// Conditions the prior on observations through the actions.
    ///
    /// # Errors
    /// What products and factorisations report.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<CagpPosterior> {
        let scope = Scope::new(compute)?.with_budget(self.budget(data.n(), compute.precision));
        let batch = data.batch(&scope);
        let span = self.span(&scope, data.n())?;
        let ks = Products::new(&span, &self.priors, &scope, &batch.x)?;
        let (_, Small { factor, projected, .. }) = self.find(&scope, &batch, (&span, &ks), true)?;
        let actions = (span.basis(data.n())?, vec![1.0; projected.len()]);
        CagpPosterior::new(self.of(), compute, data, actions, factor, projected)
    }

    fn of(&self) -> LatentModel {
        LatentModel::of(&self.priors, &*self.likelihood, self.sites)
    }

    /// The posterior that was saved.
    pub(super) fn restored(
        &self,
        compute: Compute,
        data: Observations,
        saved: SavedPosterior,
    ) -> Result<Option<CagpPosterior>> {
        let basis = self.span(&Scope::new(compute)?, data.n())?.basis(data.n())?;
        let columns = self.actions.len() * if self.apart() { self.likelihood.latents() } else { 1 };
        let own: Option<(Basis, Vec<f64>)> = Some((basis, vec![1.0; columns]));
        CagpPosterior::from_arrays(self.of(), compute, data, own, saved)
    }
}

impl Model for LearnedNewtonCagp {
    fn budget(&self, rows: usize, precision: Precision) -> usize {
        let columns = self.actions.len() * if self.apart() { 1 } else { self.likelihood.latents() };
        budget(rows, columns, precision)
    }

    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        let (n, priors) = (batch.y.dims()[0], &self.priors);
        let (plain, inner) = self.plain(scope, batch)?;
        let (span, held) = (self.span(scope, n)?, self.span(&plain, n)?);
        if self.likelihood.noise().is_some() {
            // The sites are known without products.
            let mean = to_f64(bound::means(priors, &plain, &inner.x, 1)?)?;
            let sites = Sites::at(&*self.likelihood.density(), &rows(&*self.likelihood, &inner)?, mean);
            return self.loss(scope, batch, (&span, None), &sites);
        }
        let chunked = if self.unrolled == 0 { Products::in_chunks(&held, priors, &plain, &inner.x)? } else { None };
        if let Some(ks) = chunked {
            let (sites, _) = self.find(&plain, &inner, (&held, &ks), false)?;
            return self.loss(scope, batch, (&span, ks.into_prepared()), &sites);
        }
        let ks = span.products(priors, scope, &batch.x)?;
        let whole = Products::Whole(&held, ks.clone().inner());
        let (sites, _) = self.find(&plain, &inner, (&held, &whole), false)?;
        self.loss_with(scope, batch, (&span, ks), &sites)
    }

    fn refresh(&self) -> Option<usize> {
        (self.unrolled == 0 && self.likelihood.noise().is_none()).then_some(self.refresh.max(1))
    }

    fn choose(&self, scope: &Scope, batch: &Batch) -> Result<Option<Held>> {
        let span = self.span(scope, batch.y.dims()[0])?;
        let ks = Products::new(&span, &self.priors, scope, &batch.x)?;
        let (sites, _) = self.find(scope, batch, (&span, &ks), false)?;
        Ok(Some(Held::new(sites)))
    }

    fn objective_for(&self, scope: &Scope, batch: &Batch, chosen: &Held) -> Result<Tensor<1>> {
        batch.check(scope)?;
        let span = self.span(scope, batch.y.dims()[0])?;
        self.loss(scope, batch, (&span, None), chosen.get()?)
    }
}

impl Parameters for LearnedNewtonCagp {
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
