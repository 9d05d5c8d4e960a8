//! Gradient and curvature of the likelihood as a node of a tensor graph.

use std::sync::Arc;

use burn::tensor::{DType, Tensor, TensorData};

use super::sites::{Sites, of_row};
use crate::error::Result;
use crate::likelihoods::{Density, Row};
use crate::linalg::host::{HostOp, Vjp, apply2};
use crate::linalg::real::{narrowed, widened};
use crate::models::cagp::evaluation::{Evaluation, checked_rows};

/// The smallest curvature of a latent value in single precision, whose inverse is a number there.
const FLAT_F32: f64 = 1e-15;

/// The likelihood of some rows, at whatever latent values.
pub(super) struct Derivatives {
    rows: AtRows,
    /// The likelihood's own parameters.
    own: Tensor<1>,
}

impl Derivatives {
    pub fn new(at: &Evaluation) -> Result<Self> {
        let scope = at.scope;
        let own: Vec<Tensor<1>> = at.likelihood.parameters().iter().map(|(_, p)| scope.wide_value(p)).collect();
        let count = own.iter().map(|own| own.dims()[0]).sum();
        let none = || Tensor::zeros([1], (scope.device(), scope.wide()));
        let (density, rows) = (at.likelihood.density(), checked_rows(at.likelihood, at.batch)?);
        let own = if own.is_empty() { none() } else { Tensor::cat(own, 0) };
        Ok(Self { rows: AtRows { density, rows, own: count }, own })
    }

    /// Gradient and curvature `[2, L n]` at latent values `[L n]`.
    pub fn at(&self, f: Tensor<1>) -> Result<Tensor<2>> {
        apply2(self.rows.clone(), f, self.own.clone())
    }

    /// The share of latent values without curvature.
    pub fn flat(&self, f: &[f64]) -> f64 {
        self.sites(f.to_vec()).flat() as f64 / f.len() as f64
    }

    /// The sites as numbers.
    pub fn sites(&self, f: Vec<f64>) -> Sites {
        Sites::at(&*self.rows.density, &self.rows.rows, f)
    }

    /// Slopes in f of products with a gradient `[2, L n]`, and in the likelihood's own parameters.
    pub fn slopes(&self, f: &[f64], grad: &[f64]) -> (Vec<f64>, Vec<f64>) {
        self.rows.slopes(f, grad)
    }

    pub fn latents(&self) -> usize {
        self.rows.density.latents()
    }

    pub fn is_log_concave(&self) -> bool {
        self.rows.density.is_log_concave()
    }
}

/// Gradient and curvature `[2, L n]` at latent values `f` `[L n]`. Differentiable in `f` and in the likelihood's own
/// parameters, of which there are `own` and whose values are in `density`.
#[derive(Clone)]
struct AtRows {
    density: Arc<dyn Density>,
    rows: Vec<Row>,
    own: usize,
}

impl HostOp<2> for AtRows {
    fn forward(self: Arc<Self>, [f, _]: [TensorData; 2]) -> Result<(TensorData, Vjp<2>)> {
        let (dtype, f) = (f.dtype(), widened(f)?);
        let Sites { f, gradient, mut curvature, .. } = Sites::at(&*self.density, &self.rows, f);
        if dtype == DType::F32 {
            curvature.iter_mut().for_each(|d| *d = d.max(FLAT_F32));
        }
        let shape = [2, f.len()];
        let vjp = move |grad, _needs: [bool; 2]| {
            let (in_f, own) = self.slopes(&f, &widened(grad)?);
            let (all, count) = (in_f.len(), own.len());
            Ok([Some(narrowed(in_f, &[all], dtype)), Some(narrowed(own, &[count], dtype))])
        };
        Ok((narrowed([gradient, curvature].concat(), &shape, dtype), Box::new(vjp)))
    }
}

impl AtRows {
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
