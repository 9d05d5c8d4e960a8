//! Rows that every process of a job can read itself.

use std::fmt::Debug;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::models::Observations;
use crate::models::minibatch::Rows;

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
