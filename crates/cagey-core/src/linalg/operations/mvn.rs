//! The negative log density of a multivariate normal, fused with its adjoint.

use std::f64::consts::TAU;
use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::error::Result;
use crate::linalg::factor::Factor;
use crate::linalg::host::{Anywhere, HostOp, Vjp, apply3};
use crate::linalg::jitter::check_rounding;
use crate::linalg::real::{Real, into_vec, vector, with_real};
use crate::linalg::shape;
use crate::threads;

/// `½ (rᵀ K̂⁻¹ r + log|K̂| + n log 2π)` with `K̂ = K + diag(noise)`: the negative log density of a residual
/// `r ~ N(0, K̂)`.
///
/// `k` is `[n, n]` symmetric, `noise` `[n]` (variances), `r` `[n]`; the result is `[1]`, in nats. With `α = K̂⁻¹ r`,
/// the adjoint of `K` is `½ (K̂⁻¹ − α αᵀ)` (Rasmussen & Williams 2006, eq. 5.9), that of the noise is its diagonal, and
/// that of `r` is `α`. Forward and adjoint take `n³` operations together, in one `n × n` buffer and a quarter of
/// another.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape), or [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite) by the
/// policy of [`jitter`](crate::linalg::jitter).
pub fn mvn_nll(k: Tensor<2>, noise: Tensor<1>, r: Tensor<1>) -> Result<Tensor<1>> {
    apply3(Anywhere::new(MvnNll), k, noise, r)
}

pub(crate) struct MvnNll;

impl HostOp<3> for MvnNll {
    fn forward(self: Arc<Self>, inputs: [TensorData; 3]) -> Result<(TensorData, Vjp<3>)> {
        with_real!(inputs[0].dtype(), T => {
            let (factor, r, alpha) = posterior::<T>(inputs)?;
            let quadratic: f64 = r.iter().zip(&alpha).map(|(&r, &a)| r.f64() * a.f64()).sum();
            let value = 0.5 * (quadratic + factor.log_det() + r.len() as f64 * TAU.ln());
            let vjp = move |grad, needs: [bool; 3]| {
                let (grad, n) = (into_vec::<T>(grad)?.into_iter().sum::<T>(), alpha.len());
                let [k, noise] = shape::with_diagonal([needs[0], needs[1]], n, || {
                    let half = grad * T::of(0.5);
                    let mut full = factor.inverse();
                    threads::for_each(full.par_chunks_mut(n).zip(&alpha), |(row, &a)| {
                        for (x, &b) in row.iter_mut().zip(&alpha) {
                            *x = half * (*x - a * b);
                        }
                    });
                    full
                });
                Ok([k, noise, needs[2].then(|| vector(alpha.iter().map(|&a| grad * a).collect::<Vec<T>>()))])
            };
            Ok((vector(vec![T::of(value)]), Box::new(vjp)))
        })
    }
}

/// The factor of `K + diag(noise)`, the residuals `r` `[n]` or `[n, c]`, and `α = (K + diag(noise))⁻¹ r`.
pub(in crate::linalg) fn posterior<T: Real>([k, noise, r]: [TensorData; 3]) -> Result<(Factor<T>, Vec<T>, Vec<T>)> {
    let n = shape::square("K", &k)?;
    shape::expect("noise", &noise, &[n])?;
    let columns = r.shape().get(1).copied();
    shape::expect("r", &r, &[n].into_iter().chain(columns).collect::<Vec<_>>())?;
    let (mut k, noise, r) = (into_vec::<T>(k)?, into_vec::<T>(noise)?, into_vec::<T>(r)?);
    let mean_diagonal = k.iter().step_by(n + 1).map(|k| k.f64()).sum::<f64>() / n as f64;
    check_rounding(n, mean_diagonal, noise.iter().fold(f64::INFINITY, |least, noise| least.min(noise.f64())));
    for (diagonal, &variance) in k.iter_mut().step_by(n + 1).zip(&noise) {
        *diagonal += variance;
    }
    let factor = Factor::new(k, "K + σ²I")?;
    let mut alpha = r.clone();
    factor.solve(&mut alpha)?;
    Ok((factor, r, alpha))
}
