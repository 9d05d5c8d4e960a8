//! What a file says to a program that only predicts: a posterior in numbers, and its units.

mod committee;
mod latent;

use std::collections::BTreeMap;

pub use committee::{Committee, Experts, Own};
pub use latent::{Change, Latent, Mean, Moments, Ready, Root, Weigh};
use serde::{Deserialize, Serialize};

use crate::likelihoods::Auxiliary;
use crate::metrics::{Calibration, Temperature};
use crate::model_file::{Array, ArrayData};
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
    /// Experts that a rule combines.
    Experts(Box<Committee>),
    /// It cannot be served, for this reason.
    Refused(String),
}

/// Adds an array that only serves, and returns its name.
pub fn keep(arrays: &mut BTreeMap<String, Array>, name: &str, values: Vec<f64>) -> String {
    let name = format!("{PREFIX}{name}");
    arrays.insert(name.clone(), Array { shape: vec![values.len()], data: ArrayData::F64(values) });
    name
}

/// The rows of a row-major triangle `[m, m]` within it, one after another.
pub fn packed(square: &[f64], m: usize, upper: bool) -> Vec<f64> {
    let row = |(i, row): (usize, &'_ [f64])| if upper { row[i..].to_vec() } else { row[..=i].to_vec() };
    square.chunks_exact(m).enumerate().flat_map(row).collect()
}

/// A posterior and the arrays that it names.
#[derive(Debug, Clone)]
pub struct Served {
    /// The posterior.
    pub posterior: Described,
    /// Arrays that the file does not have for other reasons.
    pub arrays: BTreeMap<String, Array>,
}

impl Served {
    /// A posterior that cannot be served.
    pub fn refused(why: impl Into<String>) -> Self {
        Self { posterior: Described::Refused(why.into()), arrays: BTreeMap::new() }
    }

    /// Independent latent functions, or why they cannot be served.
    pub fn latents(latents: Result<Vec<Latent>, String>, arrays: BTreeMap<String, Array>) -> Self {
        match latents {
            Ok(latents) => Self { posterior: Described::Latents(latents), arrays },
            Err(why) => Self::refused(why),
        }
    }
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
