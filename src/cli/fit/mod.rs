//! `cagey fit`

mod prepare;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cagey::data::{Dataset, RowFile};
use cagey::device::Transfers;
use cagey::fitted::{Fitted, Plan};
use cagey::train::{Log, Observer, Progress, TrainConfig};
use cagey::{Error, Result};
use clap::Args;

use crate::cli::columns::Columns;
use crate::cli::data::{Reading, Splitting, in_table};
use crate::cli::interrupt::{self, Watch};
use crate::cli::model::{ModelOptions, device, kinds};
use crate::cli::saved::members_json;
use crate::cli::scoring::HeldOut;
use crate::cli::training::{SavingOptions, TrainOptions};
use crate::cli::trust::Trust;
use crate::cli::{memory, output, report, settings, shards};
use crate::values;
pub use prepare::Prepared;

/// Fit a model to a table and save it
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, args = kinds::arguments(), after_help = examples())]
pub struct Fit {
    /// Table: CSV or TSV (also gzipped), NPY, IDX, Parquet (if the build has it), or a file that --rows-file made; `-`
    /// for standard input
    #[arg(required_unless_present = "shards")]
    data: Option<PathBuf>,
    /// Where to write the model
    #[arg(short, long, value_name = "FILE", default_value = "model.cagey")]
    output: PathBuf,
    /// Store in the file the matrix factor that was computed from the data: the file is larger, loads faster, and can
    /// be served by programs that only predict
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
}

fn examples() -> String {
    let own = crate::cli::registry().models.rows().iter().filter_map(|row| row.command.example);
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
        let Prepared { plan, config, began, test, notes } = match &self.data {
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
        let apart = plan.apart().cloned();
        let fitted = plan.train(&config, &mut observers)?;
        let moved = Transfers::so_far() - before;
        fitted.save(&self.output)?;
        // From here on the model is there, whatever becomes of its scores.
        crate::cli::result_is_written();
        drop(watch);
        if interrupt::asked() {
            let on = self.saving.checkpoint.as_ref().map(|path| format!("; --resume {} goes on", path.display()));
            report::warn(&format!("interrupted, so this is the model so far{}", on.unwrap_or_default()));
        }

        let mut held_out =
            test.and_then(|test| match HeldOut::of(&fitted, &test).map_err(in_table(self.data.as_deref())) {
                Ok(scores) => Some(scores),
                Err(error) => {
                    report::warn(&format!("held-out rows have no scores: {}", settings::error(&error)));
                    None
                }
            });
        let mut left_out = left_out(&fitted, &mut held_out, apart.as_ref());
        if !interrupt::asked() {
            advise(&fitted, &mut held_out, &mut left_out, (max_time, began));
        }
        tell_late(max_time, began);
        if self.json {
            fitted.summary.warnings.iter().for_each(report::advise);
            let warnings = fitted.summary.warnings.iter().chain(&notes.warnings).chain(&notes.said);
            return report::print_json(&serde_json::json!({
                "model": self.output.display().to_string(),
                "loss": fitted.summary.loss,
                "termination": fitted.summary.termination,
                "iterations": fitted.summary.iterations,
                "seconds": fitted.summary.seconds,
                "kernel": fitted.kernel().to_string(),
                "average": members_json(&fitted),
                "chosen": fitted.summary.chosen,
                "trail": fitted.summary.trail,
                "unheard": fitted.summary.unheard,
                "likelihood": fitted.model.likelihood().text(),
                "noise": fitted.noise().map(|noise| noise * fitted.target_scale.sd.powi(2)),
                "noise_sd": fitted.noise().map(|noise| noise.sqrt() * fitted.target_scale.sd),
                "calibration": fitted.calibration,
                "temperature": fitted.temperature,
                "transfers": (!moved.is_empty()).then_some(moved),
                "scores": held_out.as_ref().map(HeldOut::json).transpose()?,
                "left_out": left_out.json,
                "warnings": warnings.map(settings::words).collect::<Vec<_>>(),
            }));
        }
        let mut text = summary(&fitted, &held_out, &left_out);
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

/// The command says beforehand if a step needs more bytes than this.
const LARGE: f64 = 5e8;
/// The command says beforehand if a training takes more seconds than this.
const LONG: f64 = 20.0;

/// Prints how much memory and time a large training takes. The memory is computed; the time is that of one step, times
/// the number of steps. Refuses a training that does not fit in memory.
fn announce(plan: &Plan, config: &TrainConfig) -> Result<()> {
    device::on_gpu(plan.settings().compute)?.iter().for_each(|sentence| report::say(sentence));
    memory::check(plan)?;
    plan.said().iter().for_each(|sentence| report::say(sentence));
    let (title, bytes) = (plan.model().title(), plan.bytes());
    if bytes > LARGE {
        report::say(&format!("{title}: about {:.1} GB of memory a step", bytes / 1e9));
    }
    let all = plan.seconds(config)?;
    if all > LONG {
        let limit =
            config.max_time.map_or(String::new(), |t| format!(", or what --max-time allows: {} s", t.as_secs()));
        let minutes = (all / 60.0).ceil();
        let cools = config.cooling.as_ref().is_some_and(|cooling| cooling.steps < config.steps);
        let about = if config.early_stopping.is_some() || cools { "at most" } else { "about" };
        let what = match plan.is_of_kinds() {
            true => format!("An average of {} models: {about} {minutes:.0} min", plan.models()),
            false => {
                let steps = config.steps * config.restarts.count;
                let step = all * plan.together() as f64 / (plan.models() * steps) as f64;
                format!("{title}: {step:.2} s a step, {about} {minutes:.0} min for {steps} steps")
            }
        };
        report::say(&format!("{what}{limit}"));
        plan.shorter().iter().for_each(|advice| report::say(&settings::words(advice)));
    }
    Ok(())
}

/// Whether intervals hold for rows set `apart`, or else for the training rows.
pub fn left_out(fitted: &Fitted, held_out: &mut Option<HeldOut>, apart: Option<&Dataset>) -> Trust {
    let seen = held_out.as_mut().and_then(|held| Some(held.trust().diagnosis.as_ref()?.verdict));
    Trust::or_warn(match apart {
        // Intervals were fitted to these rows: other ones say more.
        Some(apart) if held_out.is_none() => Trust::of(fitted, apart, "rows set apart"),
        _ => Trust::of_training(fitted, seen),
    })
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
    apart.unwrap_or(left_out).advise(fitted, max_time.map(left));
}

/// Describes a model, its error bars and its held-out rows.
pub fn summary(fitted: &Fitted, held_out: &Option<HeldOut>, left_out: &Trust) -> String {
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
