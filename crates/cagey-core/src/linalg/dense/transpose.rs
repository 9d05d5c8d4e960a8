//! Transposition in blocks that stay in the nearest cache.

use faer::{MatMut, MatRef};

use crate::linalg::real::Real;
use crate::threads;

/// The order of a block.
const BLOCK: usize = 32;

/// How many entries justify a second thread.
const PARALLEL: usize = 1 << 16;

/// Copies the lower triangle over the upper one.
pub fn mirror<T: Real>(mut a: MatMut<'_, T>) {
    let n = a.nrows();
    if n <= BLOCK {
        for i in 0..n {
            for j in 0..i {
                a[(j, i)] = a[(i, j)];
            }
        }
        return;
    }
    let m = n / 2;
    let (a11, a12, a21, a22) = a.split_at_mut(m, m);
    both(n * n, || transpose_into(a12, a21.as_ref()), || both(n * n, || mirror(a11), || mirror(a22)));
}

/// `B = Aᵀ`, by halves.
pub fn transpose_into<T: Real>(b: MatMut<'_, T>, a: MatRef<'_, T>) {
    let (rows, cols) = (b.nrows(), b.ncols());
    if rows.max(cols) <= BLOCK {
        return transpose_block(b, a);
    }
    let ((b1, b2), (a1, a2)) = if rows >= cols {
        (b.split_at_row_mut(rows / 2), a.split_at_col(rows / 2))
    } else {
        (b.split_at_col_mut(cols / 2), a.split_at_row(cols / 2))
    };
    both(rows * cols, || transpose_into(b1, a1), || transpose_into(b2, a2));
}

/// Runs both, in parallel if there are many entries.
fn both(entries: usize, first: impl FnOnce() + Send, second: impl FnOnce() + Send) {
    if entries > PARALLEL {
        threads::join(first, second);
    } else {
        first();
        second();
    }
}

fn transpose_block<T: Real>(mut b: MatMut<'_, T>, a: MatRef<'_, T>) {
    let (rows, cols) = (b.nrows(), b.ncols());
    let (Some(mut b), Some(a)) = (b.as_mut().try_as_row_major_mut(), a.try_as_row_major()) else {
        return b.copy_from(a.transpose());
    };
    let mut block = [[T::of(0.0); BLOCK]; BLOCK];
    for (j, row) in block.iter_mut().enumerate().take(cols) {
        row[..rows].copy_from_slice(a.row(j).as_slice());
    }
    for i in 0..rows {
        let to = b.as_mut().row_mut(i).as_slice_mut();
        to.iter_mut().zip(&block).for_each(|(to, row)| *to = row[i]);
    }
}
