//! The rows that Newton's method is for, with what is known about them before it.

use std::sync::Arc;

use super::fixed::Fixed;
use super::sites::{Sites, of_row};
use super::space::Small;
use crate::device::is_host;
use crate::error::Result;
use crate::likelihoods::{Density, Row};
use crate::models::cagp::evaluation::{Evaluation, checked_rows};
use crate::scope::{Scope, to_f64};

/// How often sites are recomputed from the distribution that they lead to. In training a few times: the bound holds for
/// any sites. For a posterior until they settle, because its variances are those of its sites.
const ROUNDS: usize = 3;
const MOST_ROUNDS: usize = 300;

/// Sites have settled when neither latent means nor curvatures change by more than this share of the largest.
const SETTLED: f64 = 1e-7;
/// The same where products with K are in f32.
const SETTLED_ON_GPU: f64 = 1e-4;

/// The shortest part of a step towards the next sites.
const SHORTEST: f64 = 1e-3;

/// The loss of the bound that counts as a rounding error, relative to its size.
const ROUNDING: f64 = 1e-9;
/// The same where products with K are in f32.
const ROUNDING_OF_GPU: f64 = 1e-6;

/// The smallest variance that remains, as a share of the prior variance.
const LEFT: f64 = 1e-12;

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
    /// Whether averaged sites are for a posterior and have to settle.
    settle: bool,
}

impl<'a> Observed<'a> {
    pub fn new(at: Evaluation<'a>, settle: bool) -> Result<Self> {
        let (density, rows) = (at.likelihood.density(), checked_rows(at.likelihood, at.batch)?);
        Ok(Self { at, density, rows, mean: to_f64(at.means()?)?, settle })
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

    /// Sites averaged over the latent distribution, and the system of some actions there, starting from those at its
    /// mode. They are averaged anew over the distribution that they lead to, unless the evidence lower bound falls.
    /// Sites that have to settle then go a shorter part of the way.
    pub fn averaged(&self, mut now: (Sites, Small), actions: &Fixed) -> Result<(Sites, Small)> {
        let prior = to_f64(self.at.variances()?)?;
        let host = is_host(self.at.scope.device());
        let (rounding, settled) = if host { (ROUNDING, SETTLED) } else { (ROUNDING_OF_GPU, SETTLED_ON_GPU) };
        // The last sites with their system, the highest bound so far, and the averages over the sites' distribution.
        let mut best: Option<((Sites, Small), f64, Sites)> = None;
        let mut length = 1.0;
        for round in 0..=if self.settle { MOST_ROUNDS } else { ROUNDS } {
            let rows = actions.ks.rows(&now.0, &now.1)?;
            let (above, explained) = rows.split_at(self.mean.len());
            let spread = left(&prior, explained, self.rows.len());
            let (next, expected) = Sites::expected(self, self.latent(above), &spread)?;
            let bound = expected - now.1.divergence(actions.noise(&now.0))?;
            let falls = |(_, highest, _): &(_, f64, _)| bound < highest - rounding * highest.abs();
            if bound.is_nan() || best.as_ref().is_some_and(falls) {
                let Some((kept, highest, next)) = best else { return Ok(now) };
                length *= 0.5;
                if !self.settle || length < SHORTEST {
                    return Ok(kept);
                }
                let sites = kept.0.towards(&next, length);
                now = (sites.clone(), actions.at(&sites)?);
                best = Some((kept, highest, next));
                continue;
            }
            let last = round == if self.settle { MOST_ROUNDS } else { ROUNDS };
            let finite = next.gradient.iter().chain(&next.curvature).all(|value| value.is_finite());
            if last || !finite || (self.settle && now.0.distance(&next) <= settled) {
                break;
            }
            let sites = now.0.towards(&next, length);
            let small = actions.at(&sites)?;
            // Rounding errors of many rounds must not add up to a fall.
            let highest = best.as_ref().map_or(bound, |(_, highest, _)| bound.max(*highest));
            best = Some((std::mem::replace(&mut now, (sites, small)), highest, next));
        }
        Ok(now)
    }
}

/// The part that remains of prior variances `[L n]` of n rows, or of the rows' covariances.
fn left(prior: &[f64], explained: &[f64], n: usize) -> Vec<f64> {
    let own = |(prior, explained): (&f64, &f64)| (prior - explained).max(LEFT * prior);
    if explained.len() == prior.len() {
        return prior.iter().zip(explained).map(own).collect();
    }
    let latents = prior.len() / n;
    let mut left: Vec<f64> = explained.iter().map(|explained| -explained).collect();
    for (l, prior) in prior.chunks_exact(n).enumerate() {
        let diagonal = l * (latents + 1) * n..(l * (latents + 1) + 1) * n;
        let each = prior.iter().zip(&explained[diagonal.clone()]).map(own);
        left[diagonal].iter_mut().zip(each).for_each(|(left, own)| *left = own);
    }
    left
}
