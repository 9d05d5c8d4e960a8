//! Generalisation on UCI data sets by the protocol of Wenger et al. (2024, section 5 and Table S1): 90/10 splits,
//! Matérn-3/2 with a lengthscale per input, Adam with a falling rate or L-BFGS. Test NLL and RMSE are those of the
//! standardised target, as in Table 1.
//!
//! `cargo run --release --example uci -- --data FOLDER --sets protein_raw --models cagp-opt --seeds 5`
//!
//! The folder holds NAME.csv.gz (target last). If there are published splits, it also holds splits/NAME.csv.gz with 0/1
//! columns `split0`, `split1`, … The UCI repository and the uci_datasets collection have the data. A killed run
//! continues where it stopped.

mod run;
mod watch;

use std::path::PathBuf;

use cagey::data::{ReadOptions, read_training};
use cagey::plot::{Against, Figure, Frame, LearningCurve, Run};
use cagey::{Error, Result};
use clap::{Parser, ValueEnum};
use run::Case;
use watch::{Record, Scored};

/// Train GP approximations on UCI data sets and print a table of test scores.
#[derive(Parser)]
struct Options {
    /// Folder of the data sets
    #[arg(long)]
    data: PathBuf,
    /// Names of data sets
    #[arg(long, value_delimiter = ',', default_value = "protein_raw")]
    sets: Vec<String>,
    /// Approximations
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cagp-opt")]
    models: Vec<Kind>,
    /// Optimiser; minibatches always use Adam
    #[arg(long, value_enum, default_value = "adam")]
    optimizer: Method,
    /// Number of runs, with splits and seeds from 0 up
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// Passes over the data [default: 1000 with Adam (CaGP-CG: 250), 100 with L-BFGS]
    #[arg(long)]
    epochs: Option<usize>,
    /// First learning rate of Adam [default: 0.1 (SVGP: 0.01)]; it falls to a tenth
    #[arg(long)]
    rate: Option<f64>,
    /// First lengthscale of the standardised inputs [default: from the data]
    #[arg(long)]
    lengthscale: Option<f64>,
    /// First train the hyperparameters on this many rows, drawn by the seed (L-BFGS, at most 50 steps; not for SVGP)
    #[arg(long)]
    warm: Option<usize>,
    /// First train the hyperparameters with learned actions for this many steps of L-BFGS (CaGP-CG)
    #[arg(long, value_name = "STEPS", conflicts_with = "warm")]
    learned: Option<usize>,
    /// Actions of computation-aware GPs
    #[arg(long, default_value_t = 512)]
    actions: usize,
    /// Inducing inputs of SGPR and SVGP
    #[arg(long, default_value_t = 1024)]
    inducing: usize,
    /// Rows of a minibatch of SVGP
    #[arg(long, default_value_t = 1024)]
    batch: usize,
    /// Keep rows in the order of the file instead of putting near rows into one block
    #[arg(long)]
    data_order: bool,
    /// Start values of learned actions
    #[arg(long, value_enum, default_value = "averages")]
    start: Start,
    /// Optimiser steps between two choices of CaGP-CG's actions
    #[arg(long, default_value_t = 1)]
    refresh: usize,
    /// Ratio of residual to target at which CaGP-CG takes no more actions [default: 1e-4]
    #[arg(long)]
    tolerance: Option<f64>,
    /// Minimise the NLL of the projected data instead of the ELBO
    #[arg(long)]
    projected: bool,
    /// Compute in f64 instead of f32
    #[arg(long)]
    f64: bool,
    /// Epochs between evaluations on the test set; the state is saved then, too
    #[arg(long, default_value_t = 10)]
    every: usize,
    /// Pause after this many minutes of one run
    #[arg(long)]
    minutes: Option<f64>,
    /// Folder of results and checkpoints
    #[arg(long, default_value = "uci")]
    output: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    CagpOpt,
    CagpCg,
    /// With rows chosen by pivoted Cholesky as actions
    CagpChol,
    /// The exact GP by Cholesky's factorisation: n³ operations, n² memory
    Cholesky,
    /// The exact GP by conjugate gradients
    Cggp,
    Sgpr,
    Svgp,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Start {
    /// The averages of their blocks
    Averages,
    /// The targets
    Targets,
    /// Random numbers, as in the paper
    Random,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Method {
    Adam,
    Lbfgs,
}

fn main() -> Result<()> {
    cagey::memory::keep_freed();
    let options = Options::parse();
    cagey::threads::start(None)?;
    std::fs::create_dir_all(&options.output).map_err(|e| Error::io(&options.output, &e))?;
    let mut records = Vec::new();
    for set in &options.sets {
        let path = options.data.join(format!("{set}.csv.gz"));
        let (_, data) = read_training(path, &ReadOptions::default())?;
        for kind in &options.models {
            for seed in 0..options.seeds {
                let case = Case { set, kind: *kind, seed, options: &options };
                let done = case.load()?.filter(|record| record.end.is_some());
                match done.map_or_else(|| case.run(&data), |record| Ok(Some(record)))? {
                    Some(record) => records.push(record),
                    None => println!("{} paused; the same command continues it", case.file("").display()),
                }
            }
        }
    }
    table(&records);
    let curves: Vec<(Vec<f64>, Vec<f64>)> =
        records.iter().map(|r| r.curve.iter().map(|s| (s.nll, s.epoch as f64)).unzip()).collect();
    let names: Vec<String> = records.iter().map(|record| format!("{}, seed {}", record.name, record.seed)).collect();
    let runs: Vec<Run> = names.iter().zip(&curves).map(|(name, (loss, seconds))| Run { name, loss, seconds }).collect();
    if curves.iter().any(|(nll, _)| !nll.is_empty()) {
        let frame = Frame { title: "UCI data sets", x: "epoch", y: "test NLL (standardised)", ..Frame::default() };
        let figure = options.output.join("uci.png");
        LearningCurve { runs: &runs, against: Against::Seconds, frame, ..LearningCurve::default() }.save(&figure)?;
        println!("figure in {}", figure.display());
    }
    Ok(())
}

/// Prints means and standard deviations over seeds, as in Table 1: at the end, and at the epoch of the lowest mean NLL.
fn table(records: &[Record]) {
    println!(
        "{:<44} {:>5}  {:^31}  {:>5} {:^31}  {:>8}",
        "", "seeds", "NLL and RMSE at the end", "epoch", "NLL and RMSE there (best)", "s a step"
    );
    for runs in records.chunk_by(|a, b| a.name == b.name) {
        let ends: Vec<Scored> = runs.iter().filter_map(|run| run.end).collect();
        let at = |epoch: usize| -> Option<Vec<Scored>> {
            runs.iter().map(|run| run.curve.iter().find(|s| s.epoch == epoch).copied()).collect()
        };
        let nll = |scored: &[Scored]| scored.iter().map(|s| s.nll).sum::<f64>();
        let epochs = runs[0].curve.iter().filter_map(|s| at(s.epoch));
        let best = epochs.min_by(|a, b| nll(a).total_cmp(&nll(b))).unwrap_or_else(|| ends.clone());
        let seconds: f64 = runs.iter().map(|run| run.seconds).sum();
        let steps: usize = runs.iter().map(|run| run.steps).sum();
        println!(
            "{:<44} {:>5}  {}  {:>5} {}  {:>8.3}",
            runs[0].name,
            runs.len(),
            scores(&ends),
            best.first().map_or(0, |s| s.epoch),
            scores(&best),
            seconds / steps.max(1) as f64
        );
    }
}

fn scores(scored: &[Scored]) -> String {
    let column = |f: fn(&Scored) -> f64| {
        let n = scored.len() as f64;
        let mean = scored.iter().map(f).sum::<f64>() / n;
        let squares: f64 = scored.iter().map(|s| (f(s) - mean).powi(2)).sum();
        let sd = if n > 1.0 { format!("{:.3}", (squares / (n - 1.0)).sqrt()) } else { "–".into() };
        format!("{mean:>7.3} ± {sd:<5}")
    };
    format!("{} {}", column(|s| s.nll), column(|s| s.rmse))
}
