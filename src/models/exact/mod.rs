//! Exact Gaussian-process regression (Rasmussen and Williams 2006, chapters 2 and 5).

mod options;
mod repeats;

use burn::tensor::Tensor;
pub use options::ExactOptions;

use crate::device::Compute;
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::likelihoods::{Gaussian, Likelihood};
use crate::linalg::{Factor, loo_nll, mvn_nll};
use crate::means::Mean;
use crate::models::gp_model::{GpModel, Size, Training, UserUnits};
use crate::models::posterior::{self, Joint, Marginals, Posterior, column_squares, combine, subtract_gram};
use crate::models::prior::Prior;
use crate::models::start::start;
use crate::models::{Batch, Model, Observations, fit};
use crate::params::{Parameter, Parameters};
use crate::products;
use crate::scope::{Scope, to_f64};
use crate::train::{Observer, Outcome};

/// What an exact GP minimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
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
    /// Of the latent function.
    pub prior: Prior,
    /// Observation noise.
    pub likelihood: Gaussian,
    /// The training objective.
    pub objective: ExactObjective,
}

impl ExactGp {
    /// A model with zero mean and a tenth of unit variance as noise, trained by marginal likelihood.
    pub fn new(kernel: Kernel) -> Self {
        let likelihood = Gaussian::new(0.1);
        Self { prior: kernel.into(), likelihood, objective: ExactObjective::MarginalLikelihood }
    }

    /// Conditions the prior on observations.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`] when K + σ²I cannot be factorised.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<ExactPosterior> {
        let scope = Scope::new(compute)?;
        let batch = data.batch(&scope);
        let n = data.n();
        let mut covariance = to_f64(products::gram(&self.prior.kernel, &scope, &batch.x)?)?;
        let noise = to_f64(self.likelihood.variances(&scope, n, batch.noise.as_ref()))?;
        for (i, noise) in noise.iter().enumerate() {
            covariance[i * n + i] += noise;
        }
        let factor = Factor::new(covariance, "K + σ²I")?;
        let mut weights = to_f64(batch.y.clone() - self.prior.mean.at(&scope, &batch.x))?;
        factor.solve(&mut weights)?;
        Ok(ExactPosterior { model: self.clone(), compute, data, factor, weights })
    }
}

impl Model for ExactGp {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        let n = batch.y.dims()[0];
        let residual = batch.y.clone() - self.prior.mean.at(scope, &batch.x);
        let noise = self.likelihood.variances(scope, n, batch.noise.as_ref());
        let covariance = products::gram(&self.prior.kernel, scope, &batch.x)?;
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

    fn prior(&self) -> &Prior {
        &self.prior
    }

    fn likelihood(&self) -> &dyn Likelihood {
        &self.likelihood
    }

    fn start(&mut self, data: &Observations, units: &UserUnits) {
        start(&mut self.likelihood, std::iter::empty(), data, units);
    }

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
}

impl Parameters for ExactGp {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        self.prior.with_noise(&self.likelihood)
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        self.prior.with_noise_mut(&mut self.likelihood)
    }
}

/// The posterior of an [`ExactGp`]. Its factorisation is in f64 whatever the precision of the covariances.
#[derive(Debug, Clone)]
pub struct ExactPosterior {
    model: ExactGp,
    compute: Compute,
    data: Observations,
    factor: Factor<f64>,
    /// K̂⁻¹(y − m).
    weights: Vec<f64>,
}

/// Bytes of cross-covariance that a chunk of predictions may hold.
const CHUNK_BYTES: usize = 64 << 20;

impl ExactPosterior {
    /// The observations conditioned on.
    pub fn data(&self) -> &Observations {
        &self.data
    }

    /// Conditions on more observations without retraining: O(n²k) for k more rows.
    ///
    /// # Errors
    /// [`Error::Shape`] when the columns differ, [`Error::NotPositiveDefinite`] when the grown matrix is not.
    pub fn condition(&self, more: &Observations) -> Result<Self> {
        if more.d != self.data.d {
            return Err(Error::shape("new inputs", format!("{} columns", self.data.d), more.d.to_string()));
        }
        let scope = Scope::new(self.compute)?;
        let (old, new) = (self.data.batch(&scope), more.batch(&scope));
        let k = more.n();
        let cross = to_f64(products::cross(&self.model.prior.kernel, &scope, &new.x, &old.x)?)?;
        let mut block = to_f64(products::gram(&self.model.prior.kernel, &scope, &new.x)?)?;
        let noise = to_f64(self.model.likelihood.variances(&scope, k, new.noise.as_ref()))?;
        for (i, noise) in noise.iter().enumerate() {
            block[i * k + i] += noise;
        }
        let mut factor = self.factor.clone();
        factor.append_rows(cross, block, "K + σ²I with the new rows")?;
        let mut data = self.data.clone();
        data.x.extend(&more.x);
        data.y.extend(&more.y);
        data.noise = match (data.noise, &more.noise) {
            (None, None) => None,
            (old, new) => {
                let mut all = old.unwrap_or_else(|| vec![0.0; self.data.n()]);
                all.extend(new.clone().unwrap_or_else(|| vec![0.0; k]));
                Some(all)
            }
        };
        let all = data.batch(&scope);
        let mut weights = to_f64(all.y - self.model.prior.mean.at(&scope, &all.x))?;
        factor.solve(&mut weights)?;
        Ok(Self { model: self.model.clone(), compute: self.compute, data, factor, weights })
    }

    /// Closed-form leave-one-out predictions of the observations y (not f): means and variances (eq. 5.12).
    pub fn leave_one_out(&self) -> Marginals {
        let precision = self.factor.inverse_diagonal();
        Marginals {
            mean: self.data.y.iter().zip(&self.weights).zip(&precision).map(|((y, w), p)| y - w / p).collect(),
            variance: precision.iter().map(|p| 1.0 / p).collect(),
            floored: 0,
        }
    }

    /// The posterior of one summand of an additive kernel (index into [`Kernel::summands`]), at rows `x`: the share of f
    /// that this component explains, without the prior mean.
    ///
    /// # Errors
    /// [`Error::Usage`] when there is no such summand.
    pub fn predict_component(&self, index: usize, x: &[f64]) -> Result<Marginals> {
        let summands = self.model.prior.kernel.summands();
        let Some(summand) = summands.get(index) else {
            return Err(Error::Usage(format!(
                "the kernel has {} summands, there is no summand {index}",
                summands.len()
            )));
        };
        self.of(summand, &Mean::Zero, x)
    }

    fn rows(&self, x: &[f64]) -> Result<usize> {
        posterior::rows(x, self.data.d)
    }

    fn of(&self, kernel: &Kernel, mean: &Mean, x: &[f64]) -> Result<Marginals> {
        self.rows(x)?;
        let scope = Scope::new(self.compute)?;
        let (n, d) = (self.data.n(), self.data.d);
        let train = scope.matrix(&self.data.x, n, d);
        let rows = (CHUNK_BYTES / (8 * n)).clamp(1, 4096);
        let mut all = Marginals::default();
        for chunk in x.chunks(rows * d) {
            let points = scope.matrix(chunk, chunk.len() / d, d);
            let mut cross = to_f64(products::cross(kernel, &scope, &train, &points)?)?;
            let prior_mean = to_f64(mean.at(&scope, &points))?;
            let prior_variance = to_f64(kernel.diag(&scope, &points)?)?;
            let shift = combine(&cross, &self.weights);
            self.factor.solve_lower(&mut cross)?;
            let explained = column_squares(&cross, prior_variance.len());
            all.extend(prior_mean.iter().zip(shift).map(|(m, k)| m + k), &prior_variance, &explained);
        }
        Ok(all)
    }
}

impl Posterior for ExactPosterior {
    fn exact(&self) -> Option<&ExactPosterior> {
        Some(self)
    }

    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        self.of(&self.model.prior.kernel, &self.model.prior.mean, x)
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        let rows = self.rows(x)?;
        if rows == 0 {
            return Ok(Joint::default());
        }
        let scope = Scope::new(self.compute)?.widened();
        let points = scope.matrix(x, rows, self.data.d);
        let train = scope.matrix(&self.data.x, self.data.n(), self.data.d);
        let mut cross = to_f64(products::cross(&self.model.prior.kernel, &scope, &train, &points)?)?;
        let prior_mean = to_f64(self.model.prior.mean.at(&scope, &points))?;
        let mean = prior_mean.iter().zip(combine(&cross, &self.weights)).map(|(m, k)| m + k).collect();
        let mut covariance = to_f64(products::gram(&self.model.prior.kernel, &scope, &points)?)?;
        self.factor.solve_lower(&mut cross)?;
        subtract_gram(&mut covariance, &cross, rows);
        Ok(Joint { mean, covariance })
    }
}
