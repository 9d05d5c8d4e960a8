//! `cagey evaluate`

use std::path::PathBuf;

use cagey::Result;
use cagey::data::ReadOptions;
use cagey::fitted::Fitted;
use cagey::metrics::diagnosis::Verdict;
use cagey::metrics::score;
use clap::Args;
use serde_json::Value;

use super::aggregation::{self, Aggregation};
use super::data::{Reading, Splitting, in_table, read, targets};
use super::report;
use super::saved::Saved;
use super::scoring::{HeldOut, Scored, score_target_predictions};
use super::shards::Shards;
use super::trust::Trust;

/// Score a model on a table with known targets
#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  cagey evaluate model.cagey test.csv
  cagey evaluate model.cagey --loo
  cagey evaluate model.cagey test.csv --aggregation all
  cagey evaluate model.cagey data.csv --split-mask masks.csv --split-column split0 --json"
)]
pub struct Evaluate {
    #[command(flatten)]
    model: Saved,
    /// Table with input and target columns; `-` for standard input. Not with --loo
    #[arg(required_unless_present = "loo")]
    data: Option<PathBuf>,
    /// Score closed-form leave-one-out predictions of the training rows instead of a table
    #[arg(long, conflicts_with = "data")]
    loo: bool,
    #[command(flatten)]
    aggregation: Aggregation,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    shards: Shards,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    splitting: Splitting,
}

/// Looks for settings that predict better, if something is wrong.
fn advise(trust: &mut Trust, fitted: &Fitted) {
    let well = trust.diagnosis.as_ref().is_none_or(|found| found.is_well() && found.verdict == Verdict::Hold);
    if !well {
        trust.advise(fitted, None);
    }
}

impl Evaluate {
    /// Reads, predicts, scores.
    pub fn run(self) -> Result<()> {
        let fitted = self.model.chosen(self.shards.load(&self.model.path)?)?;
        let Some(path) = &self.data else {
            self.splitting.refuse()?;
            if !fitted.is_gaussian() {
                let (y, predictions) = fitted.left_out_targets()?;
                let scored = score_target_predictions(&fitted, &y, &predictions)?.scored;
                return self.print(&fitted, &y, &scored, scored.json()?, &scored.table());
            }
            let (y, predictions) = fitted.leave_one_out()?;
            let mut trust = Trust::or_warn(Trust::of_training(&fitted, None));
            advise(&mut trust, &fitted);
            let scored = Scored::Gaussian(score(&y, &predictions)?);
            let mut json = scored.json()?;
            json["error_bars"] = trust.json.clone();
            return self.print(&fitted, &y, &scored, json, &(scored.table() + &trust.text()));
        };
        let options = ReadOptions { mix_unknown: true, ..self.reading.options() };
        let data = self.splitting.scored(&fitted.schema, read(path, &fitted.schema, true, &options)?)?;
        let in_table = in_table(Some(path));
        fitted.remarks(&data).map_err(&in_table)?.iter().for_each(report::advise);
        if self.aggregation.all() {
            return aggregation::print(&aggregation::score(&fitted, &data).map_err(in_table)?, self.json);
        }
        let fitted = self.aggregation.one(fitted, data.n)?;
        let mut held_out = HeldOut::of(&fitted, &data).map_err(in_table)?;
        advise(held_out.trust(), &fitted);
        aggregation::tell(&fitted);
        let y = targets(&data, fitted.target_transform())?;
        self.print(&fitted, y, &held_out.scored, held_out.json()?, &held_out.text())
    }

    fn print(&self, fitted: &Fitted, y: &[f64], scored: &Scored, mut json: Value, text: &str) -> Result<()> {
        // The Jacobian turns the density of y into the density of the standardised, transformed target.
        let shift = y.iter().map(|y| fitted.target_scale.log_jacobian(*y)).sum::<f64>() / y.len() as f64;
        let on_training_scale = match scored {
            // The members of an average have training scales of their own.
            Scored::Gaussian(scores) if fitted.members().is_empty() => Some(scores.nlpd + shift),
            _ => None,
        };
        if self.json {
            if let Some(nlpd) = on_training_scale {
                json["nlpd_training_scale"] = nlpd.into();
            }
            return report::print_json(&json);
        }
        let row = on_training_scale.map(|nlpd| ("NLPD on the training scale".to_string(), format!("{nlpd:.5}")));
        report::print(&format!("{text}{}", report::table(row.as_slice())))
    }
}
