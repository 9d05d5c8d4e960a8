//! Pseudo-targets with independent noise, as tensors: the targets of a Gaussian likelihood, and sites as functions of
//! latent values and of a likelihood's own parameters.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use super::evaluation::{Evaluation, checked_rows};
use super::newton::{Sites, of_row};
use crate::error::Result;
use crate::likelihoods::{Density, Row};
use crate::linalg::host::{HostOp, Vjp, apply2};
use crate::linalg::real::{narrowed, widened};
use crate::scope::Scope;

/// What a bound needs from sites.
#[derive(Debug, Clone)]
pub(super) struct Noisy {
    /// Pseudo-targets `f + g/d` `[L n, 1]`.
    pub targets: Tensor<2>,
    /// Their noise `1/d` `[L n, 1]`.
    pub spread: Tensor<2>,
}

/// Computes new latent values from latent values, given a function that gives the sites at any latent values.
pub(super) type Through<'a> = &'a dyn Fn(Tensor<1>, &dyn Fn(Tensor<1>) -> Result<Tensor<2>>) -> Result<Tensor<1>>;

impl Noisy {
    /// From plain numbers.
    pub fn of(scope: &Scope, sites: &Sites) -> Self {
        let count = sites.f.len();
        let both = [&sites.gradient[..], &sites.curvature].concat();
        let f = scope.matrix_in(&sites.f, 1, count, scope.wide()).squeeze_dim(0);
        Self::new(f, scope.matrix_in(&both, 2, count, scope.wide()))
    }

    /// From latent values `f` `[L n]`, and gradient and curvature `[2, L n]` there.
    pub fn new(f: Tensor<1>, tied: Tensor<2>) -> Self {
        let all = f.dims()[0];
        let part = |place: usize| tied.clone().narrow(0, place, 1).reshape([all, 1]);
        let spread = part(1).recip();
        Self { targets: f.unsqueeze_dim(1) + part(0) * spread.clone(), spread }
    }

    /// Sites after latent values that `through` computes from those of `sites`, differentiable in the likelihood's own
    /// parameters and through `through`.
    pub fn through(at: &Evaluation, sites: &Sites, through: Through) -> Result<Self> {
        let (scope, rows) = (at.scope, checked_rows(at.likelihood, at.batch)?);
        let own: Vec<Tensor<1>> = at.likelihood.parameters().iter().map(|(_, p)| scope.wide_value(p)).collect();
        let count = own.iter().map(|own| own.dims()[0]).sum();
        let none = || Tensor::zeros([1], (scope.device(), scope.wide()));
        let own = if own.is_empty() { none() } else { Tensor::cat(own, 0) };
        let tied = |f: Tensor<1>| {
            apply2(Tied { density: at.likelihood.density(), rows: rows.clone(), own: count }, f, own.clone())
        };
        let f = scope.matrix_in(&sites.f, 1, sites.f.len(), scope.wide()).squeeze_dim(0);
        let f = through(f, &tied)?;
        Ok(Self::new(f.clone(), tied(f)?))
    }
}

/// Gradient and curvature `[2, L n]` at latent values `f` `[L n]`. Differentiable in `f` and in the likelihood's own
/// parameters, of which there are `own` and whose values are in `density`.
struct Tied {
    density: Arc<dyn Density>,
    rows: Vec<Row>,
    own: usize,
}

impl HostOp<2> for Tied {
    fn forward(self: Arc<Self>, [f, _]: [TensorData; 2]) -> Result<(TensorData, Vjp<2>)> {
        let (dtype, f) = (f.dtype(), widened(f)?);
        let Sites { f, gradient, curvature, .. } = Sites::at(&*self.density, &self.rows, f);
        let shape = [2, f.len()];
        let vjp = move |grad, _needs: [bool; 2]| {
            let (in_f, own) = self.slopes(&f, &widened(grad)?);
            let (all, count) = (in_f.len(), own.len());
            Ok([Some(narrowed(in_f, &[all], dtype)), Some(narrowed(own, &[count], dtype))])
        };
        Ok((narrowed([gradient, curvature].concat(), &shape, dtype), Box::new(vjp)))
    }
}

impl Tied {
    /// Slopes in f, and in the likelihood's own parameters.
    fn slopes(&self, f: &[f64], grad: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (n, latents) = (self.rows.len(), self.density.latents());
        let (in_gradient, in_curvature) = grad.split_at(f.len());
        let (mut in_f, mut own, mut values) = (vec![0.0; f.len()], vec![0.0; self.own], Vec::new());
        let (mut first, mut hessian) = (vec![0.0; latents], vec![0.0; latents * latents]);
        let (mut weights, mut slopes) = (vec![0.0; latents * latents], vec![0.0; latents]);
        for (i, row) in self.rows.iter().enumerate() {
            let f = of_row(f, i, n, &mut values);
            let mut pull: Vec<f64> = in_gradient.iter().skip(i).step_by(n).copied().collect();
            let bend = in_curvature.iter().skip(i).step_by(n);
            slopes.fill(0.0);
            if self.density.is_centred() {
                // The curvatures are probabilities, whose derivatives are minus those of the gradient.
                pull.iter_mut().zip(bend).for_each(|(pull, bend)| *pull -= bend);
            } else {
                weights.iter_mut().step_by(latents + 1).zip(bend).for_each(|(weight, bend)| *weight = *bend);
                self.density.add_curvature_slopes(*row, f, &weights, &mut slopes, &mut own);
            }
            self.density.derivatives(*row, f, &mut first, &mut hessian);
            if self.own > 0 {
                self.density.add_pull_slopes(*row, f, &pull, &mut own);
            }
            for (l, row) in hessian.chunks_exact(latents).enumerate() {
                in_f[l * n + i] = slopes[l] + row.iter().zip(&pull).map(|(h, pull)| h * pull).sum::<f64>();
            }
        }
        own.resize(self.own.max(1), 0.0);
        (in_f, own)
    }
}
