//! The exact GP without its matrix, "CGGP": conjugate gradients for solves and stochastic Lanczos quadrature for the
//! log-determinant (Gardner, Pleiss, Bindel, Weinberger and Wilson 2018). Memory is linear in the rows.
//!
//! It is more careful than the paper in two ways. The log-determinant's gradient is the exact gradient of the
//! preconditioner plus a remainder that probes estimate, whose variance vanishes as the preconditioner improves
//! (Wenger, Pleiss, Hennig, Cunningham and Gardner 2022). And every quadratic form is a lower bound, so that variances
//! err towards the prior.

mod objective;
mod options;
mod posterior;

use serde::{Deserialize, Serialize};

pub use objective::Estimate;
pub use posterior::CgPosterior;

use super::Batch;
use crate::device::Compute;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::likelihoods::Gaussian;
use crate::models::Observations;
use crate::models::gp_model::{GpModel, Size, gaussian_parts};
use crate::models::posterior::Posterior;
use crate::models::prior::Prior;
use crate::scope::{Scope, to_f64};
use crate::solvers::pivoted_cholesky::{PivotedCholesky, pivoted_cholesky};
use crate::solvers::{CgOptions, NoisyCovariance, Preconditioner, Probes};

/// What is approximated, and how accurately.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CgGpOptions {
    /// When solves end.
    pub solver: CgOptions,
    /// Largest rank of the preconditioner. Each rank costs one column of K once, and saves iterations in every solve.
    /// With a rank for every row, everything is exact.
    pub rank: usize,
    /// The kind of probes of the log-determinant.
    pub probes: Probes,
    /// The number of probes.
    pub count: usize,
    /// The seed of the probes, to which a fit to a table adds its own. It is the same in every evaluation, so the
    /// objective is a deterministic function.
    pub seed: u64,
}

impl Default for CgGpOptions {
    fn default() -> Self {
        Self { solver: CgOptions::default(), rank: 300, probes: Probes::Rademacher, count: 16, seed: 0 }
    }
}

/// A GP prior with Gaussian noise, conditioned by iterative solves: n² time an iteration, memory n(rank + probes).
#[derive(Debug, Clone)]
pub struct CgGp {
    /// The prior of the latent function.
    pub prior: Prior,
    /// Observation noise.
    pub likelihood: Gaussian,
    /// Tolerances, probes and preconditioner.
    pub options: CgGpOptions,
}

impl CgGp {
    /// A model with zero mean and a tenth of unit variance as noise.
    pub fn new(kernel: Kernel) -> Self {
        let options = CgGpOptions::default();
        Self { prior: kernel.into(), likelihood: Gaussian::new(0.1), options }
    }

    /// The linear system of observations, in a scope without gradients.
    fn system<'a>(&'a self, scope: &'a Scope, batch: &Batch) -> Result<System<'a>> {
        let noise = batch.noise(scope, &self.likelihood);
        let covariance = NoisyCovariance::new(&self.prior.kernel, scope, batch.x.clone(), noise.clone())?;
        let noise = to_f64(noise)?;
        let nugget = covariance.nugget()?;
        let diagonal: Vec<f64> = noise.iter().zip(&nugget).map(|(noise, white)| noise + white).collect();
        let enough = ENOUGH * diagonal.iter().copied().fold(f64::INFINITY, f64::min);
        let factor = pivoted_cholesky(&covariance, self.options.rank, enough)?;
        let preconditioner = Preconditioner::new(&factor.lower, &diagonal)?;
        let residual = to_f64(self.prior.residuals(scope, batch)?)?;
        let white = nugget.iter().any(|w| *w > 0.0);
        Ok(System { covariance, factor, preconditioner, residual, white })
    }
}

/// Share of the noise below which the trace that the preconditioner leaves no longer matters.
const ENOUGH: f64 = 1e-2;

/// K̂ with its preconditioner, and the right-hand side y − m.
struct System<'a> {
    covariance: NoisyCovariance<'a>,
    factor: PivotedCholesky,
    preconditioner: Preconditioner,
    residual: Vec<f64>,
    /// Whether the kernel has a white part.
    white: bool,
}

crate::parameters!(CgGp { ..prior, "likelihood": ..likelihood });

impl GpModel for CgGp {
    fn title(&self) -> String {
        let (rank, probes) = (self.options.rank, self.options.count);
        format!("Matrix-free exact Gaussian process with a preconditioner of rank {rank} and {probes} probes")
    }

    gaussian_parts!();

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        let (rank, probes) = (self.options.rank.min(size.rows) as f64, self.options.count as f64);
        size.data(compute) + 8.0 * size.rows as f64 * (4.0 * rank + 8.0 * probes)
    }

    fn objective_error(&self, compute: Compute, data: &Observations) -> Result<Option<f64>> {
        Ok(Some(self.estimate(compute, &data.batch(&Scope::new(compute)?))?.standard_error))
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute, data)?))
    }
}
