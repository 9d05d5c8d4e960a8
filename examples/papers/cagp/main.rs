//! Wenger, Wu, Hennig, Gardner, Pleiss and Cunningham 2024, *Computation-aware Gaussian processes: model selection and
//! linear-time inference*: its figures and tables.
//!
//! `cargo run --release --example paper-cagp -- figure-1`, or `table-1 --data FOLDER --sets parkinsons,bike`. `--help`
//! lists all of them; `--quick` makes them in seconds, `--paper` in the paper's sizes.

#[path = "../common/mod.rs"]
mod common;

mod actions;
mod bands;
mod benchmark;
mod dimensions;
mod task;
mod training;

use clap::Args;
use common::command::{self, Item};
use training::{Method, Optimiser, Start};

/// What these figures and tables take.
#[derive(Args, Clone)]
pub struct Options {
    /// Tables of the folder [default: parkinsons, bike, protein, keggundirected]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    sets: Vec<String>,
    /// Rows of generated tables
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Methods to compare
    #[arg(long, value_name = "NAMES", value_enum, value_delimiter = ',')]
    methods: Vec<Method>,
    /// Optimiser of methods that do not use minibatches
    #[arg(long, value_enum)]
    optimizer: Option<Optimiser>,
    /// First learning rates to choose from; they fall to a tenth
    #[arg(long, value_name = "RATES", value_delimiter = ',')]
    rates: Vec<f64>,
    /// Passes over the data
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// Passes over the data between two tests
    #[arg(long, value_name = "N")]
    every: Option<usize>,
    /// Actions of computation-aware models
    #[arg(long, value_name = "N")]
    actions: Option<usize>,
    /// Inducing inputs of SGPR and SVGP
    #[arg(long, value_name = "N")]
    inducing: Option<usize>,
    /// Optimiser steps between two choices of CaGP-CG's actions
    #[arg(long, value_name = "STEPS", default_value_t = 1)]
    refresh: usize,
    /// First train the hyperparameters of CaGP-CG with learned actions, for so many steps of L-BFGS
    #[arg(long, value_name = "STEPS")]
    learned: Option<usize>,
    /// First values of learned actions
    #[arg(long, value_enum, default_value = "averages")]
    start: Start,
    /// Cut blocks of learned actions from the rows in the order of the table, not of a k-d tree
    #[arg(long)]
    data_order: bool,
}

const ITEMS: &[Item<Options>] = &[
    Item { name: "figure-1", about: "Predictive bands of four models across a gap in the data", run: bands::gap },
    Item { name: "figure-2", about: "Actions against top eigenvectors", run: actions::figure },
    Item { name: "figure-3", about: "Losses and errors against seconds", run: benchmark::curves },
    Item { name: "figure-4", about: "Coverage of 95 % intervals during training", run: benchmark::coverage },
    Item { name: "table-1", about: "Test scores of six methods, each with its best rate", run: benchmark::table },
    Item { name: "figure-s1", about: "Test scores under the two losses", run: benchmark::losses },
    Item { name: "figure-s2", about: "Predictive bands under the two losses", run: bands::losses },
    Item { name: "figure-s3", about: "SVGP at its inducing inputs by dimension", run: dimensions::figure },
    Item { name: "table-s1", about: "Learning rates, each tried for a tenth of the epochs", run: benchmark::rates },
    Item { name: "figure-s4", about: "Test scores by learning rate", run: benchmark::effect },
    Item { name: "task", about: "Actions at places where an optimisation would look next", run: task::table },
    Item { name: "figure-s5", about: "Hyperparameters during training", run: benchmark::paths },
];

fn main() -> cagey::Result<()> {
    command::main("paper-cagp", "Figures and tables of the paper on computation-aware GPs", ITEMS)
}
