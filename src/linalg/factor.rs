//! A Cholesky factor on the host: the solves, inverse and determinant that prediction needs.

use super::dense::{self, inverse, solve};
use super::jitter;
use super::real::Real;
use crate::error::{Error, Result};

/// The lower Cholesky factor `L` of a symmetric positive definite matrix `A = L Lᵀ` of order `n`.
///
/// Right-hand sides are row-major `[n, t]`, solved in place.
#[derive(Debug, Clone)]
pub struct Factor<T> {
    /// Row-major; the strict upper triangle is meaningless.
    buffer: Vec<T>,
    n: usize,
    jitter: f64,
}

impl<T: Real> Factor<T> {
    /// Factors a row-major symmetric matrix in its own buffer, by the policy of [`jitter`]; `name` is for the error.
    ///
    /// # Errors
    /// [`Error::Shape`] if the matrix is not square, [`Error::NotPositiveDefinite`] if it is not that.
    pub fn new(matrix: Vec<T>, name: &str) -> Result<Self> {
        let n = matrix.len().isqrt();
        if n * n != matrix.len() {
            return Err(Error::shape(name, "a square matrix", format!("{} entries", matrix.len())));
        }
        let mut buffer = matrix;
        let jitter = jitter::factor(&mut buffer, n, name)?;
        Ok(Self { buffer, n, jitter })
    }

    /// The order of the matrix.
    pub fn order(&self) -> usize {
        self.n
    }

    /// The jitter that the factorisation needed, relative to the mean diagonal; zero as a rule.
    pub fn jitter(&self) -> f64 {
        self.jitter
    }

    /// `b ← L⁻¹ b`.
    ///
    /// # Errors
    /// [`Error::Shape`] if `b` has not `n` rows.
    pub fn solve_lower(&self, b: &mut [T]) -> Result<()> {
        let cols = self.columns(b)?;
        solve::lower(dense::view(&self.buffer, self.n), dense::view_mut(b, cols));
        Ok(())
    }

    /// `b ← L⁻ᵀ b`.
    ///
    /// # Errors
    /// [`Error::Shape`] if `b` has not `n` rows.
    pub fn solve_lower_transposed(&self, b: &mut [T]) -> Result<()> {
        let cols = self.columns(b)?;
        solve::upper(dense::view(&self.buffer, self.n).transpose(), dense::view_mut(b, cols));
        Ok(())
    }

    /// `b ← A⁻¹ b`.
    ///
    /// # Errors
    /// [`Error::Shape`] if `b` has not `n` rows.
    pub fn solve(&self, b: &mut [T]) -> Result<()> {
        self.solve_lower(b)?;
        self.solve_lower_transposed(b)
    }

    /// `log|A| = 2 Σ log Lᵢᵢ`, summed in f64.
    pub fn log_det(&self) -> f64 {
        2.0 * self.buffer.iter().step_by(self.n + 1).map(|x| x.f64().ln()).sum::<f64>()
    }

    /// `A⁻¹`, row-major and full, in the factor's own buffer.
    pub fn inverse(mut self) -> Vec<T> {
        inverse::from_factor(dense::view_mut(&mut self.buffer, self.n));
        self.buffer
    }

    /// `L`, row-major, its strict upper triangle zero.
    pub fn lower(mut self) -> Vec<T> {
        for (i, row) in self.buffer.chunks_exact_mut(self.n.max(1)).enumerate() {
            row[i + 1..].fill(T::of(0.0));
        }
        self.buffer
    }

    fn columns(&self, b: &[T]) -> Result<usize> {
        if self.n == 0 || b.len().is_multiple_of(self.n) {
            return Ok(b.len().checked_div(self.n).unwrap_or(0));
        }
        Err(Error::shape("right-hand side", format!("{} rows", self.n), format!("{} entries", b.len())))
    }
}
