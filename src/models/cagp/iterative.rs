//! Computation-aware GPs whose actions a policy chooses (Algorithm S1): CaGP-CG, CaGP-Chol and others.

use burn::tensor::Tensor;

use super::objective::Projection;
use super::posterior::LatentModel;
use super::{CagpObjective, CagpPosterior, one_noise, products_with};
use crate::device::Compute;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::likelihoods::Gaussian;
use crate::linalg::Factor;
use crate::models::prior::Prior;
use crate::models::{Batch, Held, Model, Observations};
use crate::scope::{Scope, to_f64};
use crate::solvers::itergp::{Basis, IterGpOptions, Solve, SolveObserver, SolveReport, System, itergp};
use crate::solvers::policies::{Pivots, Policy, Residual, UnitVector};

/// What the gradient of the objective differentiates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Differentiation {
    /// The loss at the actions found, which are held fixed: one wide product and its adjoint, however long the solve
    /// was. The ELBO is a bound for any actions, so this is the gradient of a bound, and training keeps the actions for
    /// [some steps](IterativeCagp::refresh). The loss of projected data is a loss of different data for different
    /// actions: do not use it to compare policies whose number of actions varies.
    Detached,
    /// The solve itself, in every step: the exact gradient of what is computed, also in a policy's parameters. Memory
    /// grows with several times n times the number of actions.
    Unrolled,
}

/// A GP whose posterior comes from an iterative solve.
#[derive(Debug, Clone)]
pub struct IterativeCagp {
    /// The prior of the latent function.
    pub prior: Prior,
    /// Observation noise (one variance for all rows).
    pub likelihood: Gaussian,
    /// What chooses the actions.
    pub policy: Box<dyn Policy>,
    /// When the solve ends.
    pub options: IterGpOptions,
    /// The training objective.
    pub objective: CagpObjective,
    /// What gradients differentiate.
    pub differentiation: Differentiation,
    /// Steps of an optimiser, at least 1, between two choices of detached actions. Between them the bound uses actions
    /// that were chosen at earlier parameters. More steps save solves, but move the hyperparameters to where these
    /// actions do best instead of newly chosen ones.
    pub refresh: usize,
}

impl IterativeCagp {
    /// A model with zero mean, a tenth of unit variance as noise, the ELBO as objective and detached actions.
    pub fn new(kernel: Kernel, policy: Box<dyn Policy>, options: IterGpOptions) -> Self {
        Self {
            prior: kernel.into(),
            likelihood: Gaussian::new(0.1),
            policy,
            options,
            objective: CagpObjective::Elbo,
            differentiation: Differentiation::Detached,
            refresh: 1,
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

    /// Runs the solve for K̂v = y − m in a scope. It is differentiable in a training scope.
    ///
    /// # Errors
    /// As [`itergp`], and [`Usage`](crate::Error::Usage) when rows have their own noise variances.
    pub fn solve(&self, scope: &Scope, batch: &Batch, observer: Option<&mut dyn SolveObserver>) -> Result<Solve> {
        one_noise(batch)?;
        let noise = self.likelihood.variances(scope, batch.y.dims()[0], None);
        let residual = batch.y.clone() - self.prior.mean.at(scope, &batch.x)?;
        let system = System::new(&self.prior.kernel, scope, batch.x.clone(), noise, residual)?;
        itergp(&system, self.policy.as_ref(), &self.options, observer)
    }

    /// The actions S `[n, i]` at the current parameters, as numbers.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    pub fn actions(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<2>> {
        let plain = Scope::new(scope.compute())?.with_budget(scope.budget());
        let batch = Batch {
            x: batch.x.clone().inner(),
            y: batch.y.clone().inner(),
            auxiliary: batch.auxiliary.clone(),
            scale: batch.scale,
        };
        let Solve { actions, .. } = self.solve(&plain, &batch, None)?;
        actions.into_dense()
    }

    /// The objective for actions `s` `[n, i]`, at whatever parameters they were chosen.
    ///
    /// # Errors
    /// As the objective.
    pub fn objective_at(&self, scope: &Scope, batch: &Batch, s: &Tensor<2>) -> Result<Tensor<1>> {
        batch.check(scope)?;
        let ks = products_with(self.prior.covariance(scope, &batch.x), s)?;
        self.loss(scope, batch, (s.clone(), ks))
    }

    /// The objective from actions and their products with K `[n, i]`.
    fn loss(&self, scope: &Scope, batch: &Batch, products: (Tensor<2>, Tensor<2>)) -> Result<Tensor<1>> {
        let residual = batch.y.clone() - self.prior.mean.at(scope, &batch.x)?;
        let noise = scope.wide_value(&self.likelihood.noise);
        self.objective.dense(self.prior.covariance(scope, &batch.x), products, &residual, noise)
    }

    /// Conditions the prior on observations as far as the solve goes, and reports how far it went.
    ///
    /// # Errors
    /// As [`solve`](Self::solve).
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<(CagpPosterior, SolveReport)> {
        let scope = Scope::new(compute)?;
        let batch = data.batch(&scope);
        let Solve { actions, products, report, .. } = self.solve(&scope, &batch, None)?;
        let noise = scope.value(&self.likelihood.noise);
        let (s, t) = (actions.into_dense()?, products.into_dense()?);
        let ks = t - s.clone() * noise.clone().unsqueeze::<2>();
        let residual = batch.y - self.prior.mean.at(&scope, &batch.x)?;
        let projection = Projection::dense(self.prior.covariance(&scope, &batch.x), (s.clone(), ks), &residual)?;
        let factor = Factor::new(to_f64(projection.gram(&noise))?, "SᵀK̂S")?;
        let norms = vec![1.0; factor.order()];
        let of = LatentModel::gaussian(&self.prior, &self.likelihood);
        let projected = to_f64(projection.sy)?;
        let posterior = CagpPosterior::new(of, compute, data, (Basis::dense(s), norms), factor, projected)?;
        Ok((CagpPosterior { report: Some(report), ..posterior }, report))
    }
}

impl Model for IterativeCagp {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        match self.differentiation {
            Differentiation::Detached => self.objective_at(scope, batch, &self.actions(scope, batch)?),
            Differentiation::Unrolled => {
                let Solve { actions, products, .. } = self.solve(scope, batch, None)?;
                let s = actions.into_dense()?;
                let noise = scope.value(&self.likelihood.noise).unsqueeze::<2>();
                let ks = products.into_dense()? - s.clone() * noise;
                self.loss(scope, batch, (s, ks))
            }
        }
    }

    fn refresh(&self) -> Option<usize> {
        (self.differentiation == Differentiation::Detached).then_some(self.refresh.max(1))
    }

    fn choose(&self, scope: &Scope, batch: &Batch) -> Result<Option<Held>> {
        Ok(Some(Held::new(self.actions(scope, batch)?)))
    }

    fn objective_for(&self, scope: &Scope, batch: &Batch, chosen: &Held) -> Result<Tensor<1>> {
        self.objective_at(scope, batch, chosen.get()?)
    }
}

crate::parameters!(IterativeCagp { ..prior, "likelihood": ..likelihood, "policy": ..policy });
