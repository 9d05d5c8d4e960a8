//! What projected data explain: the small matrices of computation-aware bounds in one operation with its adjoint, where
//! a graph of solves would take six times the operations.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use super::dense::{product, transpose, view, view_mut};
use super::factor::Factor;
use super::host::{HostOp, Saved, apply4};
use super::real::{Real, dot, into_vec, with_real};
use super::shape;
use crate::error::Result;

/// For `P = M⁻¹` and `v = P s`: `[vᵀB v − 2 bᵀv − tr(P B), vᵀA v − tr(P A) + log|M|]`.
///
/// `m`, `a` and `b` are `[n, n]` and symmetric, `m` positive definite, `columns` is `[n, 2]` with the columns b and s.
/// With M = SᵀK̂S, A = SᵀKS, B = (KS)ᵀ(KS), b = (KS)ᵀy and s = Sᵀy these are the parts of the evidence lower bound of
/// Wenger et al. (2024), eq. 11. About 4n³ operations together with the adjoint.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape), or [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite) by the
/// policy of [`jitter`](super::jitter).
pub fn explained(m: Tensor<2>, a: Tensor<2>, b: Tensor<2>, columns: Tensor<2>) -> Result<Tensor<1>> {
    apply4(Explained, m, a, b, columns)
}

#[derive(Debug)]
struct Explained;

/// The inverse P, A, B, v, and b as it came.
#[derive(Clone)]
struct Kept<T> {
    inverse: Vec<T>,
    a: Vec<T>,
    b: Vec<T>,
    v: Vec<T>,
    column: Vec<T>,
}

/// `A v` for a row-major `[n, n]`.
fn times<T: Real>(matrix: &[T], v: &[T]) -> Vec<T> {
    matrix.chunks_exact(v.len()).map(|row| T::of(dot(row, v))).collect()
}

impl HostOp<4> for Explained {
    fn forward(&self, [m, a, b, columns]: [TensorData; 4]) -> Result<(TensorData, Saved)> {
        let n = shape::square("M", &m)?;
        shape::expect("A", &a, &[n, n])?;
        shape::expect("B", &b, &[n, n])?;
        shape::expect("columns", &columns, &[n, 2])?;
        with_real!(m.dtype(), T => {
            let factor = Factor::<T>::new(into_vec(m)?, "SᵀK̂S")?;
            let (a, b, columns) = (into_vec::<T>(a)?, into_vec::<T>(b)?, into_vec::<T>(columns)?);
            let [column, mut v] = [0, 1].map(|c| columns.iter().skip(c).step_by(2).copied().collect::<Vec<T>>());
            factor.solve(&mut v)?;
            let log_det = factor.log_det();
            let inverse = factor.inverse();
            let of_b = dot(&v, &times(&b, &v)) - 2.0 * dot(&column, &v) - dot(&inverse, &b);
            let of_a = dot(&v, &times(&a, &v)) - dot(&inverse, &a) + log_det;
            let values = vec![T::of(of_b), T::of(of_a)];
            Ok((TensorData::new(values, [2]), Arc::new(Kept { inverse, a, b, v, column }) as Saved))
        })
    }

    /// With C = x̄B + ȳA and w = P(2Cv − 2x̄b): M̄ = P C P + ȳP − ½(wvᵀ + vwᵀ), Ā = ȳ(vvᵀ − P), B̄ = x̄(vvᵀ − P), b̄ =
    /// −2x̄v, s̄ = w.
    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 4]) -> Result<[Option<TensorData>; 4]> {
        with_real!(grad.dtype(), T => {
            let Kept { inverse, a, b, v, column } = shape::take::<Kept<T>>(saved)?;
            let grad = into_vec::<T>(grad)?;
            let (x, y, n, two) = (grad[0], grad[1], v.len(), T::of(2.0));
            let mixed: Vec<T> = a.iter().zip(&b).map(|(&a, &b)| x * b + y * a).collect();
            let pull: Vec<T> = times(&mixed, &v).into_iter().zip(&column).map(|(c, &b)| two * (c - x * b)).collect();
            let w = times(&inverse, &pull);
            let mut half = a;
            product::set(view_mut(&mut half, n), view(&inverse, n), view(&mixed, n), T::of(1.0));
            let mut in_m = vec![T::of(0.0); n * n];
            product::add_lower(view_mut(&mut in_m, n), view(&half, n), view(&inverse, n), T::of(1.0));
            transpose::mirror(view_mut(&mut in_m, n));
            let (mut in_a, mut in_b) = (half, b);
            let rows = in_m.chunks_exact_mut(n).zip(in_a.chunks_exact_mut(n)).zip(in_b.chunks_exact_mut(n));
            for (i, (((m, a), b), p)) in rows.zip(inverse.chunks_exact(n)).enumerate() {
                let (vi, wi) = (v[i], w[i]);
                for j in 0..n {
                    m[j] += y * p[j] - T::of(0.5) * (wi * v[j] + vi * w[j]);
                    let slope = vi * v[j] - p[j];
                    (a[j], b[j]) = (y * slope, x * slope);
                }
            }
            let columns: Vec<T> = v.iter().zip(&w).flat_map(|(&v, &w)| [T::of(-2.0) * x * v, w]).collect();
            let matrix = |values: Vec<T>| Some(TensorData::new(values, [n, n]));
            Ok([matrix(in_m), matrix(in_a), matrix(in_b), Some(TensorData::new(columns, [n, 2]))])
        })
    }
}
