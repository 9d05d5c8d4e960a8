//! Training rows in memory or in a file, as far as this process has them.

use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::data::{Dataset, RowFile};
use crate::error::{Error, Result};
use crate::likelihoods::Likelihood;
use crate::models::Observations;
use crate::models::columns::{Inputs, Units, check_targets};
use crate::models::minibatch::Rows;

/// Rows of the sample from which everything is chosen that is chosen from data before a training. The moments in the
/// file would include held-out rows.
const SAMPLE: usize = 1 << 16;
/// Rows that are read at a time.
const CHUNK: usize = 1 << 14;

/// Where the rows of all parts are, or the rows of this process's parts.
#[derive(Debug, Clone, Copy)]
pub enum Data<'a> {
    /// In memory.
    Memory(&'a Observations),
    /// In a file that all processes read.
    Window(&'a Window),
}

impl Data<'_> {
    /// Rows n.
    pub(crate) fn n(self) -> usize {
        match self {
            Self::Memory(data) => data.n(),
            Self::Window(window) => window.source.count(),
        }
    }

    /// Input columns d.
    pub(crate) fn d(self) -> usize {
        match self {
            Self::Memory(data) => data.d,
            Self::Window(window) => window.source.columns(),
        }
    }

    /// Whether the noise of each row is known.
    pub(crate) fn has_auxiliary(self) -> bool {
        match self {
            Self::Memory(data) => data.auxiliary.is_some(),
            Self::Window(window) => window.source.stored.auxiliary_column.is_some(),
        }
    }

    /// These rows, in their order.
    pub(crate) fn gather(self, rows: &[usize]) -> Result<Observations> {
        match self {
            Self::Memory(data) => data.gather(rows),
            Self::Window(window) => window.gather(rows),
        }
    }
}

/// Rows of a file. This process holds the rows of its own parts, and reads other rows when they are asked for.
#[derive(Debug)]
pub struct Window {
    pub(super) source: Arc<FileRows>,
    /// The numbers of the rows that are held, ascending.
    own: Vec<usize>,
    held: Observations,
}

impl Window {
    pub(super) fn new(source: Arc<FileRows>, mut own: Vec<usize>) -> Result<Self> {
        own.sort_unstable();
        let held = source.collected(&own)?;
        Ok(Self { source, own, held })
    }

    /// The number of rows that are held.
    pub(super) fn len(&self) -> usize {
        self.own.len()
    }

    fn gather(&self, rows: &[usize]) -> Result<Observations> {
        let places: std::result::Result<Vec<usize>, _> = rows.iter().map(|row| self.own.binary_search(row)).collect();
        match places {
            Ok(places) => self.held.gather(&places),
            Err(_) => self.source.collected(rows),
        }
    }
}

/// Rows of a file that a model is trained on.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) file: Arc<RowFile>,
    /// Their positions in the file.
    pub(crate) rows: Vec<usize>,
    /// Their auxiliary column.
    pub(crate) auxiliary_column: Option<String>,
}

impl Stored {
    /// A sample of the rows: all of them, or a random choice if there are many.
    ///
    /// # Errors
    /// As [`RowFile::read`].
    pub(crate) fn sample(&self, seed: u64) -> Result<Dataset> {
        let (n, mut rng) = (self.rows.len(), Xoshiro256PlusPlus::seed_from_u64(seed));
        let mut places = rand::seq::index::sample(&mut rng, n, n.min(SAMPLE)).into_vec();
        places.sort_unstable();
        self.file.read(&places.into_iter().map(|place| self.rows[place]).collect::<Vec<_>>())
    }

    /// Checks all rows for targets that the likelihood cannot take.
    ///
    /// # Errors
    /// Errors of this check, and of the scale of the targets.
    pub(crate) fn check(&self, likelihood: &dyn Likelihood, units: &Units) -> Result<()> {
        for rows in self.rows.chunks(CHUNK) {
            let data = self.file.read(rows)?;
            units.target.forward(&data)?;
            check_targets(likelihood, &data, self.auxiliary_column.as_deref())?;
        }
        Ok(())
    }
}

/// Rows of a file in a model's units. Every process of a job can read them by itself.
#[derive(Debug, Clone)]
pub struct FileRows {
    pub(crate) stored: Stored,
    pub(crate) units: Units,
}

/// The description of rows in a file that another process gets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Description {
    path: String,
    checksum: u64,
    units: Units,
    auxiliary_column: Option<String>,
}

impl FileRows {
    /// Opens the file of rows that another process describes; all of its rows, by their positions.
    ///
    /// # Errors
    /// As [`RowFile::open`]; [`Error::Data`] if the file differs from that of the other process.
    pub(super) fn open(description: Description) -> Result<Self> {
        let Description { path, checksum, units, auxiliary_column } = description;
        let file = RowFile::open(&path)?;
        if file.checksum() != checksum {
            return Err(Error::Data(format!("{path}: it is not the file of rows that rank 0 reads")));
        }
        let rows = (0..file.len()).collect();
        Ok(Self { stored: Stored { file: file.into(), rows, auxiliary_column }, units })
    }

    /// The description with which another process can read them.
    pub(super) fn description(&self) -> Description {
        let Stored { file, auxiliary_column, .. } = &self.stored;
        Description {
            path: file.path().display().to_string(),
            checksum: file.checksum(),
            units: self.units.clone(),
            auxiliary_column: auxiliary_column.clone(),
        }
    }

    /// The places of rows, for a process that has the description.
    pub(super) fn places(&self, rows: &[usize]) -> Vec<usize> {
        rows.iter().map(|row| self.stored.rows[*row]).collect()
    }

    /// Input columns d.
    fn columns(&self) -> usize {
        self.units.inputs.mean.len()
    }

    /// These rows, read in chunks. Holds no more than the rows.
    ///
    /// # Errors
    /// What reading them reports.
    pub(crate) fn collected(&self, numbers: &[usize]) -> Result<Observations> {
        let (x, y) = (Vec::with_capacity(numbers.len() * self.columns()), Vec::with_capacity(numbers.len()));
        let mut all = Observations::unchecked(x, self.columns(), y, None);
        numbers.chunks(CHUNK).try_for_each(|chunk| all.append(self.gather(chunk)?))?;
        Ok(all)
    }

    /// The inputs of all rows, read in chunks: all columns, or only the column `keep`. Targets are 0.
    ///
    /// # Errors
    /// What reading them reports.
    pub(crate) fn inputs(&self, keep: Option<usize>) -> Result<Observations> {
        let (n, d) = (self.count(), self.columns());
        if let Some(column) = keep.filter(|column| *column >= d) {
            return Err(Error::shape("an input column", format!("one of {d}"), (column + 1).to_string()));
        }
        let mut x = Vec::with_capacity(n * keep.map_or(d, |_| 1));
        for start in (0..n).step_by(CHUNK) {
            let rows = self.gather(&(start..n.min(start + CHUNK)).collect::<Vec<_>>())?;
            match keep {
                Some(column) => x.extend(rows.x[column..].iter().step_by(d)),
                None => x.extend_from_slice(&rows.x),
            }
        }
        Ok(Observations::unchecked(x, keep.map_or(d, |_| 1), vec![0.0; n], None))
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
