//! A guard for accuracy: trains a fixed list of models on tables that come with the examples or are generated, and
//! compares the objective and the held-out score with those of `benches/accuracy.json`. A result that is worse by more
//! than its noise is an error.
//!
//! `cargo run --release --example accuracy` trains all entries, with `-- --quick` those that take little time. Run it
//! before and after every change of numerics. `-- --write` accepts the results of this run: give the reason in the
//! commit.

mod entries;
mod record;
mod tables;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use cagey::fitted::{Calibrate, Fitted, Registry, Settings};
use cagey::metrics::{score, score_classes, score_targets};
use cagey::{Error, Result};
use clap::Parser;
use entries::{Entry, entries};
use record::{Accepted, Number, Results};

/// Compare objectives and held-out scores with accepted ones.
#[derive(Parser)]
struct Options {
    /// Train the entries that take little time, with one seed
    #[arg(long)]
    quick: bool,
    /// Train only entries whose name contains one of these texts
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Accept the results of this run
    #[arg(long)]
    write: bool,
    /// The file of accepted results
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/accuracy.json"))]
    file: PathBuf,
    /// Keep generated tables in this folder
    #[arg(long)]
    tables: Option<PathBuf>,
}

/// Seeds of an entry whose results are to be accepted. The first one keeps the order of the rows.
const SEEDS: u64 = 3;

fn main() -> Result<ExitCode> {
    cagey::memory::keep_freed();
    let options = Options::parse();
    cagey::threads::start(None)?;
    let scratch = tempfile::tempdir().map_err(|e| Error::Data(format!("a folder for tables: {e}")))?;
    let folder = options.tables.as_deref().unwrap_or(scratch.path());
    let mut accepted = Accepted::read(&options.file)?;
    let wanted = |entry: &Entry| {
        let name = entry.name();
        (entry.quick || !options.quick) && (options.only.is_empty() || options.only.iter().any(|o| name.contains(o)))
    };
    let mut worse = Vec::new();
    println!(
        "{:<36} {:>9} {:>9}   {:>9} {:>9}   {:>7}",
        "", "objective", "accepted", "held out", "accepted", "seconds"
    );
    for entry in entries().iter().filter(|entry| wanted(entry)) {
        let (name, began) = (entry.name(), Instant::now());
        let before = accepted.0.get(&name);
        let seeds = match before {
            _ if options.quick => 1,
            Some(before) if !options.write => before.objective.seeds,
            _ => SEEDS,
        };
        let runs: Vec<[f64; 2]> = (0..seeds).map(|seed| trained(entry, folder, seed)).collect::<Result<_>>()?;
        let number = |at: usize| Number::of(&runs.iter().map(|run| run[at]).collect::<Vec<_>>());
        let found = Results { objective: number(0), held_out: number(1) };
        let shown = |number: Option<Number>| number.map_or(String::new(), |number| format!("{:.4}", number.mean));
        println!(
            "{name:<36} {:>9.4} {:>9}   {:>9.4} {:>9}   {:>7.1}",
            found.objective.mean,
            shown(before.map(|before| before.objective)),
            found.held_out.mean,
            shown(before.map(|before| before.held_out)),
            began.elapsed().as_secs_f64()
        );
        match before {
            _ if options.write => {
                accepted.0.insert(name, found);
            }
            Some(before) => {
                worse.extend(compared(&name, "objective", &before.objective, &found.objective));
                worse.extend(compared(&name, "held-out score", &before.held_out, &found.held_out));
            }
            None => println!("  nothing is accepted yet: --write adds it"),
        }
    }
    if options.write {
        accepted.write(&options.file)?;
    }
    worse.iter().for_each(|line| eprintln!("error: {line}"));
    Ok(if worse.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The error of a result that is worse than the accepted one by more than its noise, or is no number.
fn compared(name: &str, what: &str, before: &Number, now: &Number) -> Option<String> {
    let margin = before.margin(now.seeds);
    let holds = now.mean <= before.mean + margin;
    (!holds).then(|| {
        format!("{name}: the {what} was {:.5} and is {:.5}, worse by more than {margin:.5}", before.mean, now.mean)
    })
}

/// The objective per row without priors, and the held-out negative log density or log loss per row.
fn trained(entry: &Entry, folder: &Path, seed: u64) -> Result<[f64; 2]> {
    let (schema, train, test) = tables::read(entry.table, entry.classes(), folder, seed)?;
    let settings = Settings {
        kernel: entry.kernel.into(),
        likelihood: entry.likelihood.into(),
        model: entry.model.clone(),
        calibrate: Calibrate::No,
        ..Settings::default()
    };
    let registry = Registry::default();
    let mut config = registry.models.options(&settings.model)?.training(train.n).seed(seed);
    (config.steps, config.early_stopping) = (entry.steps, None);
    let fitted = Fitted::fit(schema, &train, settings, &config, &registry, &mut [])?;
    let priors: f64 = fitted.model.parameters().iter().filter_map(|(_, p)| Some(p.neg_log_prior()?.0)).sum();
    let objective = fitted.summary.loss - priors / train.n as f64;
    let y = test.y.as_deref().unwrap_or_default();
    if fitted.is_gaussian() {
        return Ok([objective, score(y, &fitted.predict(&test)?)?.nlpd]);
    }
    let predictions = fitted.predict_targets(&test)?;
    let probabilities: Option<Vec<Vec<f64>>> = predictions.iter().map(|p| p.probabilities()).collect();
    let held_out = match probabilities {
        Some(probabilities) => {
            let codes: Vec<usize> = y.iter().map(|y| *y as usize).collect();
            score_classes(&codes, &probabilities)?.log_loss
        }
        None => score_targets(y, &predictions, 0)?.nlpd,
    };
    Ok([objective, held_out])
}
