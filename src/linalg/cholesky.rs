//! The Cholesky factorisation as a differentiable operation.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use super::dense::{self, inverse, product, solve};
use super::factor::Factor;
use super::host::{HostOp, Saved, apply1};
use super::real::{Real, into_vec, with_real};
use super::shape;
use crate::error::Result;

/// The lower factor `L`, `[n, n]` with a zero strict upper triangle, of a symmetric positive definite `k = L Lᵀ`.
///
/// The adjoint is symmetric: `½ L⁻ᵀ (Φ + Φᵀ) L⁻¹` where `Φ` is the lower triangle of `Lᵀ L̄` with its diagonal halved
/// (Murray 2016, *Differentiation of the Cholesky decomposition*, eq. 10). `name` is the matrix in the error.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape), or [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite) by the policy of
/// [`jitter`](super::jitter).
pub fn cholesky(k: Tensor<2>, name: &str) -> Result<Tensor<2>> {
    apply1(Cholesky { name: name.into() }, k)
}

#[derive(Debug)]
struct Cholesky {
    name: String,
}

impl HostOp<1> for Cholesky {
    fn forward(&self, [k]: [TensorData; 1]) -> Result<(TensorData, Saved)> {
        let n = shape::square(&self.name, &k)?;
        with_real!(k.dtype(), T => {
            let lower = Factor::new(into_vec::<T>(k)?, &self.name)?.lower();
            Ok((TensorData::new(lower.clone(), [n, n]), Arc::new(lower) as Saved))
        })
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 1]) -> Result<[Option<TensorData>; 1]> {
        let n = shape::square("gradient of L", &grad)?;
        with_real!(grad.dtype(), T => {
            let lower = shape::take::<Vec<T>>(saved)?;
            let full = adjoint(&lower, into_vec::<T>(grad)?, n);
            Ok([Some(TensorData::new(full, [n, n]))])
        })
    }
}

/// `½ L⁻ᵀ (Φ + Φᵀ) L⁻¹` from the factor and its gradient.
pub(super) fn adjoint<T: Real>(lower: &[T], mut grad: Vec<T>, n: usize) -> Vec<T> {
    for (i, row) in grad.chunks_exact_mut(n.max(1)).enumerate() {
        row[i + 1..].fill(T::of(0.0));
    }
    let l = dense::view(lower, n);
    let mut phi = vec![T::of(0.0); n * n];
    product::add_lower(dense::view_mut(&mut phi, n), l.transpose(), dense::view(&grad, n), T::of(0.5));
    let mut phi_view = dense::view_mut(&mut phi, n);
    inverse::mirror(phi_view.as_mut());
    solve::upper(l.transpose(), phi_view.as_mut());
    solve::upper(l.transpose(), phi_view.as_mut().transpose_mut());
    inverse::mirror(phi_view);
    phi
}
