//! What the subcommands do, for programs that hold their tables and models in memory: bindings to other languages. All
//! options are texts, as in the command; messages are returned instead of printed.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use cagey::data::{Dataset, Frame, ReadOptions, Schema};
use cagey::fitted::{Fitted, Plan};
use cagey::train::{Observer, TrainConfig};
use cagey::{Error, Result};
use clap::{CommandFactory, Parser};
use serde_json::Value;

use super::data::tell;
use super::fit::{self, Prepared};
pub use super::plot::draw;
pub use super::report::{Message, collect};
use super::scoring::HeldOut;
pub use super::scoring::class_labels as labels;
pub use super::settings::{error as problem, words};
use super::trust::Trust;
use super::{Cli, Command, inspect, memory};

/// A fit as the options of `cagey fit` describe it.
#[derive(Debug)]
pub struct Request(Box<fit::Fit>);

/// A fit that a [`Request`] asks for, ready to run.
#[derive(Debug)]
pub struct Ready(Prepared);

/// An option of `cagey fit`.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionRow {
    /// Its name, without dashes in front.
    pub name: String,
    /// What its value is called; none for a switch.
    pub value: Option<String>,
    /// The heading that the help shows it under.
    pub heading: String,
    /// What it does.
    pub help: String,
    /// The values it can have, if these are names.
    pub values: Vec<String>,
    /// Its default value, if it has one.
    pub default: Option<String>,
}

/// The options that are about files and the terminal, which a table in memory does not have.
const OF_FILES: [&str; 11] = [
    "output",
    "json",
    "log-every",
    "shards",
    "rows-file",
    "header",
    "separator",
    "decimal",
    "threads",
    "quiet",
    "help",
];

impl Request {
    /// Reads options such as `--kernel=rbf`.
    ///
    /// # Errors
    /// [`Error::Usage`] for options that there are not, and for values that they do not take.
    pub fn parse(options: &[String]) -> Result<Self> {
        match parsed(&["fit", "table"], options)? {
            Command::Fit(fit) => Ok(Self(fit)),
            _ => Err(Error::Usage("these are no options of a fit".into())),
        }
    }

    /// All options that a request can have, in the order of the command's help.
    pub fn options() -> Vec<OptionRow> {
        let mut cagey = Cli::command();
        cagey.build();
        let Some(fit) = cagey.find_subcommand("fit") else { return Vec::new() };
        let named = fit.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg)));
        let row = |(name, arg): (&str, &clap::Arg)| OptionRow {
            name: name.to_string(),
            value: arg.get_action().takes_values().then(|| {
                let names = arg.get_value_names().unwrap_or_default();
                names.iter().map(|name| name.to_string()).collect::<Vec<_>>().join(" ")
            }),
            heading: arg.get_help_heading().unwrap_or("Options").to_string(),
            help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
            values: match arg.get_action().takes_values() {
                true => arg.get_possible_values().iter().map(|value| value.get_name().to_string()).collect(),
                false => Vec::new(),
            },
            default: arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned()),
        };
        named.filter(|(name, _)| !OF_FILES.contains(name)).map(row).collect()
    }

    /// Reads a table of any columns as the command reads a file.
    ///
    /// # Errors
    /// As [`Frame::read_training`].
    pub fn read(&self, frame: &Frame) -> Result<(Schema, Dataset)> {
        self.0.read_frame(frame)
    }

    /// Prepares the fit to a table, without the rows that are held out.
    ///
    /// # Errors
    /// As [`Plan::new`], and for options that do not go with each other or with the table.
    pub fn prepare(&self, schema: Schema, data: Dataset) -> Result<Ready> {
        let prepared = self.0.prepare(schema, data)?;
        memory::check(&prepared.plan)?;
        Ok(Ready(prepared))
    }
}

impl Ready {
    /// The model before its training, and how it is trained.
    pub fn plan(&self) -> (&Plan, &TrainConfig) {
        (&self.0.plan, &self.0.config)
    }

    /// Trains the model. The held-out rows are returned with it.
    ///
    /// # Errors
    /// As [`Plan::train`].
    pub fn train(self, observers: &mut [&mut dyn Observer]) -> Result<Trained> {
        let Prepared { plan, config, began, test, .. } = self.0;
        let time = config.max_time;
        let fitted = plan.train(&fit::shortened(config, began), observers)?;
        Ok(Trained { fitted, test, began, time })
    }
}

/// A trained model, with the rows that were held out.
#[derive(Debug)]
pub struct Trained {
    /// The model.
    pub fitted: Fitted,
    test: Option<Dataset>,
    began: Instant,
    time: Option<Duration>,
}

impl Trained {
    /// What the command prints about the model, its error bars and its held-out rows: as text and as JSON.
    ///
    /// # Errors
    /// For scores that cannot be computed.
    pub fn report(&self) -> Result<(String, Value)> {
        let mut held_out = self.test.as_ref().map(|test| HeldOut::of(&self.fitted, test)).transpose()?;
        let mut left_out = fit::left_out(&self.fitted, &mut held_out, None);
        fit::advise(&self.fitted, &mut held_out, &mut left_out, (self.time, self.began));
        let text = fit::summary(&self.fitted, &held_out, &left_out);
        let scores = held_out.as_ref().map(HeldOut::json).transpose()?;
        Ok((text, serde_json::json!({ "scores": scores, "left_out": left_out.json })))
    }
}

/// A subcommand and its options.
fn parsed(first: &[&str], options: &[String]) -> Result<Command> {
    let words = ["cagey"].iter().chain(first).map(OsString::from).chain(options.iter().map(OsString::from));
    let cli = Cli::try_parse_from(words).map_err(|error| {
        let text = error.render().to_string();
        let problem = text.split("\n\nUsage").next().unwrap_or_default().split("\n\nFor more").next();
        Error::Usage(problem.unwrap_or_default().trim_start_matches("error: ").trim_end().to_string())
    })?;
    Ok(cli.command)
}

/// What `cagey compare --json` prints about fits to a table: candidates with their scores, the best first.
///
/// # Errors
/// As the command.
pub fn compare(options: &[String], frame: &Frame, observers: &mut [&mut dyn Observer]) -> Result<Value> {
    match parsed(&["compare", "table"], options)? {
        Command::Compare(compare) => compare.of_frame(frame, observers),
        _ => Err(Error::Usage("these are no options of a comparison".into())),
    }
}

/// Reads the rows of a table for a fitted model, as `cagey predict` or, with targets, `cagey evaluate` does.
///
/// # Errors
/// As [`Frame::read_with_schema`].
pub fn read(fitted: &Fitted, frame: &Frame, need_target: bool) -> Result<Dataset> {
    let optional = fitted.settings.auxiliary_column.iter().cloned().collect();
    let options = ReadOptions { optional, mix_unknown: true, ..ReadOptions::default() };
    let data = frame.read_with_schema(&fitted.schema, &options, need_target)?;
    tell(&data.notes);
    Ok(data)
}

/// What `cagey evaluate` prints about rows with known targets: as text and as JSON.
///
/// # Errors
/// As [`Fitted::predict`].
pub fn evaluate(fitted: &Fitted, data: &Dataset) -> Result<(String, Value)> {
    let held_out = HeldOut::of(fitted, data)?;
    Ok((held_out.text(), held_out.json()?))
}

/// Whether intervals hold for the training rows, each predicted from all others; with `advice`, also the settings that
/// predict better. Sentences, and the same as JSON; both are empty for a model that leaves no row out in closed form.
///
/// # Errors
/// As [`Fitted::diagnose_left_out`].
pub fn error_bars(fitted: &Fitted, advice: bool) -> Result<(Vec<String>, Value)> {
    let mut trust = Trust::of_training(fitted, None)?;
    if advice {
        trust.advise(fitted, None);
    }
    Ok((trust.lines, trust.json))
}

/// What `cagey inspect` prints: as text and as JSON.
pub fn description(fitted: &Fitted) -> (String, Value) {
    (inspect::description(fitted), inspect::json(fitted))
}
