//! What to fit.

use serde::{Deserialize, Serialize};

use crate::data::{TargetTransform, Warping};
use crate::device::Compute;
use crate::means::Mean;
use crate::models::options::ModelChoice;
use crate::models::race::Starts;
use crate::models::registry::usual;
use crate::params::Belief;

/// Whether intervals come from residuals of rows that the model did not see, instead of the normal distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Calibrate {
    /// If leaving one out has a closed form, which costs little. With fewer than 50 rows, Student-t intervals because
    /// the size of the errors is learned from few rows. Of 5,000 rows or more a tenth is not trained on, where there is
    /// no such form
    #[default]
    Auto,
    /// By leaving one out, or else from a share of the rows, which is then not trained on
    Yes,
    /// As the model says
    No,
}

/// What to fit: the model and what is known about its parameters. All numbers are in the units of the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Kernel text; see [`kernels::text`](mod@crate::kernels::text).
    pub kernel: String,
    /// `zero`, `constant` or `linear`, or `auto` for the one that suits the likelihood.
    pub mean: String,
    /// Likelihood text; see [`likelihoods::registry`](crate::likelihoods::registry).
    pub likelihood: String,
    /// The model and its approximation.
    pub model: ModelChoice,
    /// Whether inputs and target are standardised for the computation.
    pub standardize: bool,
    /// Increasing functions of input columns, before they are standardised.
    pub input_transform: Warping,
    /// The function of the target that is modelled.
    pub target_transform: TargetTransform,
    /// The likelihood's [auxiliary column](crate::likelihoods::Likelihood::auxiliary): known standard deviations of the
    /// target per row, exposures or numbers of trials.
    #[serde(rename = "row_column")]
    pub auxiliary_column: Option<String>,
    /// Initial values by parameter name.
    pub init: Vec<(String, Vec<f64>)>,
    /// Parameters to keep at their initial values.
    pub fix: Vec<String>,
    /// Priors by parameter name, or by name and column: `lengthscale[age]`.
    pub priors: Vec<(String, Belief)>,
    /// Whether lengthscales of many columns, and variances under likelihoods of classes, have a weak prior by default.
    pub weak_prior: bool,
    /// Bounds by parameter name.
    pub bounds: Vec<(String, f64, f64)>,
    /// Where training begins.
    pub starts: Starts,
    /// Whether intervals come from residuals.
    pub calibrate: Calibrate,
    /// Device and precision.
    pub compute: Compute,
    /// Whether the file holds what conditioning on the data computes, even if that is a number for each pair of rows.
    /// Then loading need not compute it again, and programs that only predict can use the file: see
    /// [`serving`](crate::serving).
    pub store_factor: bool,
}

impl Settings {
    /// Whether targets are Gaussian given the latent function, with any noise.
    pub(super) fn is_gaussian(&self) -> bool {
        self.likelihood.starts_with("gaussian")
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kernel: "matern32(ard)".into(),
            mean: Mean::AUTO.into(),
            likelihood: "gaussian".into(),
            model: usual(),
            standardize: true,
            input_transform: Warping::default(),
            target_transform: TargetTransform::Identity,
            auxiliary_column: None,
            init: Vec::new(),
            fix: Vec::new(),
            priors: Vec::new(),
            weak_prior: true,
            bounds: Vec::new(),
            starts: Starts::default(),
            calibrate: Calibrate::default(),
            compute: Compute::default(),
            store_factor: false,
        }
    }
}
