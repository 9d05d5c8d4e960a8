//! The rule that combines the predictions of a model's parts into one.

use std::time::Instant;

use cagey::Result;
use cagey::data::Dataset;
use cagey::fitted::Fitted;
use cagey::models::posterior::Aggregates;
use clap::Args;
use serde_json::{Value, json};

use super::report;
use super::scoring::{self, Scored};

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
        announce(fitted.posterior().aggregates(), rows);
        Ok(fitted)
    }

    /// Passes every rule, and the model that predicts by it, to `take`. Prints what predicting `rows` rows costs, and
    /// what the rule changed.
    pub fn each(fitted: &Fitted, rows: usize, mut take: impl FnMut(&str, &Fitted) -> Result<()>) -> Result<()> {
        for rule in fitted.aggregates()?.rules() {
            let fitted = fitted.aggregated(rule)?;
            announce(Some(fitted.aggregates()?), rows);
            take(rule, &fitted)?;
            tell(&fitted);
        }
        Ok(())
    }
}

/// Prints what the predictions will cost, if that is high enough to mention.
fn announce(aggregates: Option<&dyn Aggregates>, rows: usize) {
    aggregates.and_then(|aggregates| aggregates.cost(rows)).iter().for_each(|cost| report::say(cost));
}

/// Prints what a rule changed or could hardly determine.
pub fn tell(fitted: &Fitted) {
    if let Some(aggregates) = fitted.posterior().aggregates() {
        aggregates.warnings().iter().for_each(|warning| report::warn(warning));
        aggregates.notes().iter().for_each(|note| report::say(note));
    }
}

/// The scores of a model by a rule, and the seconds that they took.
pub struct Row {
    rule: String,
    scored: Scored,
    seconds: f64,
}

/// Scores a model by each rule.
pub fn score(fitted: &Fitted, data: &Dataset) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    Aggregation::each(fitted, data.n, |rule, fitted| {
        let began = Instant::now();
        let scored = scoring::score(fitted, data)?;
        rows.push(Row { rule: rule.into(), scored, seconds: began.elapsed().as_secs_f64() });
        Ok(())
    })?;
    Ok(rows)
}

/// Prints scores, one line for each rule.
pub fn print(rows: &[Row], as_json: bool) -> Result<()> {
    if as_json {
        let value = |Row { rule, scored, seconds }: &Row| {
            Ok(json!({ "aggregation": rule, "seconds": seconds, "scores": scored.json()? }))
        };
        return report::print_json(&rows.iter().map(value).collect::<Result<Vec<Value>>>()?);
    }
    let names = rows.first().map(|row| row.scored.brief()).unwrap_or_default();
    let names = names.iter().map(|(name, _)| name.to_string());
    let mut cells = vec![std::iter::once("aggregation".into()).chain(names).chain(["seconds".into()]).collect()];
    for Row { rule, scored, seconds } in rows {
        let scores = scored.brief().into_iter().map(|(_, score)| score.text());
        cells.push(std::iter::once(rule.clone()).chain(scores).chain([report::fixed(*seconds, 1)]).collect());
    }
    report::print(&report::columns(&cells, 1))
}
