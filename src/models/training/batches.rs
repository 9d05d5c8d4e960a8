//! How rows are divided into minibatches, and models that can train on them.

use burn::tensor::Tensor;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;

use crate::data::RowFile;
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::models::gp_model::GpModel;
use crate::models::{Batch, Held, Observations};
use crate::scope::to_f64;
use crate::train::{Adam, Optimizer, TrainConfig};

/// Rows that can be drawn in any order: observations in memory, or a reader of a larger file.
pub trait Rows {
    /// The number of rows.
    fn count(&self) -> usize;

    /// The rows of the given indices, in their order.
    ///
    /// # Errors
    /// What reading them reports.
    fn gather(&self, rows: &[usize]) -> Result<Observations>;
}

impl Rows for Observations {
    fn count(&self) -> usize {
        self.n()
    }

    fn gather(&self, rows: &[usize]) -> Result<Observations> {
        if let Some(row) = rows.iter().find(|row| **row >= self.n()) {
            return Err(Error::shape("a row", format!("one of {}, counted from 0", self.n()), row.to_string()));
        }
        let pick = |values: &[f64]| rows.iter().map(|&i| values[i]).collect::<Vec<f64>>();
        let x = rows.iter().flat_map(|&i| &self.x[i * self.d..][..self.d]).copied().collect();
        Ok(Self::unchecked(x, self.d, pick(&self.y), self.auxiliary.as_deref().map(pick)))
    }
}

/// Standardises the rows, including the target unless it holds classes. For likelihoods of real targets and of classes.
impl Rows for RowFile {
    fn count(&self) -> usize {
        self.len()
    }

    fn gather(&self, rows: &[usize]) -> Result<Observations> {
        let data = self.read(rows)?;
        let (mean, sd) = self.target_moments();
        let y = data.y.iter().flatten().map(|y| (y - mean) / sd).collect();
        Observations::new(self.input_scale().apply(&data.x)?, self.d(), y, None)
    }
}

/// How minibatches are made and used.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Minibatches {
    /// Rows of a batch. Sizes within an epoch differ by at most one.
    pub size: usize,
    /// Multiplies the learning rate of variational parameters.
    pub variational_rate: f64,
    /// The rate of the natural-gradient step of q that goes with each step of all other parameters, if any; it falls as
    /// their learning rate does. The optimiser then does not move q.
    pub natural: Option<f64>,
}

impl Default for Minibatches {
    fn default() -> Self {
        Self { size: 1024, variational_rate: 1.0, natural: None }
    }
}

impl Minibatches {
    /// The default training on minibatches, with Adam.
    pub fn training(&self) -> TrainConfig {
        TrainConfig::new(Optimizer::Adam(Adam { rate: 0.01, ..Adam::default() }), 2000)
    }
}

/// The sums over the rows of a batch that a natural-gradient step needs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum NaturalSums {
    /// On the host.
    Host(Vec<f64>),
    /// On the device that computed them: one tensor for each latent function. The host's are these one after another.
    Device(Vec<Tensor<1>>),
}

impl NaturalSums {
    /// The sums on the host.
    ///
    /// # Errors
    /// [`Error::Device`] when the device cannot be read.
    pub fn numbers(self) -> Result<Vec<f64>> {
        match self {
            Self::Host(sums) => Ok(sums),
            Self::Device(sums) => to_f64(Tensor::cat(sums, 0)),
        }
    }
}

/// A model whose objective is a sum over rows, times the batch's scale, plus a term without data.
pub trait SumOverRows: GpModel {
    /// Whether the parameter with this path is variational; by default if the path says so. Variational parameters may
    /// have a learning rate of their own.
    fn is_variational(&self, path: &str) -> bool {
        path.starts_with("variational")
    }

    /// What can be found once for all rows and used for many steps, such as the neighbours of each row. Nothing by
    /// default.
    ///
    /// # Errors
    /// What reading the rows and finding it report.
    fn hold(&self, _compute: Compute, _rows: &dyn Rows) -> Result<Option<Held>> {
        Ok(None)
    }

    /// The part of what is [held](Self::hold) that belongs to these rows, for the
    /// [objective](crate::models::Model::objective_for) of a batch of them.
    ///
    /// # Errors
    /// [`Error::Usage`] when another model holds it.
    fn held_of(&self, all: &Held, _rows: &[usize]) -> Result<Held> {
        Ok(all.clone())
    }

    /// The number of [`natural_sums`](Self::natural_sums).
    fn natural_len(&self) -> usize {
        0
    }

    /// The sums over the rows of a batch that a natural-gradient step of the variational parameters needs.
    ///
    /// # Errors
    /// [`Error::Usage`] for models without natural gradients.
    fn natural_sums(&self, _compute: Compute, _batch: &Batch) -> Result<NaturalSums> {
        Err(Error::Usage("this model has no natural gradients".into()))
    }

    /// Moves the variational parameters along the natural gradient, given these sums.
    ///
    /// # Errors
    /// [`Error::Usage`] for models without natural gradients, [`Error::NotPositiveDefinite`] for a step that is too
    /// long.
    fn natural_move(&mut self, _compute: Compute, _sums: &NaturalSums, _rate: f64) -> Result<()> {
        Err(Error::Usage("this model has no natural gradients".into()))
    }
}

/// Refuses batches without rows.
pub(super) fn some_rows(data: &dyn Rows, size: usize) -> Result<()> {
    match size.min(data.count()) {
        0 => Err(Error::Usage("minibatches need at least one row".into())),
        _ => Ok(()),
    }
}

/// The order of the rows in an epoch, determined by the seed.
#[derive(Debug, Default)]
pub(super) struct Order(Option<(usize, Vec<usize>)>);

impl Order {
    /// The rows of a step, where an epoch of `n` rows has `parts` steps. They ascend, so that readers need not jump
    /// back.
    pub(super) fn rows(&mut self, n: usize, parts: usize, seed: u64, step: usize) -> Vec<usize> {
        let (epoch, part) = (step / parts, step % parts);
        if self.0.as_ref().is_none_or(|(known, _)| *known != epoch) {
            let mut order: Vec<usize> = (0..n).collect();
            let seed = seed.wrapping_add((epoch as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
            self.0 = Some((epoch, order));
        }
        let order = self.0.as_ref().map_or(&[][..], |(_, order)| order);
        let mut rows = order[n * part / parts..n * (part + 1) / parts].to_vec();
        rows.sort_unstable();
        rows
    }
}
