//! `--shards`: several tables, each of which belongs to one expert.

use std::path::Path;

use cagey::fitted::{self, Fitted, Rows, Tables};
use cagey::{Error, Result};
use clap::Args;
use serde_json::json;

use super::columns::Columns;
use super::data::Reading;
use super::model::ModelOptions;

/// Where the tables are of a model that was fitted with `--shards`.
#[derive(Debug, Args)]
pub struct Shards {
    /// For a model that was fitted with --shards: its tables, in the same order, in place of those that its file names.
    /// Only names below the working directory need no --shards
    #[arg(long, value_name = "FILES", num_args = 1..)]
    shards: Vec<String>,
}

impl Shards {
    /// Loads a model.
    pub fn load(&self, model: &Path) -> Result<Fitted> {
        let paths = files(&self.shards)?;
        let rows = if paths.is_empty() { Rows::Named } else { Rows::Given(&paths) };
        let fitted = Fitted::open(model, super::registry(), None, rows)?;
        if !paths.is_empty() && fitted.whereabouts().is_none() {
            return Err(Error::Usage(format!("--shards: {} holds its rows itself; leave it out", model.display())));
        }
        Ok(fitted)
    }
}

/// The files that names and patterns stand for; those of a pattern are sorted by name. A plain name need not exist on
/// this machine.
pub fn files(patterns: &[String]) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for pattern in patterns {
        if !pattern.contains(['*', '?', '[']) || Path::new(pattern).exists() {
            all.push(pattern.clone());
            continue;
        }
        let wrong = |problem: String| Error::Usage(format!("--shards {pattern}: {problem}"));
        let paths = glob::glob(pattern).map_err(|e| wrong(e.to_string()))?;
        let before = all.len();
        for path in paths {
            let path = path.map_err(|e| Error::io(e.path(), e.error()))?;
            let name = path.to_str().ok_or_else(|| wrong(format!("{} is not valid text", path.display())))?;
            all.push(name.to_string());
        }
        if all.len() == before {
            return Err(wrong("there is no such file".into()));
        }
    }
    if let Some((at, name)) = all.iter().enumerate().find(|(at, name)| all[..*at].contains(name)) {
        let first = all.iter().position(|other| other == name).unwrap_or(at);
        return Err(Error::Usage(format!(
            "--shards: {name} is given twice, as number {} and {}; each file is an expert's",
            first + 1,
            at + 1
        )));
    }
    Ok(all)
}

/// Opens the tables on their ranks; the first table determines the columns.
pub fn open(patterns: &[String], columns: &Columns, reading: &Reading, model: &ModelOptions) -> Result<Tables> {
    let paths = files(patterns)?;
    let (schema, _) = columns.read(Path::new(&paths[0]), reading, model)?;
    let reading = fitted::Reading {
        schema,
        options: json!(reading.options()),
        transform: model.target_transform(),
        auxiliary_column: model.auxiliary_column().cloned(),
        unasked: false,
    };
    Tables::open(&paths, reading, super::registry())
}
