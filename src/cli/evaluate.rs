//! `cagey evaluate`

use std::path::PathBuf;

use cagey::fitted::Fitted;
use cagey::metrics::{Predictive, score};
use cagey::{Error, Result};
use clap::Args;

use super::data::{Reading, Splitting, targets};
use super::report;

/// Score a model on a table with known targets
#[derive(Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "\
Examples:
  cagey evaluate model.cagey test.csv
  cagey evaluate model.cagey --loo
  cagey evaluate model.cagey data.csv --split-mask masks.csv --split-column split0 --json"
)]
pub struct Evaluate {
    /// Model file
    model: PathBuf,
    /// Table with input and target columns; `-` for standard input. Not with --loo
    #[arg(required_unless_present = "loo")]
    data: Option<PathBuf>,
    /// Score closed-form leave-one-out predictions of the training rows instead of a table
    #[arg(long, conflicts_with = "data")]
    loo: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    splitting: Splitting,
}

impl Evaluate {
    /// Reads, predicts, scores.
    pub fn run(self) -> Result<()> {
        let fitted = Fitted::load(&self.model)?;
        let (y, predictions) = self.predictions(&fitted)?;
        let scores = score(&y, &predictions)?;
        let scale = &fitted.target_scale;
        // The Jacobian turns the density of y into the density of the standardised, transformed target.
        let shift = y.iter().map(|y| scale.log_jacobian(*y)).sum::<f64>() / y.len() as f64;
        let training_scale_nlpd = scores.nlpd + shift;
        if self.json {
            let mut value = serde_json::to_value(scores).map_err(|e| Error::Data(e.to_string()))?;
            value["nlpd_training_scale"] = training_scale_nlpd.into();
            return report::print_json(&value);
        }
        let row = ("NLPD on the training scale".to_string(), format!("{training_scale_nlpd:.5}"));
        report::print(&(report::scores(&scores) + &report::table(&[row])))
    }

    fn predictions(&self, fitted: &Fitted) -> Result<(Vec<f64>, Vec<Predictive>)> {
        let Some(path) = &self.data else {
            self.splitting.refuse()?;
            return fitted.leave_one_out();
        };
        let data = self.splitting.scored(self.reading.read(path, &fitted.schema, true, false)?)?;
        Ok((targets(&data, fitted.settings.target_transform)?.to_vec(), fitted.predict(&data)?))
    }
}
