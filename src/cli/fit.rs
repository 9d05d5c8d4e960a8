//! `cagey fit`

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cagey::data::{Dataset, Frame, RowFile, Schema};
use cagey::device::Transfers;
use cagey::fitted::average::AVERAGE;
use cagey::fitted::structure::{AUTO, is_dated};
use cagey::fitted::{Fitted, Plan, Settings, is_series};
use cagey::train::{Log, Observer, Progress, TrainConfig};
use cagey::{Error, Result};
use clap::Args;
use sha2::{Digest, Sha256};

use super::columns::{self, Columns};
use super::data::{Reading, Splitting, in_table};
use super::interrupt::{self, Watch};
use super::model::kinds::{self, KindGroups};
use super::model::{ModelOptions, device};
use super::saved::members_json;
use super::scoring::HeldOut;
use super::training::{SavingOptions, TrainOptions};
use super::trust::{Trust, advice_time};
use super::{memory, output, report, settings, shards};
use crate::values;

/// Fit a model to a table and save it
#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = examples()
)]
pub struct Fit {
    /// Table: CSV or TSV (also gzipped), NPY, Parquet, or a file that --rows-file made; `-` for standard input
    #[arg(required_unless_present = "shards")]
    data: Option<PathBuf>,
    /// Where to write the model
    #[arg(short, long, value_name = "FILE", default_value = "model.cagey")]
    output: PathBuf,
    /// Store in the file the matrix factor that was computed from the data: the file is larger and loads faster; for
    /// models that have such a factor
    #[arg(long)]
    store_factor: bool,
    /// Print the training loss after every STEPS steps
    #[arg(long, value_name = "STEPS", value_parser = values::count(1..=values::MOST))]
    log_every: Option<usize>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Model")]
    model: ModelOptions,
    #[command(flatten, next_help_heading = "Table")]
    columns: Columns,
    #[command(flatten, next_help_heading = "Table")]
    reading: Reading,
    /// Several tables with the same columns in place of one, or patterns such as 'site-*.csv'. Each table belongs to
    /// one expert, and only that expert's rank reads it. The model file names the tables and has no rows
    #[arg(long, value_name = "FILES", num_args = 1.., conflicts_with = "data", help_heading = "Table")]
    shards: Vec<String>,
    /// Keep the rows, also held-out ones, on disk instead of in memory, in this file, which is made from the table; for
    /// models that train on minibatches, and for experts and sgpr, where each rank reads its own share
    #[arg(long, value_name = "FILE", help_heading = "Table")]
    rows_file: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Held-out rows")]
    splitting: Splitting,
    #[command(flatten, next_help_heading = "Training")]
    training: TrainOptions,
    #[command(flatten, next_help_heading = "Training")]
    saving: SavingOptions,
    #[command(flatten)]
    _kinds: KindGroups,
}

fn examples() -> String {
    let own = super::registry().models.rows().iter().filter_map(|row| row.command.example);
    let own: String = own.map(|line| format!("\n  {line}")).collect();
    format!(
        "Examples:
  cagey fit concrete.csv --target strength -o concrete.cagey
  cagey fit co2.csv --holdout-last 0.2 --kernel \"rbf + periodic(period=1) * rbf + rq\"
  cagey fit data.csv --init noise=0.1 --fix noise --bounds lengthscale=0.1..100{own}
  cagey fit data.csv --restarts 5 --prior \"noise=halfcauchy(1)\" -o model.cagey"
    )
}

impl Fit {
    /// Reads, fits, scores held-out rows, saves.
    pub fn run(self) -> Result<()> {
        self.check_outputs()?;
        let Prepared { plan, config, began, test } = match &self.data {
            None => self.prepare_shards()?,
            Some(data) if self.on_disk(data) => self.prepare_on_disk(data)?,
            Some(data) => self.prepare_in_memory(data)?,
        };
        let (mut progress, mut log) = ((!report::is_quiet()).then(Progress::new), self.log_every.map(Log::stderr));
        let mut watch = Watch::begin();
        let mut observers: Vec<&mut dyn Observer> = vec![&mut watch];
        observers.extend(progress.as_mut().map(|progress| progress as &mut dyn Observer));
        observers.extend(log.as_mut().map(|log| log as &mut dyn Observer));
        announce(&plan, &config)?;
        let (max_time, config) = (config.max_time, shortened(config, began));
        let before = Transfers::so_far();
        let fitted = plan.train(&config, &mut observers)?;
        let moved = Transfers::so_far() - before;
        fitted.save(&self.output)?;
        // From here on the model is there, whatever becomes of its scores.
        super::result_is_written();
        drop(watch);
        if interrupt::asked() {
            let on = self.saving.checkpoint.as_ref().map(|path| format!("; --resume {} goes on", path.display()));
            report::warn(&format!("interrupted, so this is the model so far{}", on.unwrap_or_default()));
        }

        let mut held_out = test.and_then(|test| match HeldOut::of(&fitted, &test).map_err(self.in_table()) {
            Ok(scores) => Some(scores),
            Err(error) => {
                report::warn(&format!("held-out rows have no scores: {}", settings::error(&error)));
                None
            }
        });
        let seen = held_out.as_mut().and_then(|held| Some(held.trust().diagnosis.as_ref()?.verdict));
        let mut left_out = Trust::or_warn(Trust::of_training(&fitted, seen));
        if !interrupt::asked() {
            advise(&fitted, &mut held_out, &mut left_out, (max_time, began));
        }
        tell_late(max_time, began);
        if self.json {
            fitted.summary.warnings.iter().for_each(report::advise);
            return report::print_json(&serde_json::json!({
                "model": self.output.display().to_string(),
                "loss": fitted.summary.loss,
                "termination": fitted.summary.termination,
                "iterations": fitted.summary.iterations,
                "seconds": fitted.summary.seconds,
                "kernel": fitted.kernel().to_string(),
                "average": members_json(&fitted),
                "likelihood": fitted.model.likelihood().text(),
                "noise": fitted.noise().map(|noise| noise * fitted.target_scale.sd.powi(2)),
                "noise_sd": fitted.noise().map(|noise| noise.sqrt() * fitted.target_scale.sd),
                "calibration": fitted.calibration,
                "temperature": fitted.temperature,
                "transfers": (!moved.is_empty()).then_some(moved),
                "scores": held_out.as_ref().map(HeldOut::json).transpose()?,
                "left_out": left_out.json,
                "warnings": fitted.summary.warnings.iter().map(settings::words).collect::<Vec<_>>(),
            }));
        }
        let mut text = told(&fitted, &held_out, &left_out);
        if !moved.is_empty() {
            text += &format!("Moved to and from the device: {moved}\n");
        }
        text += &format!("Model written to {}\n", self.output.display());
        report::print(&text)
    }

    /// Whether the rows stay in a file. Training then differs from training in memory, because some choices use a
    /// sample of the rows only.
    fn on_disk(&self, data: &Path) -> bool {
        self.rows_file.is_some() || RowFile::recognised(data)
    }

    /// Puts the name of the table in front of an error about its rows.
    fn in_table(&self) -> impl Fn(Error) -> Error {
        let named = self.data.as_deref().map(in_table);
        move |error| match &named {
            Some(named) => named(error),
            None => error,
        }
    }

    /// Prepares a training from tables that stay with their ranks.
    fn prepare_shards(&self) -> Result<Prepared> {
        self.splitting.refuse_apart()?;
        if self.rows_file.is_some() {
            return Err(Error::Usage("--rows-file is for one table; with --shards leave it out".into()));
        }
        let name = kinds::kind_for_shards(self.model.model.as_deref())?.name;
        let model = self.model.with(Some(name.into()), self.model.kernel.clone());
        let tables = shards::open(&self.shards, &self.columns, &self.reading, &model)?;
        let rows = tables.rows();
        let y = tables.first().y.as_deref().unwrap_or_default();
        let settings = self.settings(&model, &columns::likelihood(&model, tables.schema(), y)?, rows)?;
        let mut fingerprint = Fingerprint::default();
        fingerprint.add_text(&tables.checksums());
        let config = self.begin(tables.schema(), &settings, rows, fingerprint)?;
        let began = Instant::now();
        let plan = Plan::from_shards(tables, settings, config.seed, super::registry());
        self.prepared(plan, config, began, None)
    }

    fn prepare_in_memory(&self, table: &Path) -> Result<Prepared> {
        let (schema, data) = self.columns.read(table, &self.reading, &self.model)?;
        self.prepare(schema, data)
    }

    /// Reads a table in memory.
    pub fn read_frame(&self, frame: &Frame) -> Result<(Schema, Dataset)> {
        self.columns.read_frame(frame, &self.reading, &self.model)
    }

    /// Prepares a training on a table that was read.
    pub fn prepare(&self, schema: Schema, data: Dataset) -> Result<Prepared> {
        let split = self.splitting.split(&data)?;
        let rows = split.as_ref().map_or(data.n, |split| split.train.len());
        let y = data.y.as_deref().unwrap_or_default();
        let likelihood = columns::likelihood(&self.model, &schema, y)?;
        let series = is_series(&schema, &data.x, data.d);
        let model = if series { self.model.clone() } else { self.averaging(&likelihood, (rows, schema.d())) };
        if is_dated(&schema) && self.model.takes_structure(&likelihood, rows, &self.training) {
            report::say(&format!("trend and season of a series are found, for forecasts, by --kernel {AUTO}"));
        }
        let settings = self.settings(&model, &likelihood, rows)?;
        let (train, test) = match split {
            Some(split) => (data.subset(&split.train), Some(data.subset(&split.test))),
            None => (data, None),
        };
        let mut fingerprint = Fingerprint::default();
        fingerprint.add(&train);
        let config = self.begin(&schema, &settings, train.n, fingerprint)?;
        let began = Instant::now();
        let plan = Plan::new(schema, &train, settings, config.seed, super::registry());
        self.prepared(plan, config, began, test)
    }

    /// The model asked for, or an average over kernels where that is the default: where nothing else is asked and it
    /// takes a few seconds. Says what it would cost where it takes longer.
    fn averaging(&self, likelihood: &str, (rows, columns): (usize, usize)) -> ModelOptions {
        let saved = self.saving.checkpoint.is_some() || self.saving.resume.is_some();
        match self.model.average_seconds(likelihood, (rows, columns), &self.training).filter(|_| !saved) {
            Some(few) if few <= A_FEW => self.model.with(self.model.model.clone(), Some(AVERAGE.into())),
            Some(many) => {
                let seconds = many / rayon::current_num_threads() as f64;
                let about = if seconds < 100.0 { (seconds, "s") } else { (seconds / 60.0, "min") };
                report::say(&format!(
                    "an average over kernels often predicts better: --kernel average, which takes about {:.0} {}",
                    about.0, about.1
                ));
                self.model.clone()
            }
            None => self.model.clone(),
        }
    }

    /// Prepares a training from a file of rows: the one given, or one made from the table.
    fn prepare_on_disk(&self, table: &Path) -> Result<Prepared> {
        let name = kinds::kind_for_file(self.model.model.as_deref())?.name;
        if self.splitting.split_mask.is_some() {
            return Err(Error::Usage(
                "--split-mask is for tables in memory; choose --holdout or --holdout-last".into(),
            ));
        }
        let model = self.model.with(Some(name.into()), self.model.kernel.clone());
        let rows = match &self.rows_file {
            Some(file) => self.columns.store(table, &self.reading, &self.model, file)?,
            None => {
                self.columns.refuse()?;
                RowFile::open(table)?
            }
        };
        let (train, test) = match self.splitting.by_share(rows.len())? {
            Some(split) => (split.train, Some(rows.read(&split.test)?)),
            None => ((0..rows.len()).collect(), None),
        };
        let mut fingerprint = Fingerprint::default();
        train.chunks(PART).try_for_each(|part| rows.read(part).map(|data| fingerprint.add(&data)))?;
        let mut y = Vec::new();
        if model.likelihood.is_none() && rows.schema().classes.is_none() {
            let all: Vec<usize> = (0..rows.len()).collect();
            for part in all.chunks(PART) {
                y.extend(rows.read(part)?.y.into_iter().flatten());
            }
        }
        let settings = self.settings(&model, &columns::likelihood(&model, rows.schema(), &y)?, train.len())?;
        let config = self.begin(rows.schema(), &settings, train.len(), fingerprint)?;
        let began = Instant::now();
        let plan = Plan::from_file(rows.into(), train, settings, config.seed, super::registry());
        self.prepared(plan, config, began, test)
    }

    /// A training that is ready to begin, after a check that its held-out rows can be scored.
    fn prepared(
        &self,
        plan: Result<Plan>,
        config: TrainConfig,
        began: Instant,
        test: Option<Dataset>,
    ) -> Result<Prepared> {
        let plan = plan.map_err(self.in_table())?;
        if let Some(test) = &test {
            plan.check(test).map_err(self.in_table())?;
        }
        Ok(Prepared { plan, config, began, test })
    }

    /// Prints what the model is trained on, and returns the configuration of the training.
    fn begin(
        &self,
        schema: &Schema,
        settings: &Settings,
        rows: usize,
        fingerprint: Fingerprint,
    ) -> Result<TrainConfig> {
        let (count, columns) = (report::count(rows, "row"), report::count(schema.d(), "input column"));
        report::say(&format!("{count}, {columns}, target `{}`", schema.target));
        let options = super::registry().models.options(&settings.model)?;
        self.training.check(&[&*options], rows)?;
        let on_disk = self.data.as_ref().is_some_and(|data| self.on_disk(data));
        let fingerprint =
            serde_json::json!({ "data": fingerprint.text(), "rows_on_disk": on_disk, "settings": settings });
        Ok(self.saving.extend(self.training.config(&*options), fingerprint.to_string()))
    }

    /// What to fit. It is an error if the device is not available.
    fn settings(&self, model: &ModelOptions, likelihood: &str, rows: usize) -> Result<Settings> {
        if let Some(sentence) = model.approximation(likelihood, rows)? {
            report::say(&sentence);
        }
        model.check_model(likelihood, rows)?;
        let settings = model.settings(likelihood, rows, &self.training)?;
        self.model.device.announce(settings.compute);
        settings.compute.device()?;
        Ok(Settings { store_factor: self.store_factor, ..settings })
    }

    fn check_outputs(&self) -> Result<()> {
        if self.output.as_os_str() == "-" {
            return Err(Error::Usage("-o -: a model is not written to standard output; name a file".into()));
        }
        let shards: Vec<PathBuf> = shards::files(&self.shards)?.into_iter().map(PathBuf::from).collect();
        let tables = self.data.iter().chain(&shards).chain(&self.splitting.split_mask).map(PathBuf::as_path);
        let states = self.saving.resume.iter().chain(&self.saving.checkpoint).map(PathBuf::as_path);
        if let Some(checkpoint) = &self.saving.checkpoint {
            output::check(checkpoint, &tables.clone().collect::<Vec<_>>())?;
        }
        if let Some(file) = &self.rows_file {
            output::check(file, &tables.clone().chain(states.clone()).collect::<Vec<_>>())?;
        }
        let rows = self.rows_file.iter().map(PathBuf::as_path);
        output::check(&self.output, &tables.chain(states).chain(rows).collect::<Vec<_>>())
    }
}

/// An average over kernels is the default up to so many seconds on one core.
const A_FEW: f64 = 10.0;
/// The command says beforehand if a step needs more bytes than this.
const LARGE: f64 = 5e8;
/// The command says beforehand if a training takes more seconds than this.
const LONG: f64 = 20.0;

/// Prints how much memory and time a large training takes. The memory is computed; the time is that of one step, times
/// the number of steps. Refuses a training that does not fit in memory.
fn announce(plan: &Plan, config: &TrainConfig) -> Result<()> {
    device::on_gpu(plan.settings().compute)?.iter().for_each(|sentence| report::say(sentence));
    memory::check(plan)?;
    let (title, bytes) = (plan.model().title(), plan.bytes());
    if bytes > LARGE {
        report::say(&format!("{title}: about {:.1} GB of memory a step", bytes / 1e9));
    }
    let (step, steps) = (plan.cost()?.seconds, config.steps as f64 * config.restarts.count as f64);
    let together = plan.models().min(rayon::current_num_threads()) as f64;
    let all = step * steps * plan.models() as f64 / together;
    if all > LONG {
        let limit =
            config.max_time.map_or(String::new(), |t| format!(", or what --max-time allows: {} s", t.as_secs()));
        let minutes = (all / 60.0).ceil();
        let cools = config.cooling.as_ref().is_some_and(|cooling| cooling.steps < config.steps);
        let about = if config.early_stopping.is_some() || cools { "at most" } else { "about" };
        report::say(&format!("{title}: {step:.2} s a step, {about} {minutes:.0} min for {steps} steps{limit}"));
        plan.shorter().iter().for_each(|advice| report::say(&settings::words(advice)));
    }
    Ok(())
}

/// Looks for settings that predict better, in the time that a limit counted from `began` leaves.
pub fn advise(
    fitted: &Fitted,
    held_out: &mut Option<HeldOut>,
    left_out: &mut Trust,
    (max_time, began): (Option<Duration>, Instant),
) {
    // A forecast asks for other settings than rows between the others.
    let apart = held_out.as_mut().map(HeldOut::trust);
    let apart = apart.filter(|held| held.is_of_forecast() || left_out.diagnosis.is_none());
    let left = |time: Duration| time.mul_f64(1.0 + 0.5 * LATE).saturating_sub(began.elapsed());
    let left = max_time.map_or(Duration::MAX, left);
    apart.unwrap_or(left_out).advise(fitted, advice_time(fitted).min(left));
}

/// Describes a model, its error bars and its held-out rows.
pub fn told(fitted: &Fitted, held_out: &Option<HeldOut>, left_out: &Trust) -> String {
    let mut text = super::inspect::description(fitted);
    if !left_out.lines.is_empty() {
        text += &format!("Error bars\n{}", left_out.text());
    }
    if let Some(held_out) = held_out {
        text += &format!("Held-out rows\n{}", held_out.text());
    }
    text
}

/// A configuration whose time limit counts from `began`: it includes what comes before the first step, such as the
/// choice of inducing inputs.
pub fn shortened(config: TrainConfig, began: Instant) -> TrainConfig {
    TrainConfig { max_time: config.max_time.map(|time| time.saturating_sub(began.elapsed())), ..config }
}

/// The command says so if it took longer than its time limit by more than this share of it.
const LATE: f64 = 0.1;

/// Prints what came after the time limit.
fn tell_late(max_time: Option<Duration>, began: Instant) {
    let (Some(limit), took) = (max_time, began.elapsed()) else { return };
    if took > limit.mul_f64(1.0 + LATE) + Duration::from_secs(1) {
        report::say(&format!(
            "--max-time {} s: the posterior, the check of error bars and the scores took until {:.0} s",
            limit.as_secs_f64(),
            took.as_secs_f64()
        ));
    }
}

/// Rows of a file that are read together.
const PART: usize = 1 << 14;

/// A training that is ready to begin.
#[derive(Debug)]
pub struct Prepared {
    pub plan: Plan,
    pub config: TrainConfig,
    /// When its time began.
    pub began: Instant,
    /// Held-out rows.
    pub test: Option<Dataset>,
}

/// A hash of names and values that tells data sets apart.
#[derive(Default)]
struct Fingerprint(Sha256);

impl Fingerprint {
    /// Adds a data set, or the next part of one.
    fn add(&mut self, data: &Dataset) {
        data.feature_names.iter().chain([&data.target_name]).for_each(|name| self.0.update(format!("{name:?}")));
        data.x.iter().chain(data.y.iter().flatten()).for_each(|value| self.0.update(value.to_le_bytes()));
    }

    fn add_text(&mut self, text: &str) {
        self.0.update(text);
    }

    fn text(self) -> String {
        self.0.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}
