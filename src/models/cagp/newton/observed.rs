//! The rows that Newton's method is for, with what is known about them before it.

use std::sync::Arc;

use burn::tensor::{DType, Tensor, TensorData};

use super::sites::{Sites, of_row};
use crate::error::Result;
use crate::likelihoods::expected::RowDensities;
use crate::likelihoods::{Density, Row};
use crate::linalg::host::{HostOp, Vjp, apply2};
use crate::linalg::real::{narrowed, widened};
use crate::models::Batch;
use crate::models::cagp::SiteRule;
use crate::models::cagp::evaluation::Evaluation;
use crate::models::laplace::own_parameters;
use crate::scope::{Scope, to_f64};

/// The smallest curvature of a latent value in single precision, whose inverse is a number there.
const FLAT_F32: f64 = 1e-15;

/// The likelihood of some rows, at whatever latent values.
#[derive(Clone)]
pub(in crate::models::cagp) struct Likely {
    /// The density of targets given latent values f.
    pub density: Arc<dyn Density>,
    rows: Vec<Row>,
    /// How many own parameters the likelihood has. Their values are in the density.
    own: usize,
}

impl Likely {
    /// The rows of a batch, after a check that the likelihood takes their targets.
    pub fn new(at: &Evaluation) -> Result<Self> {
        let Batch { y, auxiliary, .. } = at.batch;
        let RowDensities { density, rows, own } = RowDensities::new(at.likelihood, y, auxiliary.as_ref())?;
        Ok(Self { density, rows, own })
    }

    /// The sites at f `[L n]`.
    pub fn sites(&self, f: Vec<f64>) -> Sites {
        Sites::at(&*self.density, &self.rows, f)
    }

    /// `ln p(y | f)` for f `[L n]`.
    pub fn log_density(&self, f: &[f64]) -> f64 {
        let mut values = Vec::new();
        let of = |(i, row): (usize, &Row)| self.density.log_density(*row, of_row(f, i, self.rows.len(), &mut values));
        self.rows.iter().enumerate().map(of).sum()
    }

    /// Slopes in f of products with a gradient `[2, L n]`, and in the likelihood's own parameters.
    pub fn slopes(&self, f: &[f64], grad: &[f64]) -> (Vec<f64>, Vec<f64>) {
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

/// Gradient and curvature `[2, L n]` at latent values `[L n]`. Differentiable in these and in the likelihood's own
/// parameters.
impl HostOp<2> for Likely {
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

/// Gradient and curvature as a node of a tensor graph.
pub(super) struct Derivatives {
    pub likely: Likely,
    /// The likelihood's own parameters.
    own: Tensor<1>,
}

impl Derivatives {
    pub fn new(at: &Evaluation, likely: Likely) -> Self {
        Self { likely, own: own_parameters(at.likelihood, at.scope).0 }
    }

    /// Gradient and curvature `[2, L n]` at latent values `[L n]`.
    pub fn at(&self, f: Tensor<1>) -> Result<Tensor<2>> {
        apply2(self.likely.clone(), f, self.own.clone())
    }
}

/// Rows with their targets, and the prior means of their latent values.
pub(in crate::models::cagp) struct Observed<'a> {
    /// The model at these rows.
    pub at: Evaluation<'a>,
    /// The likelihood there.
    pub likely: Likely,
    /// Prior means `[L n]`.
    pub mean: Vec<f64>,
    /// Where sites are taken, once the actions are known.
    pub rule: SiteRule,
    /// Whether averaged sites are for a posterior and have to settle.
    pub settle: bool,
}

impl<'a> Observed<'a> {
    pub fn new(at: Evaluation<'a>, rule: SiteRule, settle: bool) -> Result<Self> {
        Ok(Self { at, likely: Likely::new(&at)?, mean: to_f64(at.means()?)?, rule, settle })
    }

    /// f − m for f `[L n]`.
    pub fn above(&self, f: &[f64]) -> Vec<f64> {
        f.iter().zip(&self.mean).map(|(f, m)| f - m).collect()
    }

    /// f for f − m `[L n]`.
    pub fn latent(&self, above: &[f64]) -> Vec<f64> {
        above.iter().zip(&self.mean).map(|(above, m)| above + m).collect()
    }

    /// The rows' average log densities `[n]` over `N(mean, spread)`, with their slopes in the means `[L, n]` and in the
    /// variances `[L, n]` or covariances `[L L, n]`.
    pub fn expectations(&self, mean: &[f64], spread: &[f64]) -> Result<(Vec<f64>, [Vec<f64>; 2])> {
        let Evaluation { likelihood, scope: plain, batch, .. } = self.at;
        let n = self.at.rows();
        let scope = Scope::training(plain.compute())?.with_budget(plain.budget());
        let leaf = |of: &[f64]| scope.matrix_in(of, of.len() / n, n, scope.wide()).require_grad();
        let leaves = [leaf(mean), leaf(spread)];
        let [m, v] = leaves.clone();
        let values = likelihood.expected_log_density(&scope, m, v, &batch.y, batch.auxiliary.as_ref())?;
        let slopes = values.clone().sum().backward();
        let [in_mean, in_spread] = leaves.map(|of| to_f64(of.grad(&slopes).unwrap_or_else(|| of.inner().zeros_like())));
        Ok((to_f64(values)?, [in_mean?, in_spread?]))
    }
}
