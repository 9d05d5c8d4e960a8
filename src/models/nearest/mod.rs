//! Gaussian processes on nearest neighbours: each row is predicted from the rows nearest to it (Vecchia 1988,
//! *Estimation and model identification for continuous spatial processes*; Datta et al. 2016, *Hierarchical
//! nearest-neighbor Gaussian process models for large geostatistical datasets*).
//!
//! Predictions are those of the exact model on the H rows nearest to a row, so that a row costs H³ for any number of
//! rows, and no row is forgotten. Training minimises `−Σ ln p(y_i | y of the rows nearest to row i)`, each row left out
//! of its own neighbours: a composite likelihood of conditional densities. Minibatches of it are unbiased. Neighbours
//! are found anew in every step, with the lengthscales at that time.

mod options;
mod posterior;

use std::f64::consts::TAU;
use std::sync::Arc;

use burn::tensor::Tensor;
pub use options::NearestOptions;
pub use posterior::NearestPosterior;

use crate::device::Compute;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::likelihoods::Gaussian;
use crate::models::gp_model::{GpModel, Size, Training, gaussian_parts};
use crate::models::minibatch::{self, Rows, SumOverRows};
use crate::models::neighbours::{nearest, scaled, union};
use crate::models::posterior::{Posterior, VARIANCE_FLOOR};
use crate::models::prior::Prior;
use crate::models::{Batch, Held, Model, Observations};
use crate::products::{self, Neighbours};
use crate::scope::Scope;
use crate::train::{Observer, Outcome};

/// A GP with Gaussian noise that predicts each row from its nearest rows.
#[derive(Debug, Clone)]
pub struct NearestGp {
    /// The prior of the latent function.
    pub prior: Prior,
    /// Observation noise.
    pub likelihood: Gaussian,
    /// The number H of rows that predict a row.
    pub neighbours: usize,
    /// The same in training, at most H: hyperparameters need fewer.
    pub trained: usize,
}

/// Rows, as far as they are neighbours of some others.
#[derive(Debug)]
struct Near {
    /// The rows that are a neighbour.
    rows: Observations,
    /// Places among them, for each of the others.
    of: Arc<Neighbours>,
}

/// All rows that training has, and where it computes.
struct All {
    compute: Compute,
    rows: Observations,
}

impl NearestGp {
    /// A model with zero mean and a tenth of unit variance as noise.
    pub fn new(kernel: Kernel) -> Self {
        let NearestOptions { neighbours, trained, .. } = NearestOptions::default();
        Self { prior: kernel.into(), likelihood: Gaussian::new(0.1), neighbours, trained }
    }

    /// The posterior of observations.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<NearestPosterior> {
        NearestPosterior::new(self.clone(), compute, data)
    }

    /// Rows where distances are measured, and the number of their columns.
    fn places(&self, compute: Compute, x: &[f64], d: usize) -> Result<(Vec<f64>, usize)> {
        let scope = Scope::new(compute)?;
        scaled(&self.prior.kernel, &scope, &scope.rows(x, d))
    }

    /// The neighbours of some rows among all others.
    fn others(&self, compute: Compute, all: &Observations, own: &[usize]) -> Result<Near> {
        let (places, p) = self.places(compute, &all.x, all.d)?;
        let count = self.trained.min(all.n() - 1);
        let points: Vec<f64> = own.iter().flat_map(|&row| &places[row * p..][..p]).copied().collect();
        let found = nearest(&points, &places, p, count + 1);
        // Of many equal rows, the row itself may not be among the first.
        let others = |(k, &row): (usize, &usize)| {
            found.of(k).iter().copied().filter(move |other| *other as usize != row).take(count)
        };
        let indices = own.iter().enumerate().flat_map(others).collect();
        Near::new(all, Neighbours { indices, each: count })
    }

    /// What their neighbours add to the prior means and variances of f at rows `x`, in the scope's wide type.
    fn changes(&self, scope: &Scope, x: &Tensor<2>, near: &Near) -> Result<[Tensor<1>; 2]> {
        let b = x.dims()[0];
        if near.of.each == 0 {
            return Ok([(); 2].map(|()| Tensor::zeros([b], (scope.device(), scope.wide()))));
        }
        let rows = near.rows.batch(scope);
        let residuals = self.prior.residuals(scope, &rows)?;
        let noise = rows.noise(scope, &self.likelihood);
        let packed = products::Cross::new(&self.prior.kernel, scope, &rows.x, x);
        let packed = packed.conditional(residuals, noise, near.of.clone())?;
        Ok([packed.clone().narrow(0, 0, b), packed.narrow(0, b, b)])
    }

    /// Minus the log density of a batch, given the neighbours of its rows.
    fn loss(&self, scope: &Scope, batch: &Batch, near: &Near) -> Result<Tensor<1>> {
        let [shift, change] = self.changes(scope, &batch.x, near)?;
        let prior = self.prior.covariance(scope, &batch.x).diagonal_wide()?;
        let floor = prior.clone().detach() * VARIANCE_FLOOR;
        let mean = self.prior.mean.at(scope, &batch.x)? + shift.cast(scope.dtype());
        let noise = batch.noise(scope, &self.likelihood);
        let variance = (prior + change).max_pair(floor).cast(scope.dtype()) + noise;
        let squares = (batch.y.clone() - mean).powi_scalar(2) / variance.clone();
        Ok((squares + (variance * TAU).log()).sum() * (0.5 * batch.scale))
    }
}

impl Near {
    fn new(all: &Observations, neighbours: Neighbours) -> Result<Self> {
        let (rows, of) = union(&neighbours);
        let rows: Vec<usize> = rows.into_iter().map(|row| row as usize).collect();
        Ok(Self { rows: all.gather(&rows)?, of: of.into() })
    }
}

crate::parameters!(NearestGp { ..prior, "likelihood": ..likelihood });

impl Model for NearestGp {
    /// Rows outside of the batch are not known: neighbours are rows of the batch.
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        let rows = batch.rows()?;
        let near = self.others(scope.compute(), &rows, &(0..rows.n()).collect::<Vec<_>>())?;
        self.loss(scope, batch, &near)
    }

    fn objective_for(&self, scope: &Scope, batch: &Batch, near: &Held) -> Result<Tensor<1>> {
        batch.check(scope)?;
        self.loss(scope, batch, near.get()?)
    }
}

impl SumOverRows for NearestGp {
    fn is_variational(&self, _path: &str) -> bool {
        false
    }

    /// All rows.
    fn hold(&self, compute: Compute, rows: &dyn Rows) -> Result<Option<Held>> {
        let rows = rows.gather(&(0..rows.count()).collect::<Vec<_>>())?;
        Ok(Some(Held::new(All { compute, rows })))
    }

    /// The neighbours of these rows, with the present lengthscales.
    fn held_of(&self, all: &Held, rows: &[usize]) -> Result<Held> {
        let all: &All = all.get()?;
        Ok(Held::new(self.others(all.compute, &all.rows, rows)?))
    }
}

impl GpModel for NearestGp {
    fn title(&self) -> String {
        format!("Gaussian process given the {} nearest rows of each row", self.neighbours)
    }

    gaussian_parts!();

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        let (near, batch) = (self.trained.min(size.rows) as f64, size.batch as f64);
        3.0 * size.data(compute) + 8.0 * near * batch * (3.0 * near + size.columns as f64)
    }

    fn train(&mut self, training: Training, observers: &mut [&mut dyn Observer]) -> Result<Outcome> {
        minibatch::train(self, training, observers)
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        Ok(Box::new(self.posterior(compute, data)?))
    }
}
