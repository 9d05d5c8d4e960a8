//! What a file says to a program that only predicts: a posterior in numbers, and its units.

mod latent;

use std::collections::BTreeMap;

pub use latent::{Change, Latent, Mean, Moments, Ready, Root, Weigh};
use serde::{Deserialize, Serialize};

use crate::likelihoods::Auxiliary;
use crate::metrics::{Calibration, Temperature};
use crate::model_file::Array;
use crate::scale::{InputScale, TargetScale};

/// The key of a document with a [`Description`].
pub const KEY: &str = "serving";

/// What begins the names of arrays that only serve.
pub const PREFIX: &str = "serving.";

/// Smallest predictive variance as a share of the prior variance: a few hundred rounding errors in f64.
pub const VARIANCE_FLOOR: f64 = 1e-13;

/// A posterior in numbers. Long lists are arrays of the file, and stand here by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Described {
    /// Independent latent functions.
    Latents(Vec<Latent>),
    /// It cannot be served, for this reason.
    Refused(String),
}

/// A posterior and the arrays that it names.
#[derive(Debug, Clone)]
pub struct Served {
    /// The posterior.
    pub posterior: Described,
    /// Arrays that the file does not have for other reasons.
    pub arrays: BTreeMap<String, Array>,
}

/// What a program that only predicts reads in the document of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The names of the inputs, in the order in which rows have their numbers.
    pub inputs: Vec<String>,
    /// The name of the auxiliary column, and what it is.
    pub auxiliary: Option<(String, Auxiliary)>,
    /// The labels of classes.
    pub classes: Option<Vec<String>>,
    /// The text of the density, and the values of its own parameters; none if it does not come with the library.
    pub density: Option<(String, Vec<f64>)>,
    /// The name of the likelihood.
    pub likelihood: String,
    /// The posterior.
    pub posterior: Described,
}

/// The units of a model, from the same document.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Units {
    /// The inputs' standardisation.
    pub input_scale: InputScale,
    /// The target's transform and standardisation.
    pub target_scale: TargetScale,
    /// The distribution of residuals that replaces the normal one.
    pub calibration: Option<Calibration>,
    /// The temperature of class probabilities.
    pub temperature: Option<Temperature>,
}

impl Units {
    /// What is wrong with them, if anything is. Files can contain anything.
    pub fn problem(&self) -> Option<String> {
        let of_calibration = self.calibration.as_ref().and_then(Calibration::problem);
        let of_temperature = self.temperature.as_ref().and_then(Temperature::problem);
        let scales = [self.input_scale.problem(), self.target_scale.problem()];
        scales.into_iter().chain([of_calibration, of_temperature]).flatten().next()
    }
}
