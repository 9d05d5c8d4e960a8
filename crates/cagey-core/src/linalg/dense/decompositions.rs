//! Decompositions in f64 that the product library provides: eigenvectors, LU, QR and singular values.
//!
//! None of these functions is generic. So their long code is translated once, not again in each crate that asks.

use faer::linalg::solvers::Solve;
use faer::{MatRef, Side};

use super::{registers, view, view_mut};
use crate::error::{Error, Result};

/// Eigenvalues, ascending, and orthonormal eigenvectors of a symmetric matrix.
pub struct Eigen {
    /// λ `[n]`.
    pub values: Vec<f64>,
    /// Row-major `[n, n]`: a vector in each row.
    pub vectors: Vec<f64>,
}

impl Eigen {
    /// Of row-major `a` `[n, n]`, of which only the lower triangle is read. `name` is the matrix in the error.
    ///
    /// # Errors
    /// [`Error::NotFinite`] if the iteration does not converge, as with entries that are not finite.
    pub fn new(a: &[f64], n: usize, name: &str) -> Result<Self> {
        let found = view(a, n)
            .self_adjoint_eigen(Side::Lower)
            .map_err(|_| Error::NotFinite(format!("the eigendecomposition of {name} [{n}, {n}]")))?;
        registers::clear();
        let vectors = found.U().col_iter().flat_map(|vector| vector.iter().copied()).collect();
        Ok(Self { values: found.S().column_vector().iter().copied().collect(), vectors })
    }

    /// The vector of the `k`-th value.
    pub fn vector(&self, k: usize) -> &[f64] {
        let n = self.values.len();
        &self.vectors[k * n..][..n]
    }

    /// Values with their vectors.
    pub fn pairs(&self) -> impl DoubleEndedIterator<Item = (f64, &[f64])> {
        self.values.iter().enumerate().map(|(k, value)| (*value, self.vector(k)))
    }
}

/// Replaces row-major `b` `[n, columns]` by `A⁻¹ b`, for row-major `a` `[n, n]` that need not be symmetric.
/// If `a` is singular, the numbers are huge or not finite.
pub fn solve(a: &[f64], b: &mut [f64], columns: usize) {
    let n = a.len().isqrt();
    MatRef::from_row_major_slice(a, n, n).partial_piv_lu().solve_in_place(view_mut(b, columns));
    registers::clear();
}

/// An orthonormal basis of the columns of row-major `a` `[n, columns]`, in the same layout: Q of its QR decomposition.
pub fn orthonormal(a: &[f64], columns: usize) -> Vec<f64> {
    let basis = view(a, columns).qr().compute_thin_Q();
    registers::clear();
    row_major(basis.as_ref())
}

/// Left singular vectors of row-major `a` `[n, columns]`, in the same layout, and its singular values, descending. None
/// if the iteration does not converge, as with entries that are not finite. A matrix with fewer rows than columns has
/// as many of both as rows.
pub fn singular(a: &[f64], columns: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    let found = view(a, columns).thin_svd().ok()?;
    registers::clear();
    Some((row_major(found.U()), found.S().column_vector().iter().copied().collect()))
}

fn row_major(matrix: MatRef<'_, f64>) -> Vec<f64> {
    matrix.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<_>>()).collect()
}
