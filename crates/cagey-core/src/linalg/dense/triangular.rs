//! Products with triangular matrices at half the cost of full ones. The other triangle must hold zeros.

use faer::{MatMut, MatRef};

use super::{half, product};
use crate::linalg::real::Real;
use crate::threads;

/// The order of the diagonal blocks that are multiplied whole.
const DIAGONAL: usize = 64;

/// The fewest columns in a thread's share.
const SHARE: usize = 128;

/// `C = L B` for a lower triangular `L`.
pub fn lower<T: Real>(c: MatMut<'_, T>, l: MatRef<'_, T>, b: MatRef<'_, T>) {
    shared(c, l, b, 2 * rayon::current_num_threads(), &lower_of);
}

/// `C = U B` for an upper triangular `U`.
pub fn upper<T: Real>(c: MatMut<'_, T>, u: MatRef<'_, T>, b: MatRef<'_, T>) {
    shared(c, u, b, 2 * rayon::current_num_threads(), &upper_of);
}

/// Multiplies the columns of `b` in pieces, so that threads wait for each other once and not at every block.
fn shared<T: Real>(
    c: MatMut<'_, T>,
    triangle: MatRef<'_, T>,
    b: MatRef<'_, T>,
    pieces: usize,
    multiply: &(impl Fn(MatMut<'_, T>, MatRef<'_, T>, MatRef<'_, T>) + Sync),
) {
    let (n, cols) = (triangle.nrows(), b.ncols());
    if pieces <= 1 || cols < 2 * SHARE || !product::splits(n * n * cols / 2) {
        return multiply(c, triangle, b);
    }
    let middle = (cols / 2).next_multiple_of(32);
    let ((c1, c2), (b1, b2)) = (c.split_at_col_mut(middle), b.split_at_col(middle));
    threads::join(|| shared(c1, triangle, b1, pieces / 2, multiply), || shared(c2, triangle, b2, pieces / 2, multiply));
}

fn lower_of<T: Real>(c: MatMut<'_, T>, l: MatRef<'_, T>, b: MatRef<'_, T>) {
    let n = l.nrows();
    if n <= DIAGONAL {
        return product::set(c, l, b, T::of(1.0));
    }
    let m = half(n);
    let (l11, _, l21, l22) = l.split_at(m, m);
    let (b1, b2) = b.split_at_row(m);
    let (c1, mut c2) = c.split_at_row_mut(m);
    lower_of(c1, l11, b1);
    lower_of(c2.as_mut(), l22, b2);
    product::add(c2, l21, b1, T::of(1.0));
}

fn upper_of<T: Real>(c: MatMut<'_, T>, u: MatRef<'_, T>, b: MatRef<'_, T>) {
    let n = u.nrows();
    if n <= DIAGONAL {
        return product::set(c, u, b, T::of(1.0));
    }
    let m = half(n);
    let (u11, u12, _, u22) = u.split_at(m, m);
    let (b1, b2) = b.split_at_row(m);
    let (mut c1, c2) = c.split_at_row_mut(m);
    upper_of(c1.as_mut(), u11, b1);
    product::add(c1, u12, b2, T::of(1.0));
    upper_of(c2, u22, b2);
}
