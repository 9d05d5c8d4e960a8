//! `cagey sample`

use std::path::PathBuf;

use cagey::{Error, Result};
use clap::Args;

use super::data::{Reading, read};
use super::output;
use super::saved::Saved;
use super::shards::Shards;
use crate::values;

/// Draw joint samples of the latent function at the rows of a table
#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  cagey sample model.cagey grid.csv --count 20 --seed 1 -o samples.csv
  cagey sample model.cagey grid.csv --count 5 --keep | head"
)]
pub struct Sample {
    #[command(flatten)]
    model: Saved,
    /// Table with the input columns; `-` for standard input
    data: PathBuf,
    /// Where to write one column per sample as CSV; `-` for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Number of samples
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = values::count(1..=100_000))]
    count: usize,
    /// Seed of the samples
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Keep the input columns in front
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    shards: Shards,
    #[command(flatten)]
    reading: Reading,
}

/// Joint samples factorise an n × n matrix: with more rows this would take minutes and gigabytes.
const MOST_ROWS: usize = 10_000;

/// All samples are in memory at once.
const MOST_VALUES: usize = 100_000_000;

impl Sample {
    /// Reads, samples, writes.
    pub fn run(self) -> Result<()> {
        output::check_table(&self.output, &[&self.model.path, &self.data])?;
        let fitted = self.model.chosen(self.shards.load(&self.model.path)?)?;
        let data = read(&self.data, &fitted.schema, false, &self.reading.inputs(&fitted, self.keep))?;
        if data.n > MOST_ROWS {
            let (path, n) = (self.data.display(), data.n);
            return Err(Error::Usage(format!(
                "{path}: {n} rows; joint samples are for at most {MOST_ROWS}, split the table"
            )));
        }
        if data.n * self.count > MOST_VALUES {
            let (count, n) = (self.count, data.n);
            return Err(Error::Usage(format!("--count {count}: with {n} rows at most {}", MOST_VALUES / n)));
        }
        let latents = fitted.model.likelihood().latents();
        if latents > 1 {
            let likelihood = fitted.model.likelihood().text();
            return Err(Error::Usage(format!(
                "samples are of one latent function, but the {likelihood} likelihood has {latents}: use `cagey predict`"
            )));
        }
        let paths = fitted.sample(&data, self.count, self.seed)?;
        output::write(&self.output, data.columns.as_ref(), None, output::samples(paths).collect())
    }
}
