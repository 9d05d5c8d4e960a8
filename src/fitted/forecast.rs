//! The rows after those of a series.

use super::Fitted;
use crate::data::calendar::{Step, written};
use crate::data::{Dataset, Encoding};
use crate::error::{Error, Result};

/// Rows after the last one that a model has seen.
#[derive(Debug, Clone)]
pub struct Ahead {
    /// The name of the column that goes on.
    pub column: String,
    /// Its values: ISO dates, or numbers.
    pub labels: Vec<String>,
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
        let [column] = self.schema.features.as_slice() else {
            let names: Vec<String> = self.schema.features.iter().map(|column| format!("`{}`", column.name)).collect();
            return Err(Error::Usage(format!(
                "a forecast goes on along one input, and this model has {}: write their future values into a table and \
                 predict its rows",
                names.join(", ")
            )));
        };
        let dates = match column.encoding {
            Encoding::Date | Encoding::DayFirst | Encoding::MonthFirst => true,
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
        let mut x = self.input_scale.invert(&self.data.x)?;
        x.sort_unstable_by(f64::total_cmp);
        x.dedup();
        let none =
            || Error::Data(format!("the rows have one value of `{}`, and a forecast needs a spacing", column.name));
        let last = *x.last().ok_or_else(none)?;
        let (values, labels) = if dates {
            let values = Step::of(&x).ok_or_else(none)?.after(last, horizon);
            let labels = written(&values);
            (values, labels)
        } else {
            let mut gaps: Vec<f64> = x.windows(2).map(|pair| pair[1] - pair[0]).collect();
            gaps.sort_unstable_by(f64::total_cmp);
            let gap = *gaps.get(gaps.len() / 2).ok_or_else(none)?;
            // Rounding of the scale, which would show in the last digits.
            let unit = 10f64.powf((gap.abs().max(1e-9 * last.abs()).log10() - 9.0).floor());
            let values: Vec<f64> = (1..=horizon).map(|i| ((last + i as f64 * gap) / unit).round() * unit).collect();
            let labels = values.iter().map(|value| crate::params::shown(*value)).collect();
            (values, labels)
        };
        Ok(Ahead { column: column.name.clone(), labels, rows: self.table(&values)? })
    }
}
