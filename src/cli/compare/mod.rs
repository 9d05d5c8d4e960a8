//! `cagey compare`

mod baseline;
mod candidate;
mod folds;
mod table;

use std::path::{Path, PathBuf};

use cagey::data::{Dataset, Schema, Split};
use cagey::fitted::Plan;
use cagey::plot::{Figure, Frame, Scored, Scores};
use cagey::train::{Observer, Progress, Termination};
use cagey::{Error, Result};
use clap::Args;
use serde_json::Value;

use super::columns::{self, Columns};
use super::data::{Reading, Splitting, in_table};
use super::model::{ModelOptions, kinds};
use super::training::TrainOptions;
use super::{memory, output, report, scoring, settings};
use baseline::Baseline;
use candidate::{Candidate, Fit, Trial, mean_and_error};
use folds::Folds;

/// Fit several models or kernels to the same rows and compare their scores
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, args = kinds::arguments(), after_help = examples())]
pub struct Compare {
    /// Table: CSV or TSV (also gzipped), NPY, IDX, Parquet (if the build has it); `-` for standard input
    data: PathBuf,
    /// Models to compare
    #[arg(long, value_parser = kinds::names(), value_delimiter = ',', value_name = "NAMES", conflicts_with = "model")]
    models: Vec<String>,
    /// Kernels to compare
    #[arg(long, num_args = 1.., value_name = "KERNELS", conflicts_with = "kernel")]
    kernels: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Draw scores with their errors against seconds: .svg or .png
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Model")]
    model: ModelOptions,
    #[command(flatten, next_help_heading = "Held-out rows (a tenth by default)")]
    folds: Folds,
    #[command(flatten, next_help_heading = "Table")]
    columns: Columns,
    #[command(flatten, next_help_heading = "Table")]
    reading: Reading,
    #[command(flatten, next_help_heading = "Held-out rows (a tenth by default)")]
    splitting: Splitting,
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

/// What all candidates are fitted to.
struct Task<'a> {
    schema: &'a Schema,
    data: &'a Dataset,
    likelihood: &'a str,
}

impl Compare {
    /// Reads, fits all candidates, prints one table.
    pub fn run(self) -> Result<()> {
        self.figure.iter().try_for_each(|figure| output::check_figure(figure, &[&self.data]))?;
        let (schema, data) = self.columns.read_grouped(&self.data, &self.reading, &self.model, self.folds.group())?;
        let mut candidates = Vec::new();
        let fitted = self.fit_all(&schema, &data, &mut [], &mut candidates);
        // Those that were fitted before another failed, perhaps for hours, are printed too.
        let shown = fitted.is_ok() || !candidates.is_empty();
        let printed = if shown { self.print(&candidates, &schema.target) } else { Ok(()) };
        fitted.and(printed)?;
        self.figure.iter().try_for_each(|figure| draw(&candidates, figure))
    }

    /// Fits all candidates to a table in memory and describes them as JSON.
    pub fn of_frame(&self, frame: &cagey::data::Frame, observers: &mut [&mut dyn Observer]) -> Result<Value> {
        let (schema, data) = self.columns.read_frame(frame, &self.reading, &self.model)?;
        let mut candidates = Vec::new();
        self.fit_all(&schema, &data, observers, &mut candidates)?;
        json(&candidates)
    }

    /// Fits all candidates and sorts them, the best first; those before one that fails too.
    fn fit_all(
        &self,
        schema: &Schema,
        data: &Dataset,
        observers: &mut [&mut dyn Observer],
        candidates: &mut Vec<Candidate>,
    ) -> Result<()> {
        let likelihood = columns::likelihood(&self.model, schema, data.y.as_deref().unwrap_or_default())?;
        let splits = self.folds.splits(&self.splitting, data)?;
        let rows = splits[0].train.len();
        let open = self.models.is_empty() && self.kernels.is_empty();
        let usual = || self.model.usual((schema, data), &likelihood, rows, (&self.training, false));
        let model = if open { usual() } else { self.model.clone() };
        let asked = |names: &[String], usual: &Option<String>| match names {
            [] => vec![usual.clone()],
            names => names.iter().cloned().map(Some).collect(),
        };
        let (models, kernels) = (asked(&self.models, &model.model), asked(&self.kernels, &model.kernel));
        let forecast = self.folds.is_rolling() && data.d - usize::from(schema.series().is_some()) == 1;
        let all = self.model.each(&models, &kernels);
        ModelOptions::check(&all, &likelihood, rows)?;
        // Reports what one of them cannot be fitted to before another is trained.
        let task = Task { schema, data, likelihood: &likelihood };
        let mut plans = Vec::new();
        for options in &all {
            let plan = self.plan(options, &task, &splits[0])?;
            for split in &splits {
                plan.check(&data.subset(&split.test)).map_err(in_table(Some(&self.data)))?;
            }
            plans.push(plan);
        }
        let options: Vec<&dyn cagey::models::options::ModelOptions> = plans.iter().map(Plan::options).collect();
        self.training.check(&options, rows)?;
        if let Some(plan) = plans.first() {
            candidates.extend(
                Baseline::of(plan, forecast).iter().filter_map(|baseline| scored(*baseline, plan, &task, &splits)),
            );
        }
        candidates.sort_by(by_score);
        drop(plans);
        for options in &all {
            let runs = splits.iter().map(|split| self.fit(options, &task, split, observers));
            let runs = runs.collect::<Result<Vec<Trial>>>()?;
            let fit = runs.first().and_then(|run| run.fit.as_ref());
            let kind = fit.map_or("", |fit| fit.fitted.settings.model.kind());
            let averaged = fit.is_some_and(|fit| !fit.fitted.members().is_empty());
            let name = match &options.kernel {
                _ if averaged => format!("{kind} average"),
                Some(kernel) if kernels.len() > 1 => format!("{kind} {kernel}"),
                _ => kind.to_string(),
            };
            report::say(&format!("{name}: done"));
            candidates.push(Candidate { name, runs });
            candidates.sort_by(by_score);
        }
        Ok(())
    }

    /// Prints the candidates, the best first.
    fn print(&self, candidates: &[Candidate], target: &str) -> Result<()> {
        if self.json {
            return report::print_json(&json(candidates)?);
        }
        let real = candidates.first().is_some_and(|c| c.runs.iter().any(|run| run.scores.name == "NLPD"));
        let unit = if real { format!("; RMSE and CRPS are in units of `{target}`") } else { String::new() };
        report::print(&table::table(candidates, &unit))
    }

    fn plan(&self, options: &ModelOptions, task: &Task, split: &Split) -> Result<Plan> {
        let settings = options.settings(task.likelihood, split.train.len(), &self.training)?;
        let train = task.data.subset(&split.train);
        let plan = Plan::new(task.schema.clone(), &train, settings, self.training.seed, super::registry())?;
        memory::check(&plan)?;
        Ok(plan)
    }

    fn fit(
        &self,
        options: &ModelOptions,
        task: &Task,
        split: &Split,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Trial> {
        let plan = self.plan(options, task, split)?;
        let config = self.training.config(plan.options(), plan.rows().n());
        let mut progress = (!report::is_quiet()).then(Progress::new);
        let mut observers: Vec<&mut dyn Observer> = observers.iter_mut().map(|o| &mut **o as _).collect();
        observers.extend(progress.as_mut().map(|progress| progress as &mut dyn Observer));
        let bytes = plan.bytes();
        let fitted = plan.train(&config, &mut observers)?;
        if fitted.summary.termination == Termination::Interrupted.to_string() {
            return Err(Error::Usage("the comparison was interrupted".into()));
        }
        let test = task.data.subset(&split.test);
        let scores = scoring::score_rows(&fitted, &test)?;
        let words = scoring::Judged::of(&fitted, &test)?.line();
        Ok(Trial { scores, seconds: fitted.summary.seconds, fit: Some(Fit { fitted, bytes, words }) })
    }
}

fn by_score(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    a.score().total_cmp(&b.score())
}

/// The candidates as JSON, the best first.
fn json(candidates: &[Candidate]) -> Result<Value> {
    candidates.iter().map(|candidate| candidate.json(candidates)).collect()
}

/// Scores a baseline on every fold; none if that fails.
fn scored(baseline: Baseline, plan: &Plan, task: &Task, splits: &[Split]) -> Option<Candidate> {
    let run = |split: &Split| {
        let (train, test) = (task.data.subset(&split.train), task.data.subset(&split.test));
        let (scores, seconds) = baseline.score(plan, task.schema, &train, &test)?;
        Ok(Trial { scores, seconds, fit: None })
    };
    let runs = splits.iter().map(run).collect::<Result<Vec<Trial>>>();
    match runs {
        Ok(runs) => Some(Candidate { name: baseline.name().into(), runs }),
        Err(error) => {
            report::say(&format!("the baseline {} is left out: {}", baseline.name(), settings::error(&error)));
            None
        }
    }
}

/// Draws the scores of the candidates with their errors against the time they took.
fn draw(candidates: &[Candidate], path: &Path) -> Result<()> {
    let all: Vec<Scored> = candidates
        .iter()
        .map(|candidate| {
            let (score, error) = mean_and_error(&candidate.rows());
            let seconds = candidate.over_folds(|run| run.seconds);
            Scored { name: &candidate.name, seconds, score, error: error.unwrap_or(0.0) }
        })
        .collect();
    let name = candidates.first().map_or("", |candidate| candidate.runs[0].scores.name);
    Scores { all: &all, frame: Frame { y: name, ..Frame::default() } }.save(path)
}
