//! Leave-one-out predictions, fused with their adjoints.

use std::f64::consts::TAU;
use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::mvn::posterior;
use crate::error::Result;
use crate::linalg::dense::{self, product, transpose};
use crate::linalg::host::{Anywhere, HostOp, Vjp, apply3};
use crate::linalg::real::{Real, into_vec, vector, with_real};
use crate::linalg::shape;
use crate::threads;

/// The negative log probability of every residual given all others, `Σᵢ ½ (log 2π σᵢ² + (rᵢ − μᵢ)² / σᵢ²)`.
///
/// With `A = (K + diag(noise))⁻¹` and `α = A r`: `σᵢ² = 1/Aᵢᵢ` and `rᵢ − μᵢ = αᵢ/Aᵢᵢ` (Rasmussen & Williams 2006, eqs
/// 5.10–5.12). `k` is `[n, n]` symmetric, `noise` `[n]` (variances), `r` `[n]`; the result is `[1]`, in nats. Let `v`
/// and `d` be the derivatives in `α` and `diag A`. Then `r̄ = A v`, `K̄ = −A diag(d) A − sym(A v αᵀ)`, and the gradient
/// in the noise is the diagonal of `K̄`. All together take `2n³` operations.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape), or [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite) by the
/// policy of [`jitter`](crate::linalg::jitter).
pub fn loo_nll(k: Tensor<2>, noise: Tensor<1>, r: Tensor<1>) -> Result<Tensor<1>> {
    apply3(Anywhere::new(LooNll), k, noise, r)
}

pub(in crate::linalg) struct LooNll;

impl HostOp<3> for LooNll {
    fn forward(self: Arc<Self>, inputs: [TensorData; 3]) -> Result<(TensorData, Vjp<3>)> {
        with_real!(inputs[0].dtype(), T => {
            let (factor, _, alpha) = posterior::<T>(inputs)?;
            let n = alpha.len();
            let mut a = factor.inverse();
            let value: f64 = a
                .iter()
                .step_by(n + 1)
                .zip(&alpha)
                .map(|(&a, &alpha)| 0.5 * (TAU.ln() - a.f64().ln() + alpha.f64().powi(2) / a.f64()))
                .sum();
            let vjp = move |grad, needs: [bool; 3]| {
                let grad = into_vec::<T>(grad)?.into_iter().sum::<T>();
                let diagonal: Vec<T> = a.iter().step_by(n + 1).copied().collect();
                let v: Vec<T> = alpha.iter().zip(&diagonal).map(|(&alpha, &a)| grad * alpha / a).collect();
                let mut av = vec![T::of(0.0); n];
                product::set(dense::view_mut(&mut av, 1), dense::view(&a, n), dense::view(&v, 1), T::of(1.0));
                let full = || matrix_adjoint(&mut a, &diagonal, &alpha, &av, grad);
                let [k, noise] = shape::with_diagonal([needs[0], needs[1]], n, full);
                Ok([k, noise, needs[2].then(|| vector(av))])
            };
            Ok((vector(vec![T::of(value)]), Box::new(vjp)))
        })
    }
}

/// The mean of every residual given all others, for several residuals `r [n, c]` with one covariance: `[n, c]`.
///
/// With `A` and `α` as in [`loo_nll`], `μᵢ = rᵢ − αᵢ/Aᵢᵢ`. For a gradient `μ̄`, let `v = −μ̄ᵢ/Aᵢᵢ` and `d` be the
/// derivative in `diag A`, the sum of `μ̄ᵢ αᵢ/Aᵢᵢ²` over columns. Then adjoints are as there, and `r̄ = μ̄ + A v`.
///
/// # Errors
/// As [`loo_nll`].
pub fn loo_means(k: Tensor<2>, noise: Tensor<1>, r: Tensor<2>) -> Result<Tensor<2>> {
    apply3(LooMeans, k, noise, r)
}

struct LooMeans;

impl HostOp<3> for LooMeans {
    fn forward(self: Arc<Self>, inputs: [TensorData; 3]) -> Result<(TensorData, Vjp<3>)> {
        with_real!(inputs[0].dtype(), T => {
            let (factor, r, alpha) = posterior::<T>(inputs)?;
            let n = factor.order();
            let columns = r.len() / n;
            let a = factor.inverse();
            let diagonal: Vec<T> = a.iter().step_by(n + 1).copied().collect();
            let rows = alpha.chunks_exact(columns).zip(&diagonal);
            let off = rows.flat_map(|(alpha, &a)| alpha.iter().map(move |&alpha| alpha / a));
            let means: Vec<T> = r.iter().zip(off).map(|(&r, off)| r - off).collect();
            let vjp = move |grad, needs: [bool; 3]| {
                let grad = into_vec::<T>(grad)?;
                let at = || grad.chunks_exact(columns).zip(&diagonal);
                let v: Vec<T> = at().flat_map(|(grad, &a)| grad.iter().map(move |&grad| -grad / a)).collect();
                let mut av = vec![T::of(0.0); n * columns];
                let (into, inverse) = (dense::view_mut(&mut av, columns), dense::view(&a, n));
                product::set(into, inverse, dense::view(&v, columns), T::of(1.0));
                let [k, noise] = shape::with_diagonal([needs[0], needs[1]], n, || {
                    let in_diagonal = |((grad, &a), alpha): ((&[T], &T), &[T])| {
                        grad.iter().zip(alpha).fold(T::of(0.0), |sum, (&grad, &alpha)| sum + grad * alpha / (a * a))
                    };
                    let d: Vec<T> = at().zip(alpha.chunks_exact(columns)).map(in_diagonal).collect();
                    let mut scaled = a.clone();
                    let times = |(row, &d): (&mut [T], &T)| row.iter_mut().for_each(|x| *x *= d);
                    threads::for_each(scaled.par_chunks_mut(n).zip(&d), times);
                    let mut full = vec![T::of(0.0); n * n];
                    let terms = [
                        (dense::view(&a, n), dense::view(&scaled, n), T::of(-1.0)),
                        (dense::view(&av, columns), dense::view(&alpha, columns).transpose(), T::of(-0.5)),
                        (dense::view(&alpha, columns), dense::view(&av, columns).transpose(), T::of(-0.5)),
                    ];
                    for (left, right, factor) in terms {
                        product::add_lower(dense::view_mut(&mut full, n), left, right, factor);
                    }
                    transpose::mirror(dense::view_mut(&mut full, n));
                    full
                });
                let r = || grad.iter().zip(&av).map(|(&grad, &av)| grad + av).collect::<Vec<T>>();
                Ok([k, noise, needs[2].then(|| TensorData::new(r(), [n, columns]))])
            };
            Ok((TensorData::new(means, [n, columns]), Box::new(vjp)))
        })
    }
}

/// `−ḡ A diag(d) A − sym(A v αᵀ)`. Every `dᵢ` is negative, so with `B = A diag(−d)^½` the first term is `ḡ B Bᵀ`.
fn matrix_adjoint<T: Real>(a: &mut [T], diagonal: &[T], alpha: &[T], av: &[T], grad: T) -> Vec<T> {
    let n = alpha.len();
    let half = T::of(0.5);
    let root: Vec<T> =
        diagonal.iter().zip(alpha).map(|(&a, &alpha)| (half * (T::of(1.0) + alpha * alpha / a) / a).sqrt()).collect();
    threads::for_each(a.par_chunks_mut(n), |row| row.iter_mut().zip(&root).for_each(|(x, &s)| *x *= s));
    let mut full = vec![T::of(0.0); n * n];
    let b = dense::view(a, n);
    product::add_lower(dense::view_mut(&mut full, n), b, b.transpose(), grad);
    transpose::mirror(dense::view_mut(&mut full, n));
    threads::for_each(full.par_chunks_mut(n).enumerate(), |(i, row)| {
        for (j, x) in row.iter_mut().enumerate() {
            *x -= half * (av[i] * alpha[j] + alpha[i] * av[j]);
        }
    });
    full
}
