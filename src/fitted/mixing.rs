//! Rows with a category that the model was not trained with: predicted as a mixture over the categories it knows.
//!
//! Each known category has the same weight. A new category is another draw from the population of categories, about
//! which the number of rows of each says nothing. The features of such a row are 1/k in place of 0 and 1.

use super::Fitted;
use crate::data::{Dataset, Schema};
use crate::error::Result;

/// Most combinations of categories that one row is predicted for; of more, these are taken at equal distances.
const MOST_COMBINATIONS: usize = 4096;
/// Rows that are predicted together.
const BATCH: usize = 1 << 16;

/// The features of a column of categories: the first one and their number.
struct Block {
    at: usize,
    count: usize,
}

impl Block {
    /// The blocks of a table that may lack a column.
    fn all(schema: &Schema, absent: Option<&str>) -> Vec<Self> {
        let mut at = 0;
        let there = schema.features.iter().filter(|column| Some(column.name.as_str()) != absent);
        let blocks = there.map(|column| {
            let block = Self { at, count: column.encoding.categories().map_or(1, <[String]>::len) };
            at += column.width();
            block
        });
        // A single category is as good as unknown.
        blocks.filter(|block| block.count > 1).collect()
    }

    fn is_unknown(&self, row: &[f64]) -> bool {
        let weight = 1.0 / self.count as f64;
        row.get(self.at..self.at + self.count).is_some_and(|block| block.iter().all(|value| *value == weight))
    }
}

/// The rows that a row with unknown categories may be.
fn combinations(row: &[f64], unknown: &[&Block]) -> Vec<f64> {
    let all = unknown.iter().fold(1_usize, |all, block| all.saturating_mul(block.count));
    let some = all.min(MOST_COMBINATIONS);
    let mut rows = Vec::with_capacity(some * row.len());
    for k in 0..some {
        let mut rest = (k as u128 * all as u128 / some as u128) as usize;
        let start = rows.len();
        rows.extend(row);
        for block in unknown {
            let features = &mut rows[start + block.at..start + block.at + block.count];
            features.fill(0.0);
            features[rest % block.count] = 1.0;
            rest /= block.count;
        }
    }
    rows
}

impl Fitted {
    /// The positions of rows with a category that the model was not trained with.
    pub fn with_unknown_categories(&self, data: &Dataset) -> Vec<usize> {
        let blocks = Block::all(&self.schema, self.without_auxiliary(data));
        (0..data.n).filter(|row| blocks.iter().any(|block| block.is_unknown(data.row(*row)))).collect()
    }

    /// Predictions at the rows of a table by `predict`. A row with unknown categories gets those of the rows that it
    /// may be, joined by `join` with equal weights.
    ///
    /// # Errors
    /// Errors of `predict`.
    pub(super) fn mixed<T>(
        &self,
        data: &Dataset,
        predict: impl Fn(&Dataset) -> Result<Vec<T>>,
        join: impl Fn(Vec<(f64, T)>) -> T,
    ) -> Result<Vec<T>> {
        data.check()?;
        let unknown = self.with_unknown_categories(data);
        if unknown.is_empty() {
            return predict(data);
        }
        let known: Vec<usize> = (0..data.n).filter(|row| unknown.binary_search(row).is_err()).collect();
        let mut found: Vec<Option<T>> = (0..data.n).map(|_| None).collect();
        if !known.is_empty() {
            let predicted = predict(&Dataset { columns: None, ..data.subset(&known) })?;
            known.iter().zip(predicted).for_each(|(row, prediction)| found[*row] = Some(prediction));
        }
        let blocks = Block::all(&self.schema, self.without_auxiliary(data));
        let mut waiting = unknown.into_iter().peekable();
        while waiting.peek().is_some() {
            let (mut rows, mut counts) = (Vec::new(), Vec::new());
            while rows.len() < BATCH * data.d {
                let Some(row) = waiting.next() else { break };
                let values = data.row(row);
                let own: Vec<&Block> = blocks.iter().filter(|block| block.is_unknown(values)).collect();
                let all = combinations(values, &own);
                counts.push((row, all.len() / data.d));
                rows.extend(all);
            }
            let table = Dataset::new(data.feature_names.clone(), rows)?;
            let mut predicted = predict(&table)?.into_iter();
            for (row, count) in counts {
                let weight = 1.0 / count as f64;
                found[row] = Some(join(predicted.by_ref().take(count).map(|part| (weight, part)).collect()));
            }
        }
        Ok(found.into_iter().flatten().collect())
    }
}

/// Mean and variance of a mixture, from the weights of its parts and theirs: the variance within them and between.
pub(super) fn joined(parts: Vec<(f64, [f64; 2])>) -> [f64; 2] {
    let mean: f64 = parts.iter().map(|(weight, part)| weight * part[0]).sum();
    let variance = parts.iter().map(|(weight, [own, variance])| weight * (variance + (own - mean).powi(2))).sum();
    [mean, variance]
}
