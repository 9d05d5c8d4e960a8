//! The inverse of a positive definite matrix from its Cholesky factor, in place.

use faer::MatMut;

use super::transpose::{mirror, transpose_into};
use super::{half, product, solve, tile};
use crate::linalg::real::Real;
use crate::threads;

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
        threads::join(|| from_factor(s.as_mut()), || from_factor(a11.as_mut()));
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
