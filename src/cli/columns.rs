//! The columns of a table that a model is fitted to.

use std::path::Path;

use cagey::data::{Dataset, Frame, LeaveOut, ReadOptions, RowFile, Schema, TargetKind, read_training};
use cagey::fitted::structure;
use cagey::likelihoods::infer::{Inferred, Sight, infer};
use cagey::{Error, Result};
use clap::{Args, ValueEnum};

use super::data::{Reading, tell};
use super::model::ModelOptions;
use super::{report, settings};

/// Which columns are used, and how.
#[derive(Debug, Args)]
pub struct Columns {
    /// Target column; the last by default
    #[arg(long, value_name = "COLUMN")]
    pub target: Option<String>,
    /// Labels of the target's classes, in the order that the ordinal likelihood uses; sorted by default
    #[arg(long, value_delimiter = ',', value_name = "LABELS")]
    classes: Option<Vec<String>>,
    /// Input columns, separated by commas; by default all others, without those that only name the rows
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    features: Option<Vec<String>>,
    /// Columns to leave out, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS", conflicts_with = "features")]
    drop: Vec<String>,
    /// What to do with columns that hold no numbers
    #[arg(long, value_enum, default_value_t = Text::Auto, value_name = "WAY")]
    text: Text,
    /// Encode every column of text as one 0/1 input per category, also names and free text
    #[arg(long)]
    one_hot: bool,
    /// Columns to read as categories although they look like numbers; a target among them is read as classes
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    categorical: Vec<String>,
    /// Read dates as decimal years, also with --text refuse
    #[arg(long)]
    dates: bool,
}

/// Columns that hold no numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Text {
    /// Texts become one 0/1 input per category, dates decimal years. Columns that name the rows are left out: an index,
    /// an id, texts of which nearly every row has its own
    Auto,
    /// Stop and name row and column
    Refuse,
}

impl Columns {
    /// Reads a table to train on.
    pub fn read(&self, path: &Path, reading: &Reading, model: &ModelOptions) -> Result<(Schema, Dataset)> {
        Ok(in_order(read_training(path, &self.options(reading, model)?)?))
    }

    /// Reads a table in memory to train on.
    pub fn read_frame(&self, frame: &Frame, reading: &Reading, model: &ModelOptions) -> Result<(Schema, Dataset)> {
        Ok(in_order(frame.read_training(&self.options(reading, model)?)?))
    }

    /// Reads a table to train on. If a column groups its rows, this keeps their text and takes that column out of the
    /// inputs.
    pub fn read_grouped(
        &self,
        path: &Path,
        reading: &Reading,
        model: &ModelOptions,
        group: Option<&String>,
    ) -> Result<(Schema, Dataset)> {
        let Some(group) = group else { return self.read(path, reading, model) };
        let mut options = ReadOptions { keep: true, ..self.options(reading, model)? };
        if options.features.is_none() && !options.drop.contains(group) {
            options.drop.push(group.clone());
        }
        Ok(in_order(read_training(path, &options)?))
    }

    /// Copies a table into a file of rows to train on.
    pub fn store(&self, path: &Path, reading: &Reading, model: &ModelOptions, rows: &Path) -> Result<RowFile> {
        let file = RowFile::create(path, &self.options(reading, model)?, rows)?;
        tell(file.notes());
        Ok(file)
    }

    /// Refuses options that choose columns, for a file of rows whose columns are chosen already.
    pub fn refuse(&self) -> Result<()> {
        match self {
            Self {
                target: None,
                classes: None,
                features: None,
                drop,
                text: Text::Auto,
                one_hot: false,
                categorical,
                dates: false,
            } if drop.is_empty() && categorical.is_empty() => Ok(()),
            _ => Err(Error::Usage(
                "a file of rows has its target and inputs already: leave out --target, --classes, --features, --drop, \
                 --text, --one-hot, --categorical and --dates, or make it anew from its table"
                    .into(),
            )),
        }
    }

    fn options(&self, reading: &Reading, model: &ModelOptions) -> Result<ReadOptions> {
        let target_kind = target_kind(model.likelihood.as_deref(), self.classes.is_some());
        if self.classes.is_some() && target_kind == TargetKind::Numbers {
            let likelihood = model.likelihood.as_deref().unwrap_or_default();
            return Err(Error::Usage(format!(
                "--classes is for --likelihood bernoulli, softmax or ordinal, and this fits {likelihood}"
            )));
        }
        let auto = self.text == Text::Auto;
        let leave_out = match (auto, self.one_hot) {
            (false, _) => LeaveOut::Nothing,
            (true, true) => LeaveOut::Index,
            (true, false) => LeaveOut::Names,
        };
        Ok(ReadOptions {
            target: self.target.clone(),
            classes: self.classes.clone(),
            features: self.inputs(model),
            drop: self.drop.clone(),
            one_hot: self.one_hot || auto,
            categorical: self.categorical.clone(),
            series: model.series().cloned(),
            dates: self.dates || auto,
            leave_out,
            target_kind,
            ..reading.options()
        })
    }

    /// The columns to read as inputs. The auxiliary column is one of them until the model takes it out, and so is that
    /// of the series.
    fn inputs(&self, model: &ModelOptions) -> Option<Vec<String>> {
        let features = self.features.as_ref()?;
        let own = model.auxiliary_column().into_iter().chain(model.series()).filter(|own| !features.contains(own));
        Some(features.iter().chain(own).cloned().collect())
    }
}

/// Prints how a table was read, and puts the rows of a series in their order.
fn in_order((schema, data): (Schema, Dataset)) -> (Schema, Dataset) {
    tell(&data.notes);
    let data = structure::in_order(&schema, data);
    (schema, data)
}

/// The likelihood asked for, or else the one that the target suggests. Prints which one was inferred.
pub fn likelihood(model: &ModelOptions, schema: &Schema, y: &[f64]) -> Result<String> {
    if let Some(likelihood) = &model.likelihood {
        if let Some(classes) = schema.classes.as_ref().filter(|_| likelihood.starts_with("ordinal")) {
            report::say(&format!("classes in order: {} (another order: --classes)", classes.labels().join(" < ")));
        }
        return Ok(likelihood.clone());
    }
    let sight = match &schema.classes {
        Some(classes) => Sight::Labels(classes.labels()),
        None => Sight::Numbers(y),
    };
    let Inferred { likelihood, sentence } = infer(&schema.target, sight)?;
    report::say(&settings::words(&sentence));
    Ok(likelihood)
}

/// What the target column holds under a likelihood.
fn target_kind(likelihood: Option<&str>, labelled: bool) -> TargetKind {
    match likelihood {
        None if labelled => TargetKind::Classes,
        None => TargetKind::Auto,
        Some(text) if super::registry().likelihoods.of_classes(text) => TargetKind::Classes,
        Some(_) => TargetKind::Numbers,
    }
}
