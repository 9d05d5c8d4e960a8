//! Preconditioned conjugate gradients for several right-hand sides (Hestenes and Stiefel 1952).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{LinearOperator, Tridiagonal, blocks};
use crate::error::{Error, Result};

/// When conjugate gradients stop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CgOptions {
    /// Largest `‖b − A x‖ / ‖b‖`.
    pub relative: f64,
    /// Largest `‖b − A x‖`. The looser of the two tolerances applies.
    pub absolute: f64,
    /// Most iterations for one column.
    pub iterations: usize,
}

impl Default for CgOptions {
    fn default() -> Self {
        Self { relative: 1e-6, absolute: 0.0, iterations: 1000 }
    }
}

/// Why a column stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The true residual is within the tolerance.
    Converged,
    /// The true residual is as small as rounding errors of the product allow: no solver does better in this precision.
    Rounding,
    /// The iteration budget is used up.
    Budget,
    /// The recursion continues, but the true residual does not decrease.
    Stagnated,
    /// A direction had `pᵀA p ≤ 0` or `rᵀP⁻¹r ≤ 0`: the matrix or its preconditioner is not positive definite.
    Breakdown,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Converged => "converged",
            Self::Rounding => "converged to rounding",
            Self::Budget => "the iteration budget is spent; allow more iterations, a higher rank or a larger tolerance",
            Self::Stagnated => "the residual no longer falls; use f64, more noise or a larger tolerance",
            Self::Breakdown => "the matrix is not positive definite in this precision; use f64 or more noise",
        })
    }
}

/// The result for one right-hand side.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Why it stopped.
    pub reason: Reason,
    /// Iterations taken.
    pub iterations: usize,
    /// The true `‖b − A x‖`, from a separate product.
    pub residual: f64,
    /// `‖b‖`.
    pub scale: f64,
    /// `‖r‖ / ‖b‖` of the recursion after each iteration.
    pub history: Vec<f64>,
    /// The Lanczos matrix of `P^{-½} A P^{-½}` started at `P^{-½} b`, from the coefficients before any restart.
    pub tridiagonal: Tridiagonal,
}

/// Solutions of all right-hand sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// `X`, row-major `[n, t]`.
    pub x: Vec<f64>,
    /// The true residuals `B − A X`, row-major `[n, t]`.
    pub residual: Vec<f64>,
    /// One report for each column.
    pub columns: Vec<Column>,
    /// Products of the matrix with a block.
    pub products: usize,
}

/// The cost and the accuracy of a block of solves.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Effort {
    /// Products of the matrix with a block.
    pub products: usize,
    /// Iterations of the column that needed most.
    pub iterations: usize,
    /// The largest relative residual.
    pub residual: f64,
    /// Columns whose residual is above the tolerance because of rounding.
    pub rounded: usize,
}

impl Effort {
    /// The effort of both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            products: self.products + other.products,
            iterations: self.iterations.max(other.iterations),
            residual: self.residual.max(other.residual),
            rounded: self.rounded + other.rounded,
        }
    }
}

impl Solution {
    /// Its cost and accuracy.
    pub fn effort(&self) -> Effort {
        let columns = &self.columns;
        let relative = |c: &Column| if c.scale > 0.0 { c.residual / c.scale } else { 0.0 };
        Effort {
            products: self.products,
            iterations: columns.iter().map(|c| c.iterations).max().unwrap_or(0),
            residual: columns.iter().map(relative).fold(0.0, f64::max),
            rounded: columns.iter().filter(|c| c.reason == Reason::Rounding).count(),
        }
    }

    /// Lower bounds `2 bᵀx − xᵀA x ≤ bᵀA⁻¹b` for the columns. Their error is the square of the solution's error.
    pub fn quadratic_forms(&self, b: &[f64]) -> Vec<f64> {
        let t = self.columns.len();
        let (bx, rx) = (blocks::dots(b, &self.x, t), blocks::dots(&self.residual, &self.x, t));
        bx.into_iter().zip(rx).map(|(b, r)| b + r).collect()
    }

    /// Returns the solution if all columns have [converged](Reason::Converged), at least [to
    /// rounding](Reason::Rounding).
    ///
    /// # Errors
    /// [`Error::NotConverged`] naming the worst of the other columns.
    pub fn converged(self, what: &str, options: &CgOptions) -> Result<Self> {
        let failed = |c: &&Column| !matches!(c.reason, Reason::Converged | Reason::Rounding);
        let share = |c: &Column| c.residual / c.scale;
        match self.columns.iter().filter(failed).max_by(|a, b| share(a).total_cmp(&share(b))) {
            None => Ok(self),
            Some(worst) => Err(Error::NotConverged {
                what: what.into(),
                residual: share(worst),
                tolerance: options.relative,
                iterations: worst.iterations,
                reason: worst.reason.to_string(),
            }),
        }
    }
}

/// Solves `A X = B` for a row-major block `B [n, t]`, from `X = 0`, with a preconditioner `r ↦ P⁻¹ r`.
///
/// Every column is a separate iteration and leaves the common product when it has ended. When the recursion of a column
/// has ended, its true residual is computed. The iteration restarts from this residual as long as a restart halves it.
/// So rounding errors of the recursion are detected and corrected, never reported as convergence.
///
/// # Errors
/// [`Error::Shape`] when `b` does not have `n` rows, [`Error::NotFinite`] when it or a product is not finite, and what
/// products report.
pub fn cg(
    a: &dyn LinearOperator,
    preconditioner: Option<&dyn LinearOperator>,
    b: &[f64],
    options: &CgOptions,
) -> Result<Solution> {
    let t = blocks::columns("right-hand sides", b, a.order())?;
    let scale = blocks::norms(b, t);
    if let Some(c) = scale.iter().position(|s| !s.is_finite()) {
        return Err(Error::NotFinite(format!("right-hand side {c} of a linear system")));
    }
    let column = |&scale: &f64| Column {
        reason: Reason::Converged,
        iterations: 0,
        residual: scale,
        scale,
        history: Vec::new(),
        tridiagonal: Tridiagonal::default(),
    };
    let columns: Vec<Column> = scale.iter().map(column).collect();
    let solution = Solution { x: vec![0.0; b.len()], residual: b.to_vec(), columns, products: 0 };
    let mut run = Run { a, preconditioner, options, t, solution, size: 0.0 };
    let mut open: Vec<usize> = (0..t).filter(|&c| scale[c] > run.target(c)).collect();
    for first in std::iter::once(true).chain(std::iter::repeat(false)) {
        if open.is_empty() {
            break;
        }
        let broken = run.descend(&open, first)?;
        open = run.verify(&open, &broken, b)?;
    }
    Ok(run.solution)
}

struct Run<'a> {
    a: &'a dyn LinearOperator,
    preconditioner: Option<&'a dyn LinearOperator>,
    options: &'a CgOptions,
    t: usize,
    solution: Solution,
    /// A lower bound on ‖A‖.
    size: f64,
}

/// The recursion's residual must be this much below the tolerance, so that the true residual is within it.
const MARGIN: f64 = 0.9;

impl Run<'_> {
    fn target(&self, c: usize) -> f64 {
        (self.options.relative * self.solution.columns[c].scale).max(self.options.absolute)
    }

    fn precondition(&self, r: &[f64]) -> Result<Vec<f64>> {
        self.preconditioner.map_or_else(|| Ok(r.to_vec()), |p| blocks::apply(p, r))
    }

    /// Iterates on the open columns from their residuals until each has ended. Returns the columns that broke down.
    fn descend(&mut self, open: &[usize], first: bool) -> Result<Vec<usize>> {
        let mut active = open.to_vec();
        let mut broken = Vec::new();
        let mut r = blocks::gather(&self.solution.residual, self.t, open);
        let mut x = vec![0.0; r.len()];
        let mut p = self.precondition(&r)?;
        let mut rz = blocks::dots(&r, &p, active.len());
        let mut last = vec![None; active.len()];
        while !active.is_empty() {
            let width = active.len();
            let q = blocks::apply(self.a, &p)?;
            self.solution.products += 1;
            let stretch = blocks::norms(&q, width).into_iter().zip(blocks::norms(&p, width)).map(|(q, p)| q / p);
            self.size = stretch.filter(|s| s.is_finite()).fold(self.size, f64::max);
            let curvature = blocks::dots(&p, &q, width);
            let step: Vec<f64> = rz.iter().zip(&curvature).map(|(rz, c)| step_length(*rz, *c)).collect();
            blocks::add_scaled(&mut x, &step, &p);
            blocks::add_scaled(&mut r, &step.iter().map(|s| -s).collect::<Vec<_>>(), &q);
            let norms = blocks::norms(&r, width);
            let z = self.precondition(&r)?;
            let next = blocks::dots(&r, &z, width);
            let beta: Vec<f64> = next.iter().zip(&rz).map(|(next, rz)| next / rz).collect();

            let (mut keep, mut done) = (Vec::new(), Vec::new());
            for (slot, &c) in active.iter().enumerate() {
                let target = MARGIN * self.target(c);
                let column = &mut self.solution.columns[c];
                if step[slot] == 0.0 {
                    broken.push(c);
                    done.push(slot);
                    continue;
                }
                column.iterations += 1;
                column.history.push(norms[slot] / column.scale);
                if first {
                    extend(&mut column.tridiagonal, step[slot], last[slot]);
                    last[slot] = Some((step[slot], beta[slot]));
                }
                let ended = norms[slot] <= target || column.iterations >= self.options.iterations;
                if ended { done.push(slot) } else { keep.push(slot) }
            }
            blocks::scale_add(&mut p, &beta, &z);
            rz = next;
            if !done.is_empty() {
                let to: Vec<usize> = done.iter().map(|&slot| active[slot]).collect();
                blocks::scatter_add(&mut self.solution.x, self.t, &to, &x, width, &done);
                [&mut x, &mut r, &mut p].into_iter().for_each(|block| *block = blocks::gather(block, width, &keep));
                active = keep.iter().map(|&slot| active[slot]).collect();
                rz = keep.iter().map(|&slot| rz[slot]).collect();
                last = keep.iter().map(|&slot| last[slot]).collect();
            }
        }
        Ok(broken)
    }

    /// Computes the true residuals of columns that ended. Returns the columns that are worth another descent.
    fn verify(&mut self, open: &[usize], broken: &[usize], b: &[f64]) -> Result<Vec<usize>> {
        let x = blocks::gather(&self.solution.x, self.t, open);
        let product = blocks::apply(self.a, &x)?;
        self.solution.products += 1;
        let mut residual = blocks::gather(b, self.t, open);
        residual.iter_mut().zip(&product).for_each(|(r, p)| *r -= p);
        let norms = blocks::norms(&residual, open.len());
        let lengths = blocks::norms(&x, open.len());
        let old = blocks::gather(&self.solution.residual, self.t, open);
        let change: Vec<f64> = residual.iter().zip(old).map(|(new, old)| new - old).collect();
        let all: Vec<usize> = (0..open.len()).collect();
        blocks::scatter_add(&mut self.solution.residual, self.t, open, &change, open.len(), &all);

        let rounding = 4.0 * self.a.epsilon() * (self.a.order() as f64).sqrt() * self.size;
        let mut again = Vec::new();
        for (slot, &c) in open.iter().enumerate() {
            let target = self.target(c);
            let column = &mut self.solution.columns[c];
            let before = std::mem::replace(&mut column.residual, norms[slot]);
            let spent = column.iterations >= self.options.iterations;
            if norms[slot] > target && !spent && norms[slot] < 0.5 * before {
                again.push(c);
                continue;
            }
            column.reason = if norms[slot] <= target {
                Reason::Converged
            } else if norms[slot] <= rounding * lengths[slot] {
                Reason::Rounding
            } else if spent {
                Reason::Budget
            } else if broken.contains(&c) {
                Reason::Breakdown
            } else {
                Reason::Stagnated
            };
        }
        Ok(again)
    }
}

/// The step along a direction; zero if there is no descent.
fn step_length(rz: f64, curvature: f64) -> f64 {
    let step = rz / curvature;
    if rz > 0.0 && curvature > 0.0 && step.is_finite() { step } else { 0.0 }
}

/// The next row of the Lanczos matrix, from the step and the previous coefficients (step, β).
fn extend(t: &mut Tridiagonal, step: f64, last: Option<(f64, f64)>) {
    let carried = last.map_or(0.0, |(before, beta): (f64, f64)| {
        t.off_diagonal.push(beta.sqrt() / before);
        beta / before
    });
    t.diagonal.push(1.0 / step + carried);
}
