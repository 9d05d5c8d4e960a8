//! Triangular solves with many right-hand sides.
//!
//! A solve from the right, `X L = B`, is the transposed view of one from the left: `Lᵀ Xᵀ = Bᵀ`. Diagonal tiles are
//! substituted, never inverted: kernel matrices are too ill-conditioned for the explicit inverses of their factors. Right-hand sides are
//! shared among the threads before anything else, so that threads meet once and not at every tile.

use faer::{MatMut, MatRef};

use super::{half, product, tile};
use crate::linalg::real::Real;
use crate::threads;

/// Fewest right-hand sides of a thread's share.
const SHARE: usize = 128;

/// `B ← L⁻¹ B` for a lower triangular `L`; the strict upper triangle is not read.
pub fn lower<T: Real>(l: MatRef<'_, T>, b: MatMut<'_, T>) {
    shared(l, b, 2 * rayon::current_num_threads(), &lower_of);
}

/// `B ← U⁻¹ B` for an upper triangular `U`, such as the transposed view of a factor; the strict lower triangle is not read.
pub fn upper<T: Real>(u: MatRef<'_, T>, b: MatMut<'_, T>) {
    shared(u, b, 2 * rayon::current_num_threads(), &upper_of);
}

/// Solves for the columns of `b` in pieces.
fn shared<T: Real>(
    triangle: MatRef<'_, T>,
    b: MatMut<'_, T>,
    pieces: usize,
    solve: &(impl Fn(MatRef<'_, T>, MatMut<'_, T>) + Sync),
) {
    let (n, cols) = (triangle.nrows(), b.ncols());
    if pieces <= 1 || cols < 2 * SHARE || !product::splits(n * n * cols / 2) {
        return solve(triangle, b);
    }
    let (left, right) = b.split_at_col_mut((cols / 2).next_multiple_of(32));
    threads::join(|| shared(triangle, left, pieces / 2, solve), || shared(triangle, right, pieces / 2, solve));
}

fn lower_of<T: Real>(l: MatRef<'_, T>, b: MatMut<'_, T>) {
    if l.nrows() <= tile::ORDER {
        return tile::lower(l, b);
    }
    let m = half(l.nrows());
    let (l11, _, l21, l22) = l.split_at(m, m);
    let (mut b1, mut b2) = b.split_at_row_mut(m);
    lower_of(l11, b1.as_mut());
    product::add(b2.as_mut(), l21, b1.as_ref(), T::of(-1.0));
    lower_of(l22, b2);
}

fn upper_of<T: Real>(u: MatRef<'_, T>, b: MatMut<'_, T>) {
    if u.nrows() <= tile::ORDER {
        return tile::upper(u, b);
    }
    let m = half(u.nrows());
    let (u11, u12, _, u22) = u.split_at(m, m);
    let (mut b1, mut b2) = b.split_at_row_mut(m);
    upper_of(u22, b2.as_mut());
    product::add(b1.as_mut(), u12, b2.as_ref(), T::of(-1.0));
    upper_of(u11, b1);
}
