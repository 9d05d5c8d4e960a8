//! What a file says to a program that only predicts: a posterior in numbers, and its units.
//!
//! Descriptions have long lists (`A`) and points (`P`) by the names of their arrays in the file. Once they are read,
//! the same types have the numbers and the prepared points in their place.

mod classes;
mod committee;
mod grids;
mod latent;
mod neighbours;
mod scores;
mod states;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

pub use classes::{Classes, Together};
pub use committee::{Committee, Experts, Own, Rows};
pub use grids::{Grid, Grids};
pub(crate) use latent::dot;
pub use latent::{Change, Latent, Mean, Moments, Ready, Root, Weigh};
pub use neighbours::Neighbours;
pub use scores::{Scored, Scores};
use serde::{Deserialize, Serialize};
pub use states::States;

use crate::kernels::{Kernel, Prepared};
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
    /// Experts that a rule combines.
    Experts(Box<Committee>),
    /// Latent functions that depend on each other.
    Classes(Classes),
    /// Latent functions of classes without variances.
    Scores(Scores),
    /// Combined sparse models on grids.
    Grids(Box<Grids>),
    /// A sparse model in which each row sees its neighbours.
    Neighbours(Box<Neighbours>),
    /// A function of time by its states.
    States(Box<States>),
    /// It cannot be served, for this reason.
    Refused(String),
}

/// One latent function, ready to predict.
pub trait Function: Debug + Send + Sync {
    /// Means and variances at rows `x`, row-major.
    ///
    /// # Errors
    /// Why there is no prediction.
    fn moments(&self, x: &[f64]) -> Result<Vec<Moments>, String>;
}

/// A posterior, ready to predict.
#[derive(Debug, Clone)]
pub enum Posterior {
    /// Latent functions that are independent given the data.
    Apart(Vec<Arc<dyn Function>>),
    /// Latent functions that are not.
    Together(Arc<Together>),
    /// Latent functions without variances.
    Scores(Arc<Scored>),
}

/// Finds an array by its name.
pub type Find<'a> = &'a mut dyn FnMut(&str) -> Option<Vec<f64>>;

impl Described {
    /// Reads the arrays of a posterior of so many latent functions, for inputs with `d` columns.
    ///
    /// # Errors
    /// What is missing or does not fit, or why it cannot be served.
    pub fn ready(&self, d: usize, latents: usize, array: Find) -> Result<Posterior, String> {
        let one = |function: Arc<dyn Function>| Posterior::Apart(vec![function]);
        let (ready, count) = match self {
            Self::Refused(why) => return Err(format!("cannot be served: {why}")),
            Self::Latents(all) => {
                let ready = all.iter().map(|latent| Ok(Arc::new(latent.ready(d, array)?) as _));
                (Posterior::Apart(ready.collect::<Result<_, String>>()?), all.len())
            }
            Self::Classes(all) => (Posterior::Together(Arc::new(all.ready(d, array)?)), all.latents.len()),
            Self::Scores(all) => (Posterior::Scores(Arc::new(all.ready(d, array)?)), all.levels.len()),
            Self::Experts(experts) => (one(Arc::new(experts.ready(d, array)?)), 1),
            Self::Grids(grids) => (one(Arc::new(grids.ready(d, array)?)), 1),
            Self::Neighbours(sparse) => (one(Arc::new(sparse.ready(d, array)?)), 1),
            Self::States(states) => (one(Arc::new(states.ready(d, array)?)), 1),
        };
        match count == latents {
            true => Ok(ready),
            false => Err(format!("has {count} latent functions where its likelihood has {latents}")),
        }
    }
}

/// An array that has to be there.
fn needed(array: Find, name: &str) -> Result<Vec<f64>, String> {
    array(name).ok_or_else(|| format!("lacks the array `{name}`"))
}

/// An array that has to have so many numbers.
fn sized(array: Find, name: &str, length: usize) -> Result<Vec<f64>, String> {
    match needed(array, name)? {
        values if values.len() == length => Ok(values),
        values => Err(format!("the array `{name}` has {} numbers in place of {length}", values.len())),
    }
}

/// A kernel at the points of an array.
fn prepared(kernel: &Kernel, points: &[f64], name: &str, d: usize) -> Result<Prepared, String> {
    if let Some(problem) = kernel.problem(d) {
        return Err(problem);
    }
    match points.is_empty() || !points.len().is_multiple_of(d) {
        true => Err(format!("the array `{name}` does not have rows of {d} columns")),
        false => Ok(kernel.prepare(points, d)),
    }
}

/// A variance, given the prior's and the part of it that the data explain. A NaN stays a NaN.
fn left(prior: f64, explained: f64) -> f64 {
    let (variance, floor) = (prior - explained, VARIANCE_FLOOR * prior);
    if variance < floor { floor } else { variance }
}

/// The error of a row, counted from 0, whose prediction is not finite.
pub fn not_finite(row: usize) -> crate::Error {
    let problem = "its prediction is not a finite number, because its inputs lie too far from the data";
    crate::Error::Data(format!("row {}: {problem}", row + 1))
}

/// Adds an array that only serves, and returns its name.
pub fn keep(arrays: &mut BTreeMap<String, Array>, name: &str, values: Vec<f64>) -> String {
    let name = format!("{PREFIX}{name}");
    arrays.insert(name.clone(), Array::list(values));
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

    /// Latent functions that depend on each other, or why they cannot be served.
    pub fn classes(
        latents: Result<Vec<Latent>, String>,
        shared: Option<String>,
        arrays: BTreeMap<String, Array>,
    ) -> Self {
        match latents {
            Ok(latents) => Self { posterior: Described::Classes(Classes { latents, shared }), arrays },
            Err(why) => Self::refused(why),
        }
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
