//! Training rows in a file, as a model sees them.

use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::columns::{Inputs, Units, check_targets};
use crate::data::{Dataset, RowFile};
use crate::error::Result;
use crate::likelihoods::Likelihood;
use crate::models::Observations;
use crate::models::minibatch::Rows;

/// Rows of a sample, from which everything is chosen that is chosen from data before a training: the moments that the
/// file has would know of held-out rows.
const SAMPLE: usize = 1 << 16;
/// Rows that are looked at together when all are.
const CHUNK: usize = 1 << 14;

/// Rows of a file that a model is trained on.
#[derive(Debug, Clone)]
pub struct Stored {
    pub file: Arc<RowFile>,
    /// Their positions in the file.
    pub rows: Vec<usize>,
    /// The column that goes with them.
    pub auxiliary_column: Option<String>,
}

impl Stored {
    /// Some of the rows, at random where there are many.
    ///
    /// # Errors
    /// As [`RowFile::read`].
    pub fn sample(&self, seed: u64) -> Result<Dataset> {
        let (n, mut rng) = (self.rows.len(), Xoshiro256PlusPlus::seed_from_u64(seed));
        let mut places = rand::seq::index::sample(&mut rng, n, n.min(SAMPLE)).into_vec();
        places.sort_unstable();
        self.file.read(&places.into_iter().map(|place| self.rows[place]).collect::<Vec<_>>())
    }

    /// Looks at all rows for what a likelihood cannot take.
    ///
    /// # Errors
    /// What it reports, and the scale of the targets.
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
pub struct Seen<'a> {
    pub stored: &'a Stored,
    pub units: &'a Units,
}

impl Rows for Seen<'_> {
    fn count(&self) -> usize {
        self.stored.rows.len()
    }

    fn gather(&self, rows: &[usize]) -> Result<Observations> {
        let data = self.stored.file.read(&rows.iter().map(|&row| self.stored.rows[row]).collect::<Vec<_>>())?;
        self.units.observe(Inputs::of(&data, self.stored.auxiliary_column.as_deref())?, &data)
    }
}
