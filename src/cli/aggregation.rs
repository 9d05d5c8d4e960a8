//! The rule that combines the predictions of a model's parts into one.

use std::time::Instant;

use cagey::Result;
use cagey::data::Dataset;
use cagey::fitted::Fitted;
use clap::Args;
use serde_json::{Value, json};

use super::report;
use super::scoring::{self, Brief, Scored};

/// The rule.
#[derive(Debug, Clone, Args)]
pub struct Aggregation {
    /// Rule that combines the predictions of a model's parts: poe, gpoe, gpoe-entropy, gpoe-entropy-normalised, bcm,
    /// rbcm, grbcm, near, npae, weights, weights-noise or nearest, or `all` for each of them in turn
    /// [default: what `fit` was asked for]
    #[arg(long, value_name = "RULE")]
    aggregation: Option<String>,
}

/// In place of a rule: asks for all of them.
const ALL: &str = "all";

/// A model that predicts by one of several rules.
pub struct Ruled {
    /// The rule.
    pub rule: String,
    /// The model that predicts by it.
    pub fitted: Fitted,
    /// A sentence on the cost of predicting the rows, if that is high enough to mention.
    cost: Option<String>,
}

impl Aggregation {
    /// Whether all rules are asked for.
    pub fn all(&self) -> bool {
        self.aggregation.as_deref() == Some(ALL)
    }

    /// The model that predicts by the rule asked for. Prints the cost of predicting `rows` rows.
    pub fn one(&self, fitted: Fitted, rows: usize) -> Result<Fitted> {
        let fitted = match &self.aggregation {
            Some(rule) => fitted.aggregated(rule)?,
            None => fitted,
        };
        if let Some(cost) = fitted.posterior().aggregates().and_then(|aggregates| aggregates.cost(rows)) {
            report::say(&cost);
        }
        Ok(fitted)
    }

    /// The model once for each rule.
    pub fn each(fitted: &Fitted, rows: usize) -> Result<Vec<Ruled>> {
        let rules = fitted.aggregates()?.rules().into_iter();
        let ruled = rules.map(|rule| {
            let fitted = fitted.aggregated(rule)?;
            let cost = fitted.aggregates()?.cost(rows);
            Ok(Ruled { rule: rule.into(), fitted, cost })
        });
        ruled.collect()
    }
}

impl Ruled {
    /// Prints what the predictions will cost.
    pub fn announce(&self) {
        self.cost.iter().for_each(|cost| report::say(cost));
    }
}

/// Prints what a rule changed or could hardly determine.
pub fn tell(fitted: &Fitted) {
    if let Some(aggregates) = fitted.posterior().aggregates() {
        aggregates.warnings().iter().for_each(|warning| report::warn(warning));
        aggregates.notes().iter().for_each(|note| report::say(note));
    }
}

/// The scores of every rule.
pub struct Table {
    rows: Vec<(String, Scored, f64)>,
}

impl Table {
    /// Scores a model by each rule.
    pub fn score(fitted: &Fitted, data: &Dataset) -> Result<Self> {
        let mut rows = Vec::new();
        for ruled in Aggregation::each(fitted, data.n)? {
            ruled.announce();
            let began = Instant::now();
            let scored = scoring::score(&ruled.fitted, data)?;
            tell(&ruled.fitted);
            rows.push((ruled.rule, scored, began.elapsed().as_secs_f64()));
        }
        Ok(Self { rows })
    }

    /// Prints the scores, one line for each rule.
    pub fn print(&self, as_json: bool) -> Result<()> {
        if as_json {
            let value = |(rule, scored, seconds): &(String, Scored, f64)| {
                Ok(json!({ "aggregation": rule, "seconds": seconds, "scores": scored.json()? }))
            };
            return report::print_json(&self.rows.iter().map(value).collect::<Result<Vec<Value>>>()?);
        }
        let mut cells: Vec<Vec<String>> = Vec::new();
        for (rule, scored, seconds) in &self.rows {
            let brief = scored.brief();
            if cells.is_empty() {
                let names = brief.iter().map(|(name, _)| (*name).into());
                cells.push(["aggregation".into()].into_iter().chain(names).chain(["seconds".into()]).collect());
            }
            let scores = brief.iter().map(|(_, kind)| match kind {
                Brief::Share(share) => report::percent(*share),
                Brief::Number(score) => report::fixed(*score, 4),
            });
            cells.push([rule.clone()].into_iter().chain(scores).chain([report::fixed(*seconds, 1)]).collect());
        }
        report::print(&report::columns(&cells, 1))
    }
}
