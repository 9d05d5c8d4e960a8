//! Covariances in coordinates in which a prior is white, fused with the adjoint.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::error::Result;
use crate::linalg::dense::{congruence, product, solve, view, view_mut};
use crate::linalg::factor::Factor;
use crate::linalg::host::{HostOp, Vjp, apply2};
use crate::linalg::real::{Real, into_vec, with_real};
use crate::linalg::shape;
use crate::threads;

/// `A = L⁻¹ B` with `k = L Lᵀ`, for `k` `[m, m]` and `b` `[m, t]`: a Cholesky factorisation and a triangular solve, for
/// a factor that nothing else needs.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape), or [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite) by the
/// policy of [`jitter`](crate::linalg::jitter) with `name` for the matrix.
pub fn whiten(k: Tensor<2>, b: Tensor<2>, name: &str) -> Result<Tensor<2>> {
    // On a GPU this is two operations, because the factorisation alone may be on the host.
    #[cfg(feature = "gpu")]
    if !crate::device::is_host(&k.device()) {
        return crate::linalg::solve_lower(crate::linalg::cholesky(k, name)?, b);
    }
    apply2(Whiten { name: name.into() }, k, b)
}

/// The adjoint of A = L⁻¹ B in K = L Lᵀ `[m, m]` and in B, for blocks of columns of A `[m, t]`; B̄ overwrites Ā. It is
/// `B̄ = L⁻ᵀĀ` and `K̄ = −½ L⁻ᵀ(Φ + Φᵀ)L⁻¹`, where Φ is the lower triangle of `Ā Aᵀ` with its diagonal halved. In the
/// adjoint of the factorisation (Murray 2016, eq. 10), `Lᵀ L̄ = −Lᵀ tril(L⁻ᵀĀAᵀ)` has this lower triangle, so L̄ is
/// never computed.
///
/// Passes both on at once: `in_b` gets each block on the thread that has it in its cache.
pub(crate) fn adjoint<T: Real, K: Send, B: Send>(
    lower: &[T],
    blocks: Vec<(&[T], Vec<T>)>,
    in_k: impl FnOnce(Vec<T>) -> K + Send,
    in_b: impl Fn(usize, Vec<T>) -> B + Sync,
) -> (K, Vec<B>) {
    let m = lower.len().isqrt();
    let columns = |block: &[T]| block.len() / m;
    let lower = view(lower, m);
    let mut k = vec![T::of(0.0); m * m];
    let terms: Vec<_> =
        blocks.iter().map(|(a, grad)| (view(grad, columns(a)), view(a, columns(a)).transpose())).collect();
    // The lower triangle is that of Φ + Φᵀ with its whole diagonal.
    product::add_all_lower(view_mut(&mut k, m), &terms, T::of(-0.5));
    // In parallel, so that the short steps of one, which do not keep the threads busy, run beside the products of the
    // other.
    threads::join(
        || {
            congruence::whiten_transposed(lower, view_mut(&mut k, m));
            in_k(k)
        },
        || {
            threads::map(blocks.into_par_iter().enumerate(), |(index, (a, mut grad))| {
                solve::upper(lower.transpose(), view_mut(&mut grad, columns(a)));
                in_b(index, grad)
            })
        },
    )
}

struct Whiten {
    name: String,
}

impl HostOp<2> for Whiten {
    fn forward(self: Arc<Self>, [k, b]: [TensorData; 2]) -> Result<(TensorData, Vjp<2>)> {
        let (m, t) = (shape::square(&self.name, &k)?, shape::matrices("B", &b)?.1);
        shape::expect("B", &b, &[m, t])?;
        with_real!(k.dtype(), T => {
            let (lower, mut a) = (Factor::<T>::new(into_vec(k)?, &self.name)?.lower(), into_vec::<T>(b)?);
            solve::lower(view(&lower, m), view_mut(&mut a, t));
            let (output, a) = shape::share(TensorData::new(a, [m, t]));
            let vjp = move |grad, _needs: [bool; 2]| {
                let blocks = vec![(shape::numbers::<T>(&a)?, into_vec(grad)?)];
                let (in_k, mut in_b) = adjoint(&lower, blocks, |in_k| in_k, |_, in_b| in_b);
                let in_b = in_b.pop().unwrap_or_default();
                Ok([Some(TensorData::new(in_k, [m, m])), Some(TensorData::new(in_b, [m, t]))])
            };
            Ok((output, Box::new(vjp)))
        })
    }
}
