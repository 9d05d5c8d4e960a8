//! The distribution of a target.

use cagey_base::metrics::{Predictive, TargetPrediction};
use cagey_base::{Error, Result};

/// The predictive distribution of one target, in its units.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Prediction {
    /// A real target with gaussian noise, or an average of such predictions.
    Real(Predictive),
    /// A target under any other likelihood (counts, classes, shares), or an average.
    Other(TargetPrediction),
}

impl Prediction {
    pub(crate) fn average(parts: Vec<(f64, Self)>) -> Result<Self> {
        let (mut real, mut other) = (Vec::new(), Vec::new());
        for (weight, part) in parts {
            match part {
                Self::Real(part) => real.push((weight, part)),
                Self::Other(part) => other.push((weight, part)),
            }
        }
        match (real.is_empty(), other.is_empty()) {
            (false, true) => Ok(Self::Real(Predictive::Average(real))),
            (true, false) => Ok(Self::Other(TargetPrediction::mixture(other))),
            _ => Err(Error::Usage("an average is of models with the same likelihood".into())),
        }
    }

    /// What either distribution says.
    fn of<T>(&self, real: impl FnOnce(&Predictive) -> T, other: impl FnOnce(&TargetPrediction) -> T) -> T {
        match self {
            Self::Real(own) => real(own),
            Self::Other(own) => other(own),
        }
    }

    /// The mean of the target; of classes, of their codes.
    pub fn mean(&self) -> f64 {
        self.of(Predictive::mean, TargetPrediction::mean)
    }

    /// Its standard deviation.
    pub fn sd(&self) -> f64 {
        self.of(Predictive::sd, TargetPrediction::sd)
    }

    /// The value that is not exceeded with probability `p`; of counts, the smallest such.
    pub fn quantile(&self, p: f64) -> f64 {
        self.of(|own| own.quantile(p), |own| own.quantile(p))
    }

    /// The central interval that holds the target with this probability.
    pub fn interval(&self, level: f64) -> [f64; 2] {
        [0.5 * (1.0 - level), 0.5 * (1.0 + level)].map(|p| self.quantile(p))
    }

    /// The probability of at most `y`.
    pub fn cdf(&self, y: f64) -> f64 {
        self.of(|own| own.cdf(y), |own| own.cdf(y))
    }

    /// The log density of `y`; of counts and classes, its log probability.
    pub fn log_density(&self, y: f64) -> f64 {
        self.of(|own| own.log_density(y), |own| own.log_density(y))
    }

    /// The probability of each class, if targets are classes.
    pub fn probabilities(&self) -> Option<Vec<f64>> {
        self.of(|_| None, TargetPrediction::probabilities)
    }
}
