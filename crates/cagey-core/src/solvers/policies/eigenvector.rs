//! Top eigenvectors as actions: the choice that minimises the entropy of the posterior at the data.

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
        let (vectors, mut at) = (vectors.select(1, descending).cast(scope.dtype()), 0);
        Ok(Box::new(move |_: &dyn SolveState, most: usize| {
            let first = at;
            at = count.min(at + most);
            Ok((at > first).then(|| vectors.clone().narrow(1, first, at - first)))
        }))
    }
}
