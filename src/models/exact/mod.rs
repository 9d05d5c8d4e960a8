//! Exact Gaussian-process regression (Rasmussen and Williams 2006, chapters 2 and 5).

mod influence;
mod leverage;
mod options;
mod posterior;
mod repeats;
mod together;

use burn::tensor::Tensor;
pub(in crate::models) use influence::changes_little;
pub use options::ExactOptions;
pub(in crate::models) use posterior::Crossed;
pub use posterior::ExactPosterior;
use posterior::FACTOR;

use crate::device::Compute;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::likelihoods::Gaussian;
use crate::linalg::{Factor, loo_nll, mvn_nll};
use crate::models::gp_model::{GpModel, Size, Training, gaussian_parts};
use crate::models::posterior::{Posterior, SavedPosterior};
use crate::models::prior::Prior;
use crate::models::{Batch, Model, Observations, fit};
use crate::scope::{Scope, to_f64};
use crate::train::{Evaluation, Observer, Outcome};

/// What an exact GP minimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum ExactObjective {
    /// Negative log marginal likelihood −log p(y): ½(rᵀK̂⁻¹r + log|K̂| + n log 2π)
    #[cfg_attr(feature = "command", value(name = "ml"))]
    MarginalLikelihood,
    /// Negative leave-one-out log predictive probability −Σ log p(y_i | y without i)
    #[cfg_attr(feature = "command", value(name = "loo"))]
    LeaveOneOut,
}

/// A GP prior with Gaussian noise, conditioned without approximation: n³ time, n² memory.
#[derive(Debug, Clone)]
pub struct ExactGp {
    /// The prior of the latent function.
    pub prior: Prior,
    /// Observation noise.
    pub likelihood: Gaussian,
    /// The training objective.
    pub objective: ExactObjective,
}

impl ExactGp {
    /// A model with zero mean and a tenth of unit variance as noise, trained with the marginal likelihood.
    pub fn new(kernel: Kernel) -> Self {
        let likelihood = Gaussian::new(0.1);
        Self { prior: kernel.into(), likelihood, objective: ExactObjective::MarginalLikelihood }
    }

    /// Conditions the prior on observations.
    ///
    /// # Errors
    /// [`NotPositiveDefinite`](crate::Error::NotPositiveDefinite) when K + σ²I cannot be factorised.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<ExactPosterior> {
        let factor = Factor::new(self.covariance(compute, &data)?, "K + σ²I")?;
        ExactPosterior::new(self.clone(), compute, data, factor)
    }

    /// K + σ²I of rows.
    fn covariance(&self, compute: Compute, rows: &Observations) -> Result<Vec<f64>> {
        let (scope, n) = (Scope::new(compute)?, rows.n());
        let x = scope.rows(&rows.x, rows.d);
        let mut covariance = to_f64(self.prior.covariance(&scope, &x).matrix()?)?;
        let noise = rows.noise(&scope, &self.likelihood)?;
        covariance.iter_mut().step_by(n + 1).zip(noise).for_each(|(diagonal, noise)| *diagonal += noise);
        Ok(covariance)
    }

    /// y − m of rows.
    fn residuals(&self, scope: &Scope, rows: &Observations) -> Result<Vec<f64>> {
        to_f64(self.prior.residuals(scope, &rows.batch(scope))?)
    }
}

impl Model for ExactGp {
    fn together(&self, compute: Compute, batch: &Batch) -> Option<Result<Evaluation>> {
        self.with_others(compute, batch)
    }

    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        let residual = self.prior.residuals(scope, batch)?;
        let noise = batch.noise(scope, &self.likelihood);
        let covariance = self.prior.covariance(scope, &batch.x).matrix()?;
        match self.objective {
            ExactObjective::MarginalLikelihood => mvn_nll(covariance, noise, residual),
            ExactObjective::LeaveOneOut => loo_nll(covariance, noise, residual),
        }
    }
}

impl GpModel for ExactGp {
    fn title(&self) -> String {
        "Exact Gaussian process".into()
    }

    gaussian_parts!();

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        size.data(compute) + 2.5 * compute.precision.bytes() as f64 * (size.rows as f64).powi(2)
    }

    fn is_comparable(&self) -> bool {
        true
    }

    fn train(&mut self, training: Training, observers: &mut [&mut dyn Observer]) -> Result<Outcome> {
        repeats::train(self, &training, observers)
            .unwrap_or_else(|| fit::fit(self, training.compute, training.data, training.config, observers))
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute, data)?))
    }

    fn restore(&self, compute: Compute, data: Observations, mut saved: SavedPosterior) -> Result<Box<dyn Posterior>> {
        let Some(packed) = saved.take(FACTOR) else { return self.condition(compute, data) };
        let factor = Factor::from_packed(&packed, data.n())?;
        Ok(Box::new(ExactPosterior::new(self.clone(), compute, data, factor)?))
    }
}

crate::parameters!(ExactGp { ..prior, "likelihood": ..likelihood });
