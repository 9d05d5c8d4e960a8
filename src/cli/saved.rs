//! The model file that a subcommand reads.

use std::path::PathBuf;

use cagey::fitted::{Fitted, Member};
use cagey::{Error, Result};
use clap::Args;
use serde_json::{Value, json};

use super::report;
use crate::values;

/// A model file, or a member of the average in it.
#[derive(Debug, Args)]
pub struct Saved {
    /// Model file
    #[arg(value_name = "MODEL", id = "model_file")]
    pub path: PathBuf,
    /// Take one member of an average as a model by itself: 1 is the heaviest, as `inspect` lists them
    #[arg(long, value_name = "K", value_parser = values::count(1..=values::MOST))]
    member: Option<usize>,
}

impl Saved {
    /// The model that was read, or its member.
    pub fn chosen(&self, fitted: Fitted) -> Result<Fitted> {
        let Some(member) = self.member else { return Ok(fitted) };
        match (fitted.members().get(member - 1), fitted.members().len()) {
            (Some(found), _) => Ok(found.fitted.clone()),
            (None, 0) => Err(Error::Usage(format!("--member {member}: this is a single model; leave it out"))),
            (None, count) => Err(Error::Usage(format!("--member {member}: this average has {count} members"))),
        }
    }
}

/// The members of an average as JSON, the heaviest first; null for a single model.
pub fn members_json(fitted: &Fitted) -> Value {
    let of = |member: &Member| {
        json!({
            "model": member.fitted.settings.model.kind(),
            "kernel": member.fitted.settings.kernel,
            "input_transform": member.fitted.settings.input_transform.all.map(|kind| kind.to_string()),
            "target_transform": member.fitted.settings.target_transform,
            "weight": member.weight,
            "evidence": member.evidence,
            "left_out": member.left_out,
            "seconds": member.fitted.summary.seconds,
        })
    };
    match fitted.members() {
        [] => Value::Null,
        members => members.iter().map(of).collect(),
    }
}

/// The members of an average with their weights and why, as a table; empty for a single model.
pub fn members_text(fitted: &Fitted) -> String {
    let members = fitted.members();
    if members.is_empty() {
        return String::new();
    }
    let row = |(k, member): (usize, &Member)| {
        let Member { weight, evidence, left_out, .. } = member;
        let rows = if member.is_of_forecasts() { "density of forecasts" } else { "left-out density" };
        let why = format!("{weight:.3} (evidence {:.3}, {rows} {:.3})", -evidence, -left_out);
        (format!("{} {}", k + 1, member.name()), why)
    };
    let rows: Vec<(String, String)> = members.iter().enumerate().map(row).collect();
    let unheard = &fitted.summary.unheard;
    let left_out = match unheard.is_empty() {
        true => String::new(),
        false => {
            format!("Left out, of hardly any weight, or broken by a transform of the inputs: {}\n", unheard.join(", "))
        }
    };
    let others = fitted.summary.trail.len().saturating_sub(members.len() + unheard.len());
    let searched = match others {
        0 => String::new(),
        _ => format!("{others} more models take no part; the trail of the search, in JSON, says why\n"),
    };
    let count = if members.len() == 1 { "one model".into() } else { format!("{} models", members.len()) };
    format!(
        "Average of {count}: weights (logarithms per row, of the target in its own units)\n{}{left_out}{searched}\
         Heaviest member\n",
        report::table(&rows)
    )
}
