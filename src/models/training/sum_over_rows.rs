//! Models that can train on minibatches.

use burn::tensor::Tensor;

use super::batches::Rows;
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::models::gp_model::GpModel;
use crate::models::{Batch, Held};
use crate::scope::to_f64;

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
