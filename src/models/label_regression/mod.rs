//! Classes as a regression of their labels: "least-squares classification" (Rasmussen and Williams 2006, 6.5), "label
//! regression" (Nickisch and Rasmussen 2008, *Approximations for binary Gaussian process classification*).
//!
//! Each class has a column of labels, 1 in its own rows and 0 in all others. Less the share of the class, all columns
//! are targets of one Gaussian regression: they share the kernel, the noise and so the factor of K + σ²I, and many
//! classes cost as much as one target. The latent function of class c is `f_c = s m_c + level_c`, with `m_c` the mean
//! of its column and the level that fits the class's share: far from all rows, classes have their shares. The latent
//! functions have no variance; the scale s stands for it.
//!
//! Labels do not scatter normally about a function, so their marginal likelihood says little of classes. Training
//! minimises what matters, `−Σ ln p(y_i | m_i without row i)`, whose means have a closed form (Rasmussen and Williams
//! 2006, eq. 5.12), in the hyperparameters and the scale. One row more that is wrong keeps the scale finite where the
//! classes are apart. It learns from some of the rows and is conditioned on more of them: n³ time, n² memory.
//! `docs/defaults.md` has the measurements.

mod options;
mod posterior;

use std::borrow::Cow;

use burn::tensor::Tensor;
pub use options::LabelRegressionOptions;
pub use posterior::LabelPosterior;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::index;

use crate::device::Compute;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::likelihoods::{Gaussian, Likelihood, Targets};
use crate::linalg::{Factor, loo_means};
use crate::models::gp_model::{GpModel, Size, Training, UserUnits};
use crate::models::minibatch::{Minibatches, Rows};
use crate::models::posterior::{Posterior, SavedPosterior};
use crate::models::prior::Prior;
use crate::models::{Batch, Model, Observations, fit};
use crate::params::{Constraint, Parameter, Unit};
use crate::scope::{Scope, to_f64};
use crate::train::{Observer, Outcome};

/// A regression of class labels.
#[derive(Debug, Clone)]
pub struct LabelRegression {
    /// The prior of the mean of each column of labels, in units of its standard deviation.
    pub prior: Prior,
    /// The noise of the labels.
    pub labels: Gaussian,
    /// The factor s of means of labels in latent functions.
    pub scale: Parameter,
    /// The likelihood of classes given the latent functions. It has no parameters.
    pub likelihood: Box<dyn Likelihood>,
    /// The most rows that hyperparameters are learned from.
    pub subset: usize,
    /// The most rows that it is conditioned on.
    pub rows: usize,
    /// The seed that chooses both.
    pub seed: u64,
}

/// Columns of labels, one for each latent function: of two classes with one function, that of class 1.
#[derive(Debug, Clone)]
struct Labels {
    /// Less the share of the class, in units of the columns' standard deviation `[n, L]`.
    residuals: Vec<f64>,
    /// The difference that a class makes in these units.
    gap: f64,
    /// The levels of the latent functions `[L]` that fit the shares.
    levels: Vec<f64>,
}

impl Labels {
    fn new(y: &[f64], levels: Vec<f64>) -> Self {
        let latents = levels.len();
        let class = |latent: usize| if latents == 1 { 1.0 } else { latent as f64 };
        let share = |latent| y.iter().filter(|y| **y == class(latent)).count() as f64 / y.len().max(1) as f64;
        let shares: Vec<f64> = (0..latents).map(share).collect();
        let variance = shares.iter().map(|share| share * (1.0 - share)).sum::<f64>() / latents as f64;
        let gap = if variance > 0.0 { variance.sqrt().recip() } else { 1.0 };
        let of_row = |y: &f64| {
            let (y, shares) = (*y, &shares);
            (0..latents).map(move |latent| (f64::from(u8::from(y == class(latent))) - shares[latent]) * gap)
        };
        Self { residuals: y.iter().flat_map(of_row).collect(), gap, levels }
    }
}

impl LabelRegression {
    /// A model with a tenth of unit variance as noise.
    pub fn new(kernel: Kernel, likelihood: impl Likelihood + 'static) -> Self {
        Self::boxed(kernel, Box::new(likelihood))
    }

    /// The same for a likelihood chosen at run time.
    pub fn boxed(kernel: Kernel, likelihood: Box<dyn Likelihood>) -> Self {
        let LabelRegressionOptions { subset, rows } = LabelRegressionOptions::default();
        let scale = Parameter::new("scale", Unit::None, Constraint::Positive { floor: 0.0 }, &[2.5]);
        Self { prior: kernel.into(), labels: Gaussian::new(0.1), scale, likelihood, subset, rows, seed: 0 }
    }

    /// Conditions the regression on observations, whose targets are classes: on [`rows`](Self::rows) of them.
    ///
    /// # Errors
    /// [`NotPositiveDefinite`](crate::Error::NotPositiveDefinite) when K + σ²I cannot be factorised, and what the
    /// kernel reports.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<LabelPosterior> {
        let data = self.some(&data, self.rows)?.into_owned();
        let (scope, n) = (Scope::new(compute)?, data.n());
        let x = data.batch(&scope).x;
        let mut covariance = to_f64(self.prior.covariance(&scope, &x).matrix()?)?;
        let noise = to_f64(self.labels.variances(&scope, n, None))?;
        covariance.iter_mut().step_by(n + 1).zip(noise).for_each(|(variance, noise)| *variance += noise);
        let factor = Factor::new(covariance, "K + σ²I")?;
        let Labels { residuals: mut weights, levels, .. } = self.labels_of(&data.y);
        factor.solve(&mut weights)?;
        Ok(LabelPosterior { model: self.clone(), compute, data, weights, levels })
    }

    fn labels_of(&self, y: &[f64]) -> Labels {
        Labels::new(y, self.likelihood.boxed().initialise(Targets { y, auxiliary: None }))
    }

    /// At most so many of the rows.
    fn some<'a>(&self, data: &'a Observations, most: usize) -> Result<Cow<'a, Observations>> {
        if data.n() <= most {
            return Ok(Cow::Borrowed(data));
        }
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let mut rows = index::sample(&mut rng, data.n(), most).into_vec();
        rows.sort_unstable();
        Ok(Cow::Owned(data.gather(&rows)?))
    }
}

crate::parameters!(LabelRegression { ..prior, "labels": ..labels, "scale": scale });

impl Model for LabelRegression {
    /// Minus the log probability of the classes, each row left out in turn, and of one row more that is wrong.
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        let Labels { residuals, gap, levels } = self.labels_of(&to_f64(batch.y.clone())?);
        let (n, latents) = (batch.y.dims()[0], levels.len());
        let covariance = self.prior.covariance(scope, &batch.x).matrix()?;
        let noise = self.labels.variances(scope, n, None);
        let means = loo_means(covariance, noise, scope.matrix(&residuals, n, latents))?;
        let scale = scope.value(&self.scale);
        let f = (means * scale.clone().unsqueeze() + scope.vector(&levels).unsqueeze()).transpose();
        let certain = f.zeros_like();
        let densities = self.likelihood.expected_log_density(scope, f, certain, &batch.y, None)?;
        Ok(scale * gap - densities.sum())
    }
}

impl GpModel for LabelRegression {
    fn title(&self) -> String {
        format!("Regression of class labels, likelihood {}", self.likelihood.text())
    }

    fn prior(&self) -> &Prior {
        &self.prior
    }

    fn likelihood(&self) -> &dyn Likelihood {
        &*self.likelihood
    }

    /// Labels have units of their own.
    fn start(&mut self, _data: &Observations, _units: &UserUnits) {}

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        size.data(compute) + 16.0 * (size.rows.min(self.rows) as f64).powi(2)
    }

    fn seconds(&self, compute: Compute, rows: &Observations, _batches: Option<&Minibatches>) -> Result<f64> {
        let some = self.some(rows, self.subset)?;
        fit::seconds(self, compute, &some)
    }

    fn train(&mut self, training: Training, observers: &mut [&mut dyn Observer]) -> Result<Outcome> {
        let some = self.some(training.data, self.subset)?;
        fit::fit(self, training.compute, &some, training.config, observers)
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute, data)?))
    }

    fn restore(&self, compute: Compute, data: Observations, saved: SavedPosterior) -> Result<Box<dyn Posterior>> {
        let some = self.some(&data, self.rows)?.into_owned();
        match LabelPosterior::restored(self, compute, some, saved)? {
            Some(posterior) => Ok(Box::new(posterior)),
            None => self.condition(compute, data),
        }
    }
}
