//! As many actions as variances need.

use super::{CagpPosterior, EXACT_ROWS};
use crate::error::{Error, Result};
use crate::likelihoods::Likelihood;
use crate::models::cagp::IterativeCagp;
use crate::models::gp_model::GpModel;
use crate::models::minibatch::Rows;
use crate::models::nearest::NearestGp;
use crate::models::posterior::{ComputationAware, Posterior, Uncertainty};
use crate::solvers::Probes;
use crate::solvers::itergp::IterGpOptions;
use crate::solvers::policies::{Policy, PseudoInput, Random};

/// Rows of the data at which variances are compared.
const ROWS: usize = 200;

/// Actions that are added at once.
const COLUMNS: usize = 64;

/// The most actions, and the most numbers that they have on all rows: 2 GiB.
const MOST: usize = 8192;
const NUMBERS: usize = 1 << 28;

/// Multiples of it leave rows of all parts of a table at any time.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// Nearest rows that stand for all where these are too many. They leave a variance that is hardly above that of all
/// rows, and never below it.
const NEAREST: usize = 256;

/// Refuses models whose mathematical variance is not known.
pub(super) fn check(likelihood: &dyn Likelihood, rows: usize) -> Result<()> {
    if likelihood.latents() == 1 && (rows <= EXACT_ROWS || likelihood.noise().is_some()) {
        return Ok(());
    }
    let problem = format!(
        "what computation could still gain is known for one latent function, and for other targets than Gaussian ones \
         up to {EXACT_ROWS} rows: choose a number of actions"
    );
    Err(Error::Usage(problem).about("CagpOptions::actions"))
}

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
        check(&*self.of.likelihood, n)?;
        let rows: Vec<usize> = (0..n.min(ROWS)).map(|k| k * n / n.min(ROWS)).collect();
        let rows = self.data.gather(&rows)?;
        let x = &rows.x;
        let mathematical = self.mathematical(x)?;
        let (mut grown, most) = (self, n.min(MOST).min(NUMBERS / n));
        while grown.actions() < most && grown.share(x, &mathematical)? > share {
            let more = COLUMNS.max(grown.actions() / 4).min(most - grown.actions());
            let next = match gaussian {
                true => grown.wider(more)?,
                false => IterativeCagp::refined(&grown, more)?,
            };
            let ended = next.actions() == grown.actions();
            grown = next;
            if ended {
                break;
            }
        }
        Ok(grown)
    }

    /// With so many further actions, as far as they are new: covariances with rows all over the data, which explain
    /// most, and random ones where those of smooth kernels no longer differ by more than rounding. Residuals would end
    /// with the mean, whose uncertainty is not all.
    fn wider(&self, count: usize) -> Result<Self> {
        let (n, first) = (self.data.n(), self.actions());
        let place = |k: usize| ((k as f64 * GOLDEN).fract() * n as f64) as usize;
        let rows: Vec<usize> = (first..first + count).map(|k| place(k).min(n - 1)).collect();
        let places = PseudoInput::new(&self.data.gather(&rows)?.x, self.data.d)?;
        let random = Random { probes: Probes::Gaussian, seed: first as u64 };
        let mut all = self.clone();
        for policy in [&places as &dyn Policy, &random] {
            let left = first + count - all.actions();
            if left > 0 {
                let (grown, report) = all.compute_more(policy, &IterGpOptions::budget(left), None)?;
                all = Self { report: Some(report), ..grown };
            }
        }
        Ok(all)
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
}
