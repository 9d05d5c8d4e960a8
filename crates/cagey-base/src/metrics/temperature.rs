//! Calibration of class probabilities with rows that the model did not see.

use serde::{Deserialize, Serialize};

use super::Source;
use crate::likelihoods::tempered;

/// One number that sharpens or flattens the probabilities of classes and keeps their order: `p_c ∝ p_cᵉ` (temperature
/// scaling of the logarithms; Guo et al. 2017, with the temperature 1/e).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Temperature {
    /// The exponent e: above 1 if the model was too unsure, below 1 if it was too sure.
    pub exponent: f64,
    /// The number of rows that it was fitted to.
    pub rows: usize,
    /// Gain in the log probability of their classes, in nats.
    pub gain: f64,
    /// Which rows these are.
    #[serde(default = "apart")]
    pub source: Source,
}

/// Files without a source had rows set apart.
fn apart() -> Source {
    Source::Share
}

/// The prior variance of its logarithm.
const PRIOR: f64 = 0.25;

/// The range of exponents: temperatures from 1/20 to 20.
const RANGE: (f64, f64) = (0.05, 20.0);

impl Temperature {
    /// The exponent of the highest posterior density for the classes (codes) and predicted probabilities of rows, which
    /// matters for few rows only: its logarithm has the prior N(0, ½²). It is 1 if it does not gain half a logarithm of
    /// their number (Schwarz 1978).
    pub fn fit(codes: &[usize], probabilities: &[Vec<f64>], source: Source) -> Self {
        let rows: Vec<(usize, Vec<f64>)> = codes.iter().copied().zip(probabilities.iter().map(|p| logs(p))).collect();
        let (mut low, mut high) = (RANGE.0.ln(), RANGE.1.ln());
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            let rises = middle.exp() * slope(&rows, middle.exp()) > middle / PRIOR;
            if rises { low = middle } else { high = middle }
        }
        let exponent = (0.5 * (low + high)).exp();
        let of = |exponent: f64| {
            let chosen = |(code, p): (&usize, &Vec<f64>)| tempered(p, exponent)[*code].max(f64::MIN_POSITIVE).ln();
            codes.iter().zip(probabilities).map(chosen).sum::<f64>()
        };
        let gain = of(exponent) - of(1.0);
        match gain > 0.5 * (codes.len().max(1) as f64).ln() {
            true => Self { exponent, rows: codes.len(), gain, source },
            false => Self { exponent: 1.0, rows: codes.len(), gain: 0.0, source },
        }
    }

    /// What is wrong with the exponent, if anything is.
    pub fn problem(&self) -> Option<String> {
        let well = self.exponent.is_finite() && self.exponent > 0.0;
        (!well).then(|| format!("the exponent {} of its probabilities is not a positive number", self.exponent))
    }
}

fn logs(p: &[f64]) -> Vec<f64> {
    p.iter().map(|p| p.max(f64::MIN_POSITIVE).ln()).collect()
}

/// The derivative of the log probability of the classes with respect to the exponent.
fn slope(rows: &[(usize, Vec<f64>)], exponent: f64) -> f64 {
    let of_row = |(code, logs): &(usize, Vec<f64>)| {
        let p: Vec<f64> = logs.iter().map(|log| log.exp()).collect();
        logs[*code] - tempered(&p, exponent).iter().zip(logs).map(|(q, log)| q * log).sum::<f64>()
    };
    rows.iter().map(of_row).sum()
}
