//! Triangular solves with many right-hand sides.
//!
//! A solve from the right, `X L = B`, is the transposed view of one from the left: `Lᵀ Xᵀ = Bᵀ`. Diagonal tiles are
//! substituted, never inverted: kernel matrices are too ill-conditioned for explicit inverses of their factors.
//! Right-hand sides are shared among the threads before anything else, so that threads wait for each other once and not
//! at every tile.

use faer::{MatMut, MatRef};

use super::{half, product, tile};
use crate::linalg::real::{Real, dot, vectorised};
use crate::threads;

/// The fewest right-hand sides in a thread's share.
const SHARE: usize = 128;

/// `B ← L⁻¹ B` for a lower triangular `L`; the strict upper triangle is not read.
pub fn lower<T: Real>(l: MatRef<'_, T>, mut b: MatMut<'_, T>) {
    if let Some(one) = only_column(b.as_mut(), l.col_stride()) {
        return vectorised(|| lower_of_one(l, one));
    }
    shared(l, b, 2 * rayon::current_num_threads(), &lower_of);
}

/// `B ← U⁻¹ B` for an upper triangular `U`, such as the transposed view of a factor; the strict lower triangle is not
/// read.
pub fn upper<T: Real>(u: MatRef<'_, T>, mut b: MatMut<'_, T>) {
    if let Some(one) = only_column(b.as_mut(), u.row_stride()) {
        return vectorised(|| upper_of_one(u, one));
    }
    shared(u, b, 2 * rayon::current_num_threads(), &upper_of);
}

/// Solves for the columns of `b`, in pieces.
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

/// The only right-hand side as a slice, if its numbers are contiguous and those of the triangle are, too. The only work
/// is then to read the triangle.
fn only_column<'a, T: Real>(b: MatMut<'a, T>, stride: isize) -> Option<&'a mut [T]> {
    let one = b.ncols() == 1 && stride == 1;
    one.then(|| b.col_mut(0).try_as_col_major_mut())?.map(|column| column.as_slice_mut())
}

/// For L with contiguous rows.
#[inline(always)]
fn lower_of_one<T: Real>(l: MatRef<'_, T>, b: &mut [T]) {
    for i in 0..b.len() {
        let Some(row) = l.row(i).try_as_row_major() else { return };
        let (known, rest) = b.split_at_mut(i);
        rest[0] = (rest[0] - T::of(dot(known, row.as_slice()))) / row.as_slice()[i];
    }
}

/// For U with contiguous columns.
#[inline(always)]
fn upper_of_one<T: Real>(u: MatRef<'_, T>, b: &mut [T]) {
    for i in (0..b.len()).rev() {
        let Some(column) = u.col(i).try_as_col_major() else { return };
        let (others, own) = b.split_at_mut(i);
        let column = column.as_slice();
        own[0] /= column[i];
        let own = own[0];
        others.iter_mut().zip(column).for_each(|(b, u)| *b -= *u * own);
    }
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
