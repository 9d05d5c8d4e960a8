//! The interface of every file format to the reader: named columns, and one row after another.

use std::collections::HashMap;

use super::cell::Cell;
use crate::data::listed;
use crate::suggest::nearest;
use crate::{Error, Result};

/// Returns whether the cells of a first line are column names, given those of the second line, if there is one.
pub(super) type IsHeader<'a> = &'a dyn Fn(&[String], &[String]) -> bool;

/// The columns of an open file.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// The file's name in messages.
    pub(super) file: String,
    /// One name for each column.
    pub(super) names: Vec<String>,
    /// Whether the names come from the file, not from the positions of the columns.
    pub(super) named: bool,
}

/// An open file, positioned at one row after another.
pub(super) trait Table {
    fn layout(&self) -> &Layout;

    /// Steps to the next row and returns its number in the file, counted from 1; `None` at the end.
    fn advance(&mut self) -> Result<Option<usize>>;

    /// A cell of the current row.
    fn cell(&self, column: usize) -> Result<Cell<'_>>;

    /// Whether every cell is a number or missing, whatever the file holds.
    fn is_numeric(&self) -> bool {
        false
    }
}

impl Layout {
    /// The columns by their names.
    pub(super) fn by_name(&self) -> Names<'_> {
        let mut places: HashMap<&str, (usize, Option<usize>)> = HashMap::with_capacity(self.names.len());
        for (place, name) in self.names.iter().enumerate() {
            let found = places.entry(name).or_insert((place, None));
            if found.0 != place {
                found.1.get_or_insert(place);
            }
        }
        Names { layout: self, places }
    }

    /// An error about the file as a whole.
    pub(super) fn error(&self, problem: impl std::fmt::Display) -> Error {
        Error::Data(format!("{}: {problem}", self.file))
    }

    /// An error about one cell.
    pub(super) fn cell_error(&self, row: usize, column: usize, problem: impl std::fmt::Display) -> Error {
        self.error(format_args!("row {row}, column `{}`: {problem}", self.names[column]))
    }

    /// The names of the columns for a message; only the first ones if there are many.
    pub(super) fn listing(&self) -> String {
        let names: Vec<String> = self.names.iter().map(|name| format!("`{name}`")).collect();
        listed(&names, 12)
    }
}

/// Columns by their names. Indexing all of them once serves any number of searches.
pub(super) struct Names<'a> {
    layout: &'a Layout,
    /// The first column with a name, and the second if there is one.
    places: HashMap<&'a str, (usize, Option<usize>)>,
}

impl Names<'_> {
    /// The only column called `name`.
    pub(super) fn find(&self, name: &str) -> Result<usize> {
        let layout = self.layout;
        match self.places.get(name) {
            Some((place, None)) => Ok(*place),
            Some((first, Some(second))) => Err(layout.error(format!(
                "columns {} and {} are both called `{name}`; give every column its own name",
                first + 1,
                second + 1
            ))),
            None => {
                let hint = match nearest(name, layout.names.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the columns are {}", layout.listing()),
                };
                let header = if layout.named { "" } else { " (the file has no header)" };
                Err(layout.error(format!("no column `{name}`{header}; {hint}")))
            }
        }
    }
}

/// An array of numbers in memory, read as rows.
pub(super) struct Numbers<F> {
    layout: Layout,
    n: usize,
    /// The number of rows returned so far. The current row is the last of them.
    given: usize,
    /// The number in a row and a column, both from 0.
    at: F,
}

impl<F: Fn(usize, usize) -> f64> Numbers<F> {
    pub(super) fn new(layout: Layout, n: usize, at: F) -> Self {
        Self { layout, n, given: 0, at }
    }
}

impl<F: Fn(usize, usize) -> f64> Table for Numbers<F> {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn is_numeric(&self) -> bool {
        true
    }

    fn advance(&mut self) -> Result<Option<usize>> {
        self.given += usize::from(self.given <= self.n);
        Ok((self.given <= self.n).then_some(self.given))
    }

    fn cell(&self, column: usize) -> Result<Cell<'_>> {
        Ok(Cell::Number((self.at)(self.given - 1, column)))
    }
}

/// `c0`, `c1`, …: names for columns without names.
pub(super) fn positional_names(width: usize) -> Vec<String> {
    (0..width).map(|column| format!("c{column}")).collect()
}
