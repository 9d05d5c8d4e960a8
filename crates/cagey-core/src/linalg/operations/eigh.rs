//! The eigendecomposition of a symmetric matrix.

use std::sync::Arc;

use burn::tensor::{DType, Tensor, TensorData};

use crate::error::{Error, Result};
use crate::linalg::dense::decompositions::Eigen;
use crate::linalg::dense::{product, transpose, view, view_mut};
use crate::linalg::host::{HostOp, Vjp, apply1};
use crate::linalg::real::{narrowed, widened};
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
        let (n, dtype) = (shape::square(&self.name, &k)?, k.dtype());
        let k = widened(k)?;
        if !k.iter().all(|x| x.is_finite()) {
            return Err(Error::NotFinite(format!("{} [{n}, {n}]", self.name)));
        }
        let Eigen { values, mut vectors } = Eigen::new(&k, n, &self.name)?;
        for vector in vectors.chunks_exact_mut(n.max(1)) {
            let sign = sign(vector);
            vector.iter_mut().for_each(|x| *x *= sign);
        }
        let entries = (0..n * n).map(|e| vectors[e % n * n + e / n]);
        let output = narrowed(values.iter().copied().chain(entries).collect(), &[n + 1, n], dtype);
        let epsilon = if dtype == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
        let vjp = move |grad, _needs: [bool; 1]| {
            let grad = widened(grad)?;
            let (value_grad, vector_grad) = grad.split_at(n);
            Ok([Some(narrowed(adjoint(&values, &vectors, value_grad, vector_grad, epsilon), &[n, n], dtype))])
        };
        Ok((output, Box::new(vjp)))
    }
}

/// The sign of the entry of largest magnitude.
fn sign(entries: &[f64]) -> f64 {
    entries.iter().fold(0.0, |m: f64, x| if x.abs() > m.abs() { *x } else { m }).signum()
}

/// The adjoint for vectors in rows.
fn adjoint(values: &[f64], vectors: &[f64], value_grad: &[f64], vector_grad: &[f64], epsilon: f64) -> Vec<f64> {
    let n = values.len();
    let [mut inner, mut work] = [vec![0.0; n * n], vec![0.0; n * n]];
    let v = view(vectors, n).transpose();
    product::set(view_mut(&mut work, n), v.transpose(), view(vector_grad, n), 1.0);
    let smallest_gap = n as f64 * epsilon * values.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    for i in 0..n {
        for j in 0..i {
            let gap = values[j] - values[i];
            if gap.abs() > smallest_gap {
                // Fⱼᵢ = −Fᵢⱼ, so the symmetric part is one difference.
                inner[i * n + j] = 0.5 * (work[i * n + j] - work[j * n + i]) / gap;
            }
        }
        inner[i * n + i] = value_grad[i];
    }
    transpose::mirror(view_mut(&mut inner, n));
    product::set(view_mut(&mut work, n), v, view(&inner, n), 1.0);
    inner.fill(0.0);
    product::add_lower(view_mut(&mut inner, n), view(&work, n), v.transpose(), 1.0);
    transpose::mirror(view_mut(&mut inner, n));
    inner
}
