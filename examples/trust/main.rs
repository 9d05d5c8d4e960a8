//! What the library reports about its own error bars, and how calibration changes them.
//!
//! `cargo run --release --example trust -- told --draws 100` draws data with errors that are well-behaved,
//! heavy-tailed, of varying size, or drifting, and fits the default model. It counts how often the right remedy is
//! named and how often nothing is reported.
//!
//! `cargo run --release --example trust -- mended` follows the advice and prints the scores before and after.
//!
//! `cargo run --release --example trust -- verdicts` counts how often intervals are said to hold: in generated
//! forecasts, in tables where they fail, and in well-behaved tables.
//!
//! `cargo run --release --example trust -- advised --data FOLDER TABLE …` compares held-out scores before and after
//! following the advice that is printed.
//!
//! `cargo run --release --example trust -- calibrated --data FOLDER --splits 3` compares coverage, widths and scores of
//! held-out rows, as the model gives them and calibrated, on the tables of a folder (NAME.csv.gz, target last).
//!
//! `… -- beyond` does so beyond and between the rows of noiseless data. `… -- few` does so for few rows.
//! `… -- left-out` compares rows left out in closed form with trainings without each row.

mod advised;
mod beyond;
mod calibrated;
mod few;
mod left_out;
mod mended;
mod told;
mod verdicts;

use cagey::Result;
use cagey::metrics::diagnosis::Verdict;
use clap::{Args, Parser, Subcommand, ValueEnum};
use told::{Kind, look};
use verdicts::{Seen, Tables, verdict};

#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// How often the right remedy is named
    Told(Told),
    /// How following the advice changes held-out scores
    Mended(mended::Mended),
    /// How often intervals are said to hold
    Verdicts(Verdicts),
    /// How following printed advice changes held-out scores of tables
    Advised(advised::Advised),
    /// How calibration changes held-out scores
    Calibrated(calibrated::Calibrated),
    /// Error bars beyond and between the rows
    Beyond(beyond::Beyond),
    /// Error bars of few rows
    Few(few::Few),
    /// Rows left out, beside trainings without them
    LeftOut(left_out::LeftOut),
}

#[derive(Args)]
struct Told {
    /// Draws of each kind of data
    #[arg(long, default_value_t = 100)]
    draws: u64,
    /// Rows
    #[arg(long, default_value_t = 500)]
    rows: usize,
    /// Kinds of data; all by default
    #[arg(long, value_enum, value_delimiter = ',')]
    kinds: Vec<Kind>,
}

#[derive(Args)]
struct Verdicts {
    /// Tables of each kind
    #[arg(long, default_value_t = 100)]
    tables: u64,
    /// Kinds of tables; all by default
    #[arg(long, value_enum, value_delimiter = ',')]
    kinds: Vec<Tables>,
}

impl Verdicts {
    fn run(&self) -> Result<()> {
        let kinds = if self.kinds.is_empty() { Tables::value_variants().to_vec() } else { self.kinds.clone() };
        println!("held out: tables with 50 % intervals below 25 %, of these said to hold, of all said to hold;");
        println!("R² below 0, of these said so, said to hold; cannot tell; rows left out in turn said to hold");
        for kind in kinds {
            let seen = (0..self.tables).map(|seed| verdict(kind, seed)).collect::<Result<Vec<Seen>>>()?;
            let count = |which: &dyn Fn(&Seen) -> bool| seen.iter().filter(|seen| which(seen)).count();
            let (fails, holds) = (|s: &Seen| s.half < 0.25, |s: &Seen| s.verdict == Verdict::Hold);
            println!(
                "{:<10} {:>6} {:>5} {:>5} {:>8} {:>8} {:>8} {:>8} {:>8}",
                format!("{kind:?}"),
                count(&fails),
                count(&|s| fails(s) && holds(s)),
                count(&holds),
                count(&|s| s.r2 < 0.0),
                count(&|s| s.r2 < 0.0 && s.below),
                count(&|s| s.r2 < 0.0 && holds(s)),
                count(&|s| s.verdict.holds().is_none()),
                count(&|s| s.left_out == Some(Verdict::Hold)),
            );
        }
        Ok(())
    }
}

impl Told {
    fn run(&self) -> Result<()> {
        let kinds = if self.kinds.is_empty() { Kind::value_variants().to_vec() } else { self.kinds.clone() };
        println!("{:<16} {:>21} {:>21}", "", "held out", "left out in turn");
        println!("{:<16} {:>10} {:>10} {:>10} {:>10}", "", "right", "nothing", "right", "nothing");
        for kind in kinds {
            let mut counts = [0; 4];
            for seed in 0..self.draws {
                for (count, seen) in counts.iter_mut().zip(look(kind, self.rows, seed)?) {
                    *count += u64::from(seen);
                }
            }
            let [a, b, c, d] = counts;
            println!("{:<16} {a:>10} {b:>10} {c:>10} {d:>10}", format!("{kind:?}"));
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    cagey::memory::keep_freed();
    let options = Options::parse();
    cagey::threads::start(None)?;
    match options.what {
        What::Told(told) => told.run(),
        What::Mended(mended) => mended.run(),
        What::Verdicts(verdicts) => verdicts.run(),
        What::Advised(advised) => advised.run(),
        What::Calibrated(calibrated) => calibrated.run(),
        What::Beyond(beyond) => beyond.run(),
        What::Few(few) => few.run(),
        What::LeftOut(left_out) => left_out.run(),
    }
}
