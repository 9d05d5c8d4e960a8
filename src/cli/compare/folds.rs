//! Which rows are held out, fold by fold.

use std::collections::HashMap;

use cagey::data::{Dataset, Split};
use cagey::{Error, Result};
use clap::Args;

use crate::cli::data::Splitting;
use crate::values;

/// The folds.
#[derive(Debug, Args)]
pub struct Folds {
    /// Cross-validate on this many folds instead of one split
    #[arg(long, value_name = "K", value_parser = values::count(2..=1000))]
    #[arg(conflicts_with_all = ["holdout", "holdout_last", "split_mask"])]
    folds: Option<usize>,
    /// Keep rows with the same value of this column on one side of each split, and leave the column out of the inputs;
    /// for tables with several rows from one subject, place or batch
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["holdout_last", "split_mask", "rolling", "distinct"])]
    group: Option<String>,
    /// Split the second half of the rows into this many parts and forecast each from all rows before it; for series, in
    /// the order of the table
    #[arg(long, value_name = "K", value_parser = values::count(1..=1000))]
    #[arg(conflicts_with_all = ["folds", "holdout", "holdout_last", "split_mask", "distinct"])]
    rolling: Option<usize>,
}

/// The share of rows held out by default.
const SHARE: f64 = 0.1;

impl Folds {
    /// The column that tells groups apart.
    pub fn group(&self) -> Option<&String> {
        self.group.as_ref()
    }

    /// Whether later rows are forecast from earlier ones.
    pub fn is_rolling(&self) -> bool {
        self.rolling.is_some()
    }

    /// The splits asked for. If a column groups the rows, the table must have been read with its text.
    ///
    /// # Errors
    /// [`Error::Usage`] if there are too few rows or groups, or if the text has no such column; [`Error::Data`] if the
    /// inputs have none.
    pub fn splits(&self, splitting: &Splitting, data: &Dataset) -> Result<Vec<Split>> {
        let seed = splitting.split_seed;
        if let Some(count) = self.rolling {
            return Split::rolling(data.n, count);
        }
        let groups = match (&self.group, splitting.distinct) {
            (Some(column), _) => Some(by_text(data, column)?),
            (None, true) => Some(data.groups(None)?),
            (None, false) => None,
        };
        match (groups, self.folds) {
            (Some(groups), Some(count)) => Split::group_folds(&groups, count, seed),
            (Some(groups), None) => Ok(vec![Split::groups(&groups, splitting.holdout.unwrap_or(SHARE), seed)?]),
            (None, Some(count)) => Split::folds(data.n, count, seed),
            (None, None) => Ok(vec![match splitting.split(data)? {
                Some(split) => split,
                None => Split::random(data.n, SHARE, seed)?,
            }]),
        }
    }
}

/// A number for each row; rows with the same text in a column have the same number.
fn by_text(data: &Dataset, column: &str) -> Result<Vec<usize>> {
    let Some(text) = &data.columns else { return data.groups(Some(column)) };
    let Some(at) = text.names.iter().position(|name| name == column) else {
        let names = text.names.join(", ");
        return Err(Error::Usage(format!("--group {column}: there is no such column; there are {names}")));
    };
    let mut known = HashMap::new();
    let number = |row: usize| {
        let next = known.len();
        *known.entry(text.row(row).nth(at).unwrap_or_default().trim().to_string()).or_insert(next)
    };
    Ok((0..data.n).map(number).collect())
}
