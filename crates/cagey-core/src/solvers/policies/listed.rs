//! Policies that take one action after another from a list (eigenvectors, pseudo-inputs, random vectors) or a row
//! of their choice.

use std::collections::HashSet;
use std::ops::Range;

use burn::tensor::{IndexingUpdateOp, Tensor};

use super::{Actor, Policy, SolveState};
use crate::error::{Error, Result};
use crate::linalg::eigh;
use crate::params::{Parameter, Unit};
use crate::scope::to_f64;
use crate::solvers::{LinearSystem, Probes, pivoted_cholesky};

/// Takes actions from a list of `count`, some at once, by their places in it.
fn listed(count: usize, of: impl Fn(&dyn LinearSystem, Range<usize>) -> Result<Tensor<2>> + 'static) -> Box<dyn Actor> {
    let mut at = 0;
    Box::new(move |state: &dyn SolveState, most: usize| {
        let places = at..count.min(at + most);
        at = places.end;
        (!places.is_empty()).then(|| of(state.system(), places)).transpose()
    })
}

/// s = the eigenvectors of K̂ by descending eigenvalue (Wenger et al. 2024, eq. 12). This takes n³ time and n² memory,
/// so it is a reference for comparisons.
#[derive(Debug, Clone, Copy, Default)]
pub struct Eigenvector;

/// Most rows of a matrix that is decomposed, which takes 1.2 GB in f64 including work space.
const EIGENVECTOR_ROWS: usize = 6000;

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
        let vectors = vectors.select(1, descending).cast(scope.dtype());
        Ok(listed(count, move |_, places| Ok(vectors.clone().narrow(1, places.start, places.len()))))
    }
}

/// s = k(X, z) for one pseudo-input z after another, for each latent function. These actions are large where z explains
/// most. The pseudo-inputs are parameters.
#[derive(Debug, Clone)]
pub struct PseudoInput {
    /// Row-major `[m, d]`.
    pub inputs: Parameter,
    d: usize,
}

impl PseudoInput {
    /// Pseudo-inputs, row-major `[m, d]`.
    ///
    /// # Errors
    /// [`Error::Shape`] unless there are whole rows.
    pub fn new(inputs: &[f64], d: usize) -> Result<Self> {
        if d == 0 || inputs.is_empty() || !inputs.len().is_multiple_of(d) {
            let got = format!("{} values", inputs.len());
            return Err(Error::shape("pseudo-inputs", format!("rows of {d} columns"), got));
        }
        Ok(Self { inputs: Parameter::real("inputs", Unit::None, inputs), d })
    }
}

impl Policy for PseudoInput {
    fn name(&self) -> &'static str {
        "pseudo-input"
    }

    fn start(&self, system: &dyn LinearSystem, _budget: usize) -> Result<Box<dyn Actor>> {
        let m = self.inputs.len() / self.d;
        let inputs = system.scope().value(&self.inputs).reshape([m, self.d]);
        Ok(listed(m, move |system, places| system.cross(&inputs.clone().narrow(0, places.start, places.len()))))
    }

    fn parameters(&self) -> Vec<(String, &Parameter)> {
        vec![("inputs".into(), &self.inputs)]
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        vec![("inputs".into(), &mut self.inputs)]
    }
}

/// s with independent entries, ±1 or standard normal. The same seed gives the same actions, in blocks of any size.
#[derive(Debug, Clone, Copy)]
pub struct Random {
    /// The distribution of an entry.
    pub probes: Probes,
    /// The seed.
    pub seed: u64,
}

impl Policy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn start(&self, _system: &dyn LinearSystem, _budget: usize) -> Result<Box<dyn Actor>> {
        if self.probes == Probes::Unit {
            return Err(Error::Usage("random actions are Rademacher or Gaussian, not unit vectors".into()));
        }
        // Each column adds 1 to the seed. The factor keeps neighbouring seeds from giving the same columns.
        let (probes, mut seed) = (self.probes, self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        Ok(Box::new(move |state: &dyn SolveState, most| {
            let n = state.system().order();
            let columns: Vec<f64> =
                (0..most as u64).flat_map(|column| probes.block(n, 1, seed.wrapping_add(column))).collect();
            seed = seed.wrapping_add(most as u64);
            Ok(Some(state.system().scope().matrix(&columns, most, n).transpose()))
        }))
    }
}

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
        Ok(listed(rows.len(), move |system, places| Ok(units(system, &rows[places]))))
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
