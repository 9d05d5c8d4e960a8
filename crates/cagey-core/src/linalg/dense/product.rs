//! Matrix products, shared among threads by splitting the result. So products may run inside other parallel work.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use super::registers;
use super::transpose::transpose_into;
use crate::linalg::real::Real;
use crate::threads;

/// How many multiply-adds justify a thread of their own.
const GRAIN: usize = 1 << 21;

/// The order of the diagonal blocks of a symmetric product, computed whole.
const DIAGONAL: usize = 64;

/// Whether a computation of `work` multiply-adds is worth splitting in two.
pub fn splits(work: usize) -> bool {
    work >= 2 * GRAIN && rayon::current_num_threads() > 1
}

/// A left and a right factor.
pub type Term<'a, T> = (MatRef<'a, T>, MatRef<'a, T>);

/// `C += α A B`.
pub fn add<T: Real>(c: MatMut<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>, alpha: T) {
    products(c, Accum::Add, &[(a, b)], alpha, 2 * rayon::current_num_threads());
}

/// `C = α A B`.
pub fn set<T: Real>(c: MatMut<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>, alpha: T) {
    products(c, Accum::Replace, &[(a, b)], alpha, 2 * rayon::current_num_threads());
}

/// Where a product of `n` rows or columns is split: half, rounded up to whole registers.
fn middle(n: usize) -> usize {
    (n / 2).next_multiple_of(16).min(n)
}

/// Multiply-adds for each entry of the result.
fn depth<T>(terms: &[Term<T>]) -> usize {
    terms.iter().map(|(a, _)| a.ncols()).sum()
}

/// `C = α Σ A B`, or `C += α Σ A B`.
fn products<T: Real>(c: MatMut<'_, T>, accum: Accum, terms: &[Term<T>], alpha: T, pieces: usize) {
    let (m, n) = (c.nrows(), c.ncols());
    if pieces <= 1 || !splits(m * n * depth(terms)) {
        return multiply_all(c, accum, terms, alpha);
    }
    let (c1, c2, first, second): (_, _, Vec<_>, Vec<_>) = if m >= n {
        let (c1, c2) = c.split_at_row_mut(middle(m));
        let (first, second) = halves(terms, |a| a.split_at_row(middle(m)), |b| (b, b));
        (c1, c2, first, second)
    } else {
        let (c1, c2) = c.split_at_col_mut(middle(n));
        let (first, second) = halves(terms, |a| (a, a), |b| b.split_at_col(middle(n)));
        (c1, c2, first, second)
    };
    threads::join(
        || products(c1, accum, &first, alpha, pieces / 2),
        || products(c2, accum, &second, alpha, pieces / 2),
    );
}

/// The terms of two parts of the result; `left` and `right` split the factors.
fn halves<'a, T>(
    terms: &[Term<'a, T>],
    left: impl Fn(MatRef<'a, T>) -> (MatRef<'a, T>, MatRef<'a, T>),
    right: impl Fn(MatRef<'a, T>) -> (MatRef<'a, T>, MatRef<'a, T>),
) -> (Vec<Term<'a, T>>, Vec<Term<'a, T>>) {
    let split = |&(a, b): &Term<'a, T>| {
        let ((a1, a2), (b1, b2)) = (left(a), right(b));
        ((a1, b1), (a2, b2))
    };
    terms.iter().map(split).unzip()
}

/// The same on one thread, which keeps the result in its cache between terms.
fn multiply_all<T: Real>(mut c: MatMut<'_, T>, accum: Accum, terms: &[Term<T>], alpha: T) {
    for (k, &(a, b)) in terms.iter().enumerate() {
        multiply(c.as_mut(), if k == 0 { accum } else { Accum::Add }, a, b, alpha);
    }
}

/// The number of rows of a transposed left factor that are put in order at once, and the fewest rows and columns for
/// which that pays.
const ORDERED: usize = 128;

/// The most columns of those rows at once.
const DEPTH: usize = 4096;

/// A product on one thread.
///
/// For a row-major result, the library packs only the right factor and reads the left one in place. In a transposed
/// left factor, consecutive numbers of a row are in different cache lines, which halves the rate. So such a factor is
/// put in order here, some rows at a time.
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

/// `C += α A B` in the lower triangle only, for a symmetric product.
pub fn add_lower<T: Real>(c: MatMut<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>, alpha: T) {
    add_all_lower(c, &[(a, b)], alpha);
}

/// `C += α Σ A B` in the lower triangle only.
pub fn add_all_lower<T: Real>(c: MatMut<'_, T>, terms: &[Term<T>], alpha: T) {
    let n = c.nrows();
    if n <= DIAGONAL {
        return add_diagonal(c, terms, alpha);
    }
    let m = super::half(n);
    let (top, _, corner, bottom) = c.split_at_mut(m, m);
    let (first, second) = halves(terms, |a| a.split_at_row(m), |b| b.split_at_col(m));
    let across: Vec<_> = second.iter().zip(&first).map(|(&(a2, _), &(_, b1))| (a2, b1)).collect();
    let corner = || products(corner, Accum::Add, &across, alpha, 2 * rayon::current_num_threads());
    let work = n * n * depth(terms);
    let diagonal = || {
        if splits(work / 4) {
            threads::join(|| add_all_lower(top, &first, alpha), || add_all_lower(bottom, &second, alpha));
        } else {
            add_all_lower(top, &first, alpha);
            add_all_lower(bottom, &second, alpha);
        }
    };
    if splits(work / 2) {
        threads::join(corner, diagonal);
    } else {
        corner();
        diagonal();
    }
}

/// A diagonal block. It is computed whole in a separate buffer, because the matrix's upper triangle must not change.
fn add_diagonal<T: Real>(mut c: MatMut<'_, T>, terms: &[Term<T>], alpha: T) {
    let n = c.nrows();
    let mut block = vec![T::of(0.0); n * n];
    multiply_all(super::view_mut(&mut block, n), Accum::Replace, terms, alpha);
    for (i, row) in block.chunks_exact(n.max(1)).enumerate() {
        if let Some(c) = c.as_mut().row_mut(i).try_as_row_major_mut() {
            for (c, &x) in c.as_slice_mut().iter_mut().zip(&row[..=i]) {
                *c += x;
            }
        }
    }
}
