//! What the library says of its own error bars, and what calibration makes of them.
//!
//! `cargo run --release --example trust -- told --draws 100` draws data whose errors are well-behaved, heavy-tailed, of a
//! size that varies, or drifting, fits the default model, and counts how often the right remedy is named and how often
//! nothing is said.
//!
//! `cargo run --release --example trust -- calibrated --data FOLDER --splits 3` sets coverage, widths and scores of held-out
//! rows side by side, as the model says and calibrated, on the tables of a folder (NAME.csv.gz, target last).

mod calibrated;
mod told;

use cagey::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// How often the right remedy is named
    Told(told::Told),
    /// What calibration does to held-out scores
    Calibrated(calibrated::Calibrated),
}

fn main() -> Result<()> {
    cagey::memory::keep_freed();
    let options = Options::parse();
    cagey::threads::start(None)?;
    match options.what {
        What::Told(told) => told.run(),
        What::Calibrated(calibrated) => calibrated.run(),
    }
}
