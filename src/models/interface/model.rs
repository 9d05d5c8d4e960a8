//! What an optimiser needs of a model.

use burn::tensor::Tensor;

use super::held::Held;
use crate::device::Precision;
use crate::error::Result;
use crate::models::Batch;
use crate::params::Parameters;
use crate::scope::{BUDGET, Scope};

/// What every model offers to the trainer.
pub trait Model: Parameters {
    /// The quantity to minimise, a negative log probability of the whole data set, as a tensor `[1]`.
    ///
    /// # Errors
    /// When a factorisation fails or a user's kernel does.
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>>;

    /// The number of steps of an optimiser for which training holds what the model [chooses](Self::choose); none when
    /// it chooses nothing.
    fn refresh(&self) -> Option<usize> {
        None
    }

    /// What training is to hold from the present parameters on, such as the actions of a policy.
    ///
    /// # Errors
    /// What a solve reports.
    fn choose(&self, _scope: &Scope, _batch: &Batch) -> Result<Option<Held>> {
        Ok(None)
    }

    /// The [`objective`](Self::objective) for what was [chosen](Self::choose), at these or at other parameters.
    ///
    /// # Errors
    /// As the objective.
    fn objective_for(&self, scope: &Scope, batch: &Batch, _chosen: &Held) -> Result<Tensor<1>> {
        self.objective(scope, batch)
    }

    /// Whether training may move to points where a factorisation needs more jitter than where it began. Jitter on the
    /// noise makes the objective that of another model, but on K_ZZ it keeps a collapsed bound a bound of the same
    /// model: that of inducing variables with noise.
    fn bears_jitter(&self) -> bool {
        false
    }

    /// Bytes of temporary memory that products may take for `rows` rows.
    fn budget(&self, _rows: usize, _precision: Precision) -> usize {
        BUDGET
    }
}
