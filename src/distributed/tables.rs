//! Tables that each belong to one expert; only that expert's rank reads its table.
//!
//! A rank sends the number of rows, a checksum, and the moments and range of each column; later objectives, gradients
//! and predictions. The leader computes scales from the moments in the order of the tables, whichever rank read them,
//! so that a model does not depend on the number of ranks.
//!
//! A model file names its tables, and whoever made the file chose the names. So only regular files below the working
//! directory are opened by such a name, and messages show nothing of what is in them. Tables that the user names are
//! read like any other.

use std::path::{Component, Path};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::parts::share;
use super::ranks::Ranks;
use crate::data::{Dataset, InputScale, Moments, Schema, TargetScale, TargetTransform};
use crate::error::{Error, Result};
use crate::likelihoods::Auxiliary;
use crate::models::Observations;
use crate::models::columns::{Inputs, Units};
use crate::models::posterior::{Joint, Marginals, Posterior};
use crate::models::registry::Registry;

/// A table whose rows stay where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Its path, as its rank sees it.
    pub path: String,
    /// Its rows.
    pub rows: usize,
    /// The checksum of its numbers.
    pub checksum: String,
}

/// Tables of parts: only the process of a part sees its rows.
#[derive(Debug, Clone)]
pub struct Shards {
    /// The rows of this process's tables, one table after another.
    pub own: Observations,
    /// All tables, one for each part.
    pub tables: Vec<Shard>,
    /// How every process reads and sees its tables; none if they stay closed.
    pub(super) seen: Option<Seen>,
    /// The processes that have the other tables; none if all are in this process.
    pub crew: Option<Arc<Ranks>>,
}

/// How tables are read, and the units in which models see their rows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Seen {
    pub(super) reading: Reading,
    pub(super) units: Units,
}

/// Where the rows are of a model that does not hold them itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Whereabouts {
    /// The table of each expert.
    pub shards: Vec<Shard>,
    /// Options to read the tables.
    pub reading: Value,
}

/// How tables are read, on every rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reading {
    /// Their columns.
    pub schema: Schema,
    /// The options for tables.
    pub options: Value,
    /// The function of the target that is modelled.
    pub transform: TargetTransform,
    /// The column of known noise, if any.
    pub auxiliary_column: Option<String>,
    /// Whether only a model file named the tables: then errors show nothing of what is in them.
    pub unasked: bool,
}

/// The tables of a model whose rows stayed where they are, when its file is read.
#[derive(Debug, Clone, Copy, Default)]
pub enum Rows<'a> {
    /// Those that the file names: regular files below the working directory.
    #[default]
    Named,
    /// These, in the order in which the model was trained on them.
    Given(&'a [String]),
    /// None are opened: the model can be described, but it cannot predict.
    Closed,
}

/// The summary of a table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Summary {
    shard: Shard,
    /// Moments of the inputs, and last those of the transformed target.
    moments: Vec<Moments>,
}

/// A table that its rank has read.
#[derive(Debug)]
pub(super) struct Opened {
    path: String,
    data: Dataset,
    unasked: bool,
}

#[cfg(feature = "table")]
fn table(path: &str, schema: &Schema, options: &Value) -> Result<Dataset> {
    let options = serde_json::from_value(options.clone())
        .map_err(|problem| Error::Data(format!("{path}: how it is to be read: {problem}")))?;
    crate::data::read_with_schema(path, schema, &options, true)
}

#[cfg(not(feature = "table"))]
fn table(path: &str, _schema: &Schema, _options: &Value) -> Result<Dataset> {
    Err(Error::Usage(format!("{path}: this program reads no tables: build it with the feature `table`")))
}

/// The error of a table that only a model file named.
fn hidden(path: &str) -> Error {
    let problem = format!(
        "{path}: it is not such a table as the model was trained on; what is in a file that only a model names is not \
         shown: name the tables yourself to see more"
    );
    Error::Data(problem).about("Rows::shards")
}

impl Opened {
    pub(super) fn read(path: &str, reading: &Reading) -> Result<Self> {
        let about = Path::new(path);
        // `-` is standard input, which is no table of an expert.
        if path == "-" || !about.metadata().map_err(|e| Error::io(about, &e))?.is_file() {
            return Err(Error::Io { path: path.into(), problem: "it is not a regular file".into() });
        }
        let unasked = reading.unasked;
        let data = table(path, &reading.schema, &reading.options);
        Ok(Self { path: path.into(), data: data.map_err(|e| if unasked { hidden(path) } else { e })?, unasked })
    }

    /// An error of its rows, with the path of the table.
    fn named(&self, error: Error) -> Error {
        if self.unasked {
            return hidden(&self.path);
        }
        error.map(|error| match error {
            Error::Data(problem) => Error::Data(format!("{}: {problem}", self.path)),
            other => other,
        })
    }

    pub(super) fn summary(&self, reading: &Reading) -> Result<Summary> {
        let inputs = Inputs::of(&self.data, reading.auxiliary_column.as_deref()).map_err(|e| self.named(e))?;
        let unscaled = TargetScale { transform: reading.transform, mean: 0.0, sd: 1.0 };
        let y = unscaled.forward(&self.data).map_err(|e| self.named(e))?;
        let d = inputs.names.len();
        let columns = (0..d).map(|at| Moments::of(inputs.x[at..].iter().step_by(d).copied()));
        let moments = columns.chain([Moments::of(y.iter().copied())]).collect();
        let mut hash = Sha256::new();
        self.data.x.iter().chain(self.data.y.iter().flatten()).for_each(|value| hash.update(value.to_le_bytes()));
        let checksum = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Ok(Summary { shard: Shard { path: self.path.clone(), rows: self.data.n, checksum }, moments })
    }

    fn observed(&self, Seen { reading, units }: &Seen) -> Result<Observations> {
        let inputs = Inputs::of(&self.data, reading.auxiliary_column.as_deref());
        inputs.and_then(|inputs| units.observe(inputs, &self.data)).map_err(|e| self.named(e))
    }
}

/// Tables that are open on the ranks of a job.
#[derive(Debug)]
pub struct Tables {
    reading: Reading,
    /// The tables of this process.
    own: Vec<Opened>,
    summaries: Vec<Summary>,
    crew: Option<Arc<Ranks>>,
}

impl Tables {
    /// Opens each table on the rank of its expert.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Data`] naming file, row and column, and the rank if it is another one;
    /// [`Error::Usage`] for more ranks than tables.
    pub fn open(paths: &[String], reading: Reading, registry: &Registry) -> Result<Self> {
        let size = registry.crew.as_ref().map_or(1, |crew| crew.size());
        if size > paths.len() {
            let (tables, most) = (paths.len(), paths.len());
            return Err(Error::Usage(format!("{size} ranks for {tables} shards: start at most {most}, one for each")));
        }
        let own: Result<Vec<Opened>> =
            paths[share(paths.len(), 0, size)].iter().map(|path| Opened::read(path, &reading)).collect();
        let own = own.map_err(|error| of_leader(size, error))?;
        let said = || {
            let summaries = own.iter().map(|table| table.summary(&reading)).collect::<Result<Vec<_>>>();
            summaries.map_err(|error| of_leader(size, error))
        };
        let summaries = match &registry.crew {
            None => said()?,
            Some(crew) => crew.open(paths, &reading, said)?,
        };
        Ok(Self { reading, own, summaries, crew: registry.crew.clone() })
    }

    /// Rows of all tables.
    pub fn rows(&self) -> usize {
        self.summaries.iter().map(|summary| summary.shard.rows).sum()
    }

    /// How the tables are read.
    pub fn schema(&self) -> &Schema {
        &self.reading.schema
    }

    /// The rows of the first table, which the leader has.
    pub fn first(&self) -> &Dataset {
        &self.own[0].data
    }

    /// The checksums of the tables, which tell their contents apart.
    pub fn checksums(&self) -> String {
        self.summaries.iter().map(|summary| summary.shard.checksum.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// What a model file says about the rows.
    pub fn whereabouts(&self) -> Whereabouts {
        Whereabouts { shards: self.shards(), reading: self.reading.options.clone() }
    }

    fn shards(&self) -> Vec<Shard> {
        self.summaries.iter().map(|summary| summary.shard.clone()).collect()
    }

    /// Moments of the inputs and, last, of the transformed target, over all tables.
    pub(crate) fn moments(&self) -> Vec<Moments> {
        let mut all = self.summaries.iter().map(|summary| summary.moments.clone());
        let first = all.next().unwrap_or_default();
        all.fold(first, |sum, more| sum.iter().zip(&more).map(|(sum, more)| sum.with(more)).collect())
    }

    /// The rows as models see them.
    pub(crate) fn observed(&self, inputs: &InputScale, target: TargetScale) -> Result<Arc<Shards>> {
        // Experts are models of Gaussian targets.
        let units = Units { inputs: inputs.clone(), target, auxiliary: Auxiliary::NoiseVariance };
        let seen = Seen { reading: self.reading.clone(), units };
        let own = self.own.iter().map(|table| table.observed(&seen)).collect::<Result<Vec<_>>>();
        let own = own.map_err(|error| of_leader(self.crew.as_ref().map_or(1, |crew| crew.size()), error))?;
        let Some(own) = joined(own)? else { return Err(Error::Usage("there is no shard".into())) };
        Ok(Arc::new(Shards { own, tables: self.shards(), seen: Some(seen), crew: self.crew.clone() }))
    }
}

impl Whereabouts {
    /// Opens the tables again; none if they are to stay closed.
    ///
    /// # Errors
    /// As [`Tables::open`]; [`Error::Data`] for a table that has changed; [`Error::Usage`] for a name that leads out of
    /// the working directory, or for another number of tables.
    pub(crate) fn open(
        &self,
        schema: &Schema,
        transform: TargetTransform,
        auxiliary_column: Option<&String>,
        rows: Rows,
        registry: &Registry,
    ) -> Result<Option<Tables>> {
        let paths: Vec<String> = match rows {
            Rows::Closed => return Ok(None),
            Rows::Given(paths) => paths.to_vec(),
            Rows::Named => self.shards.iter().map(|shard| shard.path.clone()).collect(),
        };
        if paths.len() != self.shards.len() {
            let (got, want) = (paths.len(), self.shards.len());
            return Err(Error::Usage(format!("{got} tables are given, but the model was trained on {want}")));
        }
        let unasked = matches!(rows, Rows::Named);
        if let Some(path) = paths.iter().find(|path| unasked && leads_out(path)) {
            let problem = format!(
                "the model names the table {path}, which is not below the working directory: name the tables yourself \
                 if this is right"
            );
            return Err(Error::Usage(problem).about("Rows::shards"));
        }
        let (schema, options, auxiliary_column) = (schema.clone(), self.reading.clone(), auxiliary_column.cloned());
        let reading = Reading { schema, options, transform, auxiliary_column, unasked };
        let tables = Tables::open(&paths, reading, registry)?;
        let same = |shard: &Shard, now: &Shard| (shard.rows, &shard.checksum) == (now.rows, &now.checksum);
        match self.shards.iter().zip(&tables.summaries).find(|(shard, now)| !same(shard, &now.shard)) {
            None => Ok(Some(tables)),
            Some((Shard { rows, .. }, Summary { shard, .. })) => Err(Error::Data(format!(
                "{}: it is not what the model was trained on ({rows} rows then, {} now): bring the old table back, or \
                 train anew",
                shard.path, shard.rows
            ))),
        }
    }

    /// The rows of a model whose tables stay closed: their number and names.
    pub(crate) fn closed(&self, d: usize) -> Arc<Shards> {
        Arc::new(Shards { own: Observations::none(d), tables: self.shards.clone(), seen: None, crew: None })
    }
}

/// Whether a path may lead out of the working directory.
fn leads_out(path: &str) -> bool {
    !Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// The posterior of a model whose tables stay closed.
#[derive(Debug)]
pub(crate) struct Closed;

impl Posterior for Closed {
    fn predict(&self, _x: &[f64]) -> Result<Marginals> {
        Err(Error::Usage("the tables of this model were not opened: it cannot predict".into()))
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        self.predict(x).map(|_| Joint::default())
    }
}

/// The error as one of the leader, if there are several ranks.
fn of_leader(size: usize, error: Error) -> Error {
    match size {
        1 => error,
        _ => error.map(|error| Error::Remote { rank: 0, kind: error.kind(), problem: error.to_string() }),
    }
}

/// The rows of a rank's tables. Reads them unless they are open.
pub(super) fn own_rows(paths: &[String], seen: &Seen, opened: &mut Vec<Opened>) -> Result<Vec<Observations>> {
    if !opened.iter().map(|table| &table.path).eq(paths) {
        opened.clear();
        *opened = paths.iter().map(|path| Opened::read(path, &seen.reading)).collect::<Result<_>>()?;
    }
    opened.iter().map(|table| table.observed(seen)).collect()
}

/// The rows, one after another; none if `rows` is empty.
///
/// # Errors
/// [`Error::Shape`] if columns differ.
pub(super) fn joined(rows: Vec<Observations>) -> Result<Option<Observations>> {
    let mut rows = rows.into_iter();
    let Some(first) = rows.next() else { return Ok(None) };
    rows.try_fold(first, |all, more| all.extended(&more)).map(Some)
}
