//! Pseudo-targets with independent noise, as tensors: the targets of a Gaussian likelihood, or sites.

use burn::tensor::Tensor;

use super::newton::Sites;
use crate::scope::Scope;

/// What a bound needs from sites.
#[derive(Debug, Clone)]
pub(super) struct Noisy {
    /// Pseudo-targets `f + g/d` `[L n, 1]`.
    pub targets: Tensor<2>,
    /// Their noise `1/d` `[L n, 1]`.
    pub spread: Tensor<2>,
}

impl Noisy {
    /// From plain numbers.
    pub fn of(scope: &Scope, sites: &Sites) -> Self {
        let count = sites.f.len();
        let both = [&sites.gradient[..], &sites.curvature].concat();
        let f = scope.matrix_in(&sites.f, 1, count, scope.wide()).squeeze_dim(0);
        Self::new(f, scope.matrix_in(&both, 2, count, scope.wide()))
    }

    /// From latent values `f` `[L n]`, and gradient and curvature `[2, L n]` there.
    pub fn new(f: Tensor<1>, derivatives: Tensor<2>) -> Self {
        let all = f.dims()[0];
        let part = |place: usize| derivatives.clone().narrow(0, place, 1).reshape([all, 1]);
        let spread = part(1).recip();
        Self { targets: f.unsqueeze_dim(1) + part(0) * spread.clone(), spread }
    }
}
