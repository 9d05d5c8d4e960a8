//! The rules by name.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::weights::Form;

/// How predictions of experts become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Rule {
    /// Product of experts: precisions add up, so that many experts are overconfident
    Poe,
    /// Generalised product of experts: each counts 1/M
    Gpoe,
    /// Generalised product of experts: each counts the entropy that its data took
    GpoeEntropy,
    /// The same, with shares that add up to 1 in each row
    GpoeEntropyNormalised,
    /// Bayesian committee machine: a product without the prior's repetitions
    Bcm,
    /// Robust Bayesian committee machine: weighed by entropy, too
    Rbcm,
    /// Generalised robust Bayesian committee machine: experts share the rows of a communication expert
    Grbcm,
    /// Nested pointwise aggregation: the best linear predictor from the experts' means, n² time for each row
    Npae,
    /// Weights from the normal equation over all rows
    Weights,
    /// Weights from one row of each expert, with the noise as the regularisation
    WeightsNoise,
    /// Weights from one row of each expert, as printed by Chen and Tuo 2024; they may explode
    WeightsPrinted,
    /// In each row the expert that knows most: that of the least variance
    Nearest,
}

/// What a rule needs beside local means and variances and the prior variances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Experts that have the rows of a communication expert, too.
    pub augmented: bool,
    /// Covariances among experts; of the weights' rules only for the [mean-squared
    /// error](super::WeightVariance::Prior).
    pub covariances: bool,
    /// Weights of this form.
    pub weights: Option<Form>,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 12] = [
        Self::Poe,
        Self::Gpoe,
        Self::GpoeEntropy,
        Self::GpoeEntropyNormalised,
        Self::Bcm,
        Self::Rbcm,
        Self::Grbcm,
        Self::Npae,
        Self::Weights,
        Self::WeightsNoise,
        Self::WeightsPrinted,
        Self::Nearest,
    ];

    /// What it needs.
    pub fn needs(self) -> Needs {
        let weights = match self {
            Self::Weights => Some(Form::Normal),
            Self::WeightsNoise => Some(Form::Noise),
            Self::WeightsPrinted => Some(Form::Printed),
            _ => None,
        };
        let covariances = self == Self::Npae || weights.is_some();
        Needs { augmented: self == Self::Grbcm, covariances, weights }
    }

    /// Its name in options, files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Poe => "poe",
            Self::Gpoe => "gpoe",
            Self::GpoeEntropy => "gpoe-entropy",
            Self::GpoeEntropyNormalised => "gpoe-entropy-normalised",
            Self::Bcm => "bcm",
            Self::Rbcm => "rbcm",
            Self::Grbcm => "grbcm",
            Self::Npae => "npae",
            Self::Weights => "weights",
            Self::WeightsNoise => "weights-noise",
            Self::WeightsPrinted => "weights-printed",
            Self::Nearest => "nearest",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
