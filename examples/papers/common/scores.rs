//! Scores of predictions, and their means over runs.

use cagey::Result;
use cagey::likelihoods::Likelihood;
use cagey::metrics::{Predictive, score, score_classes};
use cagey::models::Observations;
use cagey::models::posterior::{Correlated, Marginals, Posterior};
use serde::{Deserialize, Serialize};

/// Scores of test rows.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Scored {
    /// RMSE, or the share of wrong classes.
    pub error: f64,
    /// Negative log predictive density or probability of a row.
    pub nlpd: f64,
    /// The share of targets in central 95 % intervals, or the expected calibration error.
    pub calibration: f64,
}

/// Normal predictions with this noise variance.
pub fn of_normal(y: &[f64], said: &Marginals, noise: f64) -> Result<Scored> {
    let normal = |(&mean, &variance): (&f64, &f64)| Predictive::Normal { mean, sd: (variance + noise).sqrt() };
    let scores = score(y, &said.mean.iter().zip(&said.variance).map(normal).collect::<Vec<_>>())?;
    Ok(Scored { error: scores.rmse, nlpd: scores.nlpd, calibration: scores.coverage_95 })
}

/// Probabilities of classes.
pub fn of_classes(y: &[f64], probabilities: &[Vec<f64>]) -> Result<Scored> {
    let scores = score_classes(&y.iter().map(|y| *y as usize).collect::<Vec<_>>(), probabilities)?;
    Ok(Scored { error: 1.0 - scores.accuracy, nlpd: scores.log_loss, calibration: scores.ece })
}

/// The probabilities of classes at rows `x`.
pub fn probabilities(posterior: &dyn Posterior, likelihood: &dyn Likelihood, x: &[f64]) -> Result<Vec<Vec<f64>>> {
    let mut all = Vec::new();
    if let Some(Correlated { mean, covariance }) = posterior.correlated(x)? {
        let latents = likelihood.latents();
        for (mean, covariance) in mean.chunks(latents).zip(covariance.chunks(latents * latents)) {
            all.push(likelihood.predict_joint(mean, covariance, None)?.probabilities().unwrap_or_default());
        }
        return Ok(all);
    }
    let latents = posterior.marginals(x)?;
    for row in 0..latents[0].mean.len() {
        let mean: Vec<f64> = latents.iter().map(|latent| latent.mean[row]).collect();
        let variance: Vec<f64> = latents.iter().map(|latent| latent.variance[row]).collect();
        all.push(likelihood.predict(&mean, &variance, None)?.probabilities().unwrap_or_default());
    }
    Ok(all)
}

/// The negative log predictive probability of a row, for one latent function.
pub fn nll(posterior: &dyn Posterior, likelihood: &dyn Likelihood, test: &Observations) -> Result<f64> {
    let latent = posterior.predict(&test.x)?;
    let mut total = 0.0;
    for ((mean, variance), y) in latent.mean.iter().zip(&latent.variance).zip(&test.y) {
        total -= likelihood.predict(&[*mean], &[*variance], None)?.log_density(*y);
    }
    Ok(total / test.n() as f64)
}

/// The root of the mean square of differences.
pub fn rmse(a: &[f64], b: &[f64]) -> f64 {
    (a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / a.len() as f64).sqrt()
}

/// Mean and standard deviation; the latter is 0 for one number.
pub fn spread(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, if n > 1.0 { (squares / (n - 1.0)).sqrt() } else { 0.0 })
}

/// Mean and standard deviation as text.
pub fn shown(values: &[f64]) -> String {
    let (mean, sd) = spread(values);
    if values.len() > 1 { format!("{mean:.4} ± {sd:.4}") } else { format!("{mean:.4}") }
}
