//! `cagey fit`

use std::io::IsTerminal;
use std::path::PathBuf;

use cagey::Result;
use cagey::data::{ReadOptions, read_training};
use cagey::fitted::Fitted;
use cagey::kernels::registry::Registry;
use cagey::metrics::score;
use cagey::train::{Log, Observer, Progress};
use clap::Args;

use super::data::{Reading, Splitting, note_dropped, targets};
use super::report;
use super::settings::{ModelOptions, TrainOptions};

/// Fit a model to a table and save it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cagey fit concrete.csv --target strength -o concrete.cagey
  cagey fit co2.csv --target y --holdout-last 0.2 --kernel \"rbf + periodic(period=1) * rbf + rq\" -o co2.cagey
  cagey fit data.csv --target y --init noise=0.1 --bounds lengthscale=0.1..100 --prior \"noise=halfcauchy(1)\" -o m.cagey")]
pub struct Fit {
    /// Table: CSV or TSV (also gzipped), NPY, Parquet; `-` for standard input
    data: PathBuf,
    /// Target column; the last by default
    #[arg(long)]
    target: Option<String>,
    /// Input columns, separated by commas; all others by default
    #[arg(long, value_delimiter = ',')]
    features: Option<Vec<String>>,
    /// Encode columns of text as one 0/1 input per category
    #[arg(long)]
    one_hot: bool,
    /// Columns that are categories though they look like numbers
    #[arg(long, value_delimiter = ',')]
    categorical: Vec<String>,
    /// Read ISO dates as decimal years
    #[arg(long)]
    dates: bool,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    splitting: Splitting,
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    training: TrainOptions,
    /// Where to write the model
    #[arg(short, long, value_name = "FILE", default_value = "model.cagey")]
    output: PathBuf,
    /// Print the training loss every so many steps
    #[arg(long, value_name = "STEPS")]
    log_every: Option<usize>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

impl Fit {
    /// Reads, fits, scores held-out rows, saves.
    pub fn run(self) -> Result<()> {
        let options = ReadOptions {
            target: self.target.clone(),
            features: self.features.clone(),
            one_hot: self.one_hot,
            categorical: self.categorical.clone(),
            dates: self.dates,
            ..self.reading.options()
        };
        let settings = self.model.settings()?;
        let (schema, data) = read_training(&self.data, &options)?;
        note_dropped(&data);
        let split = self.splitting.split(&data)?;
        let (train, test) = match &split {
            Some(split) => (data.subset(&split.train), Some(data.subset(&split.test))),
            None => (data, None),
        };
        eprintln!("{} rows, {} input columns, target `{}`", train.n, train.d, train.target_name);
        self.announce(train.n);

        let fingerprint = format!("{} {} rows {settings:?}", self.data.display(), train.n);
        let config = self.training.config(fingerprint)?;
        let (mut progress, mut log) = (Progress::new(), self.log_every.map(Log::stderr));
        let mut observers: Vec<&mut dyn Observer> = vec![&mut progress];
        observers.extend(log.as_mut().map(|log| log as &mut dyn Observer));
        let fitted = Fitted::fit(schema, &train, settings, &config, &Registry::default(), &mut observers)?;
        fitted.save(&self.output)?;

        fitted.summary.warnings.iter().for_each(|warning| report::warn(warning));
        let scores = test.map(|test| score(targets(&test)?, &fitted.predict(&test)?)).transpose()?;
        if self.json {
            return report::print_json(&serde_json::json!({
                "model": self.output.display().to_string(),
                "loss": fitted.summary.loss,
                "termination": fitted.summary.termination,
                "iterations": fitted.summary.iterations,
                "seconds": fitted.summary.seconds,
                "kernel": fitted.model.kernel.to_string(),
                "noise": fitted.model.likelihood.noise.values()[0],
                "scores": scores,
            }));
        }
        let mut text = super::inspect::description(&fitted);
        if let Some(scores) = &scores {
            text += &format!("Held-out rows\n{}", report::scores(scores));
        }
        text += &format!("Model written to {}\n", self.output.display());
        report::print(&text)
    }

    /// Says what is coming when it is large: n³ time and n² memory.
    fn announce(&self, n: usize) {
        let bytes = 8.0 * 3.0 * (n as f64).powi(2);
        if n > 5000 && std::io::stderr().is_terminal() {
            eprintln!(
                "exact GP on {n} rows: about {:.1} GB of memory and {:.0e} operations a step",
                bytes / 1e9,
                (n as f64).powi(3)
            );
        }
    }
}
