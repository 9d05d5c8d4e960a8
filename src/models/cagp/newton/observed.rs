//! The rows that Newton's method is for, with what is known about them before it.

use std::sync::Arc;

use super::sites::{Sites, of_row};
use crate::error::Result;
use crate::likelihoods::{Density, Row};
use crate::models::cagp::SiteRule;
use crate::models::cagp::evaluation::{Evaluation, checked_rows};
use crate::scope::{Scope, to_f64};

/// Rows with their targets, and the prior means of their latent values.
pub(in crate::models::cagp) struct Observed<'a> {
    /// The model at these rows.
    pub at: Evaluation<'a>,
    /// The density of targets given latent values f.
    pub density: Arc<dyn Density>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Prior means `[L n]`.
    pub mean: Vec<f64>,
    /// Where sites are taken, once the actions are known.
    pub rule: SiteRule,
    /// Whether averaged sites are for a posterior and have to settle.
    pub settle: bool,
}

impl<'a> Observed<'a> {
    pub fn new(at: Evaluation<'a>, rule: SiteRule, settle: bool) -> Result<Self> {
        let (density, rows) = (at.likelihood.density(), checked_rows(at.likelihood, at.batch)?);
        Ok(Self { at, density, rows, mean: to_f64(at.means()?)?, rule, settle })
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
        let n = self.rows.len();
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
