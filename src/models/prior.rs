//! The prior of a latent function.

use burn::tensor::Tensor;

use crate::kernels::Kernel;
use crate::means::Mean;
use crate::products::{Covariance, Cross};
use crate::scope::Scope;

/// What is believed of a latent function before any data: its covariance and its mean.
#[derive(Debug, Clone)]
pub struct Prior {
    /// Covariance.
    pub kernel: Kernel,
    /// Mean.
    pub mean: Mean,
}

impl Prior {
    /// The covariances of the latent function's values at inputs `x [n, d]`.
    pub fn covariance<'a>(&'a self, scope: &'a Scope, x: &'a Tensor<2>) -> Covariance<'a> {
        Covariance::new(&self.kernel, scope, x)
    }

    /// The covariances between its values at inputs `x1 [n, d]` and at `x2 [m, d]`.
    pub fn cross<'a>(&'a self, scope: &'a Scope, x1: &'a Tensor<2>, x2: &'a Tensor<2>) -> Cross<'a> {
        Cross::new(&self.kernel, scope, x1, x2)
    }
}

/// A prior with zero mean.
impl From<Kernel> for Prior {
    fn from(kernel: Kernel) -> Self {
        Self { kernel, mean: Mean::Zero }
    }
}

crate::parameters!(Prior { "kernel": ..kernel, "mean": ..mean });
