//! Sites as differentiable functions of latent values and of a likelihood's own parameters.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use super::sites::{Sites, of_row};
use crate::error::Result;
use crate::likelihoods::{Density, Likelihood, Row, Targets};
use crate::linalg::host::{HostOp, Saved, apply1, apply2, recall};
use crate::linalg::real::{narrowed, widened};
use crate::models::Batch;
use crate::scope::{Scope, to_f64};

/// Gradient and curvature `[2, L n]` at latent values `f` `[L n]`. Differentiable in `f` and in the likelihood's own
/// parameters `[P]`, whose values are in `density`.
pub(super) fn tied(
    density: Arc<dyn Density>,
    rows: Vec<Row>,
    f: Tensor<1>,
    own: Option<Tensor<1>>,
) -> Result<Tensor<2>> {
    let op = Tied { density, rows, own: own.as_ref().map_or(0, |own| own.dims()[0]) };
    match own {
        Some(own) => apply2(op, f, own),
        None => apply1(op, f),
    }
}

/// Computes new latent values from latent values, given a function that gives the sites at any latent values.
pub(super) type Through<'a> = &'a dyn Fn(Tensor<1>, &dyn Fn(Tensor<1>) -> Result<Tensor<2>>) -> Result<Tensor<1>>;

/// Sites as tensors. They are plain numbers unless gradients go through them. Then they are functions of the
/// likelihood's own parameters and of the latent values that `through` computes from those of `sites`. Sites of
/// Gaussian targets are always such functions, because they depend only on the noise.
pub(super) fn noisy(
    likelihood: &dyn Likelihood,
    scope: &Scope,
    batch: &Batch,
    sites: &Sites,
    through: Option<Through>,
) -> Result<Noisy> {
    if through.is_none() && likelihood.noise().is_none() {
        return Ok(Noisy::of(scope, sites));
    }
    let auxiliary = batch.auxiliary.clone().map(to_f64).transpose()?;
    let y = to_f64(batch.y.clone())?;
    let rows: Vec<Row> = Targets { y: &y, auxiliary: auxiliary.as_deref() }.rows(likelihood.auxiliary()).collect();
    let own: Vec<Tensor<1>> = likelihood.parameters().iter().map(|(_, p)| scope.wide_value(p)).collect();
    let own = if own.is_empty() { None } else { Some(Tensor::cat(own, 0)) };
    let at = |f: Tensor<1>| tied(likelihood.density(), rows.clone(), f, own.clone());
    let f = scope.matrix_in(&sites.f, 1, sites.f.len(), scope.wide()).squeeze_dim(0);
    let f = match through {
        Some(moved) => moved(f, &at)?,
        None => f,
    };
    Ok(Noisy::new(f.clone(), at(f)?, sites.centred))
}

#[derive(Debug)]
struct Tied {
    density: Arc<dyn Density>,
    rows: Vec<Row>,
    own: usize,
}

impl Tied {
    fn forward(&self, f: TensorData) -> Result<(TensorData, Saved)> {
        let (dtype, f) = (f.dtype(), widened(f)?);
        let Sites { f, gradient, curvature, .. } = Sites::at(&*self.density, &self.rows, f);
        let shape = [2, f.len()];
        Ok((narrowed([gradient, curvature].concat(), &shape, dtype), Arc::new(f) as Saved))
    }

    fn adjoint(&self, saved: Saved, grad: TensorData) -> Result<[TensorData; 2]> {
        let dtype = grad.dtype();
        let (f, grad) = (recall::<Vec<f64>>(saved)?, widened(grad)?);
        let (n, latents) = (self.rows.len(), self.density.latents());
        let (in_gradient, in_curvature) = grad.split_at(f.len());
        let (mut in_f, mut own, mut values) = (vec![0.0; f.len()], vec![0.0; self.own], Vec::new());
        let (mut first, mut hessian) = (vec![0.0; latents], vec![0.0; latents * latents]);
        let (mut weights, mut slopes) = (vec![0.0; latents * latents], vec![0.0; latents]);
        for (i, row) in self.rows.iter().enumerate() {
            let f = of_row(&f, i, n, &mut values);
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
        let (all, count) = (in_f.len(), own.len());
        Ok([narrowed(in_f, &[all], dtype), narrowed(own, &[count], dtype)])
    }
}

impl HostOp<1> for Tied {
    fn forward(&self, [f]: [TensorData; 1]) -> Result<(TensorData, Saved)> {
        self.forward(f)
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 1]) -> Result<[Option<TensorData>; 1]> {
        let [f, _] = self.adjoint(saved, grad)?;
        Ok([Some(f)])
    }
}

impl HostOp<2> for Tied {
    fn forward(&self, [f, _]: [TensorData; 2]) -> Result<(TensorData, Saved)> {
        self.forward(f)
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 2]) -> Result<[Option<TensorData>; 2]> {
        Ok(self.adjoint(saved, grad)?.map(Some))
    }
}

/// What a bound needs from sites.
#[derive(Debug, Clone)]
pub(super) struct Noisy {
    /// Pseudo-targets `f + g/d` `[L n, 1]`.
    pub targets: Tensor<2>,
    /// Their noise `1/d` `[L n, 1]`.
    pub spread: Tensor<2>,
    /// As in [`Sites`].
    pub centred: bool,
}

impl Noisy {
    /// From plain numbers.
    pub fn of(scope: &Scope, sites: &Sites) -> Self {
        let count = sites.f.len();
        let both = [&sites.gradient[..], &sites.curvature].concat();
        let f = scope.matrix_in(&sites.f, 1, count, scope.wide()).squeeze_dim(0);
        Self::new(f, scope.matrix_in(&both, 2, count, scope.wide()), sites.centred)
    }

    /// From latent values `f` `[L n]` and the output of [`tied`] there.
    pub fn new(f: Tensor<1>, tied: Tensor<2>, centred: bool) -> Self {
        let all = f.dims()[0];
        let part = |place: usize| tied.clone().narrow(0, place, 1).reshape([all, 1]);
        let spread = part(1).recip();
        Self { targets: f.unsqueeze_dim(1) + part(0) * spread.clone(), spread, centred }
    }
}
