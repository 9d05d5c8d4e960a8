//! Counts, classes and other targets over one input: Laplace's approximation by the state space.

use burn::tensor::Tensor;

use super::StateSpaceGp;
use super::evidence::Evidence;
use super::posterior::StateSpacePosterior;
use super::program::Program;
use super::rows::Axes;
use super::sites::Task;
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::likelihoods::{Gaussian, Likelihood, Row};
use crate::linalg::host::apply3;
use crate::models::gp_model::{GpModel, Size, UserUnits};
use crate::models::laplace::{own_parameters, rows_of, without_sites};
use crate::models::posterior::{Joint, Marginals, Posterior};
use crate::models::prior::Prior;
use crate::models::start::start_all;
use crate::models::{Batch, Model, Observations};
use crate::scope::{Scope, to_f64};
use crate::serving::Served;

/// A GP prior over one input and a log-concave likelihood of targets given the function, approximated around the mode:
/// n time a step of Newton's method, and n memory. The numbers are those of
/// [`LaplaceGp`](crate::models::laplace::LaplaceGp) without its correction.
#[derive(Debug, Clone)]
pub struct StateSpaceLaplaceGp {
    /// The prior of the latent function.
    pub prior: Prior,
    /// The likelihood of targets given it.
    pub likelihood: Box<dyn Likelihood>,
}

impl StateSpaceLaplaceGp {
    /// A model with zero mean.
    ///
    /// # Errors
    /// [`Error::Usage`] for a kernel without a state-space form or with white noise, and for likelihoods that are not
    /// log-concave or have several functions.
    pub fn new(kernel: Kernel, likelihood: impl Likelihood + 'static) -> Result<Self> {
        Self::boxed(kernel.into(), Box::new(likelihood))
    }

    /// The same for a prior and a likelihood chosen at run time.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn boxed(prior: Prior, likelihood: Box<dyn Likelihood>) -> Result<Self> {
        let density = likelihood.density();
        if likelihood.latents() > 1 || !density.is_log_concave() {
            let problem = format!(
                "the state-space model takes log-concave likelihoods of one function, such as bernoulli, poisson, \
                 gamma and negative-binomial, and this is {}; choose laplace or svgp",
                likelihood.text()
            );
            return Err(Error::Usage(problem).about("Settings::model"));
        }
        if Program::of(&prior.kernel, Axes::needed(&prior.kernel)?.d)?.is_noisy() {
            let problem = "the state-space model of targets that are not Gaussian takes no `white` in its kernel; \
                           `matern12` with a short lengthscale is near";
            return Err(Error::Usage(problem.into()).about("Settings::kernel"));
        }
        Ok(Self { prior, likelihood })
    }

    /// Conditions the prior on observations.
    ///
    /// # Errors
    /// [`Error::NotFinite`] when there is no finite mode, and those of the filter.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<StateSpaceLaplacePosterior> {
        let scope = Scope::new(compute)?;
        let batch = data.batch(&scope);
        let mean = to_f64(self.prior.mean.at(&scope, &batch.x)?)?;
        let rows: Vec<Row> = data.targets().rows(self.likelihood.auxiliary()).collect();
        let density = self.likelihood.density();
        let (axes, blocks) = Program::blocks(&self.prior.kernel, data.d)?;
        let times = axes.times(&to_f64(batch.x)?);
        let task = Task { blocks: &blocks, density: &*density, rows: &rows, times: &times, mean: &mean };
        let mode = task.mode()?;
        let pass = task.pass(mode.sites.z.clone(), &mode.sites)?;
        let normal = StateSpaceGp { prior: self.prior.clone(), likelihood: Gaussian::new(0.1) };
        let inner = StateSpacePosterior::given(normal, compute, data.clone(), (axes, blocks), pass);
        let cavities = without_sites(&mode.f, &mode.variances, &mode.weights, &mode.sites.curvature);
        Ok(StateSpaceLaplacePosterior { model: self.clone(), compute, data, inner, mode: mode.f, cavities })
    }
}

impl Model for StateSpaceLaplaceGp {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        let program = Program::of(&self.prior.kernel, batch.x.dims()[1])?;
        let (density, rows) = (self.likelihood.density(), rows_of(&*self.likelihood, batch)?);
        let means = self.prior.mean.at(scope, &batch.x)?.cast(scope.wide());
        let (own, count) = own_parameters(&*self.likelihood, scope);
        let times = program.axes.times(&to_f64(batch.x.clone())?);
        let evidence = Evidence { program, density, rows, times, own: count };
        Ok(apply3(evidence, super::values(&self.prior, scope), means, own)?.cast(scope.dtype()))
    }
}

impl GpModel for StateSpaceLaplaceGp {
    fn title(&self) -> String {
        format!("Laplace approximation by its state space, likelihood {}", self.likelihood.text())
    }

    fn prior(&self) -> &Prior {
        &self.prior
    }

    fn likelihood(&self) -> &dyn Likelihood {
        &*self.likelihood
    }

    fn start(&mut self, data: &Observations, units: &UserUnits) {
        start_all(&mut *self.likelihood, std::iter::once(&mut self.prior), data, units);
    }

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        // Latent values, their slopes, sites and sorted rows in f64.
        size.data(compute) + 250.0 * size.rows as f64 + 1e6
    }

    fn is_comparable(&self) -> bool {
        true
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute, data)?))
    }
}

crate::parameters!(StateSpaceLaplaceGp { ..prior, "likelihood": ..likelihood });

/// The posterior of a [`StateSpaceLaplaceGp`]: that of the function given the sites at the mode.
#[derive(Debug, Clone)]
pub struct StateSpaceLaplacePosterior {
    model: StateSpaceLaplaceGp,
    compute: Compute,
    data: Observations,
    inner: StateSpacePosterior,
    mode: Vec<f64>,
    cavities: Marginals,
}

impl StateSpaceLaplacePosterior {
    /// The function at the training rows `[n]`: the mode of its posterior.
    pub fn mode(&self) -> &[f64] {
        &self.mode
    }
}

impl Posterior for StateSpaceLaplacePosterior {
    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        self.inner.predict(x)
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        self.inner.predict_joint(x)
    }

    fn served(&self, factor: bool) -> Result<Served> {
        self.inner.served(factor)
    }

    fn cavities(&self) -> Result<Option<Marginals>> {
        Ok(Some(self.cavities.clone()))
    }

    fn updated(&self, more: &Observations) -> Result<Option<Box<dyn Posterior>>> {
        Ok(Some(Box::new(self.model.posterior(self.compute, self.data.extended(more)?)?)))
    }
}
