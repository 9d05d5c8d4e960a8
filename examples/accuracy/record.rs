//! The file of accepted results.

use std::collections::BTreeMap;
use std::path::Path;

use cagey::{Error, Result};
use serde::{Deserialize, Serialize};

/// A result of an entry: less is better.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Number {
    /// The mean over seeds.
    pub mean: f64,
    /// The standard deviation over seeds, of which each has an order of the rows, inducing inputs and minibatches of
    /// its own.
    pub sd: f64,
    /// The number of seeds.
    pub seeds: u64,
}

/// So many standard deviations of a difference are no change. Three seeds say little about their standard deviation.
const DEVIATIONS: f64 = 4.0;

/// Changes of the objective per row, or of the held-out score, up to this one are rounding.
const ROUNDING: f64 = 1e-3;

impl Number {
    /// The mean and the standard deviation of values, one for each seed.
    pub fn of(values: &[f64]) -> Self {
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self { mean, sd: (squares / (n.max(2) - 1) as f64).sqrt(), seeds: n as u64 }
    }

    /// How much larger the mean over `seeds` seeds may be.
    pub fn margin(&self, seeds: u64) -> f64 {
        ROUNDING + DEVIATIONS * self.sd * (1.0 / seeds as f64 + 1.0 / self.seeds as f64).sqrt()
    }
}

/// Both results of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The objective per row, without priors.
    pub objective: Number,
    /// The negative log density, or log loss, per held-out row.
    pub held_out: Number,
}

/// Accepted results by the name of their entry.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Accepted(pub BTreeMap<String, Results>);

impl Accepted {
    /// Reads the file; nothing is accepted if there is none.
    pub fn read(path: &Path) -> Result<Self> {
        match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| Error::Data(format!("{}: {e}", path.display()))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(Error::io(path, &e)),
        }
    }

    /// Writes the file, one line for each entry.
    pub fn write(&self, path: &Path) -> Result<()> {
        let lines: Vec<String> =
            self.0.iter().map(|(name, results)| format!("  {name:?}: {}", serde_json::json!(results))).collect();
        std::fs::write(path, format!("{{\n{}\n}}\n", lines.join(",\n"))).map_err(|e| Error::io(path, &e))
    }
}
