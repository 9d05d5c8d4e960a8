//! The Cholesky factorisation as a differentiable operation, for one matrix or a batch.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use faer::{MatMut, MatRef};

use crate::error::Result;
use crate::linalg::dense::{self, congruence, product};
use crate::linalg::host::{Anywhere, HostOp, Vjp, apply1};
use crate::linalg::jitter;
use crate::linalg::real::{Real, into_vec, with_real};
use crate::linalg::shape;

/// The lower factor `L` of a symmetric positive definite `k = L Lᵀ`, `[n, n]` or a batch `[.., n, n]`. Its strict upper
/// triangle is zero.
///
/// The adjoint is symmetric: `½ L⁻ᵀ (Φ + Φᵀ) L⁻¹`, where `Φ` is the lower triangle of `Lᵀ L̄` with its diagonal halved
/// (Murray 2016, *Differentiation of the Cholesky decomposition*, eq. 10). The matrices of a batch are shared among the
/// threads, and only those that failed get jitter. `name` is the matrix in the error.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape), or [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite) by the
/// policy of [`jitter`].
pub fn cholesky<const D: usize>(k: Tensor<D>, name: &str) -> Result<Tensor<D>> {
    apply1(Anywhere::new(Cholesky { name: name.into() }), k)
}

pub(in crate::linalg) struct Cholesky {
    pub(in crate::linalg) name: String,
}

impl HostOp<1> for Cholesky {
    fn forward(self: Arc<Self>, [k]: [TensorData; 1]) -> Result<(TensorData, Vjp<1>)> {
        let (n, dims) = (shape::square(&self.name, &k)?, k.shape().clone());
        with_real!(k.dtype(), T => {
            let mut lower = into_vec::<T>(k)?;
            let single = lower.len() == n * n;
            let jitters = shape::each(&mut lower, n * n, |i, matrix| {
                let name = if single { self.name.clone() } else { format!("{}[{i}]", self.name) };
                let jitter = jitter::factor(matrix, n, &name);
                dense::clear_upper(matrix, n);
                jitter
            });
            jitters.into_iter().collect::<Result<Vec<_>>>()?.into_iter().for_each(jitter::record);
            let (output, lower) = shape::share(TensorData::new(lower, dims.clone()));
            let vjp = move |grad, _needs: [bool; 1]| {
                let (lower, mut grad) = (shape::numbers::<T>(&lower)?, into_vec::<T>(grad)?);
                shape::clear_uppers(&mut grad, n);
                let mut full = vec![T::of(0.0); grad.len()];
                shape::each(&mut full, n * n, |i, full| {
                    let [l, grad] = [lower, &grad].map(|batch| dense::view(&batch[i * n * n..][..n * n], n));
                    adjoint(l, grad, dense::view_mut(full, n));
                });
                Ok([Some(TensorData::new(full, dims))])
            };
            Ok((output, Box::new(vjp)))
        })
    }
}

/// Writes `½ L⁻ᵀ (Φ + Φᵀ) L⁻¹` into a zero matrix, given the factor and its lower triangular gradient.
fn adjoint<T: Real>(l: MatRef<'_, T>, grad: MatRef<'_, T>, mut full: MatMut<'_, T>) {
    product::add_lower(full.as_mut(), l.transpose(), grad, T::of(0.5));
    congruence::whiten_transposed(l, full);
}
