//! Solves and determinants from a Cholesky factor.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use faer::{MatMut, MatRef};

use super::triangular;
use super::triangular::Systems;
use crate::error::Result;
use crate::linalg::dense::{self, product, solve};
use crate::linalg::host::{Anywhere, HostOp, Vjp, apply1, apply2};
use crate::linalg::real::{Real, into_vec, vector, with_real};
use crate::linalg::shape;

/// `X = (L Lᵀ)⁻¹ B` for a lower factor `l`, `[.., n, n]`, and `b`, `[.., n, t]`.
///
/// `B̄ = (L Lᵀ)⁻¹ X̄` and `L̄ = −tril((B̄ Xᵀ + X B̄ᵀ) L)`; the strict upper triangle of `l` is not read.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape), or [`Error::NotFinite`](crate::Error::NotFinite) if the diagonal of `l` has a
/// zero, NaN or infinite entry.
pub fn cholesky_solve<const D: usize>(l: Tensor<D>, b: Tensor<D>) -> Result<Tensor<D>> {
    apply2(Anywhere::new(CholeskySolve), l, b)
}

pub(in crate::linalg) struct CholeskySolve;

/// `B ← (L Lᵀ)⁻¹ B` for every system of a batch.
fn solve_each<T: Real>(systems: &Systems<T>, b: &mut [T]) {
    systems.each(b, |l, mut b| {
        solve::lower(l, b.as_mut());
        solve::upper(l.transpose(), b);
    });
}

impl HostOp<2> for CholeskySolve {
    fn forward(self: Arc<Self>, [l, b]: [TensorData; 2]) -> Result<(TensorData, Vjp<2>)> {
        let n = shape::square("L", &l)?;
        triangular::check_right_hand_side(&l, &b, n)?;
        let dims = b.shape().clone();
        with_real!(l.dtype(), T => {
            let (mut l, mut x) = (into_vec::<T>(l)?, into_vec::<T>(b)?);
            triangular::check_diagonal(&l, n)?;
            shape::clear_uppers(&mut l, n);
            let systems = Systems::new(l, n, &x);
            solve_each(&systems, &mut x);
            Ok(systems.solved(x, dims, solve_each, factor_adjoint))
        })
    }
}

/// Adds `−tril((B̄ Xᵀ + X B̄ᵀ) L)` to a zero matrix.
fn factor_adjoint<T: Real>(l: MatRef<'_, T>, [x, b]: [MatRef<'_, T>; 2], mut sum: MatMut<'_, T>) {
    let mut work = vec![T::of(0.0); x.nrows() * x.ncols()];
    for (left, right) in [(b, x), (x, b)] {
        let mut right_l = dense::view_mut(&mut work, x.nrows());
        product::set(right_l.as_mut(), right.transpose(), l, T::of(1.0));
        product::add_lower(sum.as_mut(), left, right_l.as_ref(), T::of(-1.0));
    }
}

/// `log|L Lᵀ| = 2 Σ log Lᵢᵢ` of a lower factor `[n, n]`, as `[1]`, summed in f64.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape), or [`Error::NotFinite`](crate::Error::NotFinite) if the diagonal has a zero,
/// NaN or infinite entry.
pub fn logdet_from_cholesky(l: Tensor<2>) -> Result<Tensor<1>> {
    apply1(Anywhere::new(LogDet), l)
}

pub(in crate::linalg) struct LogDet;

impl HostOp<1> for LogDet {
    fn forward(self: Arc<Self>, [l]: [TensorData; 1]) -> Result<(TensorData, Vjp<1>)> {
        let n = shape::square("L", &l)?;
        with_real!(l.dtype(), T => {
            let l = into_vec::<T>(l)?;
            triangular::check_diagonal(&l, n)?;
            let diagonal: Vec<T> = l.into_iter().step_by(n + 1).collect();
            let value = 2.0 * diagonal.iter().map(|x| x.f64().abs().ln()).sum::<f64>();
            let vjp = move |grad, _needs: [bool; 1]| {
                let grad = into_vec::<T>(grad)?.into_iter().sum::<T>();
                let mut full = vec![T::of(0.0); n * n];
                for (x, l) in full.iter_mut().step_by(n + 1).zip(diagonal) {
                    *x = T::of(2.0) * grad / l;
                }
                Ok([Some(TensorData::new(full, [n, n]))])
            };
            Ok((vector(vec![T::of(value)]), Box::new(vjp)))
        })
    }
}
