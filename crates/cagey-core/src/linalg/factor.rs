//! A Cholesky factor on the host, with the solves, inverse and determinant that prediction needs.

use std::sync::Arc;

use super::dense::{self, inverse, product, solve};
use super::jitter;
use super::real::{Real, dot};
use crate::error::{Error, Result};

/// The most rows by which a factor may grow before they join the square, with which solves are fast.
const TAIL: usize = 64;

/// The lower Cholesky factor `L` of a symmetric positive definite matrix `A = L Lᵀ` of order `n`.
///
/// Right-hand sides are row-major `[n, t]`, solved in place. A factor that grew by a few rows shares all other rows
/// with its predecessor.
#[derive(Debug, Clone)]
pub struct Factor<T> {
    /// The first `m` rows, row-major `[m, m]`; the strict upper triangle is meaningless.
    square: Arc<Vec<T>>,
    m: usize,
    /// The rows after those, up to the diagonal, one after another.
    tail: Vec<T>,
    n: usize,
    jitter: f64,
}

impl<T: Real> Factor<T> {
    /// Factors a row-major symmetric matrix in its own buffer, by the policy of [`jitter`]; `name` appears in the
    /// error.
    ///
    /// # Errors
    /// [`Error::Shape`] if the matrix is not square, [`Error::NotPositiveDefinite`] if it is not positive definite.
    pub fn new(matrix: Vec<T>, name: &str) -> Result<Self> {
        let n = matrix.len().isqrt();
        if n * n != matrix.len() {
            return Err(Error::shape(name, "a square matrix", format!("{} entries", matrix.len())));
        }
        let mut buffer = matrix;
        let jitter = jitter::factor(&mut buffer, n, name)?;
        Ok(Self { jitter, ..Self::of_square(buffer, n) })
    }

    fn of_square(square: Vec<T>, n: usize) -> Self {
        Self { square: Arc::new(square), m: n, tail: Vec::new(), n, jitter: 0.0 }
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
        Ok(Self::of_square(lower, n))
    }

    /// The factor of order `n` with given rows, as [`packed`](Self::packed) returned them.
    ///
    /// # Errors
    /// [`Error::Shape`] if the count is wrong, [`Error::Data`] if the numbers are not those of a factor.
    pub fn from_packed(packed: &[T], n: usize) -> Result<Self> {
        if packed.len() != n * (n + 1) / 2 {
            let expected = format!("{} entries for order {n}", n * (n + 1) / 2);
            return Err(Error::shape("a Cholesky factor", expected, packed.len().to_string()));
        }
        let mut square = vec![T::of(0.0); n * n];
        let mut rest = packed;
        for (i, row) in square.chunks_exact_mut(n.max(1)).enumerate() {
            let (own, others) = rest.split_at(i + 1);
            if !own.iter().all(|x| x.f64().is_finite()) || own[i].f64() <= 0.0 {
                return Err(Error::Data(format!("row {i} of a Cholesky factor must be finite, its diagonal positive")));
            }
            row[..=i].copy_from_slice(own);
            rest = others;
        }
        Ok(Self::of_square(square, n))
    }

    /// The order of the matrix.
    pub fn order(&self) -> usize {
        self.n
    }

    /// The jitter that the factorisation needed, relative to the mean diagonal; usually zero.
    pub fn jitter(&self) -> f64 {
        self.jitter
    }

    /// Row `i` up to the diagonal.
    fn row(&self, i: usize) -> &[T] {
        let grown = i.saturating_sub(self.m);
        match i < self.m {
            true => &self.square[i * self.m..][..=i],
            false => &self.tail[grown * self.m + grown * (grown + 1) / 2..][..=i],
        }
    }

    /// `b ← L⁻¹ b`.
    ///
    /// # Errors
    /// [`Error::Shape`] if `b` does not have `n` rows.
    pub fn solve_lower(&self, b: &mut [T]) -> Result<()> {
        let cols = self.columns(b)?;
        solve::lower(dense::view(&self.square, self.m), dense::view_mut(&mut b[..self.m * cols], cols));
        if cols == 1 {
            self.solve_lower_from(self.m, b);
            return Ok(());
        }
        for i in self.m..self.n {
            let (known, rest) = b.split_at_mut(i * cols);
            let (row, own) = (self.row(i), &mut rest[..cols]);
            for (l, known) in row.iter().zip(known.chunks_exact(cols.max(1))) {
                own.iter_mut().zip(known).for_each(|(own, known)| *own -= *l * *known);
            }
            own.iter_mut().for_each(|own| *own /= row[i]);
        }
        Ok(())
    }

    /// `b ← L⁻¹ b` for one column `b [n]` whose entries before `first` are solved already.
    pub fn solve_lower_from(&self, first: usize, b: &mut [T]) {
        for i in first..self.n {
            let row = self.row(i);
            b[i] = (b[i] - T::of(dot(&row[..i], b))) / row[i];
        }
    }

    /// `b ← L⁻ᵀ b`.
    ///
    /// # Errors
    /// [`Error::Shape`] if `b` does not have `n` rows.
    pub fn solve_lower_transposed(&self, b: &mut [T]) -> Result<()> {
        let cols = self.columns(b)?;
        for i in (self.m..self.n).rev() {
            let (others, rest) = b.split_at_mut(i * cols);
            let (row, own) = (self.row(i), &mut rest[..cols]);
            own.iter_mut().for_each(|own| *own /= row[i]);
            for (l, other) in row.iter().zip(others.chunks_exact_mut(cols.max(1))) {
                other.iter_mut().zip(&*own).for_each(|(other, own)| *other -= *l * *own);
            }
        }
        let square = dense::view(&self.square, self.m).transpose();
        solve::upper(square, dense::view_mut(&mut b[..self.m * cols], cols));
        Ok(())
    }

    /// `b ← A⁻¹ b`.
    ///
    /// # Errors
    /// [`Error::Shape`] if `b` does not have `n` rows.
    pub fn solve(&self, b: &mut [T]) -> Result<()> {
        self.solve_lower(b)?;
        self.solve_lower_transposed(b)
    }

    /// `log|A| = 2 Σ log Lᵢᵢ`, summed in f64.
    pub fn log_det(&self) -> f64 {
        2.0 * (0..self.n).map(|i| self.row(i)[i].f64().ln()).sum::<f64>()
    }

    /// `A⁻¹`, row-major and full, in the factor's own buffer.
    pub fn inverse(self) -> Vec<T> {
        let n = self.n;
        let mut buffer = self.into_buffer();
        inverse::from_factor(dense::view_mut(&mut buffer, n));
        buffer
    }

    /// The diagonal of `A⁻¹`.
    pub fn inverse_diagonal(&self) -> Vec<T> {
        self.clone().inverse().into_iter().step_by(self.n + 1).collect()
    }

    /// Grows the factor to that of `[A, Cᵀ; C, D]`, which adds `t` rows, in `O(n² t)`.
    ///
    /// `cross` is `C`, row-major `[t, n]`; `corner` is the symmetric `D`, `[t, t]`. Any jitter is relative to the mean
    /// diagonal of `D`. On an error the factor is unchanged.
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
        let columns = dense::view_mut(&mut cross, n).transpose_mut().subrows_mut(0, self.m);
        solve::lower(dense::view(&self.square, self.m), columns);
        cross.chunks_exact_mut(n.max(1)).for_each(|new| self.solve_lower_from(self.m, new));
        let rows = dense::view(&cross, n);
        product::add(dense::view_mut(&mut corner, t), rows, rows.transpose(), T::of(-1.0));
        let jitter = jitter::factor_scaled(&mut corner, t, scale, name)?;
        for (k, corner) in corner.chunks_exact(t.max(1)).enumerate() {
            self.tail.extend(&cross[k * n..][..n]);
            self.tail.extend(&corner[..=k]);
        }
        (self.n, self.jitter) = (n + t, self.jitter.max(jitter));
        if self.n - self.m > TAIL {
            let grown = std::mem::replace(self, Self::of_square(Vec::new(), 0));
            let (n, jitter) = (grown.n, grown.jitter);
            *self = Self { jitter, ..Self::of_square(grown.into_buffer(), n) };
        }
        Ok(())
    }

    /// The rows of `L` up to the diagonal, one after another.
    pub fn packed(&self) -> Vec<T> {
        (0..self.n).flat_map(|i| self.row(i)).copied().collect()
    }

    /// `L`, row-major; its strict upper triangle is zero.
    pub fn lower(self) -> Vec<T> {
        let n = self.n;
        let mut buffer = self.into_buffer();
        dense::clear_upper(&mut buffer, n);
        buffer
    }

    /// `L`, row-major; its strict upper triangle is meaningless.
    pub fn into_buffer(self) -> Vec<T> {
        if self.m == self.n {
            return Arc::unwrap_or_clone(self.square);
        }
        let mut square = vec![T::of(0.0); self.n * self.n];
        square.chunks_exact_mut(self.n).enumerate().for_each(|(i, row)| row[..=i].copy_from_slice(self.row(i)));
        square
    }

    fn columns(&self, b: &[T]) -> Result<usize> {
        if self.n == 0 || b.len().is_multiple_of(self.n) {
            return Ok(b.len().checked_div(self.n).unwrap_or(0));
        }
        Err(Error::shape("right-hand side", format!("{} rows", self.n), format!("{} entries", b.len())))
    }
}
