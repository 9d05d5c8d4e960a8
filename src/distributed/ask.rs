//! What ranks say to each other.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::question::Question;
use super::rows::Description;
use super::tables::{Reading, Seen, Summary};
use crate::device::Compute;
use crate::error::{Error, ErrorKind, Result};
use crate::model_file::{Array, ModelFile};
use crate::models::Observations;
use crate::models::blueprint::Blueprint;

/// What the leader asks of the other ranks. Numbers go with it, as lists.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ask {
    /// What is asked comes next, to each rank on its own.
    Each,
    /// Refuse other arguments of the command than these.
    Arguments(Vec<String>),
    /// Read these tables, hold them and summarise each.
    Open {
        /// Their paths.
        paths: Vec<String>,
        /// How to read them.
        reading: Reading,
    },
    /// Hold this.
    Hold(Box<Hold>),
    /// Hold these rows as well: a [block](block).
    Rows,
    /// Answer about what is held. The numbers are the raw values of all parameters, the rows of a batch if it is about
    /// one (a [block](block), or their places), and those of the question.
    Answer {
        /// The question.
        question: Question,
        /// Which parameters are fixed.
        fixed: Vec<bool>,
        /// How many rows each row of a part stands for.
        scale: f64,
    },
    /// Stop serving.
    End,
}

/// What a rank holds for questions to come.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hold {
    /// How to build the model of a part. Each question brings the values of its parameters.
    pub(super) blueprint: Blueprint,
    pub(super) compute: Compute,
    pub(super) rows: Held,
}

/// The rows that a rank holds.
#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "a rank holds one")]
pub(super) enum Held {
    /// Those of some parts. The numbers are the sizes of the parts, the places of their rows among the rank's rows, and
    /// the places of the rows that all ranks need.
    Parts {
        /// The number of the first of them among all parts.
        first: usize,
        /// Their names in messages.
        labels: Vec<String>,
        from: From,
    },
    /// None: each question is about a batch.
    Batches {
        /// The file of the rows, if each rank reads its own.
        source: Option<Description>,
    },
}

/// Where a rank gets the rows of its parts.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum From {
    /// The leader sends so many.
    Leader(usize),
    /// From this file. The fourth list of numbers are their places in it.
    File(Description),
    /// From tables with these paths.
    Tables(Vec<String>, Seen),
}

/// What a rank answers. Numbers go with it, as lists.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reply {
    /// Whether the rank was asked to end.
    pub(super) signalled: bool,
    pub(super) said: Said,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// What was asked is done.
    Done,
    /// A summary of each table.
    Tables(Vec<Summary>),
    /// It failed.
    Failed { kind: ErrorKind, problem: String },
}

/// What a rank says, and its numbers.
pub(super) type Message = (Said, Vec<Vec<f64>>);

/// The answer of a rank that has done what was asked.
pub(super) fn done() -> Result<Message> {
    Ok((Said::Done, Vec::new()))
}

/// An error in a message.
pub(super) fn garbled(problem: impl std::fmt::Display) -> Error {
    Error::Device(format!("a message between ranks: {problem}"))
}

/// A message: a document and lists of numbers, in the format of a model file.
pub(super) fn written(document: &impl Serialize, numbers: &[Vec<f64>]) -> Result<Vec<u8>> {
    let lengths = numbers.iter().map(|list| list.len() as f64).collect();
    let arrays = [("lengths".into(), Array::list(lengths)), ("numbers".into(), Array::list(numbers.concat()))].into();
    ModelFile { document: json!(document), arrays }.to_bytes()
}

/// Reads what [`written`] wrote.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, Vec<Vec<f64>>)> {
    let mut file = ModelFile::from_bytes(bytes).map_err(garbled)?;
    let mut array = |name: &str| {
        let array = file.arrays.remove(name).map(|array| array.data.into_f64());
        array.ok_or_else(|| garbled(format!("it lacks `{name}`")))
    };
    let (lengths, mut numbers) = (array("lengths")?, array("numbers")?.into_iter());
    let lists = lengths.into_iter().map(|length| numbers.by_ref().take(length as usize).collect()).collect();
    Ok((serde_json::from_value(file.document).map_err(garbled)?, lists))
}

/// A block of rows as lists: inputs, targets and, if rows have them, auxiliary values.
pub(super) fn block(rows: &Observations) -> Vec<Vec<f64>> {
    [rows.x.clone(), rows.y.clone()].into_iter().chain(rows.auxiliary.clone()).collect()
}

/// Reads what [`block`] wrote.
pub(super) fn rows(block: Vec<Vec<f64>>) -> Result<Observations> {
    let mut lists = block.into_iter();
    let (Some(x), Some(y)) = (lists.next(), lists.next()) else { return Err(garbled("a block without rows")) };
    Observations::new(x.clone(), x.len() / y.len().max(1), y, lists.next())
}

/// Places of rows as numbers.
pub(super) fn places(rows: impl IntoIterator<Item = usize>) -> Vec<f64> {
    rows.into_iter().map(|row| row as f64).collect()
}

/// Reads what [`places`] wrote.
pub(super) fn named(places: &[f64]) -> Vec<usize> {
    places.iter().map(|place| *place as usize).collect()
}
