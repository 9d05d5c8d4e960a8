//! Rows that stay where their experts are: only the rank of an expert sees its rows.

use std::sync::Arc;

use serde_json::Value;

use super::aggregation::Rule;
use super::{Experts, Federation, Shared};
use crate::error::{Error, Result};
use crate::exchange::{Message, Ranks, put};
use crate::models::Observations;

/// The rows of experts, as far as a process may know them.
#[derive(Debug, Clone)]
pub struct Shards {
    /// The rows of this process's experts, one expert after another.
    pub own: Observations,
    /// The number of rows of each expert.
    pub counts: Vec<usize>,
    /// The name of each expert's rows in messages.
    pub names: Vec<String>,
    /// What other ranks are told so that they see their rows as this process sees its own.
    pub told: Value,
    /// Where the other experts are; none if all are in this process.
    pub ranks: Option<Arc<Ranks>>,
}

/// The entry of a message that holds what other ranks are told.
pub const TOLD: &str = "shards";

impl Rule {
    /// Whether the rule needs rows of several experts in one place.
    pub fn joins_rows(self) -> bool {
        let needs = self.needs();
        needs.augmented || needs.covariances || needs.weights.is_some()
    }

    /// Refuses a rule that needs rows of several experts in one place.
    pub(super) fn check_apart(self) -> Result<()> {
        if !self.joins_rows() {
            return Ok(());
        }
        let others: Vec<&str> = Self::ALL.into_iter().filter(|rule| !rule.joins_rows()).map(Self::name).collect();
        Err(Error::Usage(format!(
            "aggregation {self} needs rows of several experts in one place, but rows of shards stay where they are; \
             choose {}",
            others.join(", ")
        )))
    }
}

impl Experts {
    /// Makes experts that keep their rows for themselves.
    ///
    /// # Errors
    /// [`Error::Usage`] for a rule that needs rows of several experts in one place.
    pub fn apart(shared: Shared, rule: Rule, shards: Arc<Shards>) -> Result<Self> {
        rule.check_apart()?;
        let (mut parts, mut labels, mut start) = (Vec::new(), Vec::new(), 0);
        let count = shards.counts.len();
        for (expert, (rows, name)) in shards.counts.iter().zip(&shards.names).enumerate() {
            parts.push((start..start + rows).collect());
            labels.push(format!("expert {} of {count} ({name}, {rows} rows)", expert + 1));
            start += rows;
        }
        let (parts, communication, labels) = (Arc::new(parts), Arc::default(), Arc::new(labels));
        let (federation, ranks) = (Federation::default(), shards.ranks.clone());
        let shards = Some(shards);
        Ok(Self { shared, rule, federation, parts, communication, labels, ranks, shards, window: None })
    }
}

/// The elements of `all` (one for each expert) for the experts of the rank that a message is for.
///
/// # Errors
/// [`Error::Device`] for a message of another kind.
pub fn share_of<'a, T>(message: &Message, all: &'a [T]) -> Result<&'a [T]> {
    let first = message.document["first"].as_u64().map(|first| first as usize);
    let count = message.document["labels"].as_array().map(Vec::len);
    let own = first.zip(count).and_then(|(first, count)| all.get(first..first + count));
    own.ok_or_else(|| Error::Device("a message between ranks lacks its share".into()))
}

/// All rows that a rank has for the experts of a message. Adds their counts to the message.
///
/// # Errors
/// [`Error::Usage`] if there are no rows.
pub fn filled(message: &mut Message, rows: Vec<Observations>) -> Result<Observations> {
    let counts: Vec<f64> = rows.iter().map(|rows| rows.n() as f64).collect();
    put(message, "counts", counts);
    put(message, "communication", Vec::new());
    let Some(all) = joined(rows)? else {
        return Err(Error::Usage("there are more ranks than shards: start at most one for each".into()));
    };
    put(message, "parts", (0..all.n()).map(|row| row as f64).collect());
    Ok(all)
}

/// The rows, one after another; none if `rows` is empty.
///
/// # Errors
/// [`Error::Shape`] if columns differ.
pub fn joined(rows: Vec<Observations>) -> Result<Option<Observations>> {
    let mut rows = rows.into_iter();
    let Some(first) = rows.next() else { return Ok(None) };
    rows.try_fold(first, |all, more| all.extended(&more)).map(Some)
}
