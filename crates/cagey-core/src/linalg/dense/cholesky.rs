//! Recursive Cholesky factorisation in place.

use faer::MatMut;

use super::{half, product, solve, tile};
use crate::linalg::real::Real;

/// Factors `A = L Lᵀ` in the lower triangle; the strict upper triangle is neither read nor written.
///
/// # Errors
/// The index of the first pivot that is not a positive finite number.
pub fn factor<T: Real>(a: MatMut<'_, T>) -> Result<(), usize> {
    if a.nrows() <= tile::ORDER {
        return tile::factor(a);
    }
    let m = half(a.nrows());
    let (mut a11, _, mut a21, mut a22) = a.split_at_mut(m, m);
    factor(a11.as_mut())?;
    solve::lower(a11.as_ref(), a21.as_mut().transpose_mut());
    product::add_lower(a22.as_mut(), a21.as_ref(), a21.as_ref().transpose(), T::of(-1.0));
    factor(a22).map_err(|pivot| m + pivot)
}
