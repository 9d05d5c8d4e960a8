//! A table in memory, which is read as a file with the same cells.

use std::sync::Arc;

use super::cell::Cell;
use super::options::ReadOptions;
use super::read::{read_again, read_new};
use super::source::Origin;
use super::table::{Layout, Table};
use crate::data::dataset::Dataset;
use crate::data::schema::Schema;
use crate::{Error, Result};

/// The cells of a column.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Cells {
    /// Numbers; one that is not finite is a missing cell.
    Numbers(Vec<f64>),
    /// Texts as they would stand in a file; an empty one is a missing cell.
    Texts(Vec<String>),
}

impl Cells {
    fn len(&self) -> usize {
        match self {
            Self::Numbers(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }
}

/// Columns with names, in memory. Categories, dates and missing cells are found as in files.
///
/// ```
/// use cagey::data::{Cells, Frame, ReadOptions};
///
/// let size = ("size".to_string(), Cells::Numbers(vec![1.0, 2.0, 4.0]));
/// let price = ("price".to_string(), Cells::Numbers(vec![2.0, 3.5, 8.5]));
/// let (schema, data) = Frame::new("sales", vec![size, price])?.read_training(&ReadOptions::default())?;
/// assert_eq!((schema.target.as_str(), data.x), ("price", vec![1.0, 2.0, 4.0]));
/// # Ok::<(), cagey::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Frame {
    layout: Layout,
    columns: Arc<[Cells]>,
    rows: usize,
}

impl Frame {
    /// A table with a name for messages, and columns of the same length.
    ///
    /// # Errors
    /// [`Error::Data`] without rows or columns, [`Error::Shape`] for columns of different lengths.
    pub fn new(name: impl Into<String>, columns: Vec<(String, Cells)>) -> Result<Self> {
        let (names, columns): (Vec<String>, Vec<Cells>) = columns.into_iter().unzip();
        let rows = columns.first().map_or(0, Cells::len);
        let layout = Layout { file: name.into(), names, named: true };
        if rows == 0 {
            return Err(layout.error("the table is empty"));
        }
        if let Some((cells, name)) = columns.iter().zip(&layout.names).find(|(cells, _)| cells.len() != rows) {
            return Err(Error::shape(format!("column `{name}`"), format!("{rows} rows"), cells.len().to_string()));
        }
        Ok(Self { layout, columns: columns.into(), rows })
    }

    /// Reads training data as [`read_training`](super::read_training) reads a file.
    ///
    /// # Errors
    /// As for a file.
    pub fn read_training(&self, options: &ReadOptions) -> Result<(Schema, Dataset)> {
        read_new(&Origin::frame(self), options)
    }

    /// Reads rows for a model as [`read_with_schema`](super::read_with_schema) reads a file.
    ///
    /// # Errors
    /// As for a file.
    pub fn read_with_schema(&self, schema: &Schema, options: &ReadOptions, need_target: bool) -> Result<Dataset> {
        read_again(&Origin::frame(self), schema, options, need_target)
    }

    /// The table before its first row.
    pub(super) fn table(&self) -> Box<dyn Table> {
        Box::new(FrameTable { frame: self.clone(), row: 0 })
    }
}

struct FrameTable {
    frame: Frame,
    /// The current row, from 1.
    row: usize,
}

impl Table for FrameTable {
    fn layout(&self) -> &Layout {
        &self.frame.layout
    }

    fn advance(&mut self) -> Result<Option<usize>> {
        self.row += usize::from(self.row <= self.frame.rows);
        Ok((self.row <= self.frame.rows).then_some(self.row))
    }

    fn cell(&self, column: usize) -> Result<Cell<'_>> {
        let row = self.row - 1;
        Ok(match &self.frame.columns[column] {
            Cells::Numbers(values) => Cell::Number(values[row]),
            Cells::Texts(values) => Cell::Text(&values[row]),
        })
    }
}
