//! Which rows train and which test.
//!
//! Random splits come from xoshiro256++ seeded through SplitMix64, so that a seed gives the same split on every machine.

use std::path::Path;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;

use super::Dataset;
use super::cell::{Cell, Value};
use super::options::ReadOptions;
use super::source::open;
use super::table::Layout;
use crate::{Error, Result};

/// Positions of training and test rows, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Rows to train on.
    pub train: Vec<usize>,
    /// Rows to test on.
    pub test: Vec<usize>,
}

impl Split {
    /// A random share `fraction` of `n` rows for testing.
    ///
    /// # Errors
    /// [`Error::Usage`] if the fraction leaves no row to train or to test on.
    pub fn random(n: usize, fraction: f64, seed: u64) -> Result<Self> {
        let count = test_count(n, fraction)?;
        Ok(Self::from_test(n, &shuffled(n, seed)[..count]))
    }

    /// The last share `fraction` of `n` rows for testing, for data in order of time.
    ///
    /// # Errors
    /// [`Error::Usage`] if the fraction leaves no row to train or to test on.
    pub fn last(n: usize, fraction: f64) -> Result<Self> {
        let first = n - test_count(n, fraction)?;
        Ok(Self { train: (0..first).collect(), test: (first..n).collect() })
    }

    /// `k` splits of `n` rows whose test sets are disjoint, cover all rows and differ by at most one in size.
    ///
    /// # Errors
    /// [`Error::Usage`] unless `2 ≤ k ≤ n`.
    pub fn folds(n: usize, k: usize, seed: u64) -> Result<Vec<Self>> {
        if k < 2 || k > n {
            return Err(Error::Usage(format!("{k} folds of {n} rows: choose from 2 up to the number of rows")));
        }
        let order = shuffled(n, seed);
        Ok((0..k).map(|fold| Self::from_test(n, &order[fold * n / k..(fold + 1) * n / k])).collect())
    }

    /// Tests on the rows where the mask is true.
    ///
    /// # Errors
    /// [`Error::Usage`] if the mask leaves no row to train or to test on.
    pub fn from_mask(mask: &[bool]) -> Result<Self> {
        let (test, train): (Vec<usize>, Vec<usize>) = (0..mask.len()).partition(|&i| mask[i]);
        if train.is_empty() || test.is_empty() {
            return Err(Error::Usage(format!(
                "the mask marks {} of {} rows for testing; both a training and a test row are needed",
                test.len(),
                mask.len()
            )));
        }
        Ok(Self { train, test })
    }

    /// A mask from a file with one row for each row of `data`'s file: 1 tests, 0 trains.
    ///
    /// `column` is a name or a position from 0; it may be absent if there is only one column. A first line with
    /// anything but 0 and 1 is a header. Rows that were dropped from `data` need their entry, too.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Data`] as in [`read_training`](super::read_training), for other values than 0 and 1
    /// and for a wrong number of rows; [`Error::Usage`] if no row is left to train or to test on.
    pub fn from_mask_file(path: impl AsRef<Path>, column: Option<&str>, data: &Dataset) -> Result<Self> {
        let is_header = |cells: &[String], _: &[String]| cells.iter().any(|cell| mark(Cell::Text(cell)).is_none());
        let mut table = open(path.as_ref(), &ReadOptions::default(), &is_header)?;
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

    fn from_test(n: usize, test: &[usize]) -> Self {
        let mut mask = vec![false; n];
        for &i in test {
            mask[i] = true;
        }
        let (test, train) = (0..n).partition(|&i| mask[i]);
        Self { train, test }
    }
}

fn test_count(n: usize, fraction: f64) -> Result<usize> {
    let count = (n as f64 * fraction).round();
    if count >= 1.0 && count < n as f64 {
        return Ok(count as usize);
    }
    Err(Error::Usage(format!(
        "a test share of {fraction} of {n} rows leaves no row on one side; choose a fraction between 0 and 1 that does"
    )))
}

fn shuffled(n: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
    order
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
