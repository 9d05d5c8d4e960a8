//! Options about tables, shared by the subcommands.

use std::path::{Path, PathBuf};

use cagey::data::{
    Dataset, DateOrder, Header, Missing, Notes, ReadOptions, Schema, Split, TargetScale, TargetTransform,
    read_with_schema,
};
use cagey::fitted::{Fitted, structure};
use cagey::{Error, Result};
use clap::{Args, ValueEnum};

use super::{report, settings};
use crate::values;

/// How a table is read.
#[derive(Debug, Args)]
pub struct Reading {
    /// What to do with missing cells
    #[arg(long, value_enum, default_value_t = Missing::Reject, value_name = "WAY")]
    pub missing: Missing,
    /// Whether the first line holds column names
    #[arg(long, value_enum, default_value_t = Header::Auto, value_name = "WHEN")]
    pub header: Header,
    /// What separates cells: a character, or `tab`; guessed by default
    #[arg(long, value_name = "CHARACTER", value_parser = values::separator)]
    pub separator: Option<u8>,
    /// Decimal separator of numbers
    #[arg(long, value_enum, default_value_t = Decimal::Point, value_name = "SIGN")]
    pub decimal: Decimal,
    /// Whether day or month comes first in dates such as 01/02/1949; found out from the whole column by default
    #[arg(long, value_enum, value_name = "FIRST")]
    pub date_order: Option<DateOrder>,
}

/// The decimal separator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Decimal {
    /// 1.5
    #[value(alias = ".")]
    Point,
    /// 1,5; commas then cannot separate cells
    #[value(alias = ",")]
    Comma,
}

impl Reading {
    /// The library's options.
    pub fn options(&self) -> ReadOptions {
        ReadOptions {
            missing: self.missing,
            header: self.header,
            delimiter: self.separator,
            decimal_comma: self.decimal == Decimal::Comma,
            date_order: self.date_order,
            ..ReadOptions::default()
        }
    }

    /// Options for rows that a model predicts, which need no targets: with their text if it is to be kept.
    pub fn inputs(&self, fitted: &Fitted, keep: bool) -> ReadOptions {
        ReadOptions { keep, optional: fitted.settings.auxiliary_column.iter().cloned().collect(), ..self.options() }
    }
}

/// Reads a table for a fitted model.
pub fn read(path: &Path, schema: &Schema, need_target: bool, options: &ReadOptions) -> Result<Dataset> {
    let data = read_with_schema(path, schema, options, need_target)?;
    tell(&data.notes);
    Ok(data)
}

/// Prints how a table was read.
pub fn tell(notes: &Notes) {
    notes.said.iter().for_each(|note| report::say(&settings::words(note)));
    notes.warnings.iter().for_each(report::advise);
}

/// Which rows are held out from training and scored.
#[derive(Debug, Args)]
#[group(multiple = true)]
pub struct Splitting {
    /// Hold out this share of the rows, chosen at random with --split-seed
    #[arg(long, value_name = "SHARE", value_parser = values::share)]
    #[arg(conflicts_with_all = ["holdout_last", "split_mask"])]
    pub holdout: Option<f64>,
    /// Hold out this share of the rows at the end of the table: a forecast
    #[arg(long, value_name = "SHARE", value_parser = values::share, conflicts_with = "split_mask")]
    pub holdout_last: Option<f64>,
    /// Hold out the rows with a 1 in this table of 0/1 columns
    #[arg(long, value_name = "FILE")]
    pub split_mask: Option<PathBuf>,
    /// Column of the mask, by name or 0-based index; needed if there are several
    #[arg(long, value_name = "COLUMN", requires = "split_mask")]
    pub split_column: Option<String>,
    /// Keep rows with the same inputs on one side of the split, so that no held-out row copies a training row; with
    /// --holdout
    #[arg(long)]
    pub distinct: bool,
    /// Seed of --holdout
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub split_seed: u64,
}

impl Splitting {
    /// The split asked for, if any.
    pub fn split(&self, data: &Dataset) -> Result<Option<Split>> {
        match &self.split_mask {
            Some(path) => Split::from_mask_file(path, self.split_column.as_deref(), data).map(Some),
            None => match (self.distinct, self.holdout) {
                (true, Some(share)) => Split::groups(&data.groups(None)?, share, self.split_seed).map(Some),
                (true, None) => Err(Error::Usage("--distinct is for --holdout SHARE".into())),
                _ => self.by_share(data.n),
            },
        }
    }

    /// The split of `n` rows asked for, if any, without a mask.
    pub fn by_share(&self, n: usize) -> Result<Option<Split>> {
        if self.distinct {
            return Err(Error::Usage("--distinct is for tables in memory".into()));
        }
        match (self.holdout, self.holdout_last) {
            (Some(share), _) => Split::random(n, share, self.split_seed).map(Some),
            (None, Some(share)) => Split::last(n, share).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Refuses a split if the rows stay apart, each part with its rank.
    pub fn refuse_apart(&self) -> Result<()> {
        let problem = "--holdout, --holdout-last, --split-mask and --distinct need all rows in one place; with \
                       --shards score the model on a table of its own by `cagey evaluate`";
        self.refuse().map_err(|_| Error::Usage(problem.into()))
    }

    /// Refuses a split if there is no table to split.
    pub fn refuse(&self) -> Result<()> {
        match self {
            Self { holdout: None, holdout_last: None, split_mask: None, distinct: false, .. } => Ok(()),
            _ => Err(Error::Usage("--holdout, --holdout-last and --split-mask need a table: name one".into())),
        }
    }

    /// The rows held out, or all of them when no split is asked for.
    pub fn scored(&self, schema: &Schema, data: Dataset) -> Result<Dataset> {
        // The order in which `fit` splits rows.
        let data = structure::in_order(schema, data);
        Ok(match self.split(&data)? {
            Some(split) => data.subset(&split.test),
            None => data,
        })
    }
}

/// The targets of a table. It is an error if there are none, or if one lies outside the domain of the transform.
pub fn targets(data: &Dataset, transform: TargetTransform) -> Result<&[f64]> {
    TargetScale { transform, mean: 0.0, sd: 1.0 }.forward(data)?;
    Ok(data.y.as_deref().unwrap_or_default())
}

/// Puts the name of a table, if it has one, in front of an error about its rows.
pub fn in_table(path: Option<&Path>) -> impl Fn(Error) -> Error + use<> {
    let path = path.map(|path| path.display().to_string());
    move |error| {
        error.map(|error| match (error, &path) {
            (Error::Data(problem), Some(path)) if !problem.starts_with(path) => {
                Error::Data(format!("{path}: {problem}"))
            }
            (other, _) => other,
        })
    }
}
