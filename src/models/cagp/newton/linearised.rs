//! A step of Newton's method as a linear system, for policies.

use burn::tensor::Tensor;

use super::sites::Sites;
use super::space::Space;
use crate::error::{Error, Result};
use crate::models::Batch;
use crate::models::cagp::evaluation::{Evaluation, Noisy};
use crate::models::cagp::products::{among, times};
use crate::models::prior::repeated;
use crate::scope::{Scope, joined, to_f64};
use crate::solvers::blocks::transposed;
use crate::solvers::itergp::Basis;
use crate::solvers::pivoted_cholesky::Columns;
use crate::solvers::policies::SolveState;
use crate::solvers::{LinearOperator, LinearSystem};

/// `(K + W⁻¹)v = ŷ − m` at sites, in the scope's wide type.
#[derive(Debug)]
pub(in crate::models::cagp) struct Linearised<'a> {
    at: Evaluation<'a>,
    /// The diagonal of W⁻¹ `[L n, 1]`.
    spread: Tensor<2>,
    right: Tensor<2>,
}

impl<'a> Linearised<'a> {
    /// At sites with these f − m, for a model in a wide scope.
    pub fn new(at: Evaluation<'a>, sites: &Sites, above: &[f64]) -> Self {
        let right = sites.targets(above);
        Self { at, spread: Noisy::of(at.scope, sites).spread, right: at.scope.matrix(&right, right.len(), 1) }
    }

    /// At sites that are part of a graph, for prior means `[L n, 1]`.
    pub fn of(at: Evaluation<'a>, Noisy { targets, spread, .. }: Noisy, means: &Tensor<2>) -> Self {
        Self { at, spread, right: targets - means.clone() }
    }

    /// A scope and a batch for such a model.
    pub fn wide(at: &Evaluation) -> (Scope, Batch) {
        let (scope, x) = (at.scope.widened(), at.batch.x.clone().cast(at.scope.wide()));
        (scope, Batch { x, ..at.batch.clone() })
    }

    /// Columns `[L n, t]` with a dimension for the latent functions `[L, n, t]`.
    fn by_function(&self, columns: Tensor<2>) -> Tensor<3> {
        let [all, t] = columns.dims();
        let latents = self.at.functions.0;
        columns.reshape([latents, all / latents, t])
    }

    /// Columns of which each belongs to one latent function: that for which it promises most.
    fn of_one_function(&self, s: Tensor<2>) -> Result<Tensor<2>> {
        let ([all, t], latents) = (s.dims(), self.at.functions.0);
        let promise = self.by_function(s.clone().detach().powi_scalar(2) * self.spread.clone().detach());
        let promise = to_f64(promise.sum_dim(1))?;
        let best = |column: usize| {
            (0..latents).max_by(|a, b| promise[a * t + column].total_cmp(&promise[b * t + column])).unwrap_or(0)
        };
        let n = all / latents;
        let own: Vec<f64> = (0..all * t).map(|e| f64::from(e / t / n == best(e % t))).collect();
        Ok(s * self.at.scope.matrix(&own, all, t))
    }
}

impl LinearOperator for Linearised<'_> {
    fn order(&self) -> usize {
        self.right.dims()[0]
    }

    fn apply(&self, v: &[f64]) -> Result<Vec<f64>> {
        let n = self.order();
        to_f64(self.product(&self.at.scope.matrix(v, n, v.len() / n))?)
    }
}

impl LinearSystem for Linearised<'_> {
    fn scope(&self) -> &Scope {
        self.at.scope
    }

    fn covariance_times(&self, v: &Tensor<2>) -> Result<Tensor<2>> {
        times(&self.at, &Basis::dense(v.clone()))
    }

    fn noise_times(&self, v: &Tensor<2>) -> Result<Tensor<2>> {
        Ok(self.spread.clone() * v.clone())
    }

    fn noise_solve(&self, v: &Tensor<2>) -> Result<Tensor<2>> {
        if !self.at.functions.1 {
            return Ok(v.clone() / self.spread.clone());
        }
        let (d, v, shape) = (self.by_function(self.spread.clone().recip()), self.by_function(v.clone()), v.dims());
        // Differences keep their digits even if one class has all of the probability.
        let of = |l: usize| ((v.clone().narrow(0, l, 1) - v.clone()) * d.clone()).sum_dim(0);
        let lost = Tensor::cat((0..self.at.functions.0).map(of).collect(), 0);
        Ok((d.clone() * lost / d.sum_dim(0)).reshape(shape))
    }

    /// For classes the part that sums to 0 in each row, otherwise that of one latent function.
    fn within(&self, s: Tensor<2>) -> Result<Tensor<2>> {
        match self.at.functions {
            (1, _) => Ok(s),
            (_, false) => self.of_one_function(s),
            (_, true) => {
                let (d, shape) = (self.by_function(self.spread.clone().recip()), s.dims());
                let s = self.by_function(s);
                Ok((s.clone() - d.clone() / d.sum_dim(0) * s.sum_dim(0)).reshape(shape))
            }
        }
    }

    fn visible(&self, r: Tensor<2>) -> Result<Tensor<2>> {
        if self.at.functions.1 { self.noise_times(&self.noise_solve(&r)?) } else { Ok(r) }
    }

    fn right_hand_side(&self) -> &Tensor<2> {
        &self.right
    }

    fn columns(&self) -> Option<&dyn Columns> {
        Some(self)
    }

    fn cross(&self, inputs: &Tensor<2>) -> Result<Tensor<2>> {
        let latents = self.at.functions.0;
        let each = self.at.by_columns()?.iter().map(|own| own.cross(inputs)).collect::<Result<_>>()?;
        let each = repeated(each, latents).into_iter().enumerate();
        Ok(joined(each.map(|(l, columns)| among(columns, l, latents)).collect(), 0))
    }
}

impl Columns for Linearised<'_> {
    fn diagonal(&self) -> Result<Vec<f64>> {
        let each = self.at.by_columns()?.iter().map(Columns::diagonal).collect::<Result<_>>()?;
        Ok(repeated(each, self.at.functions.0).concat())
    }

    fn column(&self, j: usize) -> Result<Vec<f64>> {
        let (n, each) = (self.at.rows(), self.at.by_columns()?);
        let mut all = vec![0.0; self.order()];
        all[j / n * n..][..n].copy_from_slice(&each[(j / n).min(each.len() - 1)].column(j % n)?);
        Ok(all)
    }

    fn rounding(&self) -> f64 {
        self.epsilon()
    }
}

/// The state of a step, with the gradient of the log posterior.
pub(super) struct State<'a> {
    pub system: &'a Linearised<'a>,
    pub sites: &'a Sites,
    pub space: &'a Space,
    pub gradient: &'a [f64],
}

impl State<'_> {
    /// Columns `[n, count]` of actions that were taken.
    fn columns(&self, of: &[f64], first: usize, count: usize) -> Result<Vec<f64>> {
        // Compression keeps fewer directions; the last of them stands for the last action.
        let (n, gone) = (self.space.n, self.space.taken - self.space.len());
        let from = first.saturating_sub(gone) * n;
        let columns = of.get(from..from + count * n);
        columns.map(<[f64]>::to_vec).ok_or_else(|| Error::Usage("a policy asks for actions that are gone".into()))
    }

    fn tensor(&self, columns: &[f64]) -> Tensor<2> {
        let n = self.space.n;
        self.system.at.scope.matrix(&transposed(columns, n), n, columns.len() / n)
    }
}

impl SolveState for State<'_> {
    fn system(&self) -> &dyn LinearSystem {
        self.system
    }

    fn residual(&self) -> Result<Tensor<2>> {
        Ok(self.tensor(&self.sites.spread(self.gradient)))
    }

    fn gradient(&self) -> Result<Tensor<2>> {
        Ok(self.tensor(self.gradient))
    }

    fn taken(&self) -> usize {
        self.space.taken
    }

    fn actions(&self, first: usize, count: usize) -> Result<Tensor<2>> {
        Ok(self.tensor(&self.columns(&self.space.actions, first, count)?))
    }

    fn products(&self, first: usize, count: usize) -> Result<Tensor<2>> {
        let mut products = self.columns(&self.space.products, first, count)?;
        let actions = self.columns(&self.space.actions, first, count)?;
        for (products, s) in products.chunks_mut(self.space.n).zip(actions.chunks(self.space.n)) {
            products.iter_mut().zip(self.sites.spread(s)).for_each(|(product, noise)| *product += noise);
        }
        Ok(self.tensor(&products))
    }
}
