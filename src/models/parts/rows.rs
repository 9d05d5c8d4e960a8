//! The rows of parts, as far as this process has them.

use std::sync::Arc;

use serde_json::Value;

use super::Crew;
use super::source::{SharedRows, collected};
use crate::error::Result;
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
