//! Means and variances of f as tensors that are differentiable in the inputs.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use super::posterior::{VARIANCE_FLOOR, column_squares};
use super::prior::Prior;
use crate::error::Result;
use crate::linalg::Factor;
use crate::linalg::host::{HostOp, Vjp, apply1};
use crate::linalg::real::{narrowed, widened};
use crate::scope::Scope;

/// The part kᵀPk of the variance of f that the data explain. k holds the covariances of a point with the points or
/// functions that the posterior depends on.
pub(super) trait Explains: Send + Sync + 'static {
    /// Returns kᵀPk of every column of `k [m, t]`, row-major, and replaces k by P k.
    ///
    /// # Errors
    /// What the solves report.
    fn explain(&self, k: &mut [f64], t: usize) -> Result<Vec<f64>>;
}

/// P = A⁻¹.
impl Explains for Factor<f64> {
    fn explain(&self, k: &mut [f64], t: usize) -> Result<Vec<f64>> {
        self.solve_lower(k)?;
        let squares = column_squares(k, t);
        self.solve_lower_transposed(k)?;
        Ok(squares)
    }
}

/// Means and variances `[t]` at points `x [t, d]`, for k `[m, t]` and the weights `[m]` of the mean.
pub(super) fn moments(
    scope: &Scope,
    prior: &Prior,
    x: &Tensor<2>,
    k: Tensor<2>,
    weights: &[f64],
    explains: impl Explains,
) -> Result<[Tensor<1>; 2]> {
    let (wide, own) = (scope.wide(), scope.dtype());
    let k = k.cast(wide);
    let weights = scope.matrix_in(weights, weights.len(), 1, wide);
    let mean = prior.mean.at(scope, x)?.cast(wide) + k.clone().transpose().matmul(weights).squeeze_dim(1);
    let before = prior.kernel.diag(scope, x)?.cast(wide);
    let explained: Tensor<1> = apply1(Explained(Box::new(explains)), k)?;
    let variance = (before.clone() - explained).max_pair(before * VARIANCE_FLOOR);
    Ok([mean.cast(own), variance.cast(own)])
}

struct Explained(Box<dyn Explains>);

impl HostOp<1> for Explained {
    fn forward(self: Arc<Self>, [k]: [TensorData; 1]) -> Result<(TensorData, Vjp<1>)> {
        let (dtype, t) = (k.dtype(), k.shape()[1]);
        let mut k = widened(k)?;
        let values = self.0.explain(&mut k, t)?;
        // 2 P k ȳ.
        let vjp = move |grad, _needs: [bool; 1]| {
            let (grad, m) = (widened(grad)?, k.len() / t);
            let slopes: Vec<f64> = k.iter().zip(grad.iter().cycle()).map(|(p, g)| 2.0 * p * g).collect();
            Ok([Some(narrowed(slopes, &[m, t], dtype))])
        };
        Ok((narrowed(values, &[t], dtype), Box::new(vjp)))
    }
}
