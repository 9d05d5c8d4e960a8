//! As many actions as variances need.

use super::{CagpPosterior, EXACT_ROWS};
use crate::error::{Error, Result};
use crate::models::cagp::IterativeCagp;
use crate::models::gp_model::GpModel;
use crate::models::minibatch::Rows;
use crate::models::nearest::NearestGp;
use crate::models::posterior::{ComputationAware, Posterior, Uncertainty};
use crate::solvers::itergp::{IterGpOptions, Stop};
use crate::solvers::policies::Residual;

/// Rows of the data at which variances are compared.
const ROWS: usize = 200;

/// Actions that are added at once.
const COLUMNS: usize = 64;

/// The most actions, and the most numbers that they have on all rows: 2 GiB.
const MOST: usize = 8192;
const NUMBERS: usize = 1 << 28;

/// Nearest rows that stand for all where these are too many. They leave a variance that is hardly above that of all
/// rows, and never below it.
const NEAREST: usize = 256;

impl CagpPosterior {
    /// The posterior with further actions, until the computational variance is at most this share of the mathematical
    /// one: in the mean of up to 200 rows of the data, without noise. Ends before that when there are no more actions
    /// that are new, or 8,192, or as many as fill 2 GiB. For one latent function.
    ///
    /// The mathematical variance is that of the exact model; of more than [`EXACT_ROWS`] rows that of the exact model
    /// given the 256 nearest of a row.
    ///
    /// # Errors
    /// [`Error::Usage`] for several latent functions, and for more rows with another likelihood than the Gaussian.
    pub fn until(self, share: f64) -> Result<Self> {
        let (n, gaussian) = (self.data.n(), self.of.likelihood.noise().is_some());
        if self.of.functions.0 > 1 || (n > EXACT_ROWS && !gaussian) {
            let problem = format!(
                "the mathematical variance is known for one latent function, and for other targets than Gaussian ones \
                 up to {EXACT_ROWS} rows: choose a number of actions"
            );
            return Err(Error::Usage(problem).about("CagpOptions::actions"));
        }
        let rows: Vec<usize> = (0..n.min(ROWS)).map(|k| k * n / n.min(ROWS)).collect();
        let rows = self.data.gather(&rows)?;
        let x = &rows.x;
        let mathematical = self.mathematical(x)?;
        let (mut grown, most) = (self, n.min(MOST).min(NUMBERS / n));
        while grown.actions() < most && grown.share(x, &mathematical)? > share {
            let more = COLUMNS.max(grown.actions() / 4).min(most - grown.actions());
            let (next, stop) = grown.grown(more)?;
            let ended = next.actions() == grown.actions() || stop == Some(Stop::Dependent);
            grown = next;
            if ended {
                break;
            }
        }
        Ok(grown)
    }

    /// Computational over mathematical variance, summed over some rows.
    fn share(&self, x: &[f64], mathematical: &[f64]) -> Result<f64> {
        let total = self.predict(x)?.variance;
        let computational: f64 = total.iter().zip(mathematical).map(|(total, exact)| (total - exact).max(0.0)).sum();
        Ok(computational / mathematical.iter().sum::<f64>())
    }

    /// The variance of the latent function that no more computation lowers.
    fn mathematical(&self, x: &[f64]) -> Result<Vec<f64>> {
        if let Uncertainty { mathematical: Some(exact), .. } = self.uncertainty(x)? {
            return Ok(exact);
        }
        let likelihood = self.of.gaussian();
        let nearest = NearestGp { prior: self.prior().clone(), likelihood, neighbours: NEAREST, trained: NEAREST };
        Ok(nearest.condition(self.compute, self.data.clone())?.predict(x)?.variance)
    }

    /// With at most so many further actions, and why there are no more.
    pub(super) fn grown(&self, more: usize) -> Result<(Self, Option<Stop>)> {
        if self.of.likelihood.noise().is_none() {
            return Ok((IterativeCagp::refined(self, more)?, None));
        }
        let (posterior, report) = self.compute_more(&Residual, &IterGpOptions::budget(more), None)?;
        Ok((Self { report: Some(report), ..posterior }, Some(report.stop)))
    }
}
