//! Matrix products, shared among threads by splitting the result, so that products may run inside other parallel work.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use super::registers;
use super::transpose::transpose_into;
use crate::linalg::real::Real;
use crate::threads;

/// Multiply-adds that are worth a thread of their own.
const GRAIN: usize = 1 << 21;

/// The order of the diagonal blocks of a symmetric product, computed whole.
const DIAGONAL: usize = 64;

/// Whether a computation of `work` multiply-adds is worth splitting in two.
pub fn splits(work: usize) -> bool {
    work >= 2 * GRAIN && rayon::current_num_threads() > 1
}

/// `C += α A B`.
pub fn add<T: Real>(c: MatMut<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>, alpha: T) {
    product(c, Accum::Add, a, b, alpha, 2 * rayon::current_num_threads());
}

/// `C = α A B`.
pub fn set<T: Real>(c: MatMut<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>, alpha: T) {
    product(c, Accum::Replace, a, b, alpha, 2 * rayon::current_num_threads());
}

/// Where a product of `n` rows or columns is split: half, rounded up to whole registers.
fn middle(n: usize) -> usize {
    (n / 2).next_multiple_of(16).min(n)
}

fn product<T: Real>(c: MatMut<'_, T>, accum: Accum, a: MatRef<'_, T>, b: MatRef<'_, T>, alpha: T, pieces: usize) {
    let (m, n) = (c.nrows(), c.ncols());
    if pieces <= 1 || !splits(m * n * a.ncols()) {
        return multiply(c, accum, a, b, alpha);
    }
    if m >= n {
        let middle = middle(m);
        let ((c1, c2), (a1, a2)) = (c.split_at_row_mut(middle), a.split_at_row(middle));
        threads::join(|| product(c1, accum, a1, b, alpha, pieces / 2), || product(c2, accum, a2, b, alpha, pieces / 2));
    } else {
        let middle = middle(n);
        let ((c1, c2), (b1, b2)) = (c.split_at_col_mut(middle), b.split_at_col(middle));
        threads::join(|| product(c1, accum, a, b1, alpha, pieces / 2), || product(c2, accum, a, b2, alpha, pieces / 2));
    }
}

/// Rows of a transposed left factor that are put in order at once, and the fewest rows and columns where that pays.
const ORDERED: usize = 128;

/// Most columns of those rows at once.
const DEPTH: usize = 4096;

/// A product on one thread.
///
/// The library packs the right factor of a row-major result only and reads the left one as it lies: a transposed one, along whose
/// rows every number is in another cache line, at half the rate of one in order. It is put in order here, some rows at a time.
fn multiply<T: Real>(mut c: MatMut<'_, T>, accum: Accum, a: MatRef<'_, T>, b: MatRef<'_, T>, alpha: T) {
    if c.col_stride() != 1 && c.row_stride() == 1 {
        return multiply(c.transpose_mut(), accum, b.transpose(), a.transpose(), alpha);
    }
    let (m, n, k) = (c.nrows(), c.ncols(), a.ncols());
    if a.col_stride() == 1 || a.row_stride() != 1 || m.min(n).min(k) < ORDERED {
        matmul(c, accum, a, b, alpha, Par::Seq);
        return registers::clear();
    }
    let mut buffer = vec![T::of(0.0); ORDERED * k.min(DEPTH)];
    for first in (0..m).step_by(ORDERED) {
        let rows = ORDERED.min(m - first);
        for start in (0..k).step_by(DEPTH) {
            let depth = DEPTH.min(k - start);
            let mut ordered = super::view_mut(&mut buffer[..rows * depth], depth);
            transpose_into(ordered.as_mut(), a.submatrix(first, start, rows, depth).transpose());
            let (c, b) = (c.as_mut().subrows_mut(first, rows), b.subrows(start, depth));
            matmul(c, if start == 0 { accum } else { Accum::Add }, ordered.as_ref(), b, alpha, Par::Seq);
            registers::clear();
        }
    }
}

/// `C += α A B` in the lower triangle only, for a product that is symmetric.
pub fn add_lower<T: Real>(c: MatMut<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>, alpha: T) {
    let n = c.nrows();
    if n <= DIAGONAL {
        return add_diagonal(c, a, b, alpha);
    }
    let m = super::half(n);
    let (top, _, corner, bottom) = c.split_at_mut(m, m);
    let ((a1, a2), (b1, b2)) = (a.split_at_row(m), b.split_at_col(m));
    let corner = || add(corner, a2, b1, alpha);
    let diagonal = || {
        if splits(n * n * a.ncols() / 4) {
            threads::join(|| add_lower(top, a1, b1, alpha), || add_lower(bottom, a2, b2, alpha));
        } else {
            add_lower(top, a1, b1, alpha);
            add_lower(bottom, a2, b2, alpha);
        }
    };
    if splits(n * n * a.ncols() / 2) {
        threads::join(corner, diagonal);
    } else {
        corner();
        diagonal();
    }
}

/// A diagonal block: computed whole beside the matrix, whose upper triangle is not to be touched.
fn add_diagonal<T: Real>(mut c: MatMut<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>, alpha: T) {
    let n = c.nrows();
    let mut block = vec![T::of(0.0); n * n];
    multiply(super::view_mut(&mut block, n), Accum::Replace, a, b, alpha);
    for (i, row) in block.chunks_exact(n.max(1)).enumerate() {
        if let Some(c) = c.as_mut().row_mut(i).try_as_row_major_mut() {
            for (c, &x) in c.as_slice_mut().iter_mut().zip(&row[..=i]) {
                *c += x;
            }
        }
    }
}
