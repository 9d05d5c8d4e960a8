//! `cagey compare`

use std::path::PathBuf;

use cagey::Result;
use cagey::data::{Dataset, Schema, Split};
use cagey::fitted::{Fitted, Plan};
use cagey::plot::{LearningCurve, Run};
use cagey::train::{Observer, Progress};
use clap::Args;
use serde_json::{Value, json};

use super::columns::{self, Columns};
use super::data::{Reading, Splitting, in_table};
use super::model::{ModelOptions, kinds};
use super::scoring::Scored;
use super::training::TrainOptions;
use super::{memory, output, report, scoring};
use crate::values;

/// Fit several models or kernels to the same rows and set their scores side by side
#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = examples()
)]
pub struct Compare {
    /// Table: CSV or TSV (also gzipped), NPY, Parquet; `-` for standard input
    data: PathBuf,
    /// Models to compare
    #[arg(long, value_parser = kinds::names(), value_delimiter = ',', value_name = "NAMES", conflicts_with = "model")]
    models: Vec<String>,
    /// Kernels to compare
    #[arg(long, num_args = 1.., value_name = "KERNELS", conflicts_with = "kernel")]
    kernels: Vec<String>,
    /// Cross-validate on this many folds instead of one split
    #[arg(long, value_name = "K", value_parser = values::count(2..=1000))]
    #[arg(conflicts_with_all = ["holdout", "holdout_last", "split_mask"])]
    folds: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Draw the learning curves (of the first fold): .svg or .png
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Table")]
    columns: Columns,
    #[command(flatten, next_help_heading = "Table")]
    reading: Reading,
    #[command(flatten, next_help_heading = "Held-out rows (a tenth by default)")]
    splitting: Splitting,
    #[command(flatten, next_help_heading = "Model")]
    model: ModelOptions,
    #[command(flatten, next_help_heading = "Training")]
    training: TrainOptions,
}

fn examples() -> String {
    let names: Vec<&str> = super::registry().models.rows().iter().map(|row| row.name).take(3).collect();
    format!(
        "Examples:
  cagey compare data.csv --models {} --inducing 256
  cagey compare data.csv --kernels \"rbf(ard)\" \"matern32(ard)\" \"rbf + linear\" --folds 5
  cagey compare data.csv --models {} --holdout 0.2 --json --figure curves.png",
        names.join(","),
        names[names.len().saturating_sub(2)..].join(",")
    )
}

/// One model with one kernel, fitted on every fold.
struct Candidate {
    name: String,
    runs: Vec<Trial>,
}

/// What all candidates are fitted to.
struct Task<'a> {
    schema: &'a Schema,
    data: &'a Dataset,
    likelihood: &'a str,
}

/// A fit on one fold.
struct Trial {
    fitted: Fitted,
    scored: Scored,
    bytes: f64,
}

impl Compare {
    /// Reads, fits all candidates, prints one table.
    pub fn run(self) -> Result<()> {
        if let Some(figure) = &self.figure {
            output::check_figure(figure, &[&self.data])?;
        }
        let (schema, data) = self.columns.read(&self.data, &self.reading, &self.model)?;
        let likelihood = columns::likelihood(&self.model, &schema, data.y.as_deref().unwrap_or_default())?;
        let splits = match self.folds {
            Some(k) => Split::folds(data.n, k, self.splitting.split_seed)?,
            None => match self.splitting.split(&data)? {
                Some(split) => vec![split],
                None => vec![Split::random(data.n, 0.1, self.splitting.split_seed)?],
            },
        };
        let models = if self.models.is_empty() {
            vec![self.model.model.clone()]
        } else {
            self.models.iter().cloned().map(Some).collect()
        };
        let kernels = if self.kernels.is_empty() { vec![self.model.kernel.clone()] } else { self.kernels.clone() };
        let all: Vec<ModelOptions> = models
            .iter()
            .flat_map(|model| kernels.iter().map(|kernel| self.model.with(model.clone(), kernel)))
            .collect();
        ModelOptions::check_models(&all, &likelihood, splits[0].train.len())?;
        // A model that cannot take these data is an error before any other is trained.
        let task = Task { schema: &schema, data: &data, likelihood: &likelihood };
        let mut plans = Vec::new();
        for options in &all {
            let plan = self.plan(options, &task, &splits[0])?;
            for split in &splits {
                plan.check(&data.subset(&split.test)).map_err(in_table(&self.data))?;
            }
            plans.push(plan);
        }
        let options: Vec<&dyn cagey::models::options::ModelOptions> = plans.iter().map(Plan::options).collect();
        self.training.check(&options, splits[0].train.len())?;
        drop(plans);
        let mut candidates = Vec::new();
        for options in &all {
            let runs = splits.iter().map(|split| self.fit(options, &task, split));
            let runs: Vec<Trial> = match runs.collect() {
                Ok(runs) => runs,
                Err(error) => {
                    // Others were fitted, perhaps for hours.
                    let _ = self.print(&candidates);
                    return Err(error);
                }
            };
            let kind = runs.first().map_or("", |run| run.fitted.settings.model.kind());
            let name = if kernels.len() > 1 { format!("{kind} {}", options.kernel) } else { kind.to_string() };
            report::say(&format!("{name}: done"));
            candidates.push(Candidate { name, runs });
        }
        self.print(&candidates)?;
        match &self.figure {
            Some(figure) => draw(&candidates, figure),
            None => Ok(()),
        }
    }

    fn print(&self, candidates: &[Candidate]) -> Result<()> {
        if self.json {
            return report::print_json(&candidates.iter().map(Candidate::json).collect::<Result<Vec<Value>>>()?);
        }
        report::print(&table(candidates))
    }

    fn plan(&self, options: &ModelOptions, task: &Task, split: &Split) -> Result<Plan> {
        let settings = options.settings(task.likelihood, split.train.len(), &self.training)?;
        let train = task.data.subset(&split.train);
        let plan = Plan::new(task.schema.clone(), &train, settings, self.training.seed, super::registry())?;
        memory::check(&plan)?;
        Ok(plan)
    }

    fn fit(&self, options: &ModelOptions, task: &Task, split: &Split) -> Result<Trial> {
        let plan = self.plan(options, task, split)?;
        let config = self.training.config(plan.options());
        let mut progress = (!report::is_quiet()).then(Progress::new);
        let mut observers: Vec<&mut dyn Observer> = Vec::new();
        observers.extend(progress.as_mut().map(|progress| progress as &mut dyn Observer));
        let bytes = plan.bytes();
        let fitted = plan.train(&config, &mut observers)?;
        let scored = scoring::score(&fitted, &task.data.subset(&split.test))?;
        Ok(Trial { fitted, scored, bytes })
    }
}

impl Candidate {
    /// The mean of something over the folds, and its standard deviation where there are several.
    fn over_folds(&self, f: impl Fn(&Trial) -> f64) -> (f64, Option<f64>) {
        let values: Vec<f64> = self.runs.iter().map(f).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let sd = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        (mean, (values.len() > 1).then_some(sd))
    }

    fn json(&self) -> Result<Value> {
        let folds: Vec<Value> = self
            .runs
            .iter()
            .map(|run| {
                let parameters = run.fitted.model.parameters().into_iter().filter(|(_, p)| p.len() <= MOST_NUMBERS);
                let parameters: serde_json::Map<String, Value> =
                    parameters.map(|(path, p)| (path, p.values().into())).collect();
                Ok(json!({
                    "scores": run.scored.json()?,
                    "seconds": run.fitted.summary.seconds,
                    "evaluations": run.fitted.summary.evaluations,
                    "step_bytes": run.bytes,
                    "loss": run.fitted.summary.loss,
                    "parameters": parameters,
                    "warnings": run.fitted.summary.warnings,
                }))
            })
            .collect::<Result<_>>()?;
        let kernel = &self.runs[0].fitted.settings.kernel;
        Ok(json!({ "name": self.name, "kernel": kernel, "folds": folds }))
    }
}

/// Longer parameters are variational or actions, no hyperparameters.
const MOST_NUMBERS: usize = 100;

/// One row a candidate.
fn table(candidates: &[Candidate]) -> String {
    let Some(first) = candidates.first().and_then(|c| c.runs.first()) else { return String::new() };
    let names: Vec<&str> = first.scored.brief().iter().map(|(name, _)| *name).collect();
    let mut rows = vec![
        ["model", "objective"]
            .iter()
            .chain(&names)
            .chain(&["seconds", "MB a step"])
            .map(|s| s.to_string())
            .collect::<Vec<_>>(),
    ];
    for candidate in candidates {
        let shown = |f: &dyn Fn(&Trial) -> f64, digits: usize| match candidate.over_folds(f) {
            (mean, None) => report::fixed(mean, digits),
            (mean, Some(sd)) => format!("{} ± {}", report::fixed(mean, digits), report::fixed(sd, digits)),
        };
        let mut row = vec![candidate.name.clone(), shown(&|run| run.fitted.summary.loss, 4)];
        row.extend((0..names.len()).map(|i| shown(&|run| run.scored.brief()[i].1, 4)));
        row.push(shown(&|run| run.fitted.summary.seconds, 1));
        row.push(shown(&|run| run.bytes / 1e6, 0));
        rows.push(row);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        text += &(cells.collect::<Vec<_>>().join("  ") + "\n");
    }
    for candidate in candidates {
        let parameters = candidate.runs[0].fitted.model.parameters().into_iter().filter(|(_, p)| p.len() <= 16);
        let list: Vec<String> = parameters
            .map(|(path, p)| {
                let values: Vec<String> = p.values().into_iter().map(cagey::params::shown).collect();
                format!("{path} {}", values.join(", "))
            })
            .collect();
        text += &format!("{}: {}\n", candidate.name, list.join("; "));
    }
    text
}

/// The learning curves of the first fold.
fn draw(candidates: &[Candidate], figure: &PathBuf) -> Result<()> {
    let series: Vec<(&str, Vec<f64>, Vec<f64>)> = candidates
        .iter()
        .map(|candidate| {
            let records = &candidate.runs[0].fitted.summary.history.records;
            let first = || records.iter().filter(|record| record.restart == 0);
            (candidate.name.as_str(), first().map(|r| r.loss).collect(), first().map(|r| r.seconds).collect())
        })
        .collect();
    let runs: Vec<Run> = series.iter().map(|(name, loss, seconds)| Run { name, loss, seconds }).collect();
    LearningCurve { runs: &runs, ..LearningCurve::default() }.save(figure)
}
