//! `cagey fit`

use std::path::PathBuf;

use cagey::data::{Dataset, ReadOptions, Schema, TargetKind, read_training};
use cagey::fitted::Plan;
use cagey::kernels::registry::Registry;
use cagey::likelihoods::text::{Inferred, Sight, infer};
use cagey::train::{Log, Observer, Progress, TrainConfig};
use cagey::{Error, Result};
use clap::Args;
use sha2::{Digest, Sha256};

use super::data::{Reading, Splitting, note_dropped, targets};
use super::settings::{ModelOptions, TrainOptions};
use super::{output, report, scoring, values};

/// Fit a model to a table and save it
#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  cagey fit concrete.csv --target strength -o concrete.cagey
  cagey fit co2.csv --holdout-last 0.2 --kernel \"rbf + periodic(period=1) * rbf + rq\"
  cagey fit data.csv --init noise=0.1 --fix noise --bounds lengthscale=0.1..100
  cagey fit large.csv --model cagp --actions 512 --optimizer adam --lr 0.1
  cagey fit data.csv --restarts 5 --prior \"noise=halfcauchy(1)\" -o model.cagey"
)]
pub struct Fit {
    /// Table: CSV or TSV (also gzipped), NPY, Parquet; `-` for standard input
    data: PathBuf,
    /// Where to write the model
    #[arg(short, long, value_name = "FILE", default_value = "model.cagey")]
    output: PathBuf,
    /// Print the training loss every so many steps
    #[arg(long, value_name = "STEPS", value_parser = values::count(1..=values::MOST))]
    log_every: Option<usize>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Table")]
    columns: Columns,
    #[command(flatten, next_help_heading = "Table")]
    reading: Reading,
    #[command(flatten, next_help_heading = "Held-out rows")]
    splitting: Splitting,
    #[command(flatten, next_help_heading = "Model")]
    model: ModelOptions,
    #[command(flatten, next_help_heading = "Training")]
    training: TrainOptions,
}

/// Which columns are used, and how.
#[derive(Debug, Args)]
struct Columns {
    /// Target column; the last by default
    #[arg(long, value_name = "COLUMN")]
    target: Option<String>,
    /// Input columns, separated by commas; all others by default
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    features: Option<Vec<String>>,
    /// Encode columns of text as one 0/1 input per category
    #[arg(long)]
    one_hot: bool,
    /// Columns that are categories though they look like numbers
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    categorical: Vec<String>,
    /// Read ISO dates as decimal years
    #[arg(long)]
    dates: bool,
}

impl Fit {
    /// Reads, fits, scores held-out rows, saves.
    pub fn run(self) -> Result<()> {
        let options = ReadOptions {
            target: self.columns.target.clone(),
            features: self.inputs(),
            one_hot: self.columns.one_hot,
            categorical: self.columns.categorical.clone(),
            dates: self.columns.dates,
            target_kind: target_kind(self.model.likelihood.as_deref()),
            ..self.reading.options()
        };
        self.check_outputs()?;
        let (schema, data) = read_training(&self.data, &options)?;
        note_dropped(&data);
        let settings = self.model.settings(&self.likelihood(&schema, &data)?)?;
        settings.compute.device()?;
        let split = self.splitting.split(&data)?;
        let (train, test) = match &split {
            Some(split) => (data.subset(&split.train), Some(data.subset(&split.test))),
            None => (data, None),
        };
        if let Some(test) = &test {
            targets(test, settings.target_transform)?;
        }
        let (rows, columns) = (report::count(train.n, "row"), report::count(train.d, "input column"));
        eprintln!("{rows}, {columns}, target `{}`", train.target_name);
        let fingerprint = format!("data {}, {settings:?}", digest(&train));
        let config = self.training.config(&settings.model, fingerprint)?;
        let (mut progress, mut log) = (Progress::new(), self.log_every.map(Log::stderr));
        let mut observers: Vec<&mut dyn Observer> = vec![&mut progress];
        observers.extend(log.as_mut().map(|log| log as &mut dyn Observer));
        let plan = Plan::new(schema, &train, settings, config.seed, &Registry::default())?;
        announce(&plan, &config)?;
        let fitted = plan.train(&config, &mut observers)?;
        fitted.save(&self.output)?;

        let scores = test.map(|test| scoring::score(&fitted, &test)).transpose()?;
        if self.json {
            fitted.summary.warnings.iter().for_each(|warning| report::warn(warning));
            return report::print_json(&serde_json::json!({
                "model": self.output.display().to_string(),
                "loss": fitted.summary.loss,
                "termination": fitted.summary.termination,
                "iterations": fitted.summary.iterations,
                "seconds": fitted.summary.seconds,
                "kernel": fitted.model.kernel().to_string(),
                "likelihood": fitted.model.likelihood().text(),
                "noise": fitted.noise().map(|noise| noise * fitted.target_scale.sd.powi(2)),
                "scores": scores.map(|scores| scores.json()).transpose()?,
                "warnings": fitted.summary.warnings,
            }));
        }
        let mut text = super::inspect::description(&fitted);
        if let Some(scores) = &scores {
            text += &format!("Held-out rows\n{}", scores.table());
        }
        text += &format!("Model written to {}\n", self.output.display());
        report::print(&text)
    }

    /// The columns to read as inputs: the known noise is one of them until the model takes it out.
    fn inputs(&self) -> Option<Vec<String>> {
        let (features, noise) = (self.columns.features.as_ref()?, self.model.row_column());
        Some(features.iter().chain(noise.filter(|noise| !features.contains(noise))).cloned().collect())
    }

    /// The likelihood asked for, or the one that the target suggests, which is then told.
    fn likelihood(&self, schema: &Schema, data: &Dataset) -> Result<String> {
        if let Some(likelihood) = &self.model.likelihood {
            return Ok(likelihood.clone());
        }
        let sight = match &schema.classes {
            Some(classes) => Sight::Labels(classes.labels()),
            None => Sight::Numbers(data.y.as_deref().unwrap_or_default()),
        };
        let Inferred { likelihood, sentence } = infer(&schema.target, sight)?;
        eprintln!("{sentence}");
        Ok(likelihood)
    }

    fn check_outputs(&self) -> Result<()> {
        if self.output.as_os_str() == "-" {
            return Err(Error::Usage("-o -: a model is not written to standard output; name a file".into()));
        }
        let tables = std::iter::once(&self.data).chain(&self.splitting.split_mask).map(PathBuf::as_path);
        let states = self.training.resume.iter().chain(&self.training.checkpoint).map(PathBuf::as_path);
        if let Some(checkpoint) = &self.training.checkpoint {
            output::check(checkpoint, &tables.clone().collect::<Vec<_>>())?;
        }
        output::check(&self.output, &tables.chain(states).collect::<Vec<_>>())
    }
}

/// Bytes beyond which a step's memory is told before it is taken.
const LARGE: f64 = 5e8;
/// Seconds of a step beyond which the time of the training is told before it begins.
const LONG: f64 = 0.2;

/// Says what is coming when it is large: memory as computed, time as one step takes.
fn announce(plan: &Plan, config: &TrainConfig) -> Result<()> {
    let (title, bytes) = (plan.model().title(), plan.bytes());
    if bytes > LARGE {
        eprintln!("{title}: about {:.1} GB of memory a step", bytes / 1e9);
    }
    let cost = plan.cost()?;
    if cost.seconds > LONG {
        let (step, all) = (cost.seconds, cost.seconds * config.steps as f64);
        let limit =
            config.max_time.map_or(String::new(), |t| format!(", or what --max-time allows: {} s", t.as_secs()));
        eprintln!("{title}: {step:.2} s a step, {:.0} min for {} steps{limit}", (all / 60.0).ceil(), config.steps);
    }
    Ok(())
}

/// What the target column holds under a likelihood.
fn target_kind(likelihood: Option<&str>) -> TargetKind {
    let classes = ["bernoulli", "softmax", "categorical", "ordinal"];
    match likelihood {
        None => TargetKind::Auto,
        Some(text) if classes.iter().any(|name| text.trim().to_ascii_lowercase().starts_with(name)) => {
            TargetKind::Classes
        }
        Some(_) => TargetKind::Numbers,
    }
}

/// Tells data sets apart, by names and values.
fn digest(data: &Dataset) -> String {
    let mut hash = Sha256::new();
    data.feature_names.iter().chain([&data.target_name]).for_each(|name| hash.update(format!("{name:?}")));
    data.x.iter().chain(data.y.iter().flatten()).for_each(|value| hash.update(value.to_le_bytes()));
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
