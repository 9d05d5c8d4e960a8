//! Predictions under likelihoods other than the Gaussian, and how well they fit.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::counts::{pearson_dispersion, randomised_pit};
use super::pit_curve;
use crate::likelihoods::quadrature::adaptive;
use crate::likelihoods::{Prediction, Support};
use crate::{Error, Result, threads};

/// The predictive distribution of a target in its own units: `y = origin + unit z`, where the likelihood gives z.
#[derive(Debug, Clone)]
pub struct TargetPrediction {
    /// The distribution of z.
    pub standardised: Prediction,
    /// The value of z = 0 in the target's units; 0 for targets that are not standardised.
    pub origin: f64,
    /// The value of a difference of 1 in z; 1 for targets that are not standardised.
    pub unit: f64,
}

impl TargetPrediction {
    fn z(&self, y: f64) -> f64 {
        (y - self.origin) / self.unit
    }

    /// `E[y]`.
    pub fn mean(&self) -> f64 {
        self.origin + self.unit * self.standardised.mean()
    }

    /// The standard deviation of `y`.
    pub fn sd(&self) -> f64 {
        self.unit * self.standardised.variance().sqrt()
    }

    /// The quantile `p`: the smallest `y` that is not exceeded with probability `p`.
    pub fn quantile(&self, p: f64) -> f64 {
        self.origin + self.unit * self.standardised.quantile(p)
    }

    /// The quantile `p` of `E[y | f]`, such as of a rate.
    pub fn response_quantile(&self, p: f64) -> f64 {
        self.origin + self.unit * self.standardised.response_quantile(p)
    }

    /// `P(target ≤ y)`.
    pub fn cdf(&self, y: f64) -> f64 {
        self.standardised.cdf(self.z(y))
    }

    /// `ln p(y)`; for a count, its log probability.
    pub fn log_density(&self, y: f64) -> f64 {
        self.standardised.log_density(self.z(y)) - self.unit.ln()
    }

    /// The continuous ranked probability score at `y`, in units of `y`. Not for classes, whose codes are not distances.
    pub fn crps(&self, y: f64) -> f64 {
        self.unit * crps(&self.standardised, self.z(y))
    }

    /// The probability of each class, if targets are classes.
    pub fn probabilities(&self) -> Option<Vec<f64>> {
        self.standardised.probabilities()
    }

    fn is_count(&self) -> bool {
        matches!(self.standardised.support(), Support::Counts(_))
    }

    /// Whether `y` is in the central interval of this probability.
    fn covers(&self, y: f64, level: f64) -> bool {
        let (tail, upper) = (0.5 * (1.0 - level), self.cdf(y));
        let below = if self.is_count() { upper - self.log_density(y).exp() } else { upper };
        upper >= tail && below < 1.0 - tail
    }
}

/// How well predictions under a likelihood fit targets; the point prediction is the predictive mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TargetScores {
    /// Number of targets.
    pub n: usize,
    /// Root mean squared error.
    pub rmse: f64,
    /// Mean absolute error.
    pub mae: f64,
    /// Mean negative log predictive density or probability, in nats.
    pub nlpd: f64,
    /// Mean continuous ranked probability score.
    pub crps: f64,
    /// Share of targets in the central 50 % interval; for counts, more than half even if predictions are right.
    pub coverage_50: f64,
    /// Share of targets in the central 90 % interval.
    pub coverage_90: f64,
    /// Share of targets in the central 95 % interval.
    pub coverage_95: f64,
    /// Mean width of the central 95 % interval.
    pub width_95: f64,
    /// Mean over the levels 0.05, 0.10, …, 0.95 of `|share of targets in the central interval − level|`; for counts,
    /// after randomisation.
    pub calibration_error: f64,
    /// Mean [deviance](Prediction::deviance) about the predicted means, under the likelihood's own distribution; for
    /// counts and positive targets.
    pub deviance: Option<f64>,
    /// Mean squared Pearson residual, for counts: 1 if the spread is right, more if the counts vary more.
    pub dispersion: Option<f64>,
}

/// The predictive probability of at most each target; for counts, after randomisation. Uniform on (0, 1) if predictions
/// fit.
pub fn probability_transform(y: &[f64], predictions: &[TargetPrediction], seed: u64) -> Vec<f64> {
    match predictions.iter().all(TargetPrediction::is_count) {
        true => randomised_pit(y, seed, |i, y| predictions[i].cdf(y)),
        false => y.iter().zip(predictions).map(|(y, p)| p.cdf(*y)).collect(),
    }
}

/// Scores predictions against targets `y [n]`; `seed` is for the randomisation of counts.
///
/// # Errors
/// [`Error::Shape`] for no targets or different lengths, [`Error::NotFinite`] if the error or the density is not
/// finite.
pub fn score_targets(y: &[f64], predictions: &[TargetPrediction], seed: u64) -> Result<TargetScores> {
    if y.is_empty() || y.len() != predictions.len() {
        let got = format!("{} for {} targets", predictions.len(), y.len());
        return Err(Error::shape("predictions to score", format!("one for each of {} targets", y.len().max(1)), got));
    }
    let n = y.len() as f64;
    let means: Vec<f64> = predictions.iter().map(TargetPrediction::mean).collect();
    let average = |f: &dyn Fn(f64, f64, &TargetPrediction) -> f64| {
        y.iter().zip(&means).zip(predictions).map(|((y, mean), p)| f(*y, *mean, p)).sum::<f64>() / n
    };
    // Nested integrals: the slowest of the scores.
    let ranked =
        threads::map(y.par_iter().zip(predictions), |(y, p)| [p.crps(*y), p.quantile(0.975) - p.quantile(0.025)]);
    let [crps, width_95] = [0, 1].map(|k| ranked.iter().map(|scores| scores[k]).sum::<f64>() / n);
    let coverage = |level: f64| average(&|y, _, p| f64::from(u8::from(p.covers(y, level))));
    let counts = predictions.iter().all(TargetPrediction::is_count);
    let levels = pit_curve(&probability_transform(y, predictions, seed));
    let deviances: Option<Vec<f64>> =
        y.iter().zip(predictions).map(|(y, p)| p.standardised.deviance(p.z(*y))).collect();
    let variances: Vec<f64> = predictions.iter().map(|p| p.sd().powi(2)).collect();
    let scores = TargetScores {
        n: y.len(),
        rmse: average(&|y, mean, _| (y - mean).powi(2)).sqrt(),
        mae: average(&|y, mean, _| (y - mean).abs()),
        nlpd: average(&|y, _, p| -p.log_density(y)),
        crps,
        coverage_50: coverage(0.5),
        coverage_90: coverage(0.9),
        coverage_95: coverage(0.95),
        width_95,
        calibration_error: levels.iter().map(|(level, share)| (share - level).abs()).sum::<f64>() / levels.len() as f64,
        deviance: deviances.map(|all| all.iter().sum::<f64>() / n),
        dispersion: counts.then(|| pearson_dispersion(y, &means, &variances)).transpose()?,
    };
    match [("rmse", scores.rmse), ("nlpd", scores.nlpd)].into_iter().find(|(_, value)| !value.is_finite()) {
        Some((name, _)) => Err(Error::NotFinite(format!("the score {name} of {} predictions", scores.n))),
        None => Ok(scores),
    }
}

/// The score is integrated between these quantiles; outside them the integrand is the square of a small probability.
const QUANTILES: [f64; 5] = [1e-5, 0.025, 0.5, 0.975, 1.0 - 1e-5];

/// Error of an integral as a share of the width of the 95 % interval.
const TOLERANCE: f64 = 1e-6;

/// Blocks of whole numbers between two of the quantiles.
const BLOCKS: f64 = 64.0;

/// `∫ (P(target ≤ t) − [y ≤ t])² dt`; for whole numbers, the sum over them.
pub(super) fn crps(prediction: &Prediction, y: f64) -> f64 {
    let quantiles = QUANTILES.map(|p| prediction.quantile(p));
    let counts = matches!(prediction.support(), Support::Counts(_));
    let mut breaks: Vec<f64> = quantiles.into_iter().chain([y]).collect();
    if counts {
        breaks.push(quantiles[4] + 1.0);
    }
    breaks.sort_by(f64::total_cmp);
    let square = |t: f64| (prediction.cdf(t) - f64::from(u8::from(y <= t))).powi(2);
    if counts {
        return breaks.windows(2).map(|pair| blocks(pair[0], pair[1], &square)).sum();
    }
    let tolerance = TOLERANCE * (quantiles[3] - quantiles[1]);
    // The step at y lies between two pieces.
    adaptive(&breaks, tolerance, &square)
}

/// The sum of a function over the whole numbers from `low` to below `high`, with the value in the middle of each of
/// many equal blocks.
fn blocks(low: f64, high: f64, g: &dyn Fn(f64) -> f64) -> f64 {
    // A block of odd size has a middle.
    let size = 2.0 * ((high - low) / (2.0 * BLOCKS)).floor() + 1.0;
    let block = |k: f64| {
        let from = low + size * k;
        let size = size.min(high - from);
        size * g(from + (0.5 * (size - 1.0)).floor())
    };
    (0..((high - low) / size).ceil() as u32).map(|k| block(f64::from(k))).sum()
}
