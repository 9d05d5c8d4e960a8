//! What an optimiser needs from a model.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use burn::tensor::Tensor;

use crate::device::{Compute, Precision};
use crate::error::{Error, Result};
use crate::models::Batch;
use crate::params::Parameters;
use crate::scope::{BUDGET, Scope};
use crate::train::Evaluation;

/// What every model offers to the trainer.
pub trait Model: Parameters {
    /// The quantity to minimise, a negative log probability of the whole data set, as a tensor `[1]`. It leaves out the
    /// priors of the parameters, which every trainer adds: [`evaluate`](crate::models::fit::evaluate) does it. For
    /// minibatches, sums over rows are multiplied by the [scale](Batch::scale) of the batch.
    ///
    /// # Errors
    /// When a factorisation or a user's kernel fails.
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>>;

    /// For how many steps of an optimiser training keeps what the model [chooses](Self::choose); none if it chooses
    /// nothing.
    fn refresh(&self) -> Option<usize> {
        None
    }

    /// Chooses, at the current parameters, what training then keeps, such as the actions of a policy.
    ///
    /// # Errors
    /// What a solve reports.
    fn choose(&self, _scope: &Scope, _batch: &Batch) -> Result<Option<Held>> {
        Ok(None)
    }

    /// The [`objective`](Self::objective) for what was [chosen](Self::choose), at the same or other parameters.
    ///
    /// # Errors
    /// As the objective.
    fn objective_for(&self, scope: &Scope, batch: &Batch, _chosen: &Held) -> Result<Tensor<1>> {
        self.objective(scope, batch)
    }

    /// Whether training may move to points where a factorisation needs more jitter than at the start. Jitter on the
    /// noise gives the objective of another model. Jitter on K_ZZ keeps a collapsed bound valid for the same model: it
    /// is the bound for inducing variables with noise.
    fn bears_jitter(&self) -> bool {
        false
    }

    /// The objective and its gradient in the free raw values, if it is evaluated together with those of other models
    /// that train at the same time.
    fn together(&self, _compute: Compute, _batch: &Batch) -> Option<Result<Evaluation>> {
        None
    }

    /// Bytes of temporary memory that products may take for `rows` rows.
    fn budget(&self, _rows: usize, _precision: Precision) -> usize {
        BUDGET
    }
}

/// A value that a model [chose](crate::models::Model::choose) and that only this model can read: actions, sites,
/// neighbours.
#[derive(Clone)]
pub struct Held(Arc<dyn Any + Send + Sync>);

impl Held {
    /// Holds a value.
    pub fn new(value: impl Any + Send + Sync) -> Self {
        Self(Arc::new(value))
    }

    /// The value.
    ///
    /// # Errors
    /// [`Error::Usage`] when it has another type, because another model chose it.
    pub fn get<T: Any>(&self) -> Result<&T> {
        self.0.downcast_ref().ok_or_else(|| Error::Usage("what is held was chosen by another model".into()))
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}
