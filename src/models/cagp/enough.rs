//! As many actions as variances need.

use std::fmt;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::{Actions, CagpPosterior, EXACT_ROWS};
use crate::advice::Advice;
use crate::device::Precision;
use crate::error::{Error, Result};
use crate::likelihoods::Likelihood;
use crate::models::cagp::IterativeCagp;
use crate::models::gp_model::GpModel;
use crate::models::minibatch::Rows;
use crate::models::nearest::NearestGp;
use crate::models::posterior::{ComputationAware, Posterior, Uncertainty};
use crate::products::BlockSparse;

/// Rows of the data at which variances are compared.
const ROWS: usize = 200;

/// Actions that are added at once.
const COLUMNS: usize = 64;

/// The most actions, and the most numbers that they have on all rows: a quarter of a GiB.
const MOST: usize = 4096;
const NUMBERS: usize = 1 << 25;

/// Nearest rows that stand for all where these are too many. They leave a variance that is hardly above that of all
/// rows, and never below it.
const NEAREST: usize = 256;

/// Averages of as many blocks of rows with weights drawn between 0 and 1. Near rows stand together, so they keep most
/// of a smooth function, and what each row adds by itself keeps them apart from earlier ones. (Residuals end with the
/// mean, and covariances with rows differ by too little for single precision.)
fn weighted(n: usize, blocks: usize, seed: u64) -> Actions {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let weights: Vec<f64> = (0..n).map(|_| rng.random()).collect();
    Actions::from_blocks(&weights, BlockSparse::even(n, blocks))
}

/// Bytes that as many actions as there may be take, and the exact model beside them.
pub(super) fn bytes(rows: usize) -> f64 {
    let (most, exact) = (most(rows) as f64, rows.min(EXACT_ROWS) as f64);
    8.0 * (rows as f64 * most + most.powi(2) + exact.powi(2))
}

/// The most actions for so many rows.
fn most(rows: usize) -> usize {
    rows.min(MOST).min(NUMBERS / rows.max(1))
}

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

/// Why no more actions were added.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ended {
    Enough,
    Most,
    Precision,
}

/// How many actions were added after training, and what they leave open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Added {
    actions: [usize; 2],
    share: f64,
    ended: Ended,
    precision: Precision,
}

impl Added {
    /// What the user should know if variances would need more.
    pub fn warning(&self) -> Option<Advice> {
        let why = match self.ended {
            Ended::Enough => return None,
            Ended::Most => "more would take too much memory",
            Ended::Precision => "others do not differ from them in this precision",
        };
        let [_, to] = self.actions;
        let text = format!("{to} actions are not as many as variances need: {}, and {why}", percent(self.share));
        let advice = Advice::from(text).about("CagpOptions::actions");
        let single = self.ended == Ended::Precision && self.precision != Precision::F64;
        Some(if single { advice.set("Compute::precision", "f64") } else { advice })
    }
}

impl fmt::Display for Added {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { actions: [from, to], share, .. } = self;
        let added = match to - from {
            0 => "none".into(),
            added => format!("{added} of them"),
        };
        write!(f, "{to} actions, {added} added after training: {}", percent(*share))
    }
}

fn percent(share: f64) -> String {
    format!("what is not computed adds {:.1} % to the variance of a prediction", 100.0 * share)
}

impl CagpPosterior {
    /// The posterior with further actions, until the computational variance is at most this share of the mathematical
    /// one and that of Gaussian noise: in the mean of up to 200 rows of the data. Ends before that with one for each
    /// row, with 4,096, or with as many as fill a quarter of a GiB. For one latent function.
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
        let (from, most) = (self.actions(), most(n));
        let mut grown = self;
        let (left, ended) = loop {
            let left = grown.share(x, &mathematical)?;
            if left <= share {
                break (left, Ended::Enough);
            }
            if grown.actions() >= most {
                break (left, Ended::Most);
            }
            let more = COLUMNS.max(grown.actions() / 4).min(most - grown.actions());
            let next = match gaussian {
                true => grown.condition(&weighted(n, more, grown.actions() as u64)),
                false => IterativeCagp::refined(&grown, more),
            };
            match next {
                Ok(next) if next.actions() > grown.actions() => grown = next,
                Ok(_) | Err(Error::Usage(_)) => break (left, Ended::Precision),
                Err(other) => return Err(other),
            }
        };
        let added = Added { actions: [from, grown.actions()], share: left, ended, precision: grown.compute.precision };
        Ok(Self { added: Some(added), ..grown })
    }

    /// The computational variance over that of a prediction by the exact model, summed over some rows.
    fn share(&self, x: &[f64], mathematical: &[f64]) -> Result<f64> {
        let total = self.predict(x)?.variance;
        let computational: f64 = total.iter().zip(mathematical).map(|(total, exact)| (total - exact).max(0.0)).sum();
        let noise = self.of.likelihood.noise().unwrap_or_default();
        Ok(computational / mathematical.iter().map(|exact| exact + noise).sum::<f64>())
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
