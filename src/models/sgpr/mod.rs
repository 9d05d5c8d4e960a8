//! Sparse GP regression with inducing inputs and the collapsed bound (Titsias 2009, *Variational learning of inducing
//! variables in sparse Gaussian processes*).

mod options;
mod pooled;
mod posterior;

use burn::tensor::Tensor;
pub use options::SgprOptions;
pub use pooled::Pooled;
pub use posterior::SgprPosterior;

use crate::device::Compute;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::likelihoods::{Gaussian, Likelihood};
use crate::linalg::collapsed;
use crate::models::gp_model::{GpModel, Size, UserUnits};
use crate::models::posterior::{Posterior, SavedPosterior};
use crate::models::prior::Prior;
use crate::models::process::Process;
use crate::models::start::start;
use crate::models::{Batch, Model, Observations};
use crate::products;
use crate::scope::{Scope, to_f64};

/// GP regression through `m` inducing inputs Z, with the optimal distribution of their values: O(nm²) time, O(m² +
/// chunk · m) memory.
#[derive(Debug, Clone)]
pub struct Sgpr {
    /// The prior and Z.
    pub process: Process,
    /// Observation noise.
    pub likelihood: Gaussian,
}

/// The sums over the data that the bound needs, with weights w = 1/σ², K_ZZ = L Lᵀ and the residual r.
#[derive(Debug)]
pub(in crate::models) struct Moments {
    /// L⁻¹K_ZX W K_XZ L⁻ᵀ `[m, m]`.
    pub(in crate::models) square: Tensor<2>,
    /// L⁻¹K_ZX W r `[m]`.
    pub(in crate::models) projected: Tensor<1>,
    /// Σ log σ² + rᵀWr + tr(W K) `[1]`.
    pub(in crate::models) rest: Tensor<1>,
}

fn moments(prior: &Prior, likelihood: &Gaussian, z: &Tensor<2>, scope: &Scope, batch: &Batch) -> Result<Moments> {
    let kernel = &prior.kernel;
    let noise = batch.noise(&scope.widened(), likelihood);
    let residual = prior.residuals(scope, batch)?.cast(scope.wide());
    let s = noise.clone().sqrt().recip();
    let t = residual * s.clone();
    let (square, projected) = products::Cross::new(kernel, scope, z, &batch.x).moments(&s, &t)?;
    let prior = products::Covariance::new(kernel, scope, &batch.x).diagonal_wide()?;
    let rest = (noise.clone().log() + t.powi_scalar(2) + prior / noise).sum();
    Ok(Moments { square, projected, rest })
}

impl Moments {
    /// Minus the bound for `rows` rows.
    fn loss(self, rows: usize) -> Result<Tensor<1>> {
        let Self { square, projected, rest } = self;
        Ok((rest + rows as f64 * std::f64::consts::TAU.ln()) * 0.5 + collapsed(square, projected)?)
    }
}

/// Minus the collapsed bound for inducing inputs `z [m, d]`, `[1]`.
///
/// # Errors
/// [`NotPositiveDefinite`](crate::Error::NotPositiveDefinite) when K_ZZ cannot be factorised.
pub(in crate::models) fn bound(
    prior: &Prior,
    likelihood: &Gaussian,
    z: &Tensor<2>,
    scope: &Scope,
    batch: &Batch,
) -> Result<Tensor<1>> {
    moments(prior, likelihood, z, scope, batch)?.loss(batch.y.dims()[0])
}

impl Sgpr {
    /// Makes a model with zero mean, a noise variance of 0.1 and inducing inputs `z`, row-major `[m, d]`.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when `z` is empty or its last row is incomplete.
    pub fn new(kernel: Kernel, z: &[f64], d: usize) -> Result<Self> {
        Ok(Self { process: Process::new(kernel, z, d)?, likelihood: Gaussian::new(0.1) })
    }

    /// The sums over the rows of a batch.
    pub(in crate::models) fn moments(&self, scope: &Scope, batch: &Batch) -> Result<Moments> {
        self.process.check(&batch.x)?;
        moments(&self.process.prior, &self.likelihood, &self.process.z(scope), scope, batch)
    }

    /// The posterior under the optimal distribution of inducing values.
    ///
    /// # Errors
    /// [`NotPositiveDefinite`](crate::Error::NotPositiveDefinite) when K_ZZ cannot be factorised,
    /// [`Shape`](crate::Error::Shape) when the columns are not those of Z.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<SgprPosterior> {
        let scope = Scope::new(compute)?;
        let Moments { square, projected, .. } = self.moments(&scope, &data.batch(&scope))?;
        Ok(self.conditioned(compute, to_f64(square)?, to_f64(projected)?)?.of_rows(data.n()))
    }
}

impl Model for Sgpr {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        self.moments(scope, batch)?.loss(batch.y.dims()[0])
    }
}

impl GpModel for Sgpr {
    fn title(&self) -> String {
        format!("Sparse Gaussian process with {} inducing inputs", self.process.len())
    }

    fn prior(&self) -> &Prior {
        &self.process.prior
    }

    fn likelihood(&self) -> &dyn Likelihood {
        &self.likelihood
    }

    fn start(&mut self, data: &Observations, units: &UserUnits) {
        self.process.set_units(&units.input_mean, &units.input_sd);
        start(&mut self.likelihood, std::iter::empty(), data, units);
    }

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        let (n, m) = (size.rows as f64, self.process.len() as f64);
        size.data(compute) + (8.0 * n * m).min(self.budget(size.rows, compute.precision) as f64) + 8.0 * 8.0 * m * m
    }

    fn is_comparable(&self) -> bool {
        true
    }

    fn sums(&self, scope: &Scope, batch: &Batch) -> Result<Vec<Tensor<1>>> {
        let Moments { square, projected, rest } = self.moments(scope, batch)?;
        Ok(vec![square.flatten(0, 1), projected, rest])
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute, data)?))
    }

    fn restore(&self, compute: Compute, data: Observations, saved: SavedPosterior) -> Result<Box<dyn Posterior>> {
        match self.restored(compute, saved)? {
            Some(posterior) => Ok(Box::new(posterior.of_rows(data.n()))),
            None => self.condition(compute, data),
        }
    }
}

crate::parameters!(Sgpr { ..process, "likelihood": ..likelihood });
