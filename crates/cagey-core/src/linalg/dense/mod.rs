//! Dense host algorithms on row-major buffers. They are built on faer's matrix product, and run near its rate.
//!
//! Every algorithm is a recursion by halves whose off-diagonal work is one large matrix product; only blocks of order
//! `tile::ORDER` are left to the kernels in `tile`. A factorisation of a symmetric matrix writes only the lower
//! triangle. The upper one keeps the matrix, to restore it after a failed attempt.

pub mod cholesky;
pub mod columns;
pub mod congruence;
pub mod decompositions;
pub mod inverse;
pub mod product;
pub mod registers;
pub mod solve;
mod tile;
pub mod transpose;
pub mod triangular;

use faer::{MatMut, MatRef};

use super::real::Real;

/// Where a recursion splits a matrix of order `n`: half, rounded up to whole tiles.
fn half(n: usize) -> usize {
    (n / 2).next_multiple_of(tile::ORDER)
}

/// A row-major buffer as a matrix of `cols` columns.
pub fn view<T>(buffer: &[T], cols: usize) -> MatRef<'_, T> {
    MatRef::from_row_major_slice(buffer, buffer.len() / cols.max(1), cols)
}

/// A row-major buffer as a mutable matrix of `cols` columns.
pub fn view_mut<T>(buffer: &mut [T], cols: usize) -> MatMut<'_, T> {
    let rows = buffer.len() / cols.max(1);
    MatMut::from_row_major_slice_mut(buffer, rows, cols)
}

/// Zeroes the strict upper triangle of a row-major matrix of order `n`.
pub fn clear_upper<T: Real>(a: &mut [T], n: usize) {
    for (i, row) in a.chunks_exact_mut(n.max(1)).enumerate() {
        row[i + 1..].fill(T::of(0.0));
    }
}
