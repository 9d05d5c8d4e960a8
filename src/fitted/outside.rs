//! Rows that lie outside the training rows.

use super::Fitted;
use crate::data::Dataset;
use crate::error::Result;

/// Rows that lie outside the training data's range.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outside {
    /// How many rows do, in any input.
    pub rows: usize,
    /// For each such input: its name, how many rows, and the training data's range in the data's units.
    pub inputs: Vec<(String, usize, [f64; 2])>,
}

impl Fitted {
    /// The input for which the largest share of some standardised rows, at least half, lies outside the training range.
    pub(super) fn beyond(&self, x: &[f64]) -> Option<(usize, f64)> {
        let (d, ranges) = (self.data.d, self.ranges());
        let share = |input: usize| count_beyond(x, d, input, ranges[input]) as f64 / (x.len() / d) as f64;
        let shares = (0..d)
            .filter(|input| !self.tells_apart(*input))
            .map(|input| (input, share(input)))
            .filter(|(_, share)| *share >= 0.5);
        // Of equal shares, the first.
        shares.reduce(|best, found| if found.1 > best.1 { found } else { best })
    }

    /// The rows of a table that lie outside the range of the training data. A model only guesses there.
    ///
    /// # Errors
    /// As [`standardise`](Self::standardise).
    pub fn outside(&self, data: &Dataset) -> Result<Outside> {
        let (x, _) = self.standardise(data)?;
        let (d, names) = (self.data.d, self.input_names());
        let (ranges, user) = (self.ranges(), self.input_ranges());
        let inputs: Vec<usize> = (0..d).filter(|input| !self.tells_apart(*input)).collect();
        let rows = x.chunks(d).filter(|row| inputs.iter().any(|at| is_beyond(row[*at], ranges[*at])));
        let mut outside = Outside { rows: rows.count(), inputs: Vec::new() };
        for column in inputs {
            let name = names[column].clone();
            let count = count_beyond(&x, d, column, ranges[column]);
            outside.inputs.extend((count > 0).then_some((name, count, user[column])));
        }
        Ok(outside)
    }

    /// Whether an input has numbers of series.
    fn tells_apart(&self, input: usize) -> bool {
        self.schema.series().is_some_and(|(series, _)| series == input)
    }

    /// The range of each input over the training rows in the data's units, whether or not the model holds these rows.
    pub fn input_ranges(&self) -> Vec<[f64; 2]> {
        let in_units = |(column, range): (usize, &[f64; 2])| {
            let ends = range.map(|z| self.input_scale.value(column, z));
            // An end at 0 comes back as a rounding error.
            ends.map(|end| if end.abs() < 1e-12 * (ends[1] - ends[0]) { 0.0 } else { end })
        };
        self.ranges().iter().enumerate().map(in_units).collect()
    }

    /// The range of each input over the training rows, standardised.
    pub fn ranges(&self) -> Vec<[f64; 2]> {
        match self.summary.ranges.as_ref().filter(|ranges| ranges.len() == self.data.d) {
            Some(ranges) => ranges.clone(),
            None => self.data.ranges(),
        }
    }
}

/// The number of rows `x`, row-major, whose value in a column lies outside a range.
fn count_beyond(x: &[f64], d: usize, column: usize, range: [f64; 2]) -> usize {
    x[column..].iter().step_by(d).filter(|value| is_beyond(**value, range)).count()
}

/// Whether a value lies outside a range by more than rounding.
fn is_beyond(value: f64, [low, high]: [f64; 2]) -> bool {
    let slack = 1e-9 * (high - low).max(f64::MIN_POSITIVE);
    value < low - slack || value > high + slack
}
