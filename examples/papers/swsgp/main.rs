//! Tran, Milios, Michiardi and Filippone 2021, *Sparse within sparse Gaussian processes using neighbor information*:
//! its figures and tables.
//!
//! `cargo run --release --example paper-swsgp -- figure-3 --data FOLDER --sets power_plant,kin8nm`; the table `mnist`
//! is the four IDX files of MNIST, odd digits against even ones. `--help` lists all figures; `--quick` makes them in
//! seconds, `--paper` in the paper's sizes.

#[path = "../common/mod.rs"]
mod common;

mod benchmark;
mod joint;
mod line;
mod local;
mod many;
mod model;

use clap::Args;
use common::command::{self, Item};

/// What these figures and tables take.
#[derive(Args, Clone)]
pub struct Options {
    /// Tables of the folder
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    sets: Vec<String>,
    /// Rows of generated tables
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Leave out rows with an input that is further from its median than so many median absolute deviations
    #[arg(long, value_name = "FACTOR")]
    within: Option<f64>,
    /// Inducing inputs M
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    inducing: Option<Vec<usize>>,
    /// Neighbours H of a row
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    neighbors: Option<Vec<usize>>,
    /// Steps of a training
    #[arg(long, value_name = "N")]
    steps: Option<usize>,
    /// Learning rate of Adam
    #[arg(long, value_name = "RATE", default_value_t = 1e-3)]
    rate: f64,
    /// Let the rate fall to a tenth during training
    #[arg(long)]
    falling: bool,
    /// Rows of a minibatch
    #[arg(long, value_name = "N", default_value_t = 64)]
    batch: usize,
    /// Give q all covariances, not only variances
    #[arg(long)]
    full: bool,
    /// Weight of the divergence from the prior: 1 as published; `M/H` ties each inducing value to the prior about once
    #[arg(long, value_name = "WEIGHT", default_value_t = 1.0)]
    divergence: f64,
    /// Let all rows of a minibatch use the neighbours of each of them (SWSGP-U)
    #[arg(long)]
    union: bool,
    /// Kernel, as `cagey fit` takes it
    #[arg(long, value_name = "TEXT", default_value = "matern52(ard)")]
    kernel: String,
}

const ITEMS: &[Item<Options>] = &[
    Item { name: "figure-1", about: "The prior of f, whatever the inducing values", run: line::prior },
    Item { name: "figure-2", about: "Posteriors of SVGP and SWSGP over a line", run: line::posterior },
    Item { name: "figure-3", about: "Errors by numbers of inducing inputs and neighbours", run: benchmark::figure },
    Item { name: "figure-4", about: "Thousands of inducing inputs, errors against seconds", run: many::figure },
    Item { name: "figure-5", about: "Joint predictions by test batch and neighbours", run: joint::figure },
    Item { name: "table-1", about: "Errors and times of a step and of a prediction", run: benchmark::times },
    Item { name: "table-2", about: "Errors over folds", run: benchmark::folds },
    Item { name: "table-3", about: "Local GPs", run: local::table },
    Item { name: "time", about: "Time of a step by the number of inducing inputs, to 100,000", run: many::time },
];

fn main() -> cagey::Result<()> {
    command::main("paper-swsgp", "Figures and tables of the paper on sparse within sparse GPs", ITEMS)
}
