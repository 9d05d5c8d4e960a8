//! The linear system of a Gaussian process: (K + diag(noise)) v = y.

use burn::tensor::Tensor;

use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::products;
use crate::scope::Scope;

/// K̂v = y with K̂ = k(X, X) + diag(noise), white noise of the kernel included; K̂ only by its products.
#[derive(Debug, Clone)]
pub struct System<'a> {
    kernel: &'a Kernel,
    scope: &'a Scope,
    x: Tensor<2>,
    noise: Tensor<2>,
    y: Tensor<2>,
}

impl<'a> System<'a> {
    /// From inputs `[n, d]`, noise variances `[n]` and the right-hand side `[n]`.
    ///
    /// # Errors
    /// [`Error::Shape`] when the rows do not match.
    pub fn new(kernel: &'a Kernel, scope: &'a Scope, x: Tensor<2>, noise: Tensor<1>, y: Tensor<1>) -> Result<Self> {
        let n = x.dims()[0];
        for (what, rows) in [("noise variances", noise.dims()[0]), ("right-hand side", y.dims()[0])] {
            if rows != n {
                return Err(Error::shape(what, format!("{n} rows, one for each row of the inputs"), rows.to_string()));
            }
        }
        Ok(Self { kernel, scope, x, noise: noise.unsqueeze_dim(1), y: y.unsqueeze_dim(1) })
    }

    /// The order n.
    pub fn order(&self) -> usize {
        self.x.dims()[0]
    }

    /// The kernel.
    pub fn kernel(&self) -> &'a Kernel {
        self.kernel
    }

    /// The evaluation that everything belongs to.
    pub fn scope(&self) -> &'a Scope {
        self.scope
    }

    /// The inputs `[n, d]`.
    pub fn x(&self) -> &Tensor<2> {
        &self.x
    }

    /// The noise variances `[n, 1]`.
    pub fn noise(&self) -> &Tensor<2> {
        &self.noise
    }

    /// y `[n, 1]`.
    pub fn right_hand_side(&self) -> &Tensor<2> {
        &self.y
    }

    /// K̂V `[n, t]` for `v [n, t]`.
    ///
    /// # Errors
    /// What the kernel reports.
    pub fn product(&self, v: &Tensor<2>) -> Result<Tensor<2>> {
        Ok(products::Covariance::new(self.kernel, self.scope, &self.x).times(v)? + self.noise.clone() * v.clone())
    }
}
