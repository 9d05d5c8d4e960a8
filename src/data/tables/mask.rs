//! Reading from a file which rows are test rows.

use std::path::Path;

use super::cell::{Cell, Value};
use super::options::ReadOptions;
use super::source::{Origin, open};
use super::table::Layout;
use crate::Result;
use crate::data::{Dataset, Split};

impl Split {
    /// A mask from a file with one row for each row of `data`'s file: 1 for test rows, 0 for training rows.
    ///
    /// `column` is a name or a position from 0. It may be absent if there is only one column. A first line with
    /// anything but 0 and 1 is a header. Rows that were dropped from `data` need an entry, too.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) and [`Error::Data`](crate::Error::Data) as in
    /// [`read_training`](crate::data::read_training), for values other than 0 and 1 and for a wrong number of rows;
    /// [`Error::Usage`](crate::Error::Usage) if no row is left to train or to test on.
    pub fn from_mask_file(path: impl AsRef<Path>, column: Option<&str>, data: &Dataset) -> Result<Self> {
        let is_header = |cells: &[String], _: &[String]| cells.iter().any(|cell| mark(Cell::Text(cell)).is_none());
        let mut table = open(&Origin::once(path.as_ref()), &ReadOptions::default(), &is_header)?;
        let column = mask_column(table.layout(), column)?;
        let mut marks = Vec::new();
        while let Some(row) = table.advance()? {
            let cell = table.cell(column)?;
            marks.push(mark(cell).ok_or_else(|| {
                let problem = format_args!("{} is not a mark; write 1 for test rows and 0 for others", cell.quoted());
                table.layout().cell_error(row, column, problem)
            })?);
        }
        let total = data.n + data.dropped;
        if marks.len() != total {
            return Err(table.layout().error(format_args!(
                "the mask has {} rows but the data have {total}; it needs one for each row of data",
                marks.len()
            )));
        }
        let mask: Vec<bool> = data.records.iter().filter_map(|&record| marks.get(record).copied()).collect();
        Self::from_mask(&mask)
    }
}

fn mask_column(layout: &Layout, column: Option<&str>) -> Result<usize> {
    let width = layout.names.len();
    match column {
        None if width == 1 => Ok(0),
        None => Err(layout.error(format_args!("the mask has {width} columns; choose one of {}", layout.listing()))),
        Some(name) => match name.parse() {
            Ok(position) if position < width && !layout.names.iter().any(|other| other == name) => Ok(position),
            _ => layout.by_name().find(name),
        },
    }
}

fn mark(cell: Cell) -> Option<bool> {
    match cell.value() {
        Value::Number(0.0) => Some(false),
        Value::Number(1.0) => Some(true),
        _ => None,
    }
}
