//! Computation-aware GP regression (Wenger et al. 2024): the posterior after a number of projections of the data. Its
//! uncertainty includes the error of the limited computation.
//!
//! With actions S `[n, i]`, M̂ = Sᵀ(K + σ²I)S and ṽ = M̂⁻¹Sᵀ(y − m): mean m + k*ᵀSṽ, variance k** − k*ᵀS M̂⁻¹ Sᵀk*. The
//! variance is never below the exact GP's, falls with every action and depends on the span of S only.
//!
//! [`Cagp`] learns its actions (the batch form, Algorithm S2). In [`IterativeCagp`] a
//! [policy](crate::solvers::policies) chooses them for every evaluation (Algorithm S1). [`LearnedNewtonCagp`] and
//! [`NewtonCagp`] do the same for any likelihood.

mod actions;
mod blocks;
mod explained;
mod gram;
mod grow;
mod iterative;
mod left_out;
mod model;
mod newton;
mod objective;
mod options;
mod posterior;
mod prepared;
mod refine;
mod rows;
mod saved;
mod site_rule;
mod span;

use burn::tensor::Tensor;

pub use actions::{Actions, Layout};
pub use iterative::{Differentiation, IterativeCagp};
pub use newton::{LearnedNewtonCagp, NewtonCagp, NewtonOptions, NewtonPolicy, NewtonReport, Sites};
pub use objective::CagpObjective;
pub use options::{ActionPolicy, CagpOptions};
pub use posterior::CagpPosterior;
pub use refine::EXACT_ROWS;
pub use site_rule::SiteRule;

use super::prior::Prior;
use super::{Batch, Model, Observations};
use crate::device::{Compute, Precision};
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::likelihoods::Gaussian;
use crate::linalg::Factor;
use crate::products::{BlockSparse, Covariance};
use crate::scope::{BUDGET, Scope, to_f64};
use crate::solvers::itergp::{Basis, epsilon, independent};
use objective::Projection;
use posterior::LatentModel;

/// A GP whose posterior comes from learned projections of the data.
#[derive(Debug, Clone)]
pub struct Cagp {
    /// The prior of the latent function.
    pub prior: Prior,
    /// Observation noise (one variance for all rows).
    pub likelihood: Gaussian,
    /// The projections.
    pub actions: Actions,
    /// The training objective.
    pub objective: CagpObjective,
}

/// What a model computes first from a batch.
struct Observed {
    /// y − m.
    residual: Tensor<1>,
    /// The unit columns of S.
    basis: Basis,
    /// The norms that they were divided by.
    norms: Tensor<1>,
}

impl Cagp {
    /// A model with zero mean, a tenth of unit variance as noise and the ELBO as objective.
    pub fn new(kernel: Kernel, actions: Actions) -> Self {
        Self { prior: kernel.into(), likelihood: Gaussian::new(0.1), actions, objective: CagpObjective::Elbo }
    }

    fn observed(&self, scope: &Scope, batch: &Batch) -> Result<Observed> {
        one_noise(batch)?;
        self.actions.check(batch.y.dims()[0])?;
        let residual = batch.y.clone() - self.prior.mean.at(scope, &batch.x)?;
        let (basis, norms) = self.actions.unit(scope)?;
        Ok(Observed { residual, basis, norms })
    }

    /// Conditions the prior on observations through the actions.
    ///
    /// # Errors
    /// [`Error::Shape`] when the actions are for another number of rows, [`Error::Usage`] when they are linearly
    /// dependent.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<CagpPosterior> {
        let scope = Scope::new(compute)?.with_budget(self.budget(data.n(), compute.precision));
        let batch = data.batch(&scope);
        let Observed { residual, basis, norms } = self.observed(&scope, &batch)?;
        if let Ok(s) = columns(&basis)? {
            let s = s.clone().cast(scope.wide());
            let squares = to_f64(s.clone().transpose().matmul(s))?;
            let kept = independent(&squares, &squares, epsilon(&scope))?;
            if kept < self.actions.len() {
                return Err(Error::Usage(format!("action {kept} lies in the span of those before it: leave it out")));
            }
        }
        let covariance = self.prior.covariance(&scope, &batch.x);
        let projection = match columns(&basis)? {
            Ok(s) => Projection::dense(covariance, (s.clone(), products_with(covariance, s)?), &residual)?,
            Err(blocks) => Projection::sparse(covariance, blocks, &residual)?,
        };
        let factor = Factor::new(to_f64(projection.gram(&scope.wide_value(&self.likelihood.noise)))?, "SᵀK̂S")?;
        let of = LatentModel::gaussian(&self.prior, &self.likelihood);
        let projected = to_f64(projection.sy)?;
        CagpPosterior::new(of, compute, data, (basis, to_f64(norms)?), factor, projected)
    }
}

/// The columns of learned actions: dense ones or blocks.
fn columns(basis: &Basis) -> Result<std::result::Result<&Tensor<2>, &BlockSparse>> {
    basis.single().ok_or_else(|| Error::Usage("a computation-aware GP needs at least one action".into()))
}

/// Columns of a product at once: enough for full speed, but few enough that the work space is small compared with S.
const COLUMNS: usize = 128;

/// KS `[n, i]` for dense actions.
fn products_with(covariance: Covariance, s: &Tensor<2>) -> Result<Tensor<2>> {
    let i = s.dims()[1];
    let parts =
        (0..i).step_by(COLUMNS).map(|first| covariance.times(&s.clone().narrow(1, first, COLUMNS.min(i - first))));
    Ok(Tensor::cat(parts.collect::<Result<_>>()?, 1))
}

fn one_noise(batch: &Batch) -> Result<()> {
    match batch.auxiliary {
        Some(_) => Err(Error::Usage("a computation-aware GP takes one noise variance, not one per row".into())),
        None => Ok(()),
    }
}

/// K S is stored whole up to so many bytes. Every pair of rows is then visited once instead of four times.
const WHOLE: usize = 1 << 30;

/// The memory for products with so many actions.
fn budget(rows: usize, actions: usize, precision: Precision) -> usize {
    // Includes room for the part of it that is being computed.
    let whole = rows.saturating_mul(actions).saturating_mul(precision.bytes() * 5 / 4);
    if whole <= WHOLE { whole.max(BUDGET) } else { BUDGET }
}

impl Model for Cagp {
    fn budget(&self, rows: usize, precision: Precision) -> usize {
        budget(rows, self.actions.len(), precision)
    }

    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        let Observed { residual, basis, .. } = self.observed(scope, batch)?;
        let noise = scope.wide_value(&self.likelihood.noise);
        let covariance = self.prior.covariance(scope, &batch.x);
        match columns(&basis)? {
            Ok(s) => self.objective.dense(covariance, (s.clone(), products_with(covariance, s)?), &residual, noise),
            Err(blocks) => self.objective.sparse(covariance, blocks, &residual, noise),
        }
    }
}

crate::parameters!(Cagp { ..prior, "likelihood": ..likelihood, "actions": actions.values });
