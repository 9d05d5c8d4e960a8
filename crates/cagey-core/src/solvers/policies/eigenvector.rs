//! Top eigenvectors as actions: the choice that minimises the entropy of the posterior at the data.

use burn::tensor::Tensor;

use super::{Actor, Policy, SolveState};
use crate::error::{Error, Result};
use crate::linalg::eigh;
use crate::solvers::LinearSystem;

/// s = the eigenvectors of K̂ by descending eigenvalue (Wenger et al. 2024, eq. 12). This takes n³ time and n² memory,
/// so it is a reference for comparisons.
#[derive(Debug, Clone, Copy, Default)]
pub struct Eigenvector;

/// Most rows of a matrix that is decomposed, which takes 1.2 GB in f64 including work space.
pub const EIGENVECTOR_ROWS: usize = 6000;

impl Policy for Eigenvector {
    fn name(&self) -> &'static str {
        "eigenvector"
    }

    fn start(&self, system: &dyn LinearSystem, budget: usize) -> Result<Box<dyn Actor>> {
        let n = system.order();
        if n > EIGENVECTOR_ROWS {
            return Err(Error::Usage(format!(
                "eigenvector actions for {n} rows: they need all of K, so at most {EIGENVECTOR_ROWS} rows; \
                 Lanczos actions approximate them"
            )));
        }
        let (scope, count) = (system.scope(), budget.min(n));
        let covariance = system.matrix()?;
        let (_, vectors) = eigh(covariance.cast(scope.wide()), "K̂")?;
        let descending = scope.indices(&(n - count..n).rev().collect::<Vec<_>>());
        Ok(Box::new(Vectors { vectors: vectors.select(1, descending).cast(scope.dtype()), at: 0 }))
    }
}

struct Vectors {
    vectors: Tensor<2>,
    at: usize,
}

impl Actor for Vectors {
    fn next(&mut self, _state: &dyn SolveState, most: usize) -> Result<Option<Tensor<2>>> {
        let count = most.min(self.vectors.dims()[1] - self.at);
        if count == 0 {
            return Ok(None);
        }
        self.at += count;
        Ok(Some(self.vectors.clone().narrow(1, self.at - count, count)))
    }
}
