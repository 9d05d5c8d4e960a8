//! The rows of parts, as far as this process has them.

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;

use super::Crew;
use crate::error::{Error, Result};
use crate::models::Observations;
use crate::models::minibatch::Rows;

/// Rows that stay with their parts: only the process of a part sees its rows.
#[derive(Debug, Clone)]
pub struct Shards {
    /// The rows of this process's parts, one part after another.
    pub own: Observations,
    /// The number of rows of each part.
    pub counts: Vec<usize>,
    /// The name of each part's rows in messages.
    pub names: Vec<String>,
    /// The description with which other processes see their rows as this one sees its own.
    pub description: Value,
    /// The processes that have the other parts; none if all are in this process.
    pub crew: Option<Arc<dyn Crew>>,
}

/// Rows of a source. This process holds the rows of its own parts, and reads other rows when they are asked for.
#[derive(Debug)]
pub struct Window {
    pub(crate) source: Arc<dyn SharedRows>,
    /// The numbers of the rows that are held, ascending.
    own: Vec<usize>,
    held: Observations,
}

impl Window {
    pub(super) fn new(source: Arc<dyn SharedRows>, mut own: Vec<usize>) -> Result<Self> {
        own.sort_unstable();
        let held = collected(&*source, source.columns(), &own)?;
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
            Err(_) => collected(&*self.source, self.source.columns(), rows),
        }
    }
}

/// Where the rows of all parts are, or the rows of this process's parts.
#[derive(Debug, Clone, Copy)]
pub enum Data<'a> {
    /// In memory.
    Memory(&'a Observations),
    /// In a source that all processes read.
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
    pub(in crate::models) fn has_auxiliary(self) -> bool {
        match self {
            Self::Memory(data) => data.auxiliary.is_some(),
            Self::Window(window) => window.source.has_auxiliary(),
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

/// Rows in a place that every process can read, such as a file.
pub trait SharedRows: Rows + Debug + Send + Sync {
    /// Input columns d.
    fn columns(&self) -> usize;

    /// Whether each row has a number besides its target.
    fn has_auxiliary(&self) -> bool;

    /// The description with which another process can read them.
    fn description(&self) -> Value;

    /// The places of rows, for a process that has the description.
    fn places(&self, rows: &[usize]) -> Vec<usize>;
}

/// Rows that are read at a time.
const CHUNK: usize = 1 << 14;

/// These rows, read in chunks. Holds no more than the rows.
///
/// # Errors
/// What reading them reports.
pub(crate) fn collected(rows: &dyn Rows, d: usize, numbers: &[usize]) -> Result<Observations> {
    let (x, y) = (Vec::with_capacity(numbers.len() * d), Vec::with_capacity(numbers.len()));
    let mut all = Observations::unchecked(x, d, y, None);
    numbers.chunks(CHUNK).try_for_each(|chunk| all.append(rows.gather(chunk)?))?;
    Ok(all)
}

/// The inputs of all rows, read in chunks: all columns, or only the column `keep`. Targets are 0.
///
/// # Errors
/// What reading them reports.
pub(crate) fn inputs(source: &dyn SharedRows, keep: Option<usize>) -> Result<Observations> {
    let (n, d) = (source.count(), source.columns());
    if let Some(column) = keep.filter(|column| *column >= d) {
        return Err(Error::shape("an input column", format!("one of {d}"), (column + 1).to_string()));
    }
    let mut x = Vec::with_capacity(n * keep.map_or(d, |_| 1));
    for start in (0..n).step_by(CHUNK) {
        let rows = source.gather(&(start..n.min(start + CHUNK)).collect::<Vec<_>>())?;
        match keep {
            Some(column) => x.extend(rows.x[column..].iter().step_by(d)),
            None => x.extend_from_slice(&rows.x),
        }
    }
    Ok(Observations::unchecked(x, keep.map_or(d, |_| 1), vec![0.0; n], None))
}
