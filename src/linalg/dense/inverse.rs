//! The inverse of a positive definite matrix from its Cholesky factor, in place.

use faer::MatMut;

use super::{half, product, solve, tile};
use crate::linalg::real::Real;

/// Replaces the lower factor `L` of `A` by the full symmetric `A⁻¹`, in `2n³/3` operations and `n²/4` workspace.
///
/// With `W = L₂₁ L₁₁⁻¹` and the inverse Schur complement `S⁻¹ = (L₂₂ L₂₂ᵀ)⁻¹`,
/// `A⁻¹ = [A₁₁⁻¹ + Wᵀ S⁻¹ W, −Wᵀ S⁻¹; −S⁻¹ W, S⁻¹]`: two halves of the same problem and three products.
pub fn from_factor<T: Real>(mut a: MatMut<'_, T>) {
    let n = a.nrows();
    let m = half(n);
    let mut work = vec![T::of(0.0); if n <= tile::ORDER { 0 } else { m * (n - m) }];
    invert(a.as_mut(), &mut work);
}

fn invert<T: Real>(a: MatMut<'_, T>, work: &mut [T]) {
    let n = a.nrows();
    if n <= tile::ORDER {
        return invert_tile(a);
    }
    let m = half(n);
    let (mut a11, mut a12, mut w, mut s) = a.split_at_mut(m, m);
    solve::upper(a11.as_ref().transpose(), w.as_mut().transpose_mut());
    invert(s.as_mut(), work);
    invert(a11.as_mut(), work);
    let mut sw = super::view_mut(&mut work[..m * (n - m)], m);
    product::set(sw.as_mut(), s.as_ref(), w.as_ref(), T::of(1.0));
    product::add_lower(a11.as_mut(), w.as_ref().transpose(), sw.as_ref(), T::of(1.0));
    mirror(a11);
    for i in 0..n - m {
        for j in 0..m {
            let x = -sw[(i, j)];
            w[(i, j)] = x;
            a12[(j, i)] = x;
        }
    }
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
    for i in 0..a.nrows() {
        for j in 0..i {
            a[(j, i)] = a[(i, j)];
        }
    }
}
