//! `cagey forecast`

use std::path::PathBuf;

use cagey::Result;
use cagey::data::write_labelled;
use cagey::fitted::Ahead;
use cagey::metrics::{Predictive, quantiles};
use clap::Args;

use super::output;
use super::predict::distinct;
use super::report;
use super::saved::Saved;
use super::shards::Shards;
use crate::values;

/// Predict the rows that follow the last one of a series
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cagey fit sales.csv -o sales.cagey
  cagey forecast sales.cagey --horizon 24 -o forecast.csv
  cagey forecast sales.cagey --horizon 12 --levels 0.1,0.5,0.9")]
pub struct Forecast {
    #[command(flatten)]
    model: Saved,
    /// Rows to forecast, in steps of the data's own spacing: months and years are those of the calendar
    #[arg(long, value_name = "ROWS", value_parser = values::count(1..=100_000))]
    horizon: usize,
    /// Where to write the date, mean, sd, lower and upper of each row, and quantiles of --levels, as CSV; `-` for
    /// standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Probability between lower and upper
    #[arg(long, value_name = "SHARE", default_value_t = 0.95, value_parser = values::share)]
    level: f64,
    /// Also write quantiles: for `--levels 0.1,0.5` the columns q0.1 and q0.5
    #[arg(long, value_name = "PROBABILITIES", value_delimiter = ',', value_parser = values::share)]
    levels: Vec<f64>,
    #[command(flatten)]
    shards: Shards,
}

impl Forecast {
    /// Loads, forecasts, writes.
    pub fn run(self) -> Result<()> {
        distinct(&self.levels)?;
        output::check_table(&self.output, &[&self.model.path])?;
        let fitted = self.model.chosen(self.shards.load(&self.model.path)?)?;
        let Ahead { column, labels, rows } = fitted.ahead(self.horizon)?;
        fitted.caution().iter().for_each(|caution| report::warn(caution));
        let predictions = fitted.predict(&rows)?;
        let tail = 0.5 * (1.0 - self.level);
        let of = |value: fn(&Predictive) -> f64| predictions.iter().map(value).collect::<Vec<f64>>();
        let mut columns = vec![("mean".to_string(), of(Predictive::mean)), ("sd".to_string(), of(Predictive::sd))];
        let ends = [("lower".to_string(), tail), ("upper".to_string(), 1.0 - tail)];
        let asked = self.levels.iter().map(|level| (format!("q{level}"), *level));
        columns.extend(ends.into_iter().chain(asked).map(|(name, p)| (name, quantiles(&predictions, p))));
        let columns: Vec<(&str, &[f64])> = columns.iter().map(|(name, v)| (name.as_str(), v.as_slice())).collect();
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        write_labelled(&self.output, None, Some((&column, &labels)), &columns)
    }
}
