//! Whether intervals hold, and if not, what shape the misfit has and what corrects it.
//!
//! Everything is judged from standardised residuals `z = (y − mean) / sd`. Each statistic is compared with the same
//! statistic of residuals that the model itself draws. These are correlated if errors of neighbours are, as in a
//! forecast or in leaving one out.

mod draws;
mod shape;
mod verdict;

pub use draws::Draws;
pub use verdict::{Held, Verdict};

use serde::Serialize;
use statrs::distribution::{Binomial, DiscreteCDF};

use super::StudentT;
use shape::Ranked;
use verdict::FEW;

/// Standardised residuals, with the quantities that they may depend on.
#[derive(Debug, Clone, Copy)]
pub struct Residuals<'a> {
    /// (y − mean) / sd `[n]`, on the scale where predictions are normal.
    pub z: &'a [f64],
    /// Predictive means `[n]`.
    pub mean: &'a [f64],
    /// Inputs, row-major `[n, d]`.
    pub x: &'a [f64],
    /// Columns of inputs.
    pub d: usize,
    /// Places of the rows in the order of their table `[n]`; all equal if that order is not known.
    pub order: &'a [usize],
}

/// The quantity that something changes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Along {
    /// The predictive mean.
    Mean,
    /// An input, by its column.
    Input(usize),
    /// The order of the rows.
    Rows,
}

/// A shape of misfit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finding {
    /// Successive errors have the same sign: something drifts that the model does not know.
    Drift {
        /// What they succeed each other along.
        along: Along,
    },
    /// Rows lie beyond the training rows: all of them, or most if intervals fail.
    Beyond {
        /// The input whose training range they lie outside.
        input: usize,
        /// The share of rows outside.
        share: f64,
    },
    /// Predictions are worse than the mean of the rows: R² is below 0.
    BelowMean {
        /// R².
        r2: f64,
        /// Whether they are also worse than the mean of the training targets.
        below_training: bool,
    },
    /// Errors are larger in one part of the data than in another.
    NoiseVaries {
        /// What their size changes with.
        along: Along,
        /// Their root mean square in its top third, divided by that in its bottom third.
        ratio: f64,
    },
    /// More large errors, and more small ones, than a normal distribution has.
    HeavyTails {
        /// Degrees of freedom of the Student-t distribution that fits them.
        df: f64,
    },
    /// All intervals are too narrow (above 1) or too wide.
    Scale {
        /// The factor by which standard deviations would have to grow.
        ratio: f64,
    },
}

/// What corrects a misfit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Remedy {
    /// A trend along an input: a linear kernel added to the other one.
    Trend,
    /// A trend and a season along an input.
    Season,
    /// Another kernel.
    Kernel,
    /// A likelihood for such targets: for counts, or for positive numbers.
    Likelihood,
    /// The time or number of the row as an additional input.
    OrderAsInput,
    /// The logarithm of the target.
    LogTarget,
    /// The target itself instead of its logarithm.
    PlainTarget,
    /// A likelihood whose noise varies with the inputs.
    Heteroscedastic,
    /// A likelihood with heavy tails, or intervals from residuals.
    HeavyTails,
    /// Intervals from residuals.
    Calibrate,
}

impl Finding {
    /// What usually corrects it. `positive` says whether targets are all positive and not yet transformed.
    pub fn remedy(&self, positive: bool) -> Remedy {
        match self {
            Self::Drift { along: Along::Input(_) } | Self::Beyond { .. } | Self::BelowMean { .. } => Remedy::Trend,
            Self::Drift { .. } => Remedy::OrderAsInput,
            Self::NoiseVaries { along: Along::Mean, ratio } if positive && *ratio > 1.0 => Remedy::LogTarget,
            Self::NoiseVaries { .. } => Remedy::Heteroscedastic,
            Self::HeavyTails { .. } => Remedy::HeavyTails,
            Self::Scale { .. } => Remedy::Calibrate,
        }
    }
}

/// Whether intervals hold, and what is wrong with them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Number of rows.
    pub n: usize,
    /// How often the 50 and 95 % intervals held.
    pub held: [Held; 2],
    /// Whether they hold.
    pub verdict: Verdict,
    /// The misfit; the finding that explains most of it comes first.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// Whether nothing is wrong with intervals, as far as the rows can tell. That rows lie beyond the training rows, or
    /// that their mean predicts them better, is no fault of intervals.
    pub fn is_well(&self) -> bool {
        let fault = |found: &Finding| !matches!(found, Finding::Beyond { .. } | Finding::BelowMean { .. });
        self.verdict.holds() != Some(false) && !self.findings.iter().any(fault)
    }
}

/// The smallest share in 95 % intervals that correlated errors, such as those of one forecast, can excuse.
const LEAST: f64 = 0.6;
/// How far a share must be off to be reported, at 50 and 95 %.
const OFF: [f64; 2] = [0.05, 0.02];
/// How far errors must drift to be reported, as a multiple of a rare drift: draws treat the hyperparameters as known
/// better than they are.
const FAR: f64 = 1.35;
const LEVELS: [f64; 2] = [0.5, 0.95];

/// Diagnoses residuals; `draws` are of the same rows.
pub fn diagnose(residuals: &Residuals, draws: &Draws) -> Diagnosis {
    let n = residuals.z.len();
    let bounds = LEVELS.map(|level| StudentT::normal().central(level));
    let held = [0, 1].map(|k| {
        let (level, seen) = (LEVELS[k], share(residuals.z, bounds[k]));
        let (low, high) = chance(n, level);
        let off = draws.widest(|z| (share(z, bounds[k]) - level).abs()).max(OFF[k]);
        let least = if k == 1 && n >= FEW { LEAST.min(low) } else { 0.0 };
        let (low, high) = (low.min(level - off).max(least), high.max(level + off).min(1.0));
        Held { level, share: seen, low, high, holds: n == 0 || (low..=high).contains(&seen) }
    });
    let mut findings = if n < FEW { Vec::new() } else { shapes(residuals, draws) };
    let verdict = Verdict::of(n, &held);
    if findings.is_empty() && verdict.holds() == Some(false) {
        let worst = if held[1].holds { 0 } else { 1 };
        let mut sizes: Vec<f64> = residuals.z.iter().map(|z| z.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let at = ((LEVELS[worst] * n as f64) as usize).min(n - 1);
        findings.push(Finding::Scale { ratio: sizes[at] / bounds[worst] });
    }
    Diagnosis { n, held, verdict, findings }
}

fn share(z: &[f64], bound: f64) -> f64 {
    z.iter().filter(|z| z.abs() <= bound).count() as f64 / z.len().max(1) as f64
}

/// Finds one shape after another, each in the residuals that the earlier ones leave.
fn shapes(residuals: &Residuals, draws: &Draws) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut z = residuals.z.to_vec();
    let inputs: Vec<(Along, Ranked)> = (0..residuals.d)
        .map(|column| {
            let values: Vec<f64> = residuals.x[column..].iter().step_by(residuals.d).copied().collect();
            (Along::Input(column), Ranked::new(&values))
        })
        .filter(|(_, ranked)| ranked.varies())
        .collect();
    let rows = (Along::Rows, Ranked::new(&residuals.order.iter().map(|place| *place as f64).collect::<Vec<_>>()));
    let rows = Some(rows).filter(|(_, places)| places.varies());
    let mean = (Along::Mean, Ranked::new(residuals.mean));

    let orders: Vec<&(Along, Ranked)> = inputs.iter().filter(|(_, r)| r.is_an_order()).chain(&rows).collect();
    // Errors of neighbours along an input are correlated anyway, so each order is compared with what is rare along it.
    let statistics = [Ranked::wander, Ranked::follow];
    let rare: Vec<[f64; 2]> =
        orders.iter().map(|(_, order)| statistics.map(|statistic| draws.rare(|z| statistic(order, z)))).collect();
    let drift = |k: usize, z: &[f64]| {
        let [a, b] = [0, 1].map(|s| statistics[s](&orders[k].1, z) / rare[k][s].max(f64::MIN_POSITIVE));
        a.max(b)
    };
    let most = |z: &[f64]| (0..orders.len()).map(|k| drift(k, z)).fold(0.0, f64::max);
    if most(&z) > FAR && draws.exceeds(most(&z), most) {
        let best = (0..orders.len()).max_by(|a, b| drift(*a, &z).total_cmp(&drift(*b, &z)));
        if let Some((along, order)) = best.map(|k| orders[k]) {
            // If the rows are in the order of an input, the drift is along that input.
            let along = orders.iter().find(|(_, other)| other.same_order(order)).map_or(*along, |(first, _)| *first);
            findings.push(Finding::Drift { along });
            order.centre(&mut z);
        }
    }
    let drivers: Vec<&(Along, Ranked)> = inputs.iter().chain([&mean]).collect();
    let most = |z: &[f64]| {
        let sizes = Ranked::new(&z.iter().map(|z| z.abs()).collect::<Vec<_>>());
        drivers.iter().map(|(_, driver)| driver.dependence(&sizes)).fold(0.0, f64::max)
    };
    let strongest = most(&z);
    if strongest > shape::WORTH && draws.exceeds(strongest, most) {
        let sizes = Ranked::new(&z.iter().map(|z| z.abs()).collect::<Vec<_>>());
        let found = drivers.iter().max_by(|a, b| a.1.dependence(&sizes).total_cmp(&b.1.dependence(&sizes)));
        if let Some((along, driver)) = found {
            // If the mean explains nearly as much, it is the simpler explanation.
            let by_mean = mean.1.monotone(&sizes) > 0.85 * strongest;
            let (along, driver) = if by_mean { (Along::Mean, &mean.1) } else { (*along, driver) };
            findings.push(Finding::NoiseVaries { along, ratio: driver.ratio(&z) });
            driver.level(&mut z);
        }
    }
    let tails = shape::peakedness(&z);
    if tails > shape::PEAKED && draws.exceeds(tails, shape::peakedness) {
        findings.push(Finding::HeavyTails { df: StudentT::fit(&z).df.unwrap_or(f64::INFINITY) });
    }
    findings
}

/// The range, in 99 of 100 cases, of the share of rows that hold, among `n` independent rows with probability `level`
/// each.
fn chance(n: usize, level: f64) -> (f64, f64) {
    Binomial::new(level, n as u64).map_or((0.0, 1.0), |trials| {
        let share = |p| trials.inverse_cdf(p) as f64 / n.max(1) as f64;
        (share(0.005), share(0.995))
    })
}
