//! The covariance matrix of a kernel as an operator: its products, diagonal and columns, but not the whole matrix.

use burn::tensor::Tensor;

use super::LinearOperator;
use super::blocks;
use super::itergp::epsilon;
use super::pivoted_cholesky::Columns;
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::products;
use crate::scope::{Scope, to_f64};

/// `K̂ = k(X, X) + diag(noise)`, including white noise of the kernel.
///
/// Its [`Columns`] are those of the *smooth* part of `k(X, X)`: without white terms, which no low-rank matrix can
/// represent.
#[derive(Debug, Clone)]
pub struct NoisyCovariance<'a> {
    kernel: &'a Kernel,
    scope: &'a Scope,
    x: Tensor<2>,
    noise: Tensor<2>,
}

impl<'a> NoisyCovariance<'a> {
    /// The covariance of observations at inputs `x [n, d]` with noise variances `[n]`.
    ///
    /// # Errors
    /// [`Error::Shape`] when the rows do not match.
    pub fn new(kernel: &'a Kernel, scope: &'a Scope, x: Tensor<2>, noise: Tensor<1>) -> Result<Self> {
        products::same_rows("noise variances", noise.dims()[0], x.dims()[0])?;
        Ok(Self { kernel, scope, x, noise: noise.unsqueeze_dim(1) })
    }

    /// The scope of the evaluation.
    pub fn scope(&self) -> &'a Scope {
        self.scope
    }

    /// `k(X, X)`.
    pub fn covariance(&self) -> products::Covariance<'_> {
        products::Covariance::new(self.kernel, self.scope, &self.x)
    }

    /// The covariances `[n, t]` with the latent function at inputs `[t, d]`.
    ///
    /// # Errors
    /// [`Error::Shape`] for other columns, and what the kernel reports.
    pub fn cross(&self, inputs: &Tensor<2>) -> Result<Tensor<2>> {
        let (want, got) = (self.x.dims()[1], inputs.dims()[1]);
        if want != got {
            return Err(Error::shape("inputs", format!("{want} columns"), got.to_string()));
        }
        products::Cross::new(self.kernel, self.scope, &self.x, inputs).matrix()
    }

    /// The noise variances `[n, 1]`.
    pub fn noise(&self) -> &Tensor<2> {
        &self.noise
    }

    /// The white part of `k(X, X)`: the part of the diagonal above the limit at coincident inputs. Exactly zero if
    /// there is none.
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

impl LinearOperator for NoisyCovariance<'_> {
    fn order(&self) -> usize {
        self.x.dims()[0]
    }

    fn apply(&self, v: &[f64]) -> Result<Vec<f64>> {
        let t = blocks::columns("block of vectors", v, self.order())?;
        let block = self.scope.matrix(v, self.order(), t);
        let mut product = to_f64(self.covariance().times(&block)?)?;
        let noise = to_f64(self.noise.clone())?;
        let rows = product.chunks_exact_mut(t.max(1)).zip(v.chunks_exact(t.max(1)));
        for ((out, v), noise) in rows.zip(&noise) {
            out.iter_mut().zip(v).for_each(|(out, v)| *out += noise * v);
        }
        Ok(product)
    }

    fn epsilon(&self) -> f64 {
        epsilon(self.scope)
    }
}

impl Columns for NoisyCovariance<'_> {
    fn diagonal(&self) -> Result<Vec<f64>> {
        to_f64(smooth_diagonal(self.kernel, self.scope, &self.x)?)
    }

    fn column(&self, j: usize) -> Result<Vec<f64>> {
        to_f64(self.cross(&self.x.clone().narrow(0, j, 1))?)
    }

    fn rounding(&self) -> f64 {
        self.epsilon()
    }
}

/// The white part of the diagonal of `k(X, X)`, `[n]`, differentiable.
#[doc(hidden)]
pub fn nugget(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Tensor<1>> {
    Ok(kernel.diag(scope, x)? - smooth_diagonal(kernel, scope, x)?)
}

/// Rows whose mutual covariances are computed at once to get their diagonal.
const ROWS: usize = 32;

/// `k(x_i, x_i)` as the covariance of two different observations at the same input.
fn smooth_diagonal(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Tensor<1>> {
    let n = x.dims()[0];
    let pieces = (0..n).step_by(ROWS).map(|first| {
        let m = ROWS.min(n - first);
        let rows = x.clone().narrow(0, first, m);
        let entries = scope.indices(&(0..m).map(|i| i * (m + 1)).collect::<Vec<_>>());
        Ok(products::Cross::new(kernel, scope, &rows, &rows).matrix()?.reshape([m * m]).select(0, entries))
    });
    Ok(Tensor::cat(pieces.collect::<Result<_>>()?, 0))
}
