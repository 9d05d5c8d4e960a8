//! One sparse model of all rows. Its sums over the rows are computed from parts of the rows on several ranks.
//!
//! The data enter the collapsed bound only as sums over rows: with K_ZZ = L Lᵀ, these are L⁻¹K_ZX W K_XZ L⁻ᵀ, L⁻¹K_ZX W
//! r and a number. The sums of parts add up (Gal, van der Wilk and Rasmussen 2014, *Distributed variational inference
//! in sparse Gaussian process regression and latent variable models*). So this is exactly the model of all rows, at the
//! cost of one part for each rank: m² + m + 1 numbers come from each rank, and as many go back for the gradient. If the
//! rows are those of a source, each rank holds only the rows of its parts in memory.
//!
//! The number of parts is the same for any number of ranks, and one binary tree adds up their sums. So the result has
//! the same bits for any number of ranks.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use serde_json::json;

use super::aggregation::Rule;
use super::objective::{self, Asked, Part, each};
use super::rows::Data;
use super::whole::{self, OfParts};
use super::{Experts, Shared, remote};
use crate::device::Compute;
use crate::device::transfers::upload;
use crate::error::{Error, Result};
use crate::exchange::{Ranks, put};
use crate::likelihoods::Likelihood;
use crate::linalg::collapsed;
use crate::models::branches::{self, Branch};
use crate::models::gp_model::{GpModel, Size, Training, UserUnits};
use crate::models::minibatch::{Minibatches, SharedRows};
use crate::models::posterior::{Posterior, SavedPosterior};
use crate::models::prior::Prior;
use crate::models::sgpr::{Moments, Sgpr, SgprPosterior};
use crate::models::{Batch, Model, Observations};
use crate::params::{Parameter, Parameters};
use crate::scope::{Scope, scalar, to_f64};
use crate::train::{Observer, Outcome};

/// The question to a rank: sum over the rows of its parts.
pub(super) const MOMENTS: &str = "experts.moments";
/// The question to a rank: follow the derivatives with respect to those sums.
pub(super) const PULL: &str = "experts.pull";

/// The largest number of parts of the rows.
const PARTS: usize = 16;

/// A sparse model over the ranks of a job, or of the rows of a source.
#[derive(Debug, Clone)]
pub struct Pooled {
    /// The parts. All of them have the model's parameters.
    parts: Experts,
}

impl Pooled {
    /// Makes a model of `n` rows over the ranks that this process leads, if any.
    ///
    /// # Errors
    /// [`Error::Usage`] if there are no rows.
    pub fn new(model: Sgpr, n: usize, ranks: Option<Arc<Ranks>>) -> Result<Self> {
        let count = branches::count(n, PARTS);
        let rows = (0..count).map(|part| branches::rows(n, part, count).collect());
        let parts = Experts::new(Shared::Sparse(model), Rule::Grbcm, rows.collect(), vec![0])?;
        Ok(Self { parts: Experts { ranks, ..parts } })
    }

    /// Returns the same model on rows of a source. Every rank reads the rows of its parts.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn reading(self, source: Arc<dyn SharedRows>) -> Result<Self> {
        Ok(Self { parts: self.parts.reading(source)? })
    }

    fn model(&self) -> &Sgpr {
        match &self.parts.shared {
            Shared::Sparse(model) => model,
            Shared::Exact(_) => unreachable!("a pooled model is made of a sparse one"),
        }
    }

    /// The sums over all rows.
    fn sums(&self, data: Data, compute: Compute, budget: usize) -> Result<Sums> {
        self.parts.check(data)?;
        let own = || own(&self.parts, data, compute, budget, 0).map(branches::written);
        let answers = match &self.parts.ranks {
            None => vec![own()?],
            Some(ranks) => {
                let mut talk = ranks.talk();
                remote::hold(&self.parts, &mut talk, ranks.size(), data, compute)?;
                let mut message = remote::with_parameters(&self.parts);
                message.document = json!({ "budget": budget });
                talk.ask(MOMENTS, message, own)?
            }
        };
        let m = self.model().process.len();
        Ok(Sums::new(branches::total(answers, m * m + m + 1)?, m))
    }

    /// Σ over parts of the gradient of ⟨sums, adjoints⟩ in the internal values of each free parameter.
    fn pulled(&self, data: Data, asked: Asked, adjoints: &Adjoints) -> Result<Part> {
        let own = || pull(&self.parts, data, asked, adjoints);
        let Some(ranks) = &self.parts.ranks else { return Ok(objective::total(&own()?)) };
        let mut talk = ranks.talk();
        remote::hold(&self.parts, &mut talk, ranks.size(), data, asked.compute)?;
        let mut message = remote::with_parameters(&self.parts);
        message.document = json!({ "budget": asked.budget });
        put(&mut message, "square", adjoints.square.clone());
        put(&mut message, "projected", adjoints.projected.clone());
        let answers = talk.ask(PULL, message, || own().map(|parts| objective::written(&parts)))?;
        let parts =
            answers.into_iter().map(|answer| objective::read(&self.parts, answer)).collect::<Result<Vec<_>>>()?;
        Ok(objective::total(&parts.concat()))
    }
}

/// Sums over rows.
#[derive(Debug, Clone)]
struct Sums {
    /// `[m, m]`.
    square: Vec<f64>,
    /// `[m]`.
    projected: Vec<f64>,
    /// Σ log σ² + rᵀWr + tr(W K).
    rest: f64,
}

/// Derivatives of the bound with respect to the sums. The derivative with respect to `rest` is always 1/2.
#[derive(Debug, Clone)]
pub(super) struct Adjoints {
    /// `[m, m]`.
    pub(super) square: Vec<f64>,
    /// `[m]`.
    pub(super) projected: Vec<f64>,
}

impl Sums {
    /// Splits m² + m + 1 numbers into the sums.
    fn new(mut numbers: Vec<f64>, m: usize) -> Self {
        let rest = numbers.pop().unwrap_or_default();
        let projected = numbers.split_off(m * m);
        Self { square: numbers, projected, rest }
    }
}

/// The sums of this process's parts, merged as far as the tree allows without other ranks. `first` is the number of the
/// first part of this process.
pub(super) fn own(parts: &Experts, data: Data, compute: Compute, budget: usize, first: usize) -> Result<Vec<Branch>> {
    let (own, Shared::Sparse(model)) = (parts.own(), &parts.shared) else {
        return Err(Error::Usage("only sparse models have sums over rows".into()));
    };
    let sums = each(compute, own.len(), |at| {
        let scope = Scope::new(compute)?.with_budget(budget);
        let rows = data.gather(&parts.parts()[own.start + at])?;
        let found = model.moments(&scope, &rows.batch(&scope)).map_err(|e| parts.of_expert(own.start + at, e))?;
        Ok([to_f64(found.square)?, to_f64(found.projected)?, to_f64(found.rest)?].concat())
    })?;
    Ok(branches::merged(sums.into_iter().zip(first + own.start..).map(|(sums, part)| (part..part + 1, sums)).collect()))
}

/// The gradient of ⟨sums, adjoints⟩ for each of this process's parts.
pub(super) fn pull(parts: &Experts, data: Data, asked: Asked, adjoints: &Adjoints) -> Result<Vec<Part>> {
    let (own, Shared::Sparse(model)) = (parts.own(), &parts.shared) else {
        return Err(Error::Usage("only sparse models have sums over rows".into()));
    };
    let m = adjoints.projected.len();
    each(asked.compute, own.len(), |at| {
        let scope = Scope::training(asked.compute)?.with_budget(asked.budget);
        let rows = data.gather(&parts.parts()[own.start + at])?;
        let pulled = || {
            let Moments { square, projected, rest } = model.moments(&scope, &rows.batch(&scope))?;
            let matrix = scope.matrix_in(&adjoints.square, m, m, square.dtype());
            let vector = scope.widened().vector(&adjoints.projected).cast(projected.dtype());
            let loss = (square * matrix).sum() + (projected * vector).sum() + rest.sum() * 0.5;
            scope.slopes(loss, model)
        };
        let (loss, slopes) = pulled().map_err(|error| parts.of_expert(own.start + at, error))?;
        Ok(Part { loss, slopes, jitter: 0.0 })
    })
}

impl Model for Pooled {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        self.model().process.check(&batch.x)?;
        objective::over(self, scope, batch)
    }
}

impl OfParts for Pooled {
    fn experts(&self) -> &Experts {
        &self.parts
    }

    fn objective_over(&self, scope: &Scope, data: Data) -> Result<Tensor<1>> {
        let gradient = scope.device().is_autodiff();
        let asked = Asked { compute: scope.compute(), gradient, budget: scope.budget() };
        let sums = self.sums(data, asked.compute, asked.budget)?;
        let m = sums.projected.len();
        let device = scope.device();
        let square = scope.matrix_in(&sums.square, m, m, scope.wide());
        let projected = scope.widened().vector(&sums.projected);
        let (square, projected) =
            if gradient { (square.require_grad(), projected.require_grad()) } else { (square, projected) };
        let bound = collapsed(square.clone(), projected.clone())?;
        let constant = 0.5 * (sums.rest + data.n() as f64 * std::f64::consts::TAU.ln());
        let value = scalar(bound.clone())? + constant;
        let value = upload(TensorData::from([value]), device, scope.wide());
        if !gradient {
            return Ok(value);
        }
        let mut gradients = bound.backward();
        let (square, projected) = (square.grad_remove(&mut gradients), projected.grad_remove(&mut gradients));
        let numbers = |tensor: Option<Vec<f64>>, len: usize| tensor.unwrap_or_else(|| vec![0.0; len]);
        let adjoints = Adjoints {
            square: numbers(square.map(to_f64).transpose()?, m * m),
            projected: numbers(projected.map(to_f64).transpose()?, m),
        };
        let Part { slopes, .. } = self.pulled(data, asked, &adjoints)?;
        Ok(objective::linear(scope, self, value, slopes))
    }
}

impl GpModel for Pooled {
    fn title(&self) -> String {
        self.model().title()
    }

    fn prior(&self) -> &Prior {
        self.model().prior()
    }

    fn likelihood(&self) -> &dyn Likelihood {
        GpModel::likelihood(self.model())
    }

    fn start(&mut self, data: &Observations, units: &UserUnits) {
        self.parts.start(data, units);
    }

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        let here = Size { rows: self.parts.held_of(size.rows), ..size };
        let ranks = self.parts.ranks.as_ref().map_or(1, |ranks| ranks.size());
        let each = Size { rows: self.parts.rows() / ranks, ..size };
        here.data(compute) + self.model().bytes(compute, each)
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
        let (scope, model) = (Scope::new(compute)?, self.model());
        let Sums { square, projected, .. } = self.sums(self.parts.seen(&data), compute, scope.budget())?;
        let lower = model.process.factor(&scope)?;
        Ok(Box::new(SgprPosterior::new(model.clone(), compute, lower, square, projected)?))
    }

    fn restore(&self, compute: Compute, data: Observations, saved: SavedPosterior) -> Result<Box<dyn Posterior>> {
        match self.model().restored(compute, saved)? {
            Some(posterior) => Ok(Box::new(posterior)),
            None => self.condition(compute, data),
        }
    }
}

impl Parameters for Pooled {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        self.parts.parameters()
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        self.parts.parameters_mut()
    }
}
