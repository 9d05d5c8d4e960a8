//! What predictions of few rows need from a posterior through actions. Computed for the first such prediction.

use std::sync::{Arc, OnceLock};

use burn::tensor::Tensor;

use crate::error::Result;
use crate::linalg::real::dot;
use crate::models::posterior::combine;
use crate::products::{Anchors, BlockSparse};
use crate::scope::{Scope, to_f64};
use crate::solvers::itergp::Basis;

/// Numbers on the host. Threads that need them at the same time each compute them: none waits for another.
#[derive(Debug, Clone, Default)]
pub(super) struct Prepared {
    /// The data's inputs.
    pub anchors: Anchors,
    actions: OnceLock<Arc<Vec<HostActions>>>,
    /// S ṽ `[n]`.
    spread: OnceLock<Arc<Vec<f64>>>,
}

/// Columns of S.
#[derive(Debug)]
pub(super) enum HostActions {
    /// Row-major `[n, i]`.
    Dense(Vec<f64>),
    /// One number for each row, and the boundaries of the blocks.
    Blocks(Vec<f64>, Vec<usize>),
}

impl Prepared {
    /// A copy for other actions.
    pub fn without_actions(&self) -> Self {
        Self { anchors: self.anchors.clone(), ..Self::default() }
    }

    /// S.
    ///
    /// # Errors
    /// What reading it from its device reports.
    pub fn actions(&self, of: &Basis) -> Result<&[HostActions]> {
        if self.actions.get().is_none() {
            let _ = self.actions.set(Arc::new(of.parts().map(HostActions::of).collect::<Result<_>>()?));
        }
        Ok(self.actions.get().map_or(&[], |actions| actions))
    }

    /// S ṽ: the weights of the covariances with the data.
    ///
    /// # Errors
    /// What reading it from its device reports.
    pub fn spread(&self, actions: &Basis, scope: &Scope, weights: &[f64]) -> Result<&[f64]> {
        if self.spread.get().is_none() {
            let weights = scope.matrix(weights, weights.len(), 1);
            let _ = self.spread.set(Arc::new(to_f64(actions.times(&weights)?)?));
        }
        Ok(self.spread.get().map_or(&[], |spread| spread))
    }
}

impl HostActions {
    fn of(part: std::result::Result<&Tensor<2>, &BlockSparse>) -> Result<Self> {
        Ok(match part {
            Ok(dense) => Self::Dense(to_f64(dense.clone())?),
            Err(blocks) => Self::Blocks(to_f64(blocks.values().clone())?, blocks.offsets().to_vec()),
        })
    }

    /// Sᵀk.
    pub fn project(&self, k: &[f64]) -> Vec<f64> {
        match self {
            Self::Dense(columns) => combine(columns, k),
            Self::Blocks(values, offsets) => {
                offsets.windows(2).map(|w| dot(&values[w[0]..w[1]], &k[w[0]..w[1]])).collect()
            }
        }
    }
}
