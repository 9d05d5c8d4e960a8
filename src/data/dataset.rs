//! Inputs and targets with the places they came from.

use csv::StringRecord;

/// The text of the input rows, to be written next to predictions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Kept {
    /// Names of all columns of the file.
    pub names: Vec<String>,
    pub(super) records: Vec<StringRecord>,
}

impl Kept {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The cells of row `i`, one for each name.
    pub fn row(&self, i: usize) -> impl Iterator<Item = &str> {
        self.records[i].iter()
    }
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
    /// Targets `[n]`, where the file has them.
    pub y: Option<Vec<f64>>,
    /// Row numbers in the file, from 1: lines of a text file, header included.
    pub rows: Vec<usize>,
    /// Positions among the file's rows of data, from 0, dropped ones counted too.
    pub records: Vec<usize>,
    /// Number of rows left out because of missing cells.
    pub dropped: usize,
    /// The text of the rows, on request.
    pub columns: Option<Kept>,
}

impl Dataset {
    /// The features of row `i`, `[d]`.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.x[i * self.d..(i + 1) * self.d]
    }

    /// The rows with the given positions, in their order; positions may repeat.
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
            columns: self
                .columns
                .as_ref()
                .map(|kept| Kept { names: kept.names.clone(), records: pick(&kept.records, positions) }),
        }
    }
}

fn pick<T: Clone>(values: &[T], positions: &[usize]) -> Vec<T> {
    positions.iter().map(|&i| values[i].clone()).collect()
}
