//! Models that minibatches can train.

use super::batches::Rows;
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::models::gp_model::GpModel;
use crate::models::{Batch, Held};

/// A model whose objective is a sum over rows, times the batch's scale, and a term without data.
pub trait SumOverRows: GpModel {
    /// Whether a parameter is variational, by its path: those may have a learning rate of their own.
    fn is_variational(&self, path: &str) -> bool;

    /// What may be found for all rows once and serve many steps, such as the neighbours of each row; nothing by
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
    /// [`Error::Usage`] when it is another model's.
    fn held_of(&self, all: &Held, _rows: &[usize]) -> Result<Held> {
        Ok(all.clone())
    }

    /// How many numbers [`natural_sums`](Self::natural_sums) are.
    fn natural_len(&self) -> usize {
        0
    }

    /// What a step along the natural gradient of the variational parameters needs of the rows of a batch, added up.
    ///
    /// # Errors
    /// [`Error::Usage`] for models without natural gradients.
    fn natural_sums(&self, _compute: Compute, _batch: &Batch) -> Result<Vec<f64>> {
        Err(Error::Usage("this model has no natural gradients".into()))
    }

    /// Moves the variational parameters along the natural gradient with those sums.
    ///
    /// # Errors
    /// [`Error::Usage`] for models without natural gradients, [`Error::NotPositiveDefinite`] for a step that is too
    /// long.
    fn natural_move(&mut self, _compute: Compute, _sums: &[f64], _rate: f64) -> Result<()> {
        Err(Error::Usage("this model has no natural gradients".into()))
    }
}
