//! Unit vectors as actions: partial Cholesky, or conditioning on a subset of the data.

use std::collections::HashSet;

use burn::tensor::{IndexingUpdateOp, Tensor};

use super::{Actor, Policy, SolveState};
use crate::error::{Error, Result};
use crate::scope::to_f64;
use crate::solvers::LinearSystem;
use crate::solvers::pivoted_cholesky;

/// The order of the rows to condition on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pivots {
    /// The order of the data.
    Data,
    /// By the largest remaining variance of f (pivoted Cholesky). When only rounding errors remain, takes other rows
    /// spread over the data, which determine the noise of the first ones.
    Largest,
    /// By the largest gradient of the log posterior.
    Gradient,
    /// These rows.
    Given(Vec<usize>),
}

/// s = e_j for one row j after another: the posterior given only these rows.
#[derive(Debug, Clone)]
pub struct UnitVector {
    /// The rows.
    pub pivots: Pivots,
}

impl Policy for UnitVector {
    fn name(&self) -> &'static str {
        match self.pivots {
            Pivots::Data | Pivots::Given(_) => "rows",
            Pivots::Largest | Pivots::Gradient => "cholesky",
        }
    }

    fn start(&self, system: &dyn LinearSystem, budget: usize) -> Result<Box<dyn Actor>> {
        let n = system.order();
        let rows = match &self.pivots {
            Pivots::Gradient => return Ok(Box::new(|state: &dyn SolveState, _| steepest(state))),
            Pivots::Data => (0..n.min(budget)).collect(),
            Pivots::Given(rows) => match rows.iter().find(|&&row| row >= n) {
                Some(row) => return Err(Error::Usage(format!("unit vector of row {row}: there are {n} rows"))),
                None => rows.clone(),
            },
            Pivots::Largest => {
                let problem =
                    || Error::Usage("this linear system has no columns to choose from: take rows in order".into());
                let mut rows = pivoted_cholesky(system.columns().ok_or_else(problem)?, budget, 0.0)?.pivots;
                let taken: HashSet<usize> = rows.iter().copied().collect();
                let mut left: Vec<usize> = (0..n).filter(|row| !taken.contains(row)).collect();
                left.sort_by(|a, b| spread(*a).total_cmp(&spread(*b)));
                rows.extend(left);
                rows.truncate(budget);
                rows
            }
        };
        let mut at = 0;
        Ok(Box::new(move |state: &dyn SolveState, most: usize| {
            let first = at;
            at = rows.len().min(at + most);
            Ok((at > first).then(|| units(state.system(), &rows[first..at])))
        }))
    }
}

/// Fractional parts of multiples of the golden ratio. Ordered by these, each row is far from the rows just before it.
fn spread(row: usize) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    (row as f64 * GOLDEN).fract()
}

/// The unit vectors of some rows `[n, t]`.
fn units(system: &dyn LinearSystem, rows: &[usize]) -> Tensor<2> {
    let (scope, n, t) = (system.scope(), system.order(), rows.len());
    let eye = Tensor::<2>::eye(t, scope.device()).cast(scope.dtype());
    let zeros = Tensor::<2>::zeros([n, t], (scope.device(), scope.dtype()));
    zeros.select_assign(0, scope.indices(rows), eye, IndexingUpdateOp::Add)
}

/// The unit vector of the row with the largest gradient.
fn steepest(state: &dyn SolveState) -> Result<Option<Tensor<2>>> {
    let gradient = to_f64(state.gradient()?.detach())?;
    let larger = |best: usize, i: usize| if gradient[i].abs() > gradient[best].abs() { i } else { best };
    Ok((0..gradient.len()).reduce(larger).map(|row| units(state.system(), &[row])))
}
