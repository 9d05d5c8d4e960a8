//! A Cholesky factor on the host: the solves, inverse and determinant that prediction needs.

use super::dense::{self, inverse, product, solve};
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

    /// The factor with a given row-major `L`, as [`lower`](Self::lower) returned it.
    ///
    /// # Errors
    /// [`Error::Shape`] if it is not square.
    pub fn from_lower(lower: Vec<T>) -> Result<Self> {
        let n = lower.len().isqrt();
        if n * n != lower.len() {
            return Err(Error::shape("a Cholesky factor", "a square matrix", format!("{} entries", lower.len())));
        }
        Ok(Self { buffer: lower, n, jitter: 0.0 })
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

    /// The diagonal of `A⁻¹`.
    pub fn inverse_diagonal(&self) -> Vec<T> {
        self.clone().inverse().into_iter().step_by(self.n + 1).collect()
    }

    /// Grows the factor to that of `[A, Cᵀ; C, D]` when `t` rows are added, in `O(n² t)`.
    ///
    /// `cross` is `C`, row-major `[t, n]`, `corner` the symmetric `D`, `[t, t]`; any jitter is relative to the mean diagonal
    /// of `D`. On an error the factor is as before.
    ///
    /// # Errors
    /// [`Error::Shape`], or [`Error::NotPositiveDefinite`] for the Schur complement `D − C A⁻¹ Cᵀ`.
    pub fn append_rows(&mut self, mut cross: Vec<T>, mut corner: Vec<T>, name: &str) -> Result<()> {
        let (n, t) = (self.n, corner.len().isqrt());
        if t * t != corner.len() || cross.len() != t * n {
            let got = format!("{} and {} entries", cross.len(), corner.len());
            return Err(Error::shape(name, format!("new rows [t, {n}] and a corner [t, t]"), got));
        }
        let scale = corner.iter().step_by(t + 1).map(|x| x.f64()).sum::<f64>() / t as f64;
        solve::lower(dense::view(&self.buffer, n), dense::view_mut(&mut cross, n).transpose_mut());
        let rows = dense::view(&cross, n);
        product::add(dense::view_mut(&mut corner, t), rows, rows.transpose(), T::of(-1.0));
        let jitter = jitter::factor_scaled(&mut corner, t, scale, name)?;
        let mut grown = vec![T::of(0.0); (n + t) * (n + t)];
        let old = self.buffer.chunks_exact(n.max(1));
        for (row, old) in grown.chunks_exact_mut((n + t).max(1)).zip(old) {
            row[..n].copy_from_slice(old);
        }
        let new = cross.chunks_exact(n.max(1)).zip(corner.chunks_exact(t.max(1)));
        for (row, (cross, corner)) in grown.chunks_exact_mut((n + t).max(1)).skip(n).zip(new) {
            row[..n].copy_from_slice(cross);
            row[n..].copy_from_slice(corner);
        }
        (self.buffer, self.n, self.jitter) = (grown, n + t, self.jitter.max(jitter));
        Ok(())
    }

    /// `L`, row-major, its strict upper triangle zero.
    pub fn lower(mut self) -> Vec<T> {
        dense::clear_upper(&mut self.buffer, self.n);
        self.buffer
    }

    /// `L`, row-major, its strict upper triangle meaningless.
    pub fn into_buffer(self) -> Vec<T> {
        self.buffer
    }

    fn columns(&self, b: &[T]) -> Result<usize> {
        if self.n == 0 || b.len().is_multiple_of(self.n) {
            return Ok(b.len().checked_div(self.n).unwrap_or(0));
        }
        Err(Error::shape("right-hand side", format!("{} rows", self.n), format!("{} entries", b.len())))
    }
}
