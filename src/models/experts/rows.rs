//! The rows of the experts, as far as this process has them.

use std::sync::Arc;

use super::Experts;
use crate::error::Result;
use crate::models::Observations;
use crate::models::minibatch::{Rows, SharedRows};
use crate::models::shared_rows;

/// Rows of a source. This process holds the rows of its own experts, and reads other rows when they are asked for.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) source: Arc<dyn SharedRows>,
    /// The numbers of the rows that are held, ascending.
    own: Vec<usize>,
    held: Observations,
}

impl Window {
    fn new(source: Arc<dyn SharedRows>, mut own: Vec<usize>) -> Result<Self> {
        own.sort_unstable();
        let held = shared_rows::collected(&*source, source.columns(), &own)?;
        Ok(Self { source, own, held })
    }

    fn gather(&self, rows: &[usize]) -> Result<Observations> {
        let places: std::result::Result<Vec<usize>, _> = rows.iter().map(|row| self.own.binary_search(row)).collect();
        match places {
            Ok(places) => self.held.gather(&places),
            Err(_) => shared_rows::collected(&*self.source, self.source.columns(), rows),
        }
    }
}

/// Where the rows of all experts are, or the rows of this process's experts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Data<'a> {
    /// In memory.
    Memory(&'a Observations),
    /// In a source that all processes read.
    Window(&'a Window),
}

impl Data<'_> {
    /// Rows n.
    pub(super) fn n(self) -> usize {
        match self {
            Self::Memory(data) => data.n(),
            Self::Window(window) => window.source.count(),
        }
    }

    /// Input columns d.
    pub(super) fn d(self) -> usize {
        match self {
            Self::Memory(data) => data.d,
            Self::Window(window) => window.source.columns(),
        }
    }

    /// Whether the noise of each row is known.
    pub(super) fn has_auxiliary(self) -> bool {
        match self {
            Self::Memory(data) => data.auxiliary.is_some(),
            Self::Window(window) => window.source.has_auxiliary(),
        }
    }

    /// These rows, in their order.
    pub(super) fn gather(self, rows: &[usize]) -> Result<Observations> {
        match self {
            Self::Memory(data) => data.gather(rows),
            Self::Window(window) => window.gather(rows),
        }
    }
}

impl Experts {
    /// Returns the same experts on rows of a source. This process reads the rows of its own experts now. The other
    /// ranks read theirs when they get their experts. Later calls ignore the data that they are given.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn reading(self, source: Arc<dyn SharedRows>) -> Result<Self> {
        let own = self.parts[self.own()].concat();
        let window = Some(Arc::new(Window::new(source, own)?));
        Ok(Self { window, ..self })
    }

    /// How many of `rows` rows this process holds: all, or only those of its own experts if every rank reads its own.
    pub(super) fn held_of(&self, rows: usize) -> usize {
        self.window.as_ref().map_or(rows, |window| window.own.len())
    }

    /// The rows that the experts have by themselves, if any. They replace the data of a call.
    pub(super) fn own_rows(&self) -> Option<Data<'_>> {
        let shards = self.shards.as_ref().map(|shards| Data::Memory(&shards.own));
        shards.or_else(|| self.window.as_ref().map(|window| Data::Window(window)))
    }

    /// The rows that this process computes with: its own, or else the given data.
    pub(super) fn seen<'a>(&'a self, data: &'a Observations) -> Data<'a> {
        self.own_rows().unwrap_or(Data::Memory(data))
    }
}
