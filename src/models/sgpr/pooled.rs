//! The sparse model of all rows, with its sums over the rows computed from parts of them.
//!
//! The data enter the collapsed bound only as sums over rows: with K_ZZ = L Lᵀ, these are L⁻¹K_ZX W K_XZ L⁻ᵀ, L⁻¹K_ZX W
//! r and a number. The sums of parts add up (Gal, van der Wilk and Rasmussen 2014, *Distributed variational inference
//! in sparse Gaussian process regression and latent variable models*). So this is exactly the model of all rows, at the
//! cost of one part for each process: m² + m + 1 numbers come from each, and as many go back for the gradient. If the
//! rows are those of a file, each process holds only the rows of its parts in memory.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::{Sgpr, SgprOptions};
use crate::device::Compute;
use crate::distributed::{Data, FileRows, OfParts, Parts, Question, Ranks, tree, whole};
use crate::error::Result;
use crate::likelihoods::Likelihood;
use crate::linalg::collapsed;
use crate::models::blueprint::Blueprint;
use crate::models::gp_model::{GpModel, Size, Training, UserUnits};
use crate::models::minibatch::Minibatches;
use crate::models::posterior::{Posterior, SavedPosterior};
use crate::models::prior::Prior;
use crate::models::{Batch, Model, Observations};
use crate::scope::{Scope, scalar, to_f64};
use crate::train::{Observer, Outcome};

/// The largest number of parts of the rows.
const PARTS: usize = 16;

/// A sparse model whose rows are those of a file, or belong to several processes.
#[derive(Debug, Clone)]
pub struct Pooled {
    model: Sgpr,
    parts: Parts,
}

impl Pooled {
    /// Makes a model of `n` rows in this process.
    pub fn new(model: Sgpr, n: usize) -> Self {
        let rows = tree::split(n, PARTS);
        let labels = rows.iter().map(|rows| format!("{} of the rows from row {} on", rows.len(), rows[0] + 1));
        let labels = labels.collect();
        Self { model, parts: Parts::new(rows, labels, 0) }
    }

    /// The same model over the processes of a job that this one leads.
    pub fn over(self, crew: Option<Arc<Ranks>>) -> Self {
        Self { parts: self.parts.over(crew), ..self }
    }

    /// Returns the same model on rows of a file. Every process reads the rows of its parts.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn reading(self, source: Arc<FileRows>) -> Result<Self> {
        Ok(Self { parts: self.parts.reading(source)?, ..self })
    }

    /// The sums over all rows, as [`GpModel::sums`] has them.
    fn totals(&self, data: Data, compute: Compute, budget: usize) -> Result<[Vec<f64>; 3]> {
        let m = self.model.process.len();
        let mut square = whole::total(self, (data, compute), &Question::Sums { budget }, m * m + m + 1)?;
        let mut projected = square.split_off(m * m);
        let rest = projected.split_off(m);
        Ok([square, projected, rest])
    }
}

impl Model for Pooled {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        self.model.process.check(&batch.x)?;
        whole::over(self, scope, batch)
    }
}

impl OfParts for Pooled {
    fn parts(&self) -> &Parts {
        &self.parts
    }

    fn member(&self) -> &dyn GpModel {
        &self.model
    }

    fn blueprint(&self, d: usize) -> Blueprint {
        Blueprint::new(SgprOptions { inducing: self.model.process.len() }, &self.model, d)
    }

    fn objective_over(&self, scope: &Scope, data: Data) -> Result<Tensor<1>> {
        let (gradient, compute, budget) = (scope.device().is_autodiff(), scope.compute(), scope.budget());
        let [square, projected, rest] = self.totals(data, compute, budget)?;
        let m = projected.len();
        let constant = 0.5 * (rest[0] + data.n() as f64 * std::f64::consts::TAU.ln());
        let square = scope.matrix_in(&square, m, m, scope.wide());
        let projected = scope.widened().vector(&projected);
        let (square, projected) =
            if gradient { (square.require_grad(), projected.require_grad()) } else { (square, projected) };
        let bound = collapsed(square.clone(), projected.clone())?;
        let value = scalar(bound.clone())? + constant;
        if !gradient {
            return Ok(whole::linear(scope, self, value, &[]));
        }
        let mut gradients = bound.backward();
        let in_square = square.grad_remove(&mut gradients).map(to_f64).transpose()?;
        let in_projected = projected.grad_remove(&mut gradients).map(to_f64).transpose()?;
        let zeros = |len: usize| vec![0.0; len];
        let in_square = in_square.unwrap_or_else(|| zeros(m * m));
        let adjoints = [in_square, in_projected.unwrap_or_else(|| zeros(m)), vec![0.5]];
        let (_, slopes) = whole::sum(self, (data, compute), &Question::Pull { budget }, &adjoints)?;
        Ok(whole::linear(scope, self, value, &slopes))
    }
}

impl GpModel for Pooled {
    fn title(&self) -> String {
        self.model.title()
    }

    fn prior(&self) -> &Prior {
        self.model.prior()
    }

    fn likelihood(&self) -> &dyn Likelihood {
        GpModel::likelihood(&self.model)
    }

    fn start(&mut self, data: &Observations, units: &UserUnits) {
        self.model.start(data, units);
    }

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        let here = Size { rows: self.parts.held(size.rows), ..size };
        let each = Size { rows: self.parts.count() / self.parts.size(), ..size };
        here.data(compute) + self.model.bytes(compute, each)
    }

    fn is_comparable(&self) -> bool {
        true
    }

    fn seconds(&self, compute: Compute, rows: &Observations, _batches: Option<&Minibatches>) -> Result<f64> {
        whole::seconds(self, compute, rows)
    }

    fn train(&mut self, training: Training, observers: &mut [&mut dyn Observer]) -> Result<Outcome> {
        whole::train(self, training.compute, training.data, training.config, observers)
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        let budget = Scope::new(compute)?.budget();
        let [square, projected, _] = self.totals(self.parts.seen(&data), compute, budget)?;
        Ok(Box::new(self.model.conditioned(compute, square, projected)?))
    }

    fn restore(&self, compute: Compute, data: Observations, saved: SavedPosterior) -> Result<Box<dyn Posterior>> {
        match self.model.restored(compute, saved)? {
            Some(posterior) => Ok(Box::new(posterior)),
            None => self.condition(compute, data),
        }
    }
}

crate::parameters!(Pooled { ..model });
