//! Laplace's approximation for any likelihood (Rasmussen and Williams 2006, 3.4 and 3.5): the posterior of the latent
//! functions as a normal distribution around its mode. It uses dense matrices, for up to about 5,000 rows.
//!
//! With `g` and `W` the gradient and the curvature of the log density at the mode `f̂ = m + K a`, `a = g(f̂)`:
//! `ln q(y) = ln p(y | f̂) − ½ aᵀ(f̂ − m) − ½ ln|I + W K|`, `f* ~ N(m* + k*ᵀa, k** − k*ᵀ(K + W⁻¹)⁻¹k*)`. It is for
//! classes and counts what [`exact`](super::exact) is for real targets; for Gaussian targets both are the same. If a
//! likelihood is not log-concave, `W` is its Fisher information
//! (Hartmann and Vanhatalo 2019, *Laplace approximation and natural gradient for Gaussian process regression with
//! heteroscedastic student-t model*).
//!
//! # Evidence
//!
//! The evidence is not a bound. If classes can be separated and each of many inputs has its own lengthscale, it prefers
//! very large prior variances, whose predictions are underconfident (Kuss and Rasmussen 2005, *Assessing approximate
//! inference for binary Gaussian process classification*). If a class is rare, it prefers large variances without any
//! signal. The bounds of variational and of computation-aware models do not have this problem. A
//! [corrected](LaplaceGp::corrected) evidence has a factor more for each row: the average, under the approximate
//! posterior, of the row's density divided by its normal approximation. It is for one latent function and log-concave
//! likelihoods; others keep the plain evidence.
//!
//! For `L` classes, no array has the order `Ln` squared: each class has a factor of order n, and one more factor is for
//! the normalisation of the probabilities.

mod correction;
mod evidence;
mod left;
mod mode;
mod options;
mod posterior;
mod system;
mod tangent;

use burn::tensor::Tensor;
pub use options::LaplaceOptions;
pub use posterior::LaplacePosterior;

use crate::device::Compute;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::likelihoods::{Density, Likelihood, Row, Targets};
use crate::linalg::host::apply3;
use crate::models::gp_model::{GpModel, Size, UserUnits};
use crate::models::posterior::{Marginals, Posterior, SavedPosterior};
use crate::models::prior::Prior;
use crate::models::start::start_all;
use crate::models::{Batch, Model, Observations};
use crate::params::{Parameter, Parameters};
use crate::scope::{Scope, joined, to_f64};
use evidence::Evidence;
use mode::Task;
use system::Gram;

/// Latent functions with a prior, and a likelihood of targets given them, approximated around the mode: n³ time, n²
/// memory.
#[derive(Debug, Clone)]
pub struct LaplaceGp {
    /// The priors of the latent functions: one for all of them, or one for each.
    pub priors: Vec<Prior>,
    /// The likelihood of targets given the latent functions.
    pub likelihood: Box<dyn Likelihood>,
    /// Whether the evidence has a [correction](self#evidence) for each row, if the likelihood allows it.
    pub corrected: bool,
}

impl LaplaceGp {
    /// A model with zero mean.
    pub fn new(kernel: Kernel, likelihood: impl Likelihood + 'static) -> Self {
        Self::boxed(kernel.into(), Box::new(likelihood))
    }

    /// The same for a prior and a likelihood chosen at run time. Latent functions that are not interchangeable get a
    /// prior each.
    pub fn boxed(prior: Prior, likelihood: Box<dyn Likelihood>) -> Self {
        Self { priors: prior.of_latents(&*likelihood), likelihood, corrected: false }
    }

    /// Conditions the prior on observations.
    ///
    /// # Errors
    /// [`NotFinite`](crate::Error::NotFinite) when there is no finite mode, and what the kernel reports.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<LaplacePosterior> {
        let mode = self.on(compute, &data, |task| task.mode())?;
        Ok(LaplacePosterior::new(self.clone(), compute, data, mode))
    }

    /// Applies `find` to the model on observations.
    fn on<R>(&self, compute: Compute, data: &Observations, find: impl FnOnce(Task) -> Result<R>) -> Result<R> {
        let scope = Scope::new(compute)?;
        let (covariances, means) = self.gram(&scope, &data.batch(&scope).x)?;
        let (covariances, means) = (to_f64(covariances)?, to_f64(means)?);
        let rows: Vec<Row> = data.targets().rows(self.likelihood.auxiliary()).collect();
        let density = self.likelihood.density();
        find(Task { density: &*density, rows: &rows, gram: Gram::new(&covariances, data.n()), means: &means })
    }

    /// Covariances `[P n, n]` and means `[P n]` of P priors at n rows, in the wide type.
    fn gram(&self, scope: &Scope, x: &Tensor<2>) -> Result<(Tensor<2>, Tensor<1>)> {
        let covariances = self.priors.iter().map(|prior| prior.covariance(scope, x).matrix_wide());
        let means = self.priors.iter().map(|prior| Ok(prior.mean.at(scope, x)?.cast(scope.wide())));
        Ok((joined(covariances.collect::<Result<_>>()?, 0), joined(means.collect::<Result<_>>()?, 0)))
    }
}

/// The rows of a batch, as the likelihood sees them.
///
/// # Errors
/// [`Device`](crate::Error::Device) when the device cannot be read.
pub(in crate::models) fn rows_of(likelihood: &dyn Likelihood, batch: &Batch) -> Result<Vec<Row>> {
    let (y, auxiliary) = (to_f64(batch.y.clone())?, batch.auxiliary.clone().map(to_f64).transpose()?);
    Ok(Targets { y: &y, auxiliary: auxiliary.as_deref() }.rows(likelihood.auxiliary()).collect())
}

/// The likelihood's own parameters one after another, in the wide type, and their number; a zero if there are none.
pub(in crate::models) fn own_parameters(likelihood: &dyn Likelihood, scope: &Scope) -> (Tensor<1>, usize) {
    let own: Vec<Tensor<1>> = likelihood.parameters().iter().map(|(_, p)| scope.wide_value(p)).collect();
    let count = own.iter().map(|own| own.dims()[0]).sum();
    let none = || Tensor::zeros([1], (scope.device(), scope.wide()));
    (if own.is_empty() { none() } else { joined(own, 0) }, count)
}

/// The sites of rows whose latent values have the prior N(means, covariances `[n, n]`), at the mode of their posterior:
/// pseudo-targets, and the variances of their noise. For one latent function.
///
/// # Errors
/// [`NotFinite`](crate::Error::NotFinite) if there is no finite mode, and what factorisations report.
pub(in crate::models) fn sites(
    density: &dyn Density,
    rows: &[Row],
    means: &[f64],
    covariances: &[f64],
) -> Result<[Vec<f64>; 2]> {
    let mode = Task { density, rows, gram: Gram::new(covariances, rows.len()), means }.mode()?;
    // A row without curvature has a site as wide as numbers bear.
    let noise: Vec<f64> = mode.system.roots[0].iter().map(|root| (root * root).max(FLATTEST).recip()).collect();
    let targets = mode.f.iter().zip(&mode.weights).zip(&noise).map(|((f, gradient), noise)| f + gradient * noise);
    Ok([targets.collect(), noise])
}

/// The [cavities](Posterior::cavities) of one latent function: its mean and variance at a row without the row's site,
/// which has the gradient and the curvature of the row's log density at the mode (Vehtari et al. 2016, *Bayesian
/// leave-one-out cross-validation approximations for Gaussian latent variable models*).
pub(in crate::models) fn without_sites(
    mode: &[f64],
    variances: &[f64],
    gradient: &[f64],
    curvature: &[f64],
) -> Marginals {
    let rows = mode.iter().zip(variances).zip(gradient.iter().zip(curvature));
    let row = |((f, variance), (gradient, curvature)): ((&f64, &f64), (&f64, &f64))| {
        // What is left of the prior's precision is positive but for rounding.
        let variance = variance / (1.0 - variance * curvature).max(f64::EPSILON);
        (f - gradient * variance, variance)
    };
    let (mean, variance) = rows.map(row).unzip();
    Marginals { mean, variance, floored: 0 }
}

/// The least curvature of a site.
const FLATTEST: f64 = 1e-12;

impl Model for LaplaceGp {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        let (covariances, means) = self.gram(scope, &batch.x)?;
        let (rows, density) = (rows_of(&*self.likelihood, batch)?, self.likelihood.density());
        let (own, count) = own_parameters(&*self.likelihood, scope);
        apply3(Evidence { density, rows, corrected: self.corrected, own: count }, covariances, means, own)
    }
}

impl GpModel for LaplaceGp {
    fn title(&self) -> String {
        format!("Laplace approximation of a Gaussian process, likelihood {}", self.likelihood.text())
    }

    fn prior(&self) -> &Prior {
        &self.priors[0]
    }

    fn priors(&self) -> Vec<&Prior> {
        self.priors.iter().collect()
    }

    fn likelihood(&self) -> &dyn Likelihood {
        &*self.likelihood
    }

    fn start(&mut self, data: &Observations, units: &UserUnits) {
        start_all(&mut *self.likelihood, self.priors.iter_mut(), data, units);
    }

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        let latents = self.likelihood.latents() as f64;
        let matrices = self.priors.len() as f64 + 2.0 * latents + if self.corrected { 4.0 } else { 3.0 };
        size.data(compute) + 8.0 * matrices * (size.rows as f64).powi(2)
    }

    fn is_comparable(&self) -> bool {
        true
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute, data)?))
    }

    fn restore(&self, compute: Compute, data: Observations, saved: SavedPosterior) -> Result<Box<dyn Posterior>> {
        match LaplacePosterior::restored(self, compute, &data, saved)? {
            Some(posterior) => Ok(Box::new(posterior)),
            None => self.condition(compute, data),
        }
    }
}

impl Parameters for LaplaceGp {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        Prior::all_with(&self.priors, &*self.likelihood)
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        Prior::all_with_mut(&mut self.priors, &mut *self.likelihood)
    }
}
