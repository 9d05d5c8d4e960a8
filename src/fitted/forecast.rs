//! The rows after those of a series.

use super::Fitted;
use super::alternatives::{distinct, median_gap};
use super::structure::{along, inputs};
use crate::data::calendar::{Step, written};
use crate::data::{Dataset, Encoding};
use crate::error::{Error, Result};

/// Rows after the last one that a model has seen; of several series, those of each after its own last one.
#[derive(Debug, Clone)]
pub struct Ahead {
    /// The name of the column that goes on.
    pub column: String,
    /// Its values: ISO dates, or numbers.
    pub labels: Vec<String>,
    /// The name of the column that tells series apart, and its values.
    pub series: Option<(String, Vec<String>)>,
    /// The rows, as [`Fitted::predict`] takes them.
    pub rows: Dataset,
}

impl Fitted {
    /// The `horizon` rows that follow the last one, in steps of the data's own spacing: of dates, calendar months or
    /// years if they are on the same day of different months.
    ///
    /// # Errors
    /// [`Error::Usage`] for a model with other inputs than a date or a number, and for one whose file does not hold its
    /// rows; [`Error::Data`] for rows without a spacing.
    pub fn ahead(&self, horizon: usize) -> Result<Ahead> {
        let [column] = inputs(&self.schema).collect::<Vec<_>>()[..] else {
            let names: Vec<String> = inputs(&self.schema).map(|column| format!("`{}`", column.name)).collect();
            return Err(Error::Usage(format!(
                "a forecast goes on along one input, and this model has {}: write their future values into a table and \
                 predict its rows",
                names.join(", ")
            )));
        };
        let dates = match column.encoding {
            _ if column.encoding.is_date() => true,
            Encoding::Numeric | Encoding::Written(_) if column.fill.is_none() => false,
            _ => {
                return Err(Error::Usage(format!(
                    "the input `{}` is neither a date nor a number, so that nothing follows its last value: predict \
                     the rows of a table",
                    column.name
                )));
            }
        };
        if self.data.n() != self.summary.rows {
            let problem = "the model holds only some of its rows, so that their spacing is unknown: write the times of \
                           the forecast into a table and predict its rows";
            return Err(Error::Usage(problem.into()));
        }
        let none = |of: &str| {
            let problem = format!("the rows{of} have one value of `{}`, and a forecast needs a spacing", column.name);
            Error::Data(problem + ": write the times of the forecast into a table and predict its rows")
        };
        let (x, name) = (self.input_scale.invert(&self.data.x)?, column.name.clone());
        let Some((at, of)) = self.schema.series() else {
            let (values, labels) = following(&x, &x, horizon, dates).ok_or_else(|| none(""))?;
            return Ok(Ahead { column: name, labels, series: None, rows: self.table(&values)? });
        };
        let (mut labels, mut names, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let longest = along(&*self.model, &self.data).map(|(_, own)| own.x.to_vec()).unwrap_or_default();
        let longest: Vec<f64> = longest.into_iter().map(|z| self.input_scale.value(1 - at.min(1), z)).collect();
        for (number, series) in of.encoding.labels().into_iter().flatten().enumerate() {
            // Numbers of series are whole but for rounding.
            let own = x.chunks(2).filter(|row| row[at].round() == number as f64).map(|row| row[1 - at]);
            let own: Vec<f64> = own.collect();
            if own.is_empty() {
                continue;
            }
            // A single row has the spacing of the longest series.
            let spaced = if own.iter().all(|t| *t == own[0]) { &longest } else { &own };
            let next = following(&own, spaced, horizon, dates).ok_or_else(|| none(&format!(" of `{series}`")))?;
            rows.extend(next.0.iter().flat_map(|t| if at == 0 { [number as f64, *t] } else { [*t, number as f64] }));
            labels.extend(next.1);
            names.extend(vec![series.clone(); horizon]);
        }
        Ok(Ahead { column: name, labels, series: Some((of.name.clone(), names)), rows: self.table(&rows)? })
    }
}

/// The values that follow the last one in the spacing of others, and how they are written; none without a spacing.
fn following(own: &[f64], spaced: &[f64], horizon: usize, dates: bool) -> Option<(Vec<f64>, Vec<String>)> {
    let last = own.iter().copied().reduce(f64::max)?;
    if dates {
        let values = Step::of(&distinct(spaced))?.after(last, horizon);
        let labels = written(&values);
        return Some((values, labels));
    }
    let gap = median_gap(spaced)?;
    // Rounding of the scale, which would show in the last digits.
    let unit = 10f64.powf((gap.abs().max(1e-9 * last.abs()).log10() - 9.0).floor());
    let values: Vec<f64> = (1..=horizon).map(|i| ((last + i as f64 * gap) / unit).round() * unit).collect();
    let labels = values.iter().map(|value| crate::params::shown(*value)).collect();
    Some((values, labels))
}
