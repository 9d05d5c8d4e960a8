//! Training rows in a file, as a model sees them.

use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::data::{Dataset, InputScale, RowFile, TargetScale};
use crate::error::{Error, Result};
use crate::likelihoods::{Auxiliary, Likelihood};
use crate::models::Observations;
use crate::models::columns::{Inputs, Units, check_targets};
use crate::models::minibatch::{Rows, SharedRows};

/// Rows of the sample from which everything is chosen that is chosen from data before a training. The moments in the
/// file would include held-out rows.
const SAMPLE: usize = 1 << 16;
/// Rows that are read together in a pass over all of them.
const CHUNK: usize = 1 << 14;

/// Rows of a file that a model is trained on.
#[derive(Debug, Clone)]
pub struct Stored {
    pub file: Arc<RowFile>,
    /// Their positions in the file.
    pub rows: Vec<usize>,
    /// Their auxiliary column.
    pub auxiliary_column: Option<String>,
}

impl Stored {
    /// A sample of the rows: all of them, or a random choice if there are many.
    ///
    /// # Errors
    /// As [`RowFile::read`].
    pub fn sample(&self, seed: u64) -> Result<Dataset> {
        let (n, mut rng) = (self.rows.len(), Xoshiro256PlusPlus::seed_from_u64(seed));
        let mut places = rand::seq::index::sample(&mut rng, n, n.min(SAMPLE)).into_vec();
        places.sort_unstable();
        self.file.read(&places.into_iter().map(|place| self.rows[place]).collect::<Vec<_>>())
    }

    /// Checks all rows for targets that the likelihood cannot take.
    ///
    /// # Errors
    /// Errors of this check, and of the scale of the targets.
    pub fn check(&self, likelihood: &dyn Likelihood, units: &Units) -> Result<()> {
        for rows in self.rows.chunks(CHUNK) {
            let data = self.file.read(rows)?;
            units.target.forward(&data)?;
            check_targets(likelihood, &data, self.auxiliary_column.as_deref())?;
        }
        Ok(())
    }
}

/// The rows in a model's units.
#[derive(Debug, Clone)]
pub struct FileRows {
    pub stored: Stored,
    pub units: Units,
}

/// The description of rows in a file that another process gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Description {
    path: String,
    checksum: u64,
    inputs: InputScale,
    target: TargetScale,
    auxiliary: Auxiliary,
    auxiliary_column: Option<String>,
}

impl FileRows {
    /// Opens the file of rows that another process describes; all of its rows, by their positions.
    ///
    /// # Errors
    /// As [`RowFile::open`]; [`Error::Data`] if the file differs from that of the other process.
    pub fn open(description: Value) -> Result<Self> {
        let description: Description = serde_json::from_value(description)
            .map_err(|e| Error::Device(format!("a message between ranks: a file of rows: {e}")))?;
        let Description { path, checksum, inputs, target, auxiliary, auxiliary_column } = description;
        let file = RowFile::open(&path)?;
        if file.checksum() != checksum {
            return Err(Error::Data(format!("{path}: it is not the file of rows that rank 0 reads")));
        }
        let rows = (0..file.len()).collect();
        Ok(Self {
            stored: Stored { file: file.into(), rows, auxiliary_column },
            units: Units { inputs, target, auxiliary },
        })
    }
}

impl Rows for FileRows {
    fn count(&self) -> usize {
        self.stored.rows.len()
    }

    fn gather(&self, rows: &[usize]) -> Result<Observations> {
        if rows.is_empty() {
            return Ok(Observations::none(self.columns()));
        }
        let data = self.stored.file.read(&self.places(rows))?;
        self.units.observe(Inputs::of(&data, self.stored.auxiliary_column.as_deref())?, &data)
    }
}

impl SharedRows for FileRows {
    fn columns(&self) -> usize {
        self.units.inputs.mean.len()
    }

    fn has_auxiliary(&self) -> bool {
        self.stored.auxiliary_column.is_some()
    }

    fn description(&self) -> Value {
        let Stored { file, auxiliary_column, .. } = &self.stored;
        let Units { inputs, target, auxiliary } = &self.units;
        json!(Description {
            path: file.path().display().to_string(),
            checksum: file.checksum(),
            inputs: inputs.clone(),
            target: *target,
            auxiliary: *auxiliary,
            auxiliary_column: auxiliary_column.clone(),
        })
    }

    fn places(&self, rows: &[usize]) -> Vec<usize> {
        rows.iter().map(|row| self.stored.rows[*row]).collect()
    }
}
