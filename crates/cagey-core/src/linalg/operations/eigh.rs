//! The eigendecomposition of a symmetric matrix.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use faer::Side;

use crate::error::{Error, Result};
use crate::linalg::dense::{self, product, registers, transpose};
use crate::linalg::host::{HostOp, Vjp, apply1};
use crate::linalg::real::{Real, into_vec, with_real};
use crate::linalg::shape;

/// Eigenvalues, ascending, `[n]`, and orthonormal eigenvectors in the columns of `[n, n]`: `k = V diag(λ) Vᵀ`.
///
/// The entry of largest magnitude in each vector is positive. The adjoint is `V (diag(λ̄) + sym(F ∘ Vᵀ V̄)) Vᵀ` with
/// `Fᵢⱼ = 1/(λⱼ − λᵢ)`. If a gap is below `n ε max|λ|`, the vectors are determined only up to a rotation among
/// themselves, and `Fᵢⱼ` is zero. That is exact for functions of the eigenvalues alone that treat equal eigenvalues
/// alike (a trace, a determinant). A function of the vectors loses its derivative in rotations within the eigenspace,
/// which has no limit in general. `name` is the matrix in the error. Only the lower triangle is read.
///
/// # Errors
/// [`Error::Shape`], or [`Error::NotFinite`] if the matrix is not finite or the iteration does not converge.
pub fn eigh(k: Tensor<2>, name: &str) -> Result<(Tensor<1>, Tensor<2>)> {
    let n = k.dims()[0];
    let packed: Tensor<2> = apply1(Eigh { name: name.into() }, k)?;
    Ok((packed.clone().narrow(0, 0, 1).reshape([n]), packed.narrow(0, 1, n)))
}

/// The values are in the first row of `[n + 1, n]`, the vectors below.
struct Eigh {
    name: String,
}

impl HostOp<1> for Eigh {
    fn forward(self: Arc<Self>, [k]: [TensorData; 1]) -> Result<(TensorData, Vjp<1>)> {
        let n = shape::square(&self.name, &k)?;
        with_real!(k.dtype(), T => {
            let k = into_vec::<T>(k)?;
            if !k.iter().all(|x| x.is_finite()) {
                return Err(Error::NotFinite(format!("{} [{n}, {n}]", self.name)));
            }
            let eigen = dense::view(&k, n)
                .self_adjoint_eigen(Side::Lower)
                .map_err(|_| Error::NotFinite(format!("the eigendecomposition of {} [{n}, {n}]", self.name)))?;
            registers::clear();
            let mut packed = Vec::with_capacity((n + 1) * n);
            packed.extend(eigen.S().column_vector().iter().copied());
            let signs: Vec<T> = eigen.U().col_iter().map(|v| sign(v.iter().copied())).collect();
            for row in eigen.U().row_iter() {
                packed.extend(row.iter().zip(&signs).map(|(&x, &s)| x * s));
            }
            let (output, packed) = shape::share(TensorData::new(packed, [n + 1, n]));
            let vjp = move |grad, _needs: [bool; 1]| {
                let ((values, vectors), grad) = (shape::numbers::<T>(&packed)?.split_at(n), into_vec::<T>(grad)?);
                let full = adjoint(values, dense::view(vectors, n), &grad[..n], dense::view(&grad[n..], n));
                Ok([Some(TensorData::new(full, [n, n]))])
            };
            Ok((output, Box::new(vjp)))
        })
    }
}

/// The sign of the entry of largest magnitude.
fn sign<T: Real>(entries: impl Iterator<Item = T>) -> T {
    let largest =
        entries.fold(T::of(0.0), |m, x| if num_traits::Float::abs(x) > num_traits::Float::abs(m) { x } else { m });
    if largest < T::of(0.0) { T::of(-1.0) } else { T::of(1.0) }
}

fn adjoint<T: Real>(values: &[T], v: faer::MatRef<'_, T>, value_grad: &[T], v_grad: faer::MatRef<'_, T>) -> Vec<T> {
    let n = values.len();
    let [mut inner, mut work] = [vec![T::of(0.0); n * n], vec![T::of(0.0); n * n]];
    product::set(dense::view_mut(&mut work, n), v.transpose(), v_grad, T::of(1.0));
    let largest = values.iter().fold(T::of(0.0), |m, &x| num_traits::Float::max(m, num_traits::Float::abs(x)));
    let smallest_gap = T::of(n as f64) * <T as num_traits::Float>::epsilon() * largest;
    for i in 0..n {
        for j in 0..i {
            let gap = values[j] - values[i];
            if num_traits::Float::abs(gap) > smallest_gap {
                // Fⱼᵢ = −Fᵢⱼ, so the symmetric part is one difference.
                inner[i * n + j] = T::of(0.5) * (work[i * n + j] - work[j * n + i]) / gap;
            }
        }
        inner[i * n + i] = value_grad[i];
    }
    transpose::mirror(dense::view_mut(&mut inner, n));
    product::set(dense::view_mut(&mut work, n), v, dense::view(&inner, n), T::of(1.0));
    inner.fill(T::of(0.0));
    product::add_lower(dense::view_mut(&mut inner, n), dense::view(&work, n), v.transpose(), T::of(1.0));
    transpose::mirror(dense::view_mut(&mut inner, n));
    inner
}
