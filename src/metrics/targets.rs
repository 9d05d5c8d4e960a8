//! Predictions under likelihoods other than the Gaussian, and how well they fit.

use cagey_base::metrics::{TargetPrediction, finite, same_length};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::counts::{pearson_dispersion, randomised_pit};
use super::pit_curve;
use crate::{Result, threads};

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
    /// Mean [deviance](crate::likelihoods::Prediction::deviance) about the predicted means, under the likelihood's own
    /// distribution; for counts and positive targets.
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
/// [`Error::Shape`](crate::Error::Shape) for no targets or different lengths,
/// [`Error::NotFinite`](crate::Error::NotFinite) if the error or the density is not finite.
pub fn score_targets(y: &[f64], predictions: &[TargetPrediction], seed: u64) -> Result<TargetScores> {
    same_length("predictions to score", y, predictions)?;
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
    finite(&[("rmse", scores.rmse), ("nlpd", scores.nlpd)], y.len()).map(|()| scores)
}
