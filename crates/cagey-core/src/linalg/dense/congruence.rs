//! `L⁻¹ A L⁻ᵀ` and `L⁻ᵀ A L⁻¹` of a symmetric `A`, in place and at half the cost of two triangular solves.
//!
//! Each halves its problem. What one diagonal block needs from the other is one symmetric product and one solve (the
//! scheme of LAPACK's `sygst`). Only the lower triangle of `A` is read; the whole symmetric result is written.

use faer::{MatMut, MatRef};

use super::transpose::{mirror, transpose_into};
use super::{half, product, solve, tile};
use crate::linalg::real::Real;

/// `A ← L⁻¹ A L⁻ᵀ`, in `n³` operations and `n²/4` workspace.
pub fn whiten<T: Real>(l: MatRef<'_, T>, mut a: MatMut<'_, T>) {
    let n = a.nrows();
    if n <= tile::ORDER {
        mirror(a.as_mut());
        solve::lower(l, a.as_mut());
        solve::lower(l, a.as_mut().transpose_mut());
        return mirror(a);
    }
    let m = half(n);
    let ((l11, _, l21, l22), (mut a11, a12, mut a21, mut a22)) = (l.split_at(m, m), a.split_at_mut(m, m));
    whiten(l11, a11.as_mut());
    solve::lower(l11, a21.as_mut().transpose_mut());
    let mut work = vec![T::of(0.0); m * (n - m)];
    let mut step = super::view_mut(&mut work, m);
    product::set(step.as_mut(), l21, a11.as_ref(), T::of(-0.5));
    add(a21.as_mut(), step.as_ref());
    for (left, right) in [(l21, a21.as_ref()), (a21.as_ref(), l21)] {
        product::add_lower(a22.as_mut(), left, right.transpose(), T::of(-1.0));
    }
    add(a21.as_mut(), step.as_ref());
    solve::lower(l22, a21.as_mut());
    whiten(l22, a22);
    transpose_into(a12, a21.as_ref());
}

/// `A ← L⁻ᵀ A L⁻¹`, in `n³` operations and `n²/4` workspace: the adjoint of [`whiten`], and of a factorisation.
pub fn whiten_transposed<T: Real>(l: MatRef<'_, T>, mut a: MatMut<'_, T>) {
    let n = a.nrows();
    if n <= tile::ORDER {
        mirror(a.as_mut());
        solve::upper(l.transpose(), a.as_mut());
        solve::upper(l.transpose(), a.as_mut().transpose_mut());
        return mirror(a);
    }
    let m = half(n);
    let ((l11, _, l21, l22), (mut a11, a12, mut a21, mut a22)) = (l.split_at(m, m), a.split_at_mut(m, m));
    whiten_transposed(l22, a22.as_mut());
    solve::upper(l22.transpose(), a21.as_mut());
    let mut work = vec![T::of(0.0); m * (n - m)];
    let mut step = super::view_mut(&mut work, m);
    product::set(step.as_mut(), a22.as_ref(), l21, T::of(-0.5));
    add(a21.as_mut(), step.as_ref());
    for (left, right) in [(l21, a21.as_ref()), (a21.as_ref(), l21)] {
        product::add_lower(a11.as_mut(), left.transpose(), right, T::of(-1.0));
    }
    add(a21.as_mut(), step.as_ref());
    solve::upper(l11.transpose(), a21.as_mut().transpose_mut());
    whiten_transposed(l11, a11);
    transpose_into(a12, a21.as_ref());
}

/// `A += B`.
fn add<T: Real>(a: MatMut<'_, T>, b: MatRef<'_, T>) {
    faer::zip!(a, b).for_each(|faer::unzip!(a, b)| *a += *b);
}
