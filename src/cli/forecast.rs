//! `cagey forecast`

use std::path::{Path, PathBuf};

use cagey::data::{ReadOptions, TextColumns};
use cagey::fitted::Ahead;
use cagey::{Error, Result};
use clap::Args;

use super::data::{Reading, in_table, read};
use super::output;
use super::predict::Quantiles;
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
  cagey forecast sales.cagey --horizon 12 --levels 0.1,0.5,0.9
  cagey forecast load.cagey --future weather.csv -o forecast.csv
  cagey forecast shops.cagey --horizon 12   # of `fit --series shop`: 12 rows of each shop")]
pub struct Forecast {
    #[command(flatten)]
    model: Saved,
    /// Rows to forecast, in steps of the data's own spacing: months and years are those of the calendar
    #[arg(long, value_name = "ROWS", value_parser = values::count(1..=100_000), required_unless_present = "future")]
    horizon: Option<usize>,
    /// Table with the rows to forecast, for a model with other inputs than a date or number: their future values
    #[arg(long, value_name = "TABLE", conflicts_with = "horizon")]
    future: Option<PathBuf>,
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
    /// Also write so many possible futures of the target: the columns sample0, sample1, …, each one path with its noise
    #[arg(long, value_name = "COUNT", value_parser = values::count(1..=10_000))]
    samples: Option<usize>,
    /// Seed of the samples
    #[arg(long, default_value_t = 0, requires = "samples")]
    seed: u64,
    #[command(flatten)]
    shards: Shards,
    #[command(flatten, next_help_heading = "Table of --future")]
    reading: Reading,
}

impl Forecast {
    /// Loads, forecasts, writes.
    pub fn run(self) -> Result<()> {
        Quantiles::check(&self.levels)?;
        let inputs: Vec<&Path> = std::iter::once(&self.model.path).chain(&self.future).map(PathBuf::as_path).collect();
        output::check_table(&self.output, &inputs)?;
        let fitted = self.model.chosen(self.shards.load(&self.model.path)?)?;
        if !fitted.is_gaussian() {
            let problem = "a forecast has the mean and sd of real targets; for others predict the rows of a table";
            return Err(Error::Usage(problem.into()));
        }
        let (rows, ahead) = match (&self.future, self.horizon) {
            (Some(table), _) => {
                let options = ReadOptions { keep: true, ..self.reading.options() };
                (read(table, &fitted.schema, false, &options)?, None)
            }
            (None, horizon) => {
                let Ahead { column, labels, series, rows } = fitted.ahead(horizon.unwrap_or(1))?;
                let (names, cells): (Vec<String>, Vec<Vec<String>>) =
                    std::iter::once((column, labels)).chain(series).unzip();
                let record = |row: usize| cells.iter().map(|column| column[row].clone()).collect();
                let labels = TextColumns::new(names, (0..rows.n).map(record).collect())?;
                (rows, Some(labels))
            }
        };
        fitted.caution().iter().for_each(|caution| report::warn(caution));
        let predictions = fitted.predict(&rows).map_err(in_table(self.future.as_deref()))?;
        let mut columns = Quantiles { level: self.level, levels: &self.levels }.normal("", &predictions);
        if let Some(count) = self.samples {
            columns.extend(output::samples(fitted.sample_targets(&rows, count, self.seed)?));
        }
        output::write(&self.output, ahead.as_ref().or(rows.columns.as_ref()), None, columns)
    }
}
