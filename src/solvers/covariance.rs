//! The covariance matrix of a kernel as an operator: its products, diagonal and columns, never the matrix.

use burn::tensor::{DType, Int, Tensor, TensorData};

use super::LinearOperator;
use super::blocks;
use super::pivoted_cholesky::Columns;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::products;
use crate::scope::{Scope, to_f64};

/// `K̂ = k(X, X) + diag(noise)`, white noise of the kernel included.
///
/// Its [`Columns`] are those of the *smooth* part of `k(X, X)`: without white terms, which no low rank can hold.
#[derive(Debug)]
pub struct Covariance<'a> {
    kernel: &'a Kernel,
    scope: &'a Scope,
    x: Tensor<2>,
    noise: Vec<f64>,
}

impl<'a> Covariance<'a> {
    /// The covariance of observations at inputs `x [n, d]` with noise variances `[n]`, in a scope without gradients.
    pub fn new(kernel: &'a Kernel, scope: &'a Scope, x: Tensor<2>, noise: Vec<f64>) -> Self {
        Self { kernel, scope, x, noise }
    }

    /// The white part of `k(X, X)`: the diagonal beyond the limit at coincident inputs. Exact zeros where there is
    /// none.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn nugget(&self) -> Result<Vec<f64>> {
        let whole = to_f64(self.kernel.diag(self.scope, &self.x)?)?;
        let white = to_f64(nugget(self.kernel, self.scope, &self.x)?)?;
        let rounding = 16.0 * self.epsilon();
        Ok(white.into_iter().zip(whole).map(|(w, k)| if w > rounding * k { w } else { 0.0 }).collect())
    }
}

impl LinearOperator for Covariance<'_> {
    fn order(&self) -> usize {
        self.noise.len()
    }

    fn apply(&self, v: &[f64]) -> Result<Vec<f64>> {
        let t = blocks::columns("block of vectors", v, self.order())?;
        let block = self.scope.matrix(v, self.order(), t);
        let mut product = to_f64(products::Covariance::new(self.kernel, self.scope, &self.x).times(&block)?)?;
        let rows = product.chunks_exact_mut(t.max(1)).zip(v.chunks_exact(t.max(1)));
        for ((out, v), noise) in rows.zip(&self.noise) {
            out.iter_mut().zip(v).for_each(|(out, v)| *out += noise * v);
        }
        Ok(product)
    }

    fn epsilon(&self) -> f64 {
        if self.scope.dtype() == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON }
    }
}

impl Columns for Covariance<'_> {
    fn diagonal(&self) -> Result<Vec<f64>> {
        to_f64(smooth_diagonal(self.kernel, self.scope, &self.x)?)
    }

    fn column(&self, j: usize) -> Result<Vec<f64>> {
        let row = self.x.clone().narrow(0, j, 1);
        to_f64(products::Cross::new(self.kernel, self.scope, &self.x, &row).matrix()?)
    }

    fn rounding(&self) -> f64 {
        self.epsilon()
    }
}

/// The white part of the diagonal of `k(X, X)`, `[n]`, differentiable.
pub(crate) fn nugget(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Tensor<1>> {
    Ok(kernel.diag(scope, x)? - smooth_diagonal(kernel, scope, x)?)
}

/// Rows whose mutual covariances are computed for the sake of their diagonal.
const ROWS: usize = 32;

/// `k(x_i, x_i)` as a covariance of two different observations at one place.
fn smooth_diagonal(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Tensor<1>> {
    let n = x.dims()[0];
    let pieces = (0..n).step_by(ROWS).map(|first| {
        let m = ROWS.min(n - first);
        let rows = x.clone().narrow(0, first, m);
        let entries: Vec<i64> = (0..m as i64).map(|i| i * (m as i64 + 1)).collect();
        let entries = Tensor::<1, Int>::from_data(TensorData::new(entries, [m]), scope.device());
        Ok(products::Cross::new(kernel, scope, &rows, &rows).matrix()?.reshape([m * m]).select(0, entries))
    });
    Ok(Tensor::cat(pieces.collect::<Result<_>>()?, 0))
}
