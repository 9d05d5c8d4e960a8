//! How well predictive distributions fit held-out targets.

use std::f64::consts::FRAC_1_SQRT_2;

use serde::{Deserialize, Serialize};
use statrs::function::erf::erfc;

use super::{Predictive, quantiles};
use crate::{Error, Result};

/// How well predictive distributions fit targets; the point prediction is the predictive mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Number of targets.
    pub n: usize,
    /// Root mean squared error.
    pub rmse: f64,
    /// Mean absolute error.
    pub mae: f64,
    /// `1 − Σ(y − ŷ)² / Σ(y − ȳ)²`; `None` for constant targets.
    pub r2: Option<f64>,
    /// Mean negative log predictive density, in nats.
    pub nlpd: f64,
    /// Mean continuous ranked probability score; infinite if the logarithm of the target is Student-t.
    pub crps: f64,
    /// Share of targets in the central 50 % interval.
    pub coverage_50: f64,
    /// Share of targets in the central 80 % interval.
    pub coverage_80: f64,
    /// Share of targets in the central 90 % interval.
    pub coverage_90: f64,
    /// Share of targets in the central 95 % interval.
    pub coverage_95: f64,
    /// Mean width of the central 50 % interval.
    pub width_50: f64,
    /// Mean width of the central 95 % interval.
    pub width_95: f64,
    /// Mean over the levels 0.05, 0.10, …, 0.95 of `|share of targets in the central interval − level|`.
    pub calibration_error: f64,
}

/// Scores predictive distributions against targets `y [n]`.
///
/// # Errors
/// [`Error::Shape`] for no targets or different lengths, [`Error::Data`] for a target outside its distribution's
/// support, [`Error::NotFinite`] if a score is, for example because a standard deviation is 0.
pub fn score(y: &[f64], predictions: &[Predictive]) -> Result<Scores> {
    same_length("predictions to score", y, predictions)?;
    let pairs = || y.iter().copied().zip(predictions);
    for (i, (y, p)) in pairs().enumerate() {
        let least = p.least();
        if y <= least {
            return Err(Error::Data(format!(
                "target {} is {y}, but a log-normal prediction needs targets above {}; score such rows with an \
                 untransformed model",
                i + 1,
                least
            )));
        }
    }
    let n = y.len() as f64;
    let mean = |f: &dyn Fn(f64, &Predictive) -> f64| pairs().map(|(y, p)| f(y, p)).sum::<f64>() / n;
    let mse = mean(&|y, p| (y - p.mean()).powi(2));
    let centre = mean(&|y, _| y);
    let variance = mean(&|y, _| (y - centre).powi(2));
    let constant = y.iter().all(|value| *value == y[0]);
    let pit = central_levels(y, predictions);
    let curve = curve(&pit);
    let scores = Scores {
        n: y.len(),
        rmse: mse.sqrt(),
        mae: mean(&|y, p| (y - p.mean()).abs()),
        r2: (!constant).then_some(1.0 - mse / variance),
        nlpd: mean(&|y, p| -p.log_density(y)),
        crps: mean(&|y, p| p.crps(y)),
        coverage_50: share_within(&pit, 0.50),
        coverage_80: share_within(&pit, 0.80),
        coverage_90: share_within(&pit, 0.90),
        coverage_95: share_within(&pit, 0.95),
        width_50: width(predictions, 0.25),
        width_95: width(predictions, 0.025),
        calibration_error: curve.iter().map(|(level, seen)| (seen - level).abs()).sum::<f64>() / curve.len() as f64,
    };
    let named = [
        ("rmse", scores.rmse),
        ("mae", scores.mae),
        ("r2", scores.r2.unwrap_or(0.0)),
        ("nlpd", scores.nlpd),
        ("crps", if scores.crps == f64::INFINITY { 0.0 } else { scores.crps }),
        ("width_95", scores.width_95),
    ];
    finite(&named, y.len()).map(|()| scores)
}

/// Refuses no targets, and another number of what there is one of for each.
#[doc(hidden)]
pub fn same_length<T>(what: &str, y: &[f64], other: &[T]) -> Result<()> {
    if y.is_empty() || y.len() != other.len() {
        let got = format!("{} for {} targets", other.len(), y.len());
        return Err(Error::shape(what, format!("one for each of {} targets", y.len().max(1)), got));
    }
    Ok(())
}

/// Refuses scores of `n` predictions that are not finite.
#[doc(hidden)]
pub fn finite(scores: &[(&str, f64)], n: usize) -> Result<()> {
    match scores.iter().find(|(_, value)| !value.is_finite()) {
        Some((name, _)) => Err(Error::NotFinite(format!("the score {name} of {n} predictions"))),
        None => Ok(()),
    }
}

/// The mean width of central intervals that leave out `tail` on each side.
fn width(predictions: &[Predictive], tail: f64) -> f64 {
    let ends = quantiles(predictions, 1.0 - tail).into_iter().zip(quantiles(predictions, tail));
    ends.map(|(upper, lower)| upper - lower).sum::<f64>() / predictions.len() as f64
}

/// For each level 0.05, 0.10, …, 0.95, the share of targets `y [n]` in the central interval of that probability:
/// `(level, observed)`. Calibrated predictions lie on the diagonal. Without targets, shares are 0.
pub fn calibration_curve(y: &[f64], predictions: &[Predictive]) -> Vec<(f64, f64)> {
    curve(&central_levels(y, predictions))
}

/// The same from the predictive probability of at most each target.
pub fn pit_curve(pit: &[f64]) -> Vec<(f64, f64)> {
    curve(&pit.iter().map(|u| (2.0 * u - 1.0).abs()).collect::<Vec<_>>())
}

fn curve(pit: &[f64]) -> Vec<(f64, f64)> {
    (1..20).map(|step| f64::from(step) / 20.0).map(|level| (level, share_within(pit, level))).collect()
}

/// For each target, the probability of the smallest central interval that holds it.
fn central_levels(y: &[f64], predictions: &[Predictive]) -> Vec<f64> {
    y.iter().zip(predictions).map(|(&y, p)| 1.0 - erfc(p.standardised(y).abs() * FRAC_1_SQRT_2)).collect()
}

fn share_within(levels: &[f64], level: f64) -> f64 {
    let inside = levels.iter().filter(|&&own| own <= level).count();
    inside as f64 / levels.len().max(1) as f64
}
