//! Inputs and targets, with their places in the file.

use std::borrow::Cow;
use std::collections::HashMap;

use cagey_base::scale::TargetColumn;

use crate::advice::Advice;
use crate::error::{Error, Result};

/// Larger numbers are refused: their squares overflow in distances and variances.
pub(super) const LARGEST: f64 = 1e150;

/// The text of the input rows, to write it next to predictions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TextColumns {
    /// Names of all columns of the file.
    pub names: Vec<String>,
    pub(super) records: Vec<Vec<String>>,
}

impl TextColumns {
    /// Columns with these names and rows of cells.
    ///
    /// # Errors
    /// [`Error::Shape`] if a row has another number of cells.
    pub fn new(names: Vec<String>, records: Vec<Vec<String>>) -> Result<Self> {
        match records.iter().find(|row| row.len() != names.len()) {
            Some(row) => Err(Error::shape("a row of text", format!("{} cells", names.len()), row.len().to_string())),
            None => Ok(Self { names, records }),
        }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The cells of row `i`, one for each name.
    pub fn row(&self, i: usize) -> impl Iterator<Item = &str> {
        self.records[i].iter().map(String::as_str)
    }
}

/// What the user of a table should know about how it was read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Notes {
    /// How columns were read, and which were left out.
    pub said: Vec<Advice>,
    /// What is lost or doubtful: rows left out, unknown categories, numbers that can be read in two ways.
    pub warnings: Vec<Advice>,
}

/// Encoded inputs `x [n, d]` (row-major) and targets `y [n]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Dataset {
    /// Inputs, row-major `[n, d]`.
    pub x: Vec<f64>,
    /// Number of rows.
    pub n: usize,
    /// Number of features.
    pub d: usize,
    /// Names of the features, `[d]`.
    pub feature_names: Vec<String>,
    /// Name of the target.
    pub target_name: String,
    /// Targets `[n]`, if the file has them.
    pub y: Option<Vec<f64>>,
    /// Row numbers in the file, from 1: lines of a text file, header included.
    pub rows: Vec<usize>,
    /// Positions among the file's rows of data, from 0. Dropped rows are counted, too.
    pub records: Vec<usize>,
    /// Number of rows left out because of missing cells.
    pub dropped: usize,
    /// The text of the rows, on request.
    pub columns: Option<TextColumns>,
    /// How the table was read.
    pub notes: Notes,
}

impl TargetColumn for Dataset {
    fn target_name(&self) -> &str {
        &self.target_name
    }

    fn targets(&self) -> Option<&[f64]> {
        self.y.as_deref()
    }

    fn row_numbers(&self) -> Cow<'_, [usize]> {
        self.numbers()
    }
}

impl Dataset {
    /// A data set of numbers: inputs `x`, row-major, one column for each name.
    ///
    /// # Errors
    /// [`Error::Shape`] if the last row is incomplete.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>, x: Vec<f64>) -> Result<Self> {
        let feature_names: Vec<String> = names.into_iter().map(Into::into).collect();
        let d = feature_names.len();
        if d > 0 && !x.len().is_multiple_of(d) {
            let want = format!("rows of {d} columns ({})", feature_names.join(", "));
            return Err(Error::shape("inputs", want, format!("{} numbers", x.len())));
        }
        let n = x.len().checked_div(d).unwrap_or(0);
        let data =
            Self { x, n, d, feature_names, rows: (1..=n).collect(), records: (0..n).collect(), ..Self::default() };
        data.check().map(|()| data)
    }

    /// The same rows with a target `y [n]`; for classes, their codes.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one target for each row.
    pub fn with_target(self, name: impl Into<String>, y: Vec<f64>) -> Result<Self> {
        let data = Self { target_name: name.into(), y: Some(y), ..self };
        data.check().map(|()| data)
    }

    /// Checks that the numbers of inputs, names and targets agree with `n` and `d`, because anybody can set these
    /// fields.
    ///
    /// # Errors
    /// [`Error::Shape`] if they do not.
    pub fn check(&self) -> Result<()> {
        let Self { n, d, .. } = *self;
        let targets = self.y.as_ref().map_or(n, Vec::len);
        if n.checked_mul(d) == Some(self.x.len()) && self.feature_names.len() == d && targets == n {
            return Ok(());
        }
        let got = format!("{} inputs, {} names and {targets} targets", self.x.len(), self.feature_names.len());
        Err(Error::shape("a table", format!("{n} rows of {d} columns"), got))
    }

    /// The row numbers for messages `[n]`: those of the file, or from 1 if there is not one for each row.
    pub fn numbers(&self) -> Cow<'_, [usize]> {
        if self.rows.len() == self.n { Cow::from(&self.rows) } else { (1..=self.n).collect() }
    }

    /// The features of row `i`, `[d]`.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.x[i * self.d..(i + 1) * self.d]
    }

    /// A number for each row. Rows have the same number if they have the same inputs, or the same value in the input
    /// column.
    ///
    /// # Errors
    /// [`Error::Data`] if there is no such column.
    pub fn groups(&self, column: Option<&str>) -> Result<Vec<usize>> {
        let at = column.map(|name| self.feature_names.iter().position(|own| own == name));
        if at == Some(None) {
            let (name, names) = (column.unwrap_or_default(), self.feature_names.join(", "));
            return Err(Error::Data(format!("no input column `{name}` to group rows by; the columns are {names}")));
        }
        let key = |row: usize| at.flatten().map_or(self.row(row), |at| &self.row(row)[at..=at]);
        Ok(groups((0..self.n).map(key)))
    }

    /// The rows at the given positions, in the given order. Positions may repeat.
    pub fn subset(&self, positions: &[usize]) -> Self {
        Self {
            x: positions.iter().flat_map(|&i| self.row(i)).copied().collect(),
            n: positions.len(),
            d: self.d,
            feature_names: self.feature_names.clone(),
            target_name: self.target_name.clone(),
            y: self.y.as_deref().map(|y| pick(y, positions)),
            rows: pick(&self.rows, positions),
            records: pick(&self.records, positions),
            dropped: self.dropped,
            notes: Notes::default(),
            columns: self
                .columns
                .as_ref()
                .map(|kept| TextColumns { names: kept.names.clone(), records: pick(&kept.records, positions) }),
        }
    }
}

fn pick<T: Clone>(values: &[T], positions: &[usize]) -> Vec<T> {
    positions.iter().filter_map(|&i| values.get(i).cloned()).collect()
}

/// The bits of a row, with one sign of zero instead of two.
pub(crate) fn bits(row: &[f64]) -> Vec<u64> {
    row.iter().map(|value| (value + 0.0).to_bits()).collect()
}

/// A number for each row, from 0 on in the order in which they appear; the same for equal rows.
pub(crate) fn groups<'a>(rows: impl Iterator<Item = &'a [f64]>) -> Vec<usize> {
    let mut known = HashMap::new();
    rows.map(|row| {
        let next = known.len();
        *known.entry(bits(row)).or_insert(next)
    })
    .collect()
}
