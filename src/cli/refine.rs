//! `cagey refine`

use std::path::PathBuf;

use cagey::fitted::Fitted;
use cagey::metrics::Source;
use cagey::{Error, Result};
use clap::Args;

use super::{output, report};
use crate::values;

/// Compute more with a trained computation-aware model: less uncertainty from what was not computed
#[derive(Debug, Args)]
#[command(after_help = "\
Parameters stay. The computational part of the standard deviation falls (predict --split).
Calibrated intervals are calibrated anew, and may become wider.

Examples:
  cagey refine model.cagey --actions 512 -o finer.cagey")]
pub struct Refine {
    /// Model file
    model: PathBuf,
    /// Largest number of actions to add; conjugate gradients choose them
    #[arg(long, value_name = "N", value_parser = values::count(1..=values::MOST))]
    actions: usize,
    /// Where to write the refined model
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

impl Refine {
    /// Loads, continues the solve, saves.
    pub fn run(self) -> Result<()> {
        if self.output.as_os_str() == "-" {
            return Err(Error::Usage("-o -: a model is not written to standard output; name a file".into()));
        }
        output::check(&self.output, &[&self.model])?;
        let before = Fitted::load_with(&self.model, super::registry())?;
        let refined = before.refined(self.actions)?;
        refined.save(&self.output)?;
        super::result_is_written();
        let solve = refined.posterior().solve().map_or(String::new(), |solve| format!("{solve}\n"));
        let calibration = match (before.calibration, refined.calibration) {
            (Some(before), Some(_)) if before.source == Source::FewRows => "",
            (Some(_), Some(_)) => "Intervals are calibrated anew, and may be wider than before\n",
            (Some(_), None) => {
                report::warn(
                    "the calibration of intervals was made for fewer actions and is left out, because the rows that it \
                     came from are not in the model file: intervals are as the model says",
                );
                ""
            }
            (None, _) => "",
        };
        report::print(&format!("{solve}{calibration}Model written to {}\n", self.output.display()))
    }
}
