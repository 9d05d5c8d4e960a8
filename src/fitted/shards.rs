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
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::columns::{Inputs, Units};
use crate::data::{Dataset, InputScale, Moments, Schema, TargetScale, TargetTransform};
use crate::error::{Error, Result};
use crate::exchange::{self, Message, Ranks, entry};
use crate::likelihoods::Auxiliary;
use crate::models::Observations;
use crate::models::experts;
use crate::models::posterior::{Joint, Marginals, Posterior};

/// The request to read tables.
pub(super) const OPEN: &str = "shards.open";
/// The request to summarise them.
pub(super) const SUMMARISE: &str = "shards.summarise";

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
    #[serde(default)]
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

/// The scales that ranks need to see their rows as the leader does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Scales {
    inputs: InputScale,
    target: TargetScale,
}

/// The summary of a table.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Said {
    shard: Shard,
    /// Moments of the inputs, and last those of the transformed target.
    moments: Vec<Moments>,
}

/// A table that its rank has read.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) path: String,
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
    fn of(&self, error: Error) -> Error {
        if self.unasked {
            return hidden(&self.path);
        }
        error.map(|error| match error {
            Error::Data(problem) => Error::Data(format!("{}: {problem}", self.path)),
            other => other,
        })
    }

    fn said(&self, reading: &Reading) -> Result<Said> {
        let inputs = Inputs::of(&self.data, reading.auxiliary_column.as_deref()).map_err(|e| self.of(e))?;
        let unscaled = TargetScale { transform: reading.transform, mean: 0.0, sd: 1.0 };
        let y = unscaled.forward(&self.data).map_err(|e| self.of(e))?;
        let d = inputs.names.len();
        let columns = (0..d).map(|at| Moments::of(inputs.x[at..].iter().step_by(d).copied()));
        let moments = columns.chain([Moments::of(y.iter().copied())]).collect();
        let mut hash = Sha256::new();
        self.data.x.iter().chain(self.data.y.iter().flatten()).for_each(|value| hash.update(value.to_le_bytes()));
        let checksum = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Ok(Said { shard: Shard { path: self.path.clone(), rows: self.data.n, checksum }, moments })
    }

    pub(super) fn observed(&self, scales: &Scales, auxiliary_column: Option<&str>) -> Result<Observations> {
        // Experts are models of Gaussian targets.
        let auxiliary = Auxiliary::NoiseVariance;
        let units = Units { inputs: scales.inputs.clone(), target: scales.target, auxiliary };
        let observed = Inputs::of(&self.data, auxiliary_column).and_then(|inputs| units.observe(inputs, &self.data));
        observed.map_err(|e| self.of(e))
    }
}

/// Tables that are open on the ranks of a job.
#[derive(Debug)]
pub struct Tables {
    reading: Reading,
    /// The tables of this process.
    own: Vec<Opened>,
    said: Vec<Said>,
    ranks: Option<Arc<Ranks>>,
}

impl Tables {
    /// Opens each table on the rank of its expert.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Data`] naming file, row and column, and the rank if it is another one;
    /// [`Error::Usage`] for more ranks than tables.
    pub fn open(paths: &[String], reading: Reading, ranks: Option<Arc<Ranks>>) -> Result<Self> {
        let size = ranks.as_ref().map_or(1, |ranks| ranks.size());
        if size > paths.len() {
            let (tables, most) = (paths.len(), paths.len());
            return Err(Error::Usage(format!("{size} ranks for {tables} shards: start at most {most}, one for each")));
        }
        let own: Result<Vec<Opened>> =
            paths[exchange::share(paths.len(), 0, size)].iter().map(|path| Opened::read(path, &reading)).collect();
        let own = own.map_err(|error| of_leader(size, error))?;
        let said = match &ranks {
            None => own.iter().map(|table| table.said(&reading)).collect::<Result<Vec<_>>>()?,
            Some(ranks) => asked(ranks, paths, &reading, &own)?,
        };
        Ok(Self { reading, own, said, ranks })
    }

    /// Rows of all tables.
    pub fn rows(&self) -> usize {
        self.said.iter().map(|said| said.shard.rows).sum()
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
        self.said.iter().map(|said| said.shard.checksum.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// What a model file says about the rows.
    pub fn whereabouts(&self) -> Whereabouts {
        let shards = self.said.iter().map(|said| said.shard.clone()).collect();
        Whereabouts { shards, reading: self.reading.options.clone() }
    }

    /// Moments of the inputs and, last, of the transformed target, over all tables.
    pub(super) fn moments(&self) -> Vec<Moments> {
        let mut all = self.said.iter().map(|said| said.moments.clone());
        let first = all.next().unwrap_or_default();
        all.fold(first, |sum, more| sum.iter().zip(&more).map(|(sum, more)| sum.with(more)).collect())
    }

    /// The rows as models see them.
    pub(super) fn observed(&self, inputs: &InputScale, target: TargetScale) -> Result<Arc<experts::Shards>> {
        let scales = Scales { inputs: inputs.clone(), target };
        let auxiliary_column = self.reading.auxiliary_column.as_deref();
        let own = self.own.iter().map(|table| table.observed(&scales, auxiliary_column)).collect::<Result<Vec<_>>>();
        let own = own.map_err(|error| of_leader(self.ranks.as_ref().map_or(1, |ranks| ranks.size()), error))?;
        let Some(own) = experts::joined(own)? else { return Err(Error::Usage("there is no shard".into())) };
        let shards: Vec<&Shard> = self.said.iter().map(|said| &said.shard).collect();
        let told = json!({ "scales": scales, "reading": self.reading, "shards": shards });
        Ok(Arc::new(experts::Shards {
            own,
            counts: shards.iter().map(|shard| shard.rows).collect(),
            names: shards.iter().map(|shard| shard.path.clone()).collect(),
            told,
            ranks: self.ranks.clone(),
        }))
    }
}

impl Whereabouts {
    /// Opens the tables again; none if they are to stay closed.
    ///
    /// # Errors
    /// As [`Tables::open`]; [`Error::Data`] for a table that has changed; [`Error::Usage`] for a name that leads out of
    /// the working directory, or for another number of tables.
    pub(super) fn open(
        &self,
        schema: &Schema,
        transform: TargetTransform,
        auxiliary_column: Option<&String>,
        rows: Rows,
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
        let tables = Tables::open(&paths, reading, exchange::ranks().cloned())?;
        let same = |shard: &Shard, said: &Shard| (shard.rows, &shard.checksum) == (said.rows, &said.checksum);
        match self.shards.iter().zip(&tables.said).find(|(shard, said)| !same(shard, &said.shard)) {
            None => Ok(Some(tables)),
            Some((Shard { rows, .. }, Said { shard, .. })) => Err(Error::Data(format!(
                "{}: it is not what the model was trained on ({rows} rows then, {} now): bring the old table back, or \
                 train anew",
                shard.path, shard.rows
            ))),
        }
    }

    /// The rows of a model whose tables stay closed: their number and names.
    pub(super) fn closed(&self, d: usize) -> Arc<experts::Shards> {
        Arc::new(experts::Shards {
            own: Observations::none(d),
            counts: self.shards.iter().map(|shard| shard.rows).collect(),
            names: self.shards.iter().map(|shard| shard.path.clone()).collect(),
            told: Value::Null,
            ranks: None,
        })
    }
}

/// Whether a path may lead out of the working directory.
fn leads_out(path: &str) -> bool {
    !Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// The posterior of a model whose tables stay closed.
#[derive(Debug)]
pub(super) struct Closed;

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

/// Asks all ranks to open and summarise their tables; the summaries are in the order of the tables.
fn asked(ranks: &Ranks, paths: &[String], reading: &Reading, own: &[Opened]) -> Result<Vec<Said>> {
    let size = ranks.size();
    let told = |rank: usize| {
        let paths = if rank == 0 { &[] } else { &paths[exchange::share(paths.len(), rank, size)] };
        Message { document: json!({ "paths": paths, "reading": reading }), ..Message::default() }
    };
    let mut talk = ranks.talk();
    talk.hand_out(OPEN, 0, (0..size).map(told).collect())?;
    let said = |tables: &[Opened]| summary(tables, reading);
    let answers = talk.ask(SUMMARISE, Message::default(), || said(own).map_err(|e| of_leader(size, e)))?;
    let said = answers.into_iter().map(|mut answer| entry(&mut answer.document, "said"));
    Ok(said.collect::<Result<Vec<Vec<Said>>>>()?.concat())
}

pub(super) fn summary(tables: &[Opened], reading: &Reading) -> Result<Message> {
    let said = tables.iter().map(|table| table.said(reading)).collect::<Result<Vec<_>>>()?;
    Ok(Message { document: json!({ "said": said }), ..Message::default() })
}
