//! `cagey predict`

use std::path::PathBuf;

use cagey::Result;
use cagey::data::write_predictions;
use cagey::fitted::Fitted;
use cagey::metrics::Predictive;
use clap::Args;

use super::data::Reading;
use super::{output, values};

/// Predict the target, with error bars, for the rows of a table
#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  cagey predict model.cagey new.csv -o predictions.csv
  cat new.csv | cagey predict model.cagey - -o - --keep"
)]
pub struct Predict {
    /// Model file
    model: PathBuf,
    /// Table with the input columns; `-` for standard input
    data: PathBuf,
    /// Where to write mean, sd, lower and upper of each row as CSV; `-` for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// The latent function f instead of the target: no observation noise
    #[arg(long)]
    latent: bool,
    /// Keep the input columns in front
    #[arg(long)]
    keep: bool,
    /// Probability between lower and upper
    #[arg(long, default_value_t = 0.95, value_name = "SHARE", value_parser = values::share)]
    level: f64,
    #[command(flatten)]
    reading: Reading,
}

impl Predict {
    /// Reads, predicts, writes.
    pub fn run(self) -> Result<()> {
        output::check(&self.output, &[&self.model, &self.data])?;
        let fitted = Fitted::load(&self.model)?;
        let data = self.reading.read(&self.data, &fitted.schema, false, self.keep)?;
        let predictions = if self.latent { fitted.predict_latent(&data)? } else { fitted.predict(&data)? };
        let tail = 0.5 * (1.0 - self.level);
        let column = |f: &dyn Fn(&Predictive) -> f64| predictions.iter().map(f).collect::<Vec<f64>>();
        let (mean, sd) = (column(&Predictive::mean), column(&Predictive::sd));
        let (lower, upper) = (column(&|p| p.quantile(tail)), column(&|p| p.quantile(1.0 - tail)));
        let columns = [("mean", mean.as_slice()), ("sd", &sd), ("lower", &lower), ("upper", &upper)];
        write_predictions(&self.output, data.columns.as_ref(), &columns)
    }
}
