//! Targets of any log-concave likelihood of one function: each row is a site, a normal observation of the function that
//! has the gradient and the curvature of the row's log density at the mode.
//!
//! This is Laplace's approximation as the [dense model](crate::models::laplace) has it (Rasmussen and Williams 2006,
//! 3.4 and 3.5), with the filter and its pass back in place of all matrices (Nickisch, Solin and Grigorievskiy 2018,
//! *State space Gaussian processes with non-Gaussian likelihood*): a step of Newton's method takes time in proportion
//! to the rows. With g and W the gradient and the curvature at f, a row observes f − m + g/W with variance R = 1/W, and
//! the residual (K + R)⁻¹z of the observations z at the mode is the gradient a = K⁻¹(f − m).

use super::chain::Pass;
use super::program::Blocks;
use super::rows::{Rows, Times};
use crate::error::{Error, Result};
use crate::likelihoods::{Density, Row, Support};

/// Most steps of Newton's method, and most halvings of a step.
const STEPS: usize = 200;
const HALVINGS: usize = 60;
/// A step that changes no latent value by more than this, relative to the largest or 1, is the last.
const CLOSE: f64 = 1e-9;
/// The loss of the log posterior that counts as a rounding error, relative to its size.
const ROUNDING: f64 = 1e-13;
/// Smaller curvatures count as this: such a row says nothing but its gradient.
const LEAST: f64 = 1e-12;

/// The problem of finding the mode. All rows are in their own order.
pub(super) struct Task<'a> {
    pub blocks: &'a Blocks,
    pub density: &'a dyn Density,
    pub rows: &'a [Row],
    /// Times.
    pub times: &'a Times,
    /// Prior means.
    pub mean: &'a [f64],
}

/// Normal observations of f − m in place of the rows: values, and the curvatures W, which are one over variances.
#[derive(Debug, Clone)]
pub(super) struct Sites {
    pub z: Vec<f64>,
    pub curvature: Vec<f64>,
}

/// A point of the search: f, a = K⁻¹(f − m), and the log posterior up to a constant.
#[derive(Debug, Clone)]
struct Point {
    f: Vec<f64>,
    weights: Vec<f64>,
    value: f64,
}

/// The mode of the posterior.
#[derive(Debug, Clone)]
pub(super) struct Mode {
    /// `[n]`.
    pub f: Vec<f64>,
    /// K⁻¹(f − m) `[n]`.
    pub weights: Vec<f64>,
    /// Posterior variances of f `[n]`.
    pub variances: Vec<f64>,
    /// ln p(y | f).
    pub log_density: f64,
    pub sites: Sites,
}

impl Task<'_> {
    /// The site of each row at f.
    fn sites(&self, f: &[f64]) -> Sites {
        let (mut gradient, mut hessian, mut d) = ([0.0], [0.0], [0.0]);
        let site = |((row, f), mean): ((&Row, &f64), &f64)| {
            self.density.derivatives(*row, &[*f], &mut gradient, &mut hessian);
            self.density.curvature(*row, &[*f], &mut d);
            let curvature = d[0].max(LEAST);
            (f - mean + gradient[0] / curvature, curvature)
        };
        let (z, curvature) = self.rows.iter().zip(f).zip(self.mean).map(site).unzip();
        Sites { z, curvature }
    }

    /// The pass over observations `z` with variances 1/W.
    pub fn pass(&self, z: Vec<f64>, sites: &Sites) -> Result<Pass> {
        let variances = sites.curvature.iter().map(|curvature| curvature.recip()).collect();
        self.blocks.pass(Rows::new(self.times.clone(), z, variances))
    }

    fn log_density(&self, f: &[f64]) -> f64 {
        self.rows.iter().zip(f).map(|(row, f)| self.density.log_density(*row, &[*f])).sum()
    }

    fn point(&self, f: Vec<f64>, weights: Vec<f64>) -> Point {
        let quadratic: f64 = f.iter().zip(self.mean).zip(&weights).map(|((f, mean), a)| (f - mean) * a).sum();
        Point { value: self.log_density(&f) - 0.5 * quadratic, f, weights }
    }

    /// The mean of f, K⁻¹(f − m) and the variances of f given sites.
    fn smoothed(&self, sites: &Sites) -> Result<(Vec<f64>, Vec<f64>, Vec<f64>)> {
        let n = self.times.t.len();
        let (mut f, mut weights, mut variances) = (self.mean.to_vec(), vec![0.0; n], vec![0.0; n]);
        let (mut h, d) = (Vec::new(), self.blocks.width());
        self.pass(sites.z.clone(), sites)?.back(self.blocks, None, |place, visit| {
            self.blocks.observed(self.times.t[place], &mut h);
            let (above, variance) = visit.smoothed(&h, d);
            f[place] += above;
            weights[place] = visit.residual[0];
            variances[place] = variance;
        });
        Ok((f, weights, variances))
    }

    /// Newton's step from the sites at f.
    fn step(&self, f: &[f64]) -> Result<Point> {
        let (f, weights, _) = self.smoothed(&self.sites(f))?;
        Ok(self.point(f, weights))
    }

    /// The prior mean or, of counts and sizes, Newton's step from the values at which each target is likeliest, if it
    /// is higher: steps from the mean reach large counts slowly.
    fn start(&self) -> Point {
        let start = self.point(self.mean.to_vec(), vec![0.0; self.mean.len()]);
        if !matches!(self.density.support(1.0), Support::Counts(_) | Support::Positive) {
            return start;
        }
        let peaks: Vec<f64> = self.rows.iter().map(|row| self.density.peak(*row)).collect();
        self.step(&peaks).ok().filter(|near| near.value > start.value).unwrap_or(start)
    }

    /// Finds the mode by Newton's method with halved steps.
    ///
    /// # Errors
    /// [`Error::NotFinite`] if there is no finite mode, and those of the filter.
    pub fn mode(&self) -> Result<Mode> {
        let none = || Error::NotFinite("the log posterior of the latent function".into());
        let mut here = self.start();
        for _ in 0..STEPS {
            if !here.value.is_finite() {
                return Err(none());
            }
            let full = self.step(&here.f)?;
            let size = full.f.iter().fold(1.0, |most: f64, f| most.max(f.abs()));
            let change = full.f.iter().zip(&here.f).fold(0.0, |most: f64, (a, b)| most.max((a - b).abs()));
            let close = change <= CLOSE * size;
            let (mut next, mut share) = (full.clone(), 1.0);
            let least = here.value - ROUNDING * here.value.abs().max(1.0);
            for _ in 0..HALVINGS {
                // Without a number this is not so either.
                if next.value >= least {
                    break;
                }
                share *= 0.5;
                let between =
                    |from: &[f64], to: &[f64]| from.iter().zip(to).map(|(a, b)| a + share * (b - a)).collect();
                next = self.point(between(&here.f, &full.f), between(&here.weights, &full.weights));
            }
            if next.value.is_nan() || next.value < least {
                // Nothing near is higher: this is the mode, as far as numbers tell.
                break;
            }
            here = next;
            if close {
                break;
            }
        }
        let sites = self.sites(&here.f);
        let (f, weights, variances) = self.smoothed(&sites)?;
        Ok(Mode { log_density: self.log_density(&f), f, weights, variances, sites })
    }
}
