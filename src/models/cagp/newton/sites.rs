//! What a likelihood says at latent values: pseudo-targets with noise.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::likelihoods::expected::records;
use crate::likelihoods::{Density, Row};
use crate::models::prior::{Prior, repeated};
use crate::scope::{Scope, to_f64};

/// What sites are tied to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum SiteRule {
    /// The latent mean: gradient and curvature of the log density there, as Newton's method has them
    #[default]
    Mode,
    /// The latent distribution: their averages over it, which make the bound tighter
    Expectation,
}

/// The smallest curvature of a latent value: below it a row has no say, whatever the actions.
const FLAT: f64 = 1e-150;

/// Gradient and curvature of the log density at latent values f, latent function after latent function: pseudo-targets
/// `f + W⁻¹g` with noise `W⁻¹`.
///
/// The curvature of a row is `W = diag(d)`, or of [centred](Density::is_centred) likelihoods `diag(d) − d dᵀ / Σ d`, of
/// which `diag(1/d)` is a generalised inverse too: in the span of `W`, where a row's values sum to 0, all of these are
/// one. At latent values `Σ d = 1`; averages over latent values are less curved, and have a smaller sum.
#[derive(Debug, Clone, PartialEq)]
pub struct Sites {
    /// f `[L, n]`.
    pub f: Vec<f64>,
    /// g `[L, n]`.
    pub gradient: Vec<f64>,
    /// d `[L, n]`, positive.
    pub curvature: Vec<f64>,
    /// Number of rows n.
    pub rows: usize,
    /// Whether a row's `W` takes values that sum to 0.
    pub centred: bool,
}

/// The share of the Fisher information below which no average curvature falls.
const CONVEX: f64 = 0.01;

/// The latent values of a row; those of several functions are gathered in `values`.
pub(super) fn of_row<'a>(f: &'a [f64], row: usize, rows: usize, values: &'a mut Vec<f64>) -> &'a [f64] {
    if f.len() == rows {
        return &f[row..=row];
    }
    values.clear();
    values.extend(f.iter().skip(row).step_by(rows));
    values
}

impl Sites {
    /// At `f` `[L, n]`.
    pub fn at(density: &dyn Density, rows: &[Row], f: Vec<f64>) -> Self {
        let (n, latents) = (rows.len(), density.latents());
        let (mut all, mut curvature) = (f.clone(), f.clone());
        let (mut slopes, mut hessian, mut d) = (vec![0.0; latents], vec![0.0; latents * latents], vec![0.0; latents]);
        let mut values = Vec::new();
        for (i, row) in rows.iter().enumerate() {
            let f = of_row(&f, i, n, &mut values);
            density.derivatives(*row, f, &mut slopes, &mut hessian);
            density.curvature(*row, f, &mut d);
            for latent in 0..latents {
                all[latent * n + i] = slopes[latent];
                curvature[latent * n + i] = d[latent].max(FLAT);
            }
        }
        Self { f, gradient: all, curvature, rows: n, centred: density.is_centred() }
    }

    /// With the average gradient and curvature of the log density over `N(mean, spread)`: conjugate-computation
    /// variational inference (Khan and Lin 2017). Latent values `[L, n]` are independent, with variances `[L, n]`, or of
    /// centred likelihoods have covariances `[L L, n]`.
    ///
    /// Of those the average curvature `diag(π̄) − E[π πᵀ]`, with `π̄ = E[π]`, has no generalised inverse that is diagonal.
    /// It is replaced by the multiple of `diag(π̄) − π̄ π̄ᵀ` that has its trace.
    pub fn expected(density: &dyn Density, rows: &[Row], mean: Vec<f64>, spread: &[f64]) -> Self {
        let (latents, n) = (density.latents(), rows.len());
        let records = records(density, rows, 0, &mean, spread);
        let width = records.len() / n;
        let column = |place: usize| records.iter().skip(place).step_by(width).copied();
        let gradient: Vec<f64> = (1..=latents).flat_map(column).collect();
        let at = Self::at(density, rows, mean);
        // The slope in a variance is half the second derivative.
        let step = if at.centred { latents + 1 } else { 1 };
        let bends = (latents + 1..width).step_by(step).flat_map(column).map(|slope| -2.0 * slope);
        if at.centred {
            let bends: Vec<f64> = bends.collect();
            // Gradient and probabilities add up to the class that there was.
            let shares = gradient.iter().zip(at.gradient.iter().zip(&at.curvature));
            let shares = shares.map(|(average, (g, d))| ((g + d) - average).max(FLAT)).collect();
            return Self { curvature: scaled(shares, &bends, n), gradient, ..at };
        }
        // Where it has the wrong sign, some of the Fisher information keeps the row's part in its actions.
        let least = if density.is_log_concave() { 0.0 } else { CONVEX };
        let curvature = bends.zip(&at.curvature).map(|(bend, d)| bend.max(least * d).max(FLAT)).collect();
        Self { gradient, curvature, ..at }
    }

    /// `W⁻¹ s`, for `s` in the span of `W`.
    pub(super) fn spread(&self, s: &[f64]) -> Vec<f64> {
        s.iter().zip(&self.curvature).map(|(s, d)| s / d).collect()
    }

    /// `W x`.
    pub(super) fn curved(&self, x: &[f64]) -> Vec<f64> {
        let d = &self.curvature;
        if !self.centred {
            return x.iter().zip(d).map(|(x, d)| d * x).collect();
        }
        let across = |i: usize| (i % self.rows..x.len()).step_by(self.rows);
        // Differences keep their digits where one class has all of the probability.
        let of = |i: usize| {
            let total: f64 = across(i).map(|k| d[k]).sum();
            d[i] * across(i).map(|k| d[k] * (x[i] - x[k])).sum::<f64>() / total
        };
        (0..x.len()).map(of).collect()
    }

    /// Brings `s` into the span of `W`: what it is there but for rounding stays as it is.
    pub(super) fn centre(&self, s: &mut [f64]) {
        if !self.centred {
            return;
        }
        for row in 0..self.rows {
            let across = (row..s.len()).step_by(self.rows);
            let sum: f64 = across.clone().map(|i| s[i]).sum();
            let total: f64 = across.clone().map(|i| self.curvature[i]).sum();
            across.for_each(|i| s[i] -= self.curvature[i] / total * sum);
        }
    }

    /// What of the gradient `s` of the log posterior an action may be made of: all of it, or where nothing ties the
    /// latent functions together that of one of them, those that promise most first.
    pub(super) fn parts(&self, s: Vec<f64>) -> Vec<Vec<f64>> {
        let n = self.rows;
        if self.centred || s.len() == n {
            return vec![s];
        }
        let promise = |latent: &usize| {
            let own = latent * n..(latent + 1) * n;
            s[own.clone()].iter().zip(&self.curvature[own]).map(|(s, d)| s * s / d).sum::<f64>()
        };
        let mut order: Vec<(usize, f64)> = (0..s.len() / n).map(|latent| (latent, promise(&latent))).collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        let only = |latent: usize| s.iter().enumerate().map(|(i, s)| if i / n == latent { *s } else { 0.0 }).collect();
        order.into_iter().map(|(latent, _)| only(latent)).collect()
    }

    /// How many latent values have a curvature below rounding of the largest: they tell next to nothing.
    pub(super) fn flat(&self) -> usize {
        let largest = self.curvature.iter().fold(0.0f64, |largest, d| largest.max(*d));
        self.curvature.iter().filter(|d| **d <= f64::EPSILON * largest).count()
    }
}

/// The shares `[L, n]` of the classes, times for each row what makes `Σ d_l (1 − d_l / Σ d)` the sum of its `bends`.
fn scaled(mut shares: Vec<f64>, bends: &[f64], n: usize) -> Vec<f64> {
    for row in 0..n {
        let across = (row..shares.len()).step_by(n);
        let total: f64 = across.clone().map(|i| shares[i]).sum();
        // From the other classes' shares, which keep their digits as one nears 1.
        let others = |i: usize| across.clone().filter(|k| *k != i).map(|k| shares[k]).sum::<f64>() / total;
        let own: f64 = across.clone().map(|i| shares[i] / total * others(i)).sum();
        let scale = (across.clone().map(|i| bends[i]).sum::<f64>() / own).clamp(CONVEX, 1.0);
        across.for_each(|i| shares[i] = (shares[i] * scale / total).max(FLAT));
    }
    shares
}

/// How often sites follow the distribution that they lead to.
const ROUNDS: usize = 3;

/// The least share of the prior's variance that is taken for left.
const LEFT: f64 = 1e-12;

/// What averages of sites are of.
pub(super) struct Given<'a> {
    /// Of targets given f.
    pub density: &'a dyn Density,
    /// The rows.
    pub rows: &'a [Row],
    /// Prior means `[L n]`.
    pub mean: &'a [f64],
    /// Prior variances `[L n]`.
    pub prior: &'a [f64],
}

impl Given<'_> {
    /// Sites that follow the latent distribution, and the system there, from those at its mode: `tell` says of a system
    /// how far latent means are above the prior's `[L, n]` and behind them what is explained of variances `[L, n]`, or of
    /// centred likelihoods of covariances `[L L, n]`; `solve` gives the system at sites.
    pub fn averaged<S>(
        &self,
        (mut sites, mut system): (Sites, S),
        tell: impl Fn(&S) -> Result<Vec<f64>>,
        solve: impl Fn(&Sites) -> Result<S>,
    ) -> Result<(Sites, S)> {
        for _ in 0..ROUNDS {
            let told = tell(&system)?;
            let (above, explained) = told.split_at(self.mean.len());
            let f = above.iter().zip(self.mean).map(|(above, m)| above + m).collect();
            let next = Sites::expected(self.density, self.rows, f, &self.left(explained));
            if !next.gradient.iter().chain(&next.curvature).all(|value| value.is_finite()) {
                break;
            }
            (system, sites) = (solve(&next)?, next);
        }
        Ok((sites, system))
    }

    /// What is left of prior variances, or covariances.
    fn left(&self, explained: &[f64]) -> Vec<f64> {
        let (n, all) = (self.rows.len(), self.prior.len());
        let own = |(prior, explained): (&f64, &f64)| (prior - explained).max(LEFT * prior);
        if explained.len() == all {
            return self.prior.iter().zip(explained).map(own).collect();
        }
        let latents = all / n;
        let mut left: Vec<f64> = explained.iter().map(|explained| -explained).collect();
        for (l, prior) in self.prior.chunks_exact(n).enumerate() {
            let diagonal = l * (latents + 1) * n..(l * (latents + 1) + 1) * n;
            let each = prior.iter().zip(&explained[diagonal.clone()]).map(own);
            left[diagonal].iter_mut().zip(each).for_each(|(left, own)| *left = own);
        }
        left
    }
}

/// Prior variances `[L n]`.
pub(super) fn variances(priors: &[Prior], scope: &Scope, x: &Tensor<2>, latents: usize) -> Result<Vec<f64>> {
    let each = priors.iter().map(|prior| to_f64(prior.covariance(scope, x).diagonal_wide()?));
    Ok(repeated(each.collect::<Result<_>>()?, latents).concat())
}
