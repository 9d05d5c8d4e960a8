//! Stochastic variational GPs (Hensman et al. 2013, *Gaussian processes for big data*; 2015, *Scalable variational
//! Gaussian process classification*): any likelihood, minibatches, several latent functions.

mod natural;
#[cfg(feature = "gpu")]
mod on_device;
mod options;
mod posterior;
mod together;

use std::time::Instant;

use burn::tensor::Tensor;
pub use options::SvgpOptions;
pub use posterior::SvgpPosterior;

use crate::device::Compute;
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::likelihoods::Likelihood;
use crate::linalg::{Projected, marginals, unpack_lower, whiten};
use crate::models::gp_model::{GpModel, Size, Training, UserUnits};
use crate::models::minibatch::{self, Minibatches, SumOverRows};
use crate::models::posterior::{Posterior, VARIANCE_FLOOR};
use crate::models::prior::Prior;
use crate::models::process::Process;
use crate::models::start::start_all;
use crate::models::variational::{Covariance, Variational};
use crate::models::whitened::{Root, WhitenedPosterior};
use crate::models::{Batch, Model, Observations, fit};
use crate::params::{Parameter, Parameters, prefixed};
use crate::products;
use crate::scope::Scope;
use crate::solvers::blocks::transposed;
use crate::train::{Evaluation, Observer, Outcome};

/// A variational GP: latent functions with inducing values, and a likelihood of the targets given the latent functions.
///
/// Training minimises `−(scale Σ E_q[ln p(y_i | f_i)] − Σ_l KL(q(u_l) ‖ p(u_l)))`, an upper bound of the negative log
/// evidence.
#[derive(Debug, Clone)]
pub struct Svgp {
    /// The priors of the latent functions with Z: one for all functions, or one for each.
    pub processes: Vec<Process>,
    /// q of whitened values v, one for each latent function: u = m(Z) + L v and K_ZZ = L Lᵀ.
    pub variational: Vec<Variational>,
    /// The likelihood of the targets given the latent functions.
    pub likelihood: Box<dyn Likelihood>,
}

/// Covariances of a process's inducing values and the rows of a batch, in the form that the marginals of its latent
/// functions need.
// A step has one.
#[allow(clippy::large_enum_variant)]
enum Covariances {
    /// The covariances are computed together with the marginals of the only latent function, for whitened values.
    Own { z: Tensor<2>, x: Tensor<2> },
    /// A = L⁻¹K_ZX with K_ZZ = L Lᵀ, for whitened values of several latent functions.
    White(Tensor<2>),
}

impl Covariances {
    fn project(&self, kernel: &Kernel, scope: &Scope, q: &Variational) -> Result<Projected> {
        let single = scope.dtype() != scope.wide();
        let wide = |values: &Parameter| scope.wide_value(values);
        match self {
            Self::Own { z, x } => products::Cross::new(kernel, scope, z, x).whitened(wide(&q.mean), wide(&q.root)),
            Self::White(a) if q.is_diagonal() => marginals(a.clone(), wide(&q.mean), wide(&q.root), single),
            Self::White(a) => marginals(a.clone(), wide(&q.mean), unpack_lower(wide(&q.root))?, single),
        }
    }
}

/// Marginals of all latent functions at the rows of a batch.
struct Latents {
    /// `[L, b]`.
    mean: Tensor<2>,
    /// `[L, b]`.
    variance: Tensor<2>,
    /// Σ_l KL `[1]`.
    divergence: Tensor<1>,
}

/// K_ZZ and K_ZX.
fn matrices(process: &Process, scope: &Scope, x: &Tensor<2>) -> Result<(Tensor<2>, Tensor<2>)> {
    let z = process.z(scope);
    Ok((process.prior.covariance(scope, &z).matrix_wide()?, process.prior.cross(scope, &z, x).matrix_wide()?))
}

impl Svgp {
    /// Makes a model with full covariances of q. Its latent functions share the kernel, a zero mean and the
    /// inducing inputs `z`, row-major `[m, d]`. q is the prior.
    ///
    /// # Errors
    /// [`Error::Shape`] when `z` is empty or its last row is incomplete.
    pub fn new(kernel: Kernel, z: &[f64], d: usize, likelihood: impl Likelihood + 'static) -> Result<Self> {
        Self::boxed(kernel, z, d, Box::new(likelihood))
    }

    /// As [`new`](Self::new), for a likelihood chosen at run time.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn boxed(kernel: Kernel, z: &[f64], d: usize, likelihood: Box<dyn Likelihood>) -> Result<Self> {
        let process = Process::new(kernel, z, d)?;
        let variational = vec![Variational::new(process.len(), Covariance::Full); likelihood.latents()];
        Ok(Self { processes: vec![process], variational, likelihood })
    }

    /// The same model with another covariance of q. q starts again.
    pub fn covariance(mut self, covariance: Covariance) -> Self {
        for q in &mut self.variational {
            *q = Variational::new(q.mean.len(), covariance);
        }
        self
    }

    /// The same model with a separate kernel, mean and inducing inputs for each latent function.
    pub fn separate(mut self) -> Self {
        while self.processes.len() < self.variational.len() {
            self.processes.push(self.processes[0].clone());
        }
        self
    }

    fn process(&self, latent: usize) -> &Process {
        &self.processes[latent.min(self.processes.len() - 1)]
    }

    /// The marginals, from the covariances that `make` computes for each process.
    fn latents(
        &self,
        scope: &Scope,
        x: &Tensor<2>,
        mut make: impl FnMut(&Process) -> Result<Covariances>,
    ) -> Result<Latents> {
        let (b, wide) = (x.dims()[0], scope.wide());
        let (mut means, mut variances, mut divergence) = (Vec::new(), Vec::new(), None);
        let mut shared = None;
        for (l, q) in self.variational.iter().enumerate() {
            let process = self.process(l);
            if l < self.processes.len() {
                process.check(x)?;
                let prior = process.prior.covariance(scope, x).diagonal_wide()?;
                shared = Some((make(process)?, prior, process.prior.mean.at(scope, x)?.cast(wide)));
            }
            let Some((covariances, prior, level)) = &shared else {
                return Err(Error::Usage("a variational GP needs at least one process".into()));
            };
            let Projected { shift, change, divergence: kl } = covariances.project(&process.prior.kernel, scope, q)?;
            let floor = prior.clone().detach() * VARIANCE_FLOOR;
            means.push((level.clone() + shift).reshape([1, b]));
            variances.push((prior.clone() + change).max_pair(floor).reshape([1, b]));
            divergence = Some(match divergence {
                None => kl,
                Some(sum) => sum + kl,
            });
        }
        let divergence = divergence.ok_or_else(|| Error::Usage("a variational GP needs a latent function".into()))?;
        Ok(Latents { mean: Tensor::cat(means, 0), variance: Tensor::cat(variances, 0), divergence })
    }

    fn covariances(&self, process: &Process, scope: &Scope, x: &Tensor<2>) -> Result<Covariances> {
        if self.processes.len() == self.variational.len() {
            return Ok(Covariances::Own { z: process.z(scope), x: x.clone() });
        }
        let (gram, cross) = matrices(process, scope, x)?;
        Ok(Covariances::White(whiten(gram, cross, "K_ZZ")?))
    }

    /// The posterior of the latent functions under q.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`] when K_ZZ cannot be factorised.
    pub fn posterior(&self, compute: Compute) -> Result<SvgpPosterior> {
        let scope = Scope::new(compute)?;
        let latents = self.variational.iter().enumerate().map(|(l, q)| {
            let process = self.process(l);
            let m = process.len();
            let lower = process.factor(&scope)?;
            let (mean, root) = (q.mean.internal(), Root::Upper(transposed(&q.lower()?, m)));
            let z = (process.inducing.internal(), process.d());
            Ok(WhitenedPosterior::new(process.prior.clone(), compute, z, lower, mean, root))
        });
        Ok(SvgpPosterior { latents: latents.collect::<Result<_>>()? })
    }

    /// Whether the parameter with this path belongs to q.
    pub fn is_variational(path: &str) -> bool {
        path.starts_with("variational")
    }

    fn names(&self) -> Vec<String> {
        let count = self.variational.len();
        (1..=count).map(|l| if count == 1 { "variational".into() } else { format!("variational{l}") }).collect()
    }
}

impl Model for Svgp {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        let make = |process: &Process| self.covariances(process, scope, &batch.x);
        let Latents { mean, variance, divergence } = self.latents(scope, &batch.x, make)?;
        let (mean, variance) = (mean.cast(scope.dtype()), variance.cast(scope.dtype()));
        let expected =
            self.likelihood.expected_log_density(scope, mean, variance, &batch.y, batch.auxiliary.as_ref())?;
        Ok(divergence.cast(scope.dtype()) - expected.sum() * batch.scale)
    }

    fn together(&self, compute: Compute, batch: &Batch) -> Option<Result<Evaluation>> {
        self.with_others(compute, batch)
    }
}

impl GpModel for Svgp {
    fn title(&self) -> String {
        let (m, likelihood) = (self.processes[0].len(), self.likelihood.text());
        format!("Variational Gaussian process with {m} inducing inputs, likelihood {likelihood}")
    }

    fn prior(&self) -> &Prior {
        &self.processes[0].prior
    }

    fn priors(&self) -> Vec<&Prior> {
        self.processes.iter().map(|process| &process.prior).collect()
    }

    fn likelihood(&self) -> &dyn Likelihood {
        &*self.likelihood
    }

    fn start(&mut self, data: &Observations, units: &UserUnits) {
        for process in &mut self.processes {
            process.set_units(&units.input_mean, &units.input_sd);
        }
        let priors = self.processes.iter_mut().map(|process| &mut process.prior);
        start_all(&mut *self.likelihood, priors, data, units);
    }

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        let (m, latents) = (self.processes[0].len() as f64, self.variational.len() as f64);
        size.data(compute) + 8.0 * (latents * 6.0 * m * m + 6.0 * m * size.batch as f64)
    }

    fn seconds(&self, compute: Compute, rows: &Observations, batches: Option<&Minibatches>) -> Result<f64> {
        let seconds = fit::seconds(self, compute, rows)?;
        let Some(rate) = batches.and_then(|batches| batches.natural) else { return Ok(seconds) };
        let (mut model, start) = (self.clone(), Instant::now());
        // A step that fails because it is too long takes as much time.
        let _ = model.natural_step(compute, &rows.batch(&Scope::new(compute)?), rate);
        Ok(seconds + start.elapsed().as_secs_f64())
    }

    fn train(&mut self, training: Training, observers: &mut [&mut dyn Observer]) -> Result<Outcome> {
        minibatch::train(self, training, observers)
    }

    fn sum_over_rows(&self) -> Option<&dyn SumOverRows> {
        Some(self)
    }

    fn updated(&self, compute: Compute, _data: &Observations, more: &Observations) -> Result<Option<Box<dyn GpModel>>> {
        Ok(Some(Box::new(Self::updated(self, compute, more)?)))
    }

    fn condition(&self, compute: Compute, _data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute)?))
    }
}

impl Parameters for Svgp {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        let mut all = Vec::new();
        let several = self.processes.len() > 1;
        for (l, process) in self.processes.iter().enumerate() {
            let own = process.parameters();
            all.extend(if several { prefixed(&format!("latent{}", l + 1), own) } else { own });
        }
        all.extend(prefixed("likelihood", self.likelihood.parameters()));
        for (name, q) in self.names().iter().zip(&self.variational) {
            all.extend(prefixed(name, q.parameters()));
        }
        all
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        let mut all = Vec::new();
        let (several, names) = (self.processes.len() > 1, self.names());
        for (l, process) in self.processes.iter_mut().enumerate() {
            let own = process.parameters_mut();
            all.extend(if several { prefixed(&format!("latent{}", l + 1), own) } else { own });
        }
        all.extend(prefixed("likelihood", self.likelihood.parameters_mut()));
        for (name, q) in names.iter().zip(&mut self.variational) {
            all.extend(prefixed(name, q.parameters_mut()));
        }
        all
    }
}
