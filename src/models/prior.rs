//! The prior of a latent function.

use burn::tensor::Tensor;

use crate::kernels::Kernel;
use crate::likelihoods::Gaussian;
use crate::means::Mean;
use crate::params::{Parameter, Parameters, prefixed};
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

    /// The parameters of the prior and of Gaussian noise, as models of Gaussian targets have them.
    pub(super) fn with_noise<'a>(&'a self, likelihood: &'a Gaussian) -> Vec<(String, &'a Parameter)> {
        let mut all = self.parameters();
        all.extend(prefixed("likelihood", likelihood.parameters()));
        all
    }

    /// The same, to change them.
    pub(super) fn with_noise_mut<'a>(&'a mut self, likelihood: &'a mut Gaussian) -> Vec<(String, &'a mut Parameter)> {
        let mut all = self.parameters_mut();
        all.extend(prefixed("likelihood", likelihood.parameters_mut()));
        all
    }
}

/// A prior with zero mean.
impl From<Kernel> for Prior {
    fn from(kernel: Kernel) -> Self {
        Self { kernel, mean: Mean::Zero }
    }
}

impl Parameters for Prior {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        let mut all = prefixed("kernel", self.kernel.parameters());
        all.extend(prefixed("mean", self.mean.parameters()));
        all
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        let mut all = prefixed("kernel", self.kernel.parameters_mut());
        all.extend(prefixed("mean", self.mean.parameters_mut()));
        all
    }
}
