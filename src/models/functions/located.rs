//! The distribution of f at points as tensors that are differentiable in the points.

use std::fmt;
use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use super::Normal;
use crate::error::Result;
use crate::linalg::Factor;
use crate::linalg::dense::columns::column_squares;
use crate::linalg::dense::{product, transpose, view, view_mut};
use crate::linalg::host::{HostOp, Vjp, apply1};
use crate::linalg::real::{narrowed, widened};
use crate::models::posterior::VARIANCE_FLOOR;
use crate::models::prior::Prior;
use crate::scope::Scope;

/// KᵀK of a row-major matrix K with `t` columns: its diagonal `[t]`, or all of it `[t, t]`.
pub type Squares = fn(matrix: &[f64], t: usize) -> Vec<f64>;

/// The part kᵀPk of the covariance of f that the data explain. k holds the covariances of points with the points or
/// functions that the posterior depends on.
pub trait Explains: Send + Sync + 'static {
    /// Returns kᵀPk for `k [m, t]`, row-major, as `squares` of factors of P, and replaces k by P k.
    ///
    /// # Errors
    /// What the solves report.
    fn explain(&self, k: &mut [f64], t: usize, squares: Squares) -> Result<Vec<f64>>;
}

/// P = A⁻¹.
impl Explains for Factor<f64> {
    fn explain(&self, k: &mut [f64], t: usize, squares: Squares) -> Result<Vec<f64>> {
        self.solve_lower(k)?;
        let explained = squares(k, t);
        self.solve_lower_transposed(k)?;
        Ok(explained)
    }
}

/// KᵀK, all of it.
fn gram(matrix: &[f64], t: usize) -> Vec<f64> {
    let (mut all, matrix) = (vec![0.0; t * t], view(matrix, t));
    product::add_lower(view_mut(&mut all, t), matrix.transpose(), matrix, 1.0);
    transpose::mirror(view_mut(&mut all, t));
    all
}

/// A posterior at points `x [t, d]`: mean m(x) + kᵀw and covariance k(x, x) − kᵀPk. Parameters are constants.
pub struct Located {
    /// The evaluation beside the points.
    pub scope: Scope,
    /// The prior of f.
    pub prior: Prior,
    /// The points.
    pub x: Tensor<2>,
    /// k `[m, t]`: covariances with what the posterior depends on.
    pub k: Tensor<2>,
    /// w `[m]`.
    pub weights: Vec<f64>,
    /// P.
    pub explains: Arc<dyn Explains>,
}

impl fmt::Debug for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Located").field("k", &self.k.dims()).finish_non_exhaustive()
    }
}

impl Located {
    /// Means and variances `[t]` of f, in the type of the points.
    ///
    /// # Errors
    /// Errors of the kernel and of the solves.
    pub fn moments(&self) -> Result<[Tensor<1>; 2]> {
        let before = self.prior.kernel.diag(&self.scope, &self.x)?.cast(self.scope.wide());
        let explained: Tensor<1> = self.explained(column_squares)?;
        let variance = (before.clone() - explained).max_pair(before * VARIANCE_FLOOR);
        Ok([self.mean()?, variance].map(|moment| moment.cast(self.scope.dtype())))
    }

    /// The joint distribution of f at the points, in the scope's [wide](Scope::wide) type.
    ///
    /// # Errors
    /// As [`moments`](Self::moments).
    pub fn joint(&self) -> Result<Normal> {
        let before = self.prior.covariance(&self.scope, &self.x).matrix_wide()?;
        let explained: Tensor<2> = self.explained(gram)?;
        Ok(Normal { mean: self.mean()?, covariance: before - explained })
    }

    fn mean(&self) -> Result<Tensor<1>> {
        let wide = self.scope.wide();
        let weights = self.scope.matrix_in(&self.weights, self.weights.len(), 1, wide);
        let shift = self.k.clone().cast(wide).transpose().matmul(weights).squeeze_dim(1);
        Ok(self.prior.mean.at(&self.scope, &self.x)?.cast(wide) + shift)
    }

    fn explained<const D: usize>(&self, squares: Squares) -> Result<Tensor<D>> {
        apply1(Explained::<D> { explains: self.explains.clone(), squares }, self.k.clone().cast(self.scope.wide()))
    }
}

/// kᵀPk, the diagonal (`D` = 1) or all of it (`D` = 2).
struct Explained<const D: usize> {
    explains: Arc<dyn Explains>,
    squares: Squares,
}

impl<const D: usize> HostOp<1> for Explained<D> {
    fn forward(self: Arc<Self>, [k]: [TensorData; 1]) -> Result<(TensorData, Vjp<1>)> {
        let (dtype, t) = (k.dtype(), k.shape()[1]);
        let mut k = widened(k)?;
        let values = self.explains.explain(&mut k, t, self.squares)?;
        // 2 P k diag(ȳ), or P k (Ȳ + Ȳᵀ).
        let vjp = move |grad, _needs: [bool; 1]| {
            let (grad, m) = (widened(grad)?, k.len() / t);
            let slopes: Vec<f64> = if D == 1 {
                k.iter().zip(grad.iter().cycle()).map(|(p, g)| 2.0 * p * g).collect()
            } else {
                let mut slopes = vec![0.0; k.len()];
                let grad = view(&grad, t);
                product::add(view_mut(&mut slopes, t), view(&k, t), grad, 1.0);
                product::add(view_mut(&mut slopes, t), view(&k, t), grad.transpose(), 1.0);
                slopes
            };
            Ok([Some(narrowed(slopes, &[m, t], dtype))])
        };
        Ok((narrowed(values, &[t; D], dtype), Box::new(vjp)))
    }
}
