//! Triangular solves with many right-hand sides.
//!
//! A solve from the right, `X L = B`, is the transposed view of one from the left: `Lᵀ Xᵀ = Bᵀ`. Diagonal tiles are
//! substituted, never inverted: kernel matrices are too ill-conditioned for the explicit inverses of their factors.

use faer::{MatMut, MatRef};

use super::{half, product, tile};
use crate::linalg::real::Real;

/// `B ← L⁻¹ B` for a lower triangular `L`; the strict upper triangle is not read.
pub fn lower<T: Real>(l: MatRef<'_, T>, b: MatMut<'_, T>) {
    if l.nrows() <= tile::ORDER {
        return tile::lower(l, b);
    }
    let m = half(l.nrows());
    let (l11, _, l21, l22) = l.split_at(m, m);
    let (mut b1, mut b2) = b.split_at_row_mut(m);
    lower(l11, b1.as_mut());
    product::add(b2.as_mut(), l21, b1.as_ref(), T::of(-1.0));
    lower(l22, b2);
}

/// `B ← U⁻¹ B` for an upper triangular `U`, such as the transposed view of a factor; the strict lower triangle is not read.
pub fn upper<T: Real>(u: MatRef<'_, T>, b: MatMut<'_, T>) {
    if u.nrows() <= tile::ORDER {
        return tile::upper(u, b);
    }
    let m = half(u.nrows());
    let (u11, u12, _, u22) = u.split_at(m, m);
    let (mut b1, mut b2) = b.split_at_row_mut(m);
    upper(u22, b2.as_mut());
    product::add(b1.as_mut(), u12, b2.as_ref(), T::of(-1.0));
    upper(u11, b1);
}
