//! The likelihood at latent values, as pseudo-targets with noise.

use super::observed::Observed;
use crate::error::Result;
use crate::likelihoods::{Density, Row};

/// The smallest curvature of a latent value: below it a row has no influence, whatever the actions.
pub(super) const FLAT: f64 = 1e-150;

/// Gradient and curvature of the log density at latent values f, latent function after latent function. They give
/// pseudo-targets `f + W⁻¹g` with noise `W⁻¹`.
///
/// The curvature of a row is `W = diag(d)`, or for [centred](Density::is_centred) likelihoods `diag(d) − d dᵀ / Σ d`.
/// In both cases `diag(1/d)` is a generalised inverse. All generalised inverses agree in the span of `W`, where a row's
/// values sum to 0. At latent values `Σ d = 1`; averages over latent values have less curvature and a smaller sum.
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
    /// Whether each row's `W` acts on values that sum to 0.
    pub centred: bool,
}

/// The smallest average curvature, as a share of the Fisher information.
const CONVEX: f64 = 0.01;

/// The latent values of a row. Values of several functions are collected in `values`.
pub(super) fn of_row<'a>(f: &'a [f64], row: usize, rows: usize, values: &'a mut Vec<f64>) -> &'a [f64] {
    if f.len() == rows {
        return &f[row..=row];
    }
    values.clear();
    values.extend(f.iter().skip(row).step_by(rows));
    values
}

impl Sites {
    /// The sites at `f` `[L, n]`.
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

    /// Sites with the average gradient and curvature of the log density over `N(mean, spread)`: conjugate-computation
    /// variational inference (Khan and Lin 2017). Also returns the sum of the rows' average log densities. Latent
    /// values `[L, n]` are independent with variances `[L, n]`, or for centred likelihoods have covariances `[L L, n]`.
    ///
    /// For centred likelihoods, the average curvature `diag(π̄) − E[π πᵀ]`, with `π̄ = E[π]`, has no diagonal
    /// generalised inverse. It is replaced by the multiple of `diag(π̄) − π̄ π̄ᵀ` with the same trace.
    pub(in crate::models::cagp) fn expected(of: &Observed, mean: Vec<f64>, spread: &[f64]) -> Result<(Self, f64)> {
        let (latents, n) = (of.at.functions.0, of.at.rows());
        let (values, [gradient, slopes]) = of.expectations(&mean, spread)?;
        let total = values.iter().sum();
        let at = of.likely.sites(mean);
        // The derivative in a variance is half the second derivative.
        let step = if at.centred { latents + 1 } else { 1 };
        let bends = slopes.chunks_exact(n).step_by(step).flatten().map(|slope| -2.0 * slope);
        if at.centred {
            let bends: Vec<f64> = bends.collect();
            // Gradient and probabilities sum to the indicator of the observed class.
            let shares = gradient.iter().zip(at.gradient.iter().zip(&at.curvature));
            let shares = shares.map(|(average, (g, d))| ((g + d) - average).max(FLAT)).collect();
            return Ok((Self { curvature: scaled(shares, &bends, n), gradient, ..at }, total));
        }
        // Where the averaged curvature is negative, a fraction of the Fisher information keeps the weight of the row
        // positive.
        let least = if of.likely.density.is_log_concave() { 0.0 } else { CONVEX };
        let curvature = bends.zip(&at.curvature).map(|(bend, d)| bend.max(least * d).max(FLAT)).collect();
        Ok((Self { gradient, curvature, ..at }, total))
    }

    /// Sites a part of the way to others: curvature and curvature times pseudo-target go this share of it.
    pub(super) fn towards(&self, to: &Self, share: f64) -> Self {
        if share == 1.0 {
            return to.clone();
        }
        let mixed = |from: &[f64], to: &[f64]| -> Vec<f64> {
            from.iter().zip(to).map(|(from, to)| from + share * (to - from)).collect()
        };
        let pull = |sites: &Self| -> Vec<f64> {
            sites.curved(&sites.f).iter().zip(&sites.gradient).map(|(curved, g)| curved + g).collect()
        };
        let part = Self { curvature: mixed(&self.curvature, &to.curvature), ..to.clone() };
        let curved = part.curved(&part.f);
        let gradient = mixed(&pull(self), &pull(to)).iter().zip(curved).map(|(pull, curved)| pull - curved).collect();
        Self { gradient, ..part }
    }

    /// The largest change of a latent value or curvature to other sites, as a share of the largest or of 1.
    pub(super) fn distance(&self, to: &Self) -> f64 {
        let share = |from: &[f64], to: &[f64], least: f64| {
            from.iter().zip(to).map(|(from, to)| (to - from).abs()).fold(0.0, f64::max) / largest(to, least)
        };
        share(&self.f, &to.f, 1.0).max(share(&self.curvature, &to.curvature, f64::MIN_POSITIVE))
    }

    /// ŷ − m `[L n]`, for f − m `[L n]`.
    pub(in crate::models::cagp) fn targets(&self, above: &[f64]) -> Vec<f64> {
        above.iter().zip(self.spread(&self.gradient)).map(|(h, g)| h + g).collect()
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
        // Differences keep their digits even if one class has all of the probability.
        let of = |i: usize| {
            let total: f64 = across(i).map(|k| d[k]).sum();
            d[i] * across(i).map(|k| d[k] * (x[i] - x[k])).sum::<f64>() / total
        };
        (0..x.len()).map(of).collect()
    }

    /// The entries of `W` that belong to two latent functions, one for each row.
    pub(super) fn coupling(&self, a: usize, b: usize) -> Vec<f64> {
        let (d, n) = (&self.curvature, self.rows);
        if !self.centred {
            return if a == b { d[a * n..][..n].to_vec() } else { vec![0.0; n] };
        }
        let of = |row: usize| {
            let across = (0..d.len() / n).map(|l| d[l * n + row]);
            let total: f64 = across.clone().sum();
            // Sums the others instead of subtracting from all, which keeps the digits when one share nears 1.
            let others: f64 = across.enumerate().filter(|(l, _)| *l != a).map(|(_, d)| d).sum();
            d[a * n + row] / total * if a == b { others } else { -d[b * n + row] }
        };
        (0..n).map(of).collect()
    }

    /// Projects `s` onto the span of `W`. If `s` is already in it, only rounding errors change.
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

    /// Numbers x `[n]` for one latent function: `e_l x`, or for centred likelihoods `(e_l − 1/L) x`, which sums to 0 in
    /// each row. From `K x` it is the product, if all functions share one covariance. The parts of an action that sums
    /// to 0 in each row sum to the action.
    pub(super) fn of_function(&self, x: &[f64], function: usize) -> Vec<f64> {
        let latents = self.f.len() / self.rows;
        let share = if self.centred { 1.0 / latents as f64 } else { 0.0 };
        let weight = |latent: usize| if latent == function { 1.0 - share } else { -share };
        (0..latents).flat_map(|latent| x.iter().map(move |x| weight(latent) * x)).collect()
    }

    /// Splits the gradient `s` of the log posterior into candidate actions. If the likelihood ties the latent functions
    /// together, there is one candidate: all of `s`. Otherwise there is one for each latent function, ordered by the
    /// gain that it promises.
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

    /// The number of latent values whose curvature is below the rounding error of the largest. They carry almost no
    /// information.
    pub(super) fn flat(&self) -> usize {
        let least = f64::EPSILON * largest(&self.curvature, 0.0);
        self.curvature.iter().filter(|d| **d <= least).count()
    }
}

/// The largest size of some numbers, or `least`.
pub(super) fn largest(of: &[f64], least: f64) -> f64 {
    of.iter().fold(least, |largest, value| largest.max(value.abs()))
}

/// Scales the shares `[L, n]` of the classes so that in each row `Σ d_l (1 − d_l / Σ d)` is the sum of its `bends`.
fn scaled(mut shares: Vec<f64>, bends: &[f64], n: usize) -> Vec<f64> {
    for row in 0..n {
        let across = (row..shares.len()).step_by(n);
        let total: f64 = across.clone().map(|i| shares[i]).sum();
        // Sums the other classes' shares, which keep their digits when one share nears 1.
        let others = |i: usize| across.clone().filter(|k| *k != i).map(|k| shares[k]).sum::<f64>() / total;
        let own: f64 = across.clone().map(|i| shares[i] / total * others(i)).sum();
        let scale = (across.clone().map(|i| bends[i]).sum::<f64>() / own).clamp(CONVEX, 1.0);
        across.for_each(|i| shares[i] = (shares[i] * scale / total).max(FLAT));
    }
    shares
}
