//! `--shards`: several tables, each of which belongs to one expert.

use std::path::Path;

use cagey::exchange;
use cagey::fitted::{self, Tables};
use cagey::{Error, Result};
use serde_json::json;

use super::columns::Columns;
use super::data::Reading;
use super::model::ModelOptions;

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
    };
    Tables::open(&paths, reading, exchange::ranks().cloned())
}
