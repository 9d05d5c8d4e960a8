//! The thin QR factorisation.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use super::dense::{self, product, registers, solve, transpose};
use super::host::{HostOp, Saved, apply1};
use super::real::{Real, into_vec, with_real};
use super::shape;
use crate::error::{Error, Result};

/// `A = Q R` of an `a` of full column rank, `[n, k]`, `n ≥ k`: `Q`, `[n, k]`, has orthonormal columns, and `R`, `[k, k]`, is upper
/// triangular with a positive diagonal.
///
/// The adjoint is `(Q̄ + Q copyltu(M)) R⁻ᵀ`, `M = R R̄ᵀ − Q̄ᵀ Q`, where `copyltu` mirrors the lower triangle (Seeger et al. 2017,
/// *Auto-differentiating linear algebra*, sec. 4.1).
///
/// # Errors
/// [`Error::Shape`]; [`Error::NotFinite`] for NaN or infinite entries; [`Error::Data`] naming the first column that depends on
/// the earlier ones to working precision.
pub fn qr(a: Tensor<2>) -> Result<(Tensor<2>, Tensor<2>)> {
    let [n, k] = a.dims();
    let packed: Tensor<2> = apply1(Qr, a)?;
    Ok((packed.clone().narrow(0, 0, n), packed.narrow(0, n, k)))
}

/// `Q` above `R`, `[n + k, k]`.
#[derive(Debug)]
struct Qr;

impl HostOp<1> for Qr {
    fn forward(&self, [a]: [TensorData; 1]) -> Result<(TensorData, Saved)> {
        let (n, k) = shape::matrices("A", &a)?;
        if n < k {
            return Err(Error::shape("A = Q R", "at least as many rows as columns", format!("[{n}, {k}]")));
        }
        with_real!(a.dtype(), T => {
            let a = into_vec::<T>(a)?;
            if !a.iter().all(|x| x.is_finite()) {
                return Err(Error::NotFinite(format!("A [{n}, {k}]")));
            }
            let factors = dense::view(&a, k).qr();
            let (q, r) = (factors.compute_thin_Q(), factors.thin_R());
            registers::clear();
            let largest = (0..k).map(|j| r[(j, j)].f64().abs()).fold(0.0, f64::max);
            let smallest = largest * n as f64 * <T as num_traits::Float>::epsilon().f64();
            if let Some(j) = (0..k).find(|&j| r[(j, j)].f64().abs() <= smallest) {
                return Err(Error::Data(format!("A [{n}, {k}] has no full column rank: column {j} depends on those before it")));
            }
            let sign: Vec<T> = (0..k).map(|j| T::of(r[(j, j)].f64().signum())).collect();
            let mut packed = Vec::with_capacity((n + k) * k);
            for row in q.row_iter() {
                packed.extend(row.iter().zip(&sign).map(|(&x, &s)| x * s));
            }
            for (i, row) in r.row_iter().enumerate() {
                packed.extend(row.iter().enumerate().map(|(j, &x)| if j < i { T::of(0.0) } else { x * sign[i] }));
            }
            let (output, saved) = shape::share(TensorData::new(packed, [n + k, k]));
            Ok((output, Arc::new(saved) as Saved))
        })
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 1]) -> Result<[Option<TensorData>; 1]> {
        let (rows, k) = shape::matrices("gradient of Q and R", &grad)?;
        with_real!(grad.dtype(), T => {
            let (packed, grad) = (shape::take::<TensorData>(saved)?, into_vec::<T>(grad)?);
            let full = adjoint(shape::numbers::<T>(&packed)?, grad, rows - k, k);
            Ok([Some(TensorData::new(full, [rows - k, k]))])
        })
    }
}

fn adjoint<T: Real>(packed: &[T], mut grad: Vec<T>, n: usize, k: usize) -> Vec<T> {
    let (q, r) = packed.split_at(n * k);
    let (q, r) = (dense::view(q, k), dense::view(r, k));
    let mut r_grad = grad.split_off(n * k);
    for (i, row) in r_grad.chunks_exact_mut(k.max(1)).enumerate() {
        row[..i].fill(T::of(0.0));
    }
    let mut buffer = vec![T::of(0.0); k * k];
    let mut m = dense::view_mut(&mut buffer, k);
    product::set(m.as_mut(), r, dense::view(&r_grad, k).transpose(), T::of(1.0));
    product::add(m.as_mut(), dense::view(&grad, k).transpose(), q, T::of(-1.0));
    transpose::mirror(m.as_mut());
    let mut a_grad = dense::view_mut(&mut grad, k);
    product::add(a_grad.as_mut(), q, m.as_ref(), T::of(1.0));
    solve::upper(r, a_grad.transpose_mut());
    grad
}
