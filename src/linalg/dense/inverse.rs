//! The inverse of a positive definite matrix from its Cholesky factor, in place.

use faer::{MatMut, MatRef};

use super::{half, product, solve, tile};
use crate::linalg::real::Real;

/// The order of the blocks of a transposition.
const BLOCK: usize = 32;

/// Entries whose transposition is worth a second thread.
const PARALLEL: usize = 1 << 16;

/// Replaces the lower factor `L` of `A` by the full symmetric `A⁻¹`, in `2n³/3` operations and `n²/4` workspace.
///
/// With `W = L₂₁ L₁₁⁻¹` and the inverse Schur complement `S⁻¹ = (L₂₂ L₂₂ᵀ)⁻¹`,
/// `A⁻¹ = [A₁₁⁻¹ + Wᵀ S⁻¹ W, −Wᵀ S⁻¹; −S⁻¹ W, S⁻¹]`: two halves of the same problem and three products.
pub fn from_factor<T: Real>(a: MatMut<'_, T>) {
    let n = a.nrows();
    if n <= tile::ORDER {
        return invert_tile(a);
    }
    let m = half(n);
    let (mut a11, a12, mut w, mut s) = a.split_at_mut(m, m);
    solve::upper(a11.as_ref().transpose(), w.as_mut().transpose_mut());
    if product::splits(n * n * n / 24) {
        rayon::join(|| from_factor(s.as_mut()), || from_factor(a11.as_mut()));
    } else {
        from_factor(s.as_mut());
        from_factor(a11.as_mut());
    }
    let mut work = vec![T::of(0.0); m * (n - m)];
    let mut sw = super::view_mut(&mut work, m);
    product::set(sw.as_mut(), s.as_ref(), w.as_ref(), T::of(-1.0));
    product::add_lower(a11.as_mut(), w.as_ref().transpose(), sw.as_ref(), T::of(-1.0));
    mirror(a11);
    w.copy_from(sw.as_ref());
    transpose_into(a12, sw.as_ref());
}

fn invert_tile<T: Real>(mut a: MatMut<'_, T>) {
    let n = a.nrows();
    let mut inverse = vec![T::of(0.0); n * n];
    for i in 0..n {
        inverse[i * n + i] = T::of(1.0);
    }
    let mut x = super::view_mut(&mut inverse, n);
    solve::lower(a.as_ref(), x.as_mut());
    solve::upper(a.as_ref().transpose(), x.as_mut());
    a.copy_from_triangular_lower(x.as_ref());
    mirror(a);
}

/// Copies the lower triangle over the upper one.
pub fn mirror<T: Real>(mut a: MatMut<'_, T>) {
    let n = a.nrows();
    if n > BLOCK {
        let m = n / 2;
        let (a11, a12, a21, a22) = a.split_at_mut(m, m);
        transpose_into(a12, a21.as_ref());
        mirror(a11);
        return mirror(a22);
    }
    for i in 0..n {
        for j in 0..i {
            a[(j, i)] = a[(i, j)];
        }
    }
}

/// `B = Aᵀ` by halves, so that both stay in the cache.
fn transpose_into<T: Real>(mut b: MatMut<'_, T>, a: MatRef<'_, T>) {
    let (rows, cols) = (b.nrows(), b.ncols());
    if rows.max(cols) > BLOCK {
        let ((b1, b2), (a1, a2)) = if rows >= cols {
            (b.split_at_row_mut(rows / 2), a.split_at_col(rows / 2))
        } else {
            (b.split_at_col_mut(cols / 2), a.split_at_row(cols / 2))
        };
        if rows * cols > PARALLEL {
            rayon::join(|| transpose_into(b1, a1), || transpose_into(b2, a2));
        } else {
            transpose_into(b1, a1);
            transpose_into(b2, a2);
        }
        return;
    }
    let mut block = [[T::of(0.0); BLOCK]; BLOCK];
    for (j, copy) in block.iter_mut().enumerate().take(cols) {
        for (i, x) in copy.iter_mut().enumerate().take(rows) {
            *x = a[(j, i)];
        }
    }
    for i in 0..rows {
        for (j, copy) in block.iter().enumerate().take(cols) {
            b[(i, j)] = copy[i];
        }
    }
}
