//! Matrix products, sequential where threads would cost more than they bring.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use crate::linalg::real::Real;

/// Multiply-adds below which a product stays on one thread.
const PARALLEL: usize = 1 << 18;

/// The order of the diagonal blocks of a symmetric product, computed whole.
const DIAGONAL: usize = 128;

/// Threads for a computation of `work` multiply-adds.
pub fn threads(work: usize) -> Par {
    if work < PARALLEL { Par::Seq } else { faer::get_global_parallelism() }
}

/// `C += α A B`.
pub fn add<T: Real>(c: MatMut<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>, alpha: T) {
    let par = threads(a.nrows() * a.ncols() * b.ncols());
    matmul(c, Accum::Add, a, b, alpha, par);
}

/// `C = α A B`.
pub fn set<T: Real>(c: MatMut<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>, alpha: T) {
    let par = threads(a.nrows() * a.ncols() * b.ncols());
    matmul(c, Accum::Replace, a, b, alpha, par);
}

/// `C += α A B` in the lower triangle only, for a product that is symmetric.
pub fn add_lower<T: Real>(c: MatMut<'_, T>, a: MatRef<'_, T>, b: MatRef<'_, T>, alpha: T) {
    let n = c.nrows();
    if n <= DIAGONAL {
        let mut block = vec![T::of(0.0); n * n];
        set(super::view_mut(&mut block, n), a, b, alpha);
        let mut c = c;
        for (i, row) in block.chunks_exact(n.max(1)).enumerate() {
            for (j, &x) in row[..=i].iter().enumerate() {
                c[(i, j)] += x;
            }
        }
        return;
    }
    let m = super::half(n);
    let (top, _, corner, bottom) = c.split_at_mut(m, m);
    let ((a1, a2), (b1, b2)) = (a.split_at_row(m), b.split_at_col(m));
    add(corner, a2, b1, alpha);
    add_lower(top, a1, b1, alpha);
    add_lower(bottom, a2, b2, alpha);
}
