//! The rules by name.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// How predictions of experts are combined into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Rule {
    /// Product of experts: precisions add up, so that many experts together are overconfident
    Poe,
    /// Generalised product of experts: each expert has the weight 1/M
    Gpoe,
    /// Generalised product of experts: weighted by the entropy that an expert's data removed
    GpoeEntropy,
    /// The same, with weights that add up to 1 in each row
    GpoeEntropyNormalised,
    /// Bayesian committee machine: a product that counts the prior only once
    Bcm,
    /// Robust Bayesian committee machine: also weighted by entropy
    Rbcm,
    /// Generalised robust Bayesian committee machine: all experts also have the rows of a communication expert
    Grbcm,
    /// The same committee of only the experts nearest to each row: fast, for experts of regions
    Near,
    /// Nested pointwise aggregation: the best linear predictor from the experts' means, n² time for each row
    Npae,
    /// Weights from the normal equation over all rows
    Weights,
    /// Weights from one row of each expert, with the noise as the regularisation
    WeightsNoise,
    /// In each row the expert that knows most: the one with the least variance
    Nearest,
}

/// The equation of the weights: A β = b with A_ij = Σ_x f_i(x) f_j(x) + λ ⟨f_i, f_j⟩_H and λ = σ². Eq. 44, as printed
/// for exact experts, has λ = 1; the example `paper-distributed` shows how its weights explode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// b = diag A, over one row of each expert, as the paper's text says.
    Noise,
    /// b_i = Σ_x y f_i(x), over all rows. If rows have noise variances of their own, they are first whitened,
    /// that is, divided by their standard deviations. Then λ = 1.
    Normal,
}

impl Form {
    /// Whether the sums are over all rows rather than one row of each expert.
    pub fn all_rows(self) -> bool {
        self == Self::Normal
    }
}

/// What a rule needs beside local means and variances and the prior variances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// The experts' own predictions.
    pub local: bool,
    /// Experts that also have the rows of a communication expert.
    pub augmented: bool,
    /// Covariances among experts.
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
        Self::Near,
        Self::Npae,
        Self::Weights,
        Self::WeightsNoise,
        Self::Nearest,
    ];

    /// What the rule needs.
    pub fn needs(self) -> Needs {
        let weights = match self {
            Self::Weights => Some(Form::Normal),
            Self::WeightsNoise => Some(Form::Noise),
            _ => None,
        };
        let covariances = self == Self::Npae || weights.is_some();
        let augmented = matches!(self, Self::Grbcm | Self::Near);
        Needs { local: !augmented, augmented, covariances, weights }
    }

    /// The rule's name in options, files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Poe => "poe",
            Self::Gpoe => "gpoe",
            Self::GpoeEntropy => "gpoe-entropy",
            Self::GpoeEntropyNormalised => "gpoe-entropy-normalised",
            Self::Bcm => "bcm",
            Self::Rbcm => "rbcm",
            Self::Grbcm => "grbcm",
            Self::Near => "near",
            Self::Npae => "npae",
            Self::Weights => "weights",
            Self::WeightsNoise => "weights-noise",
            Self::Nearest => "nearest",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Rule {
    /// Whether the rule needs rows of several experts in one place.
    pub fn joins_rows(self) -> bool {
        let needs = self.needs();
        needs.augmented || needs.covariances || needs.weights.is_some()
    }

    /// Refuses a rule that needs rows of several experts in one place.
    ///
    /// # Errors
    /// [`Error::Usage`] for such a rule, with the others.
    #[doc(hidden)]
    pub fn check_apart(self) -> Result<()> {
        if !self.joins_rows() {
            return Ok(());
        }
        let others: Vec<&str> = Self::ALL.into_iter().filter(|rule| !rule.joins_rows()).map(Self::name).collect();
        Err(Error::Usage(format!(
            "aggregation {self} needs rows of several experts in one place, but rows of shards stay where they are; \
             choose {}",
            others.join(", ")
        )))
    }
}
