//! What a likelihood knows about a row besides its inputs.

use serde::{Deserialize, Serialize};

/// The target of a row and its auxiliary value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The target, as the model sees it; a class as its code 0, 1, ….
    pub y: f64,
    /// The number that the likelihood's [`Auxiliary`] describes, or its neutral value if there is no such column.
    pub auxiliary: f64,
}

/// The kind of a likelihood's auxiliary column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Auxiliary {
    /// No auxiliary column.
    None,
    /// Known noise variances, which are added to the learned one.
    NoiseVariance,
    /// Exposures: the time, area or population over which a count was taken. An offset on the logarithmic scale is
    /// `ln exposure`.
    Exposure,
    /// Numbers of trials.
    Trials,
}

impl Auxiliary {
    /// The value for rows without the column.
    pub fn neutral(self) -> f64 {
        match self {
            Self::NoiseVariance => 0.0,
            Self::None | Self::Exposure | Self::Trials => 1.0,
        }
    }

    /// What is wrong with a value, if anything.
    pub fn problem(self, auxiliary: f64) -> Option<String> {
        let need = match self {
            Self::None => return None,
            Self::NoiseVariance if auxiliary.is_finite() && auxiliary >= 0.0 => return None,
            Self::Exposure if auxiliary.is_finite() && auxiliary > 0.0 => return None,
            Self::Trials if auxiliary.is_finite() && auxiliary >= 1.0 && auxiliary.fract() == 0.0 => return None,
            Self::NoiseVariance => "known noise variance must be 0 or more",
            Self::Exposure => "exposure must be positive; leave out rows without exposure",
            Self::Trials => "number of trials must be a whole number from 1",
        };
        Some(format!("the {need}, got {auxiliary}"))
    }
}

/// Targets `y [n]` with their auxiliary values.
#[derive(Debug, Clone, Copy)]
pub struct Targets<'a> {
    /// Targets `[n]`.
    pub y: &'a [f64],
    /// The auxiliary column `[n]`, if there is one.
    pub auxiliary: Option<&'a [f64]>,
}

impl<'a> Targets<'a> {
    /// Targets without an auxiliary column.
    pub fn new(y: &'a [f64]) -> Self {
        Self { y, auxiliary: None }
    }

    /// Row `i`. Its auxiliary value is `neutral` if there is no column, and NaN if the column is too short.
    pub fn row(&self, i: usize, neutral: f64) -> Row {
        Row {
            y: self.y[i],
            auxiliary: self.auxiliary.map_or(neutral, |auxiliary| auxiliary.get(i).copied().unwrap_or(f64::NAN)),
        }
    }

    /// All rows.
    pub fn rows(self, auxiliary: Auxiliary) -> impl Iterator<Item = Row> + Clone + 'a {
        (0..self.y.len()).map(move |i| self.row(i, auxiliary.neutral()))
    }
}
