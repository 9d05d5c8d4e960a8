//! Tatzel, Wenger, Schneider and Hennig 2025, *Accelerating non-conjugate Gaussian processes by trading off computation
//! for uncertainty*: its figures, and a question that it leaves open.
//!
//! `cargo run --release --example paper-iterncgp -- figure-5`, or `figure-7 --data FOLDER` with the four files of MNIST
//! (without it, small digits). `--help` lists all of them; `--quick` makes them in seconds, `--paper` in the paper's
//! sizes.

#[path = "../common/mod.rs"]
mod common;

mod classes;
mod counts;
mod digits;
mod mixture;
mod plane;
mod pseudo;
mod training;

use clap::Args;
use common::command::{self, Item};

/// What these figures take.
#[derive(Args, Clone)]
pub struct Options {
    /// Rows to learn from
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Rows to score on
    #[arg(long, value_name = "N")]
    test: Option<usize>,
    /// Numbers of actions in total, one solve for each
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    actions: Option<Vec<usize>>,
    /// Actions in one Newton step
    #[arg(long, value_name = "N")]
    per_step: Option<usize>,
    /// Directions that compressed runs keep
    #[arg(long, value_name = "N", default_value_t = 10)]
    kept: usize,
    /// Rows of dense approximations of subsets
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    subsets: Option<Vec<usize>>,
    /// Inducing inputs of variational models, over all classes as the paper counts them
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    inducing: Option<Vec<usize>>,
    /// Learning rates of variational models
    #[arg(long, value_name = "RATES", value_delimiter = ',')]
    rates: Option<Vec<f64>>,
    /// Seconds of each training; of variational models, those of the longest solve if not given
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Rank of the preconditioner of preconditioned actions
    #[arg(long, value_name = "N", default_value_t = 256)]
    rank: usize,
    /// Learn the kernel by the bound from so many rows, instead of the paper's kernel
    #[arg(long, value_name = "ROWS")]
    learn: Option<usize>,
    /// Actions of the model that learns the kernel
    #[arg(long, value_name = "N", default_value_t = 300)]
    learn_actions: usize,
    /// Newton steps in a step of the hyperparameters; 0 until they settle
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    steps: Option<Vec<usize>>,
}

const ITEMS: &[Item<Options>] = &[
    Item { name: "figure-1", about: "Subsets from scratch, and recycled actions", run: plane::recycling },
    Item { name: "figure-2", about: "Pseudo-targets and posteriors of each Newton step", run: pseudo::figure },
    Item { name: "figure-3", about: "Means by policy, and the weights of their actions", run: plane::means },
    Item { name: "figure-4", about: "Compressed beliefs at the second Newton step", run: plane::compression },
    Item { name: "figure-5", about: "Schedules of Newton steps and actions for counts", run: counts::figure },
    Item { name: "figure-6", about: "Ten classes and many rows, means of runs", run: mixture::means },
    Item { name: "figure-7", about: "Handwritten digits", run: digits::figure },
    Item { name: "figure-8", about: "Standard deviations by policy", run: plane::deviations },
    Item { name: "figure-9", about: "Rows of the ten classes", run: mixture::rows },
    Item { name: "figure-10", about: "Ten classes and many rows, each run", run: mixture::runs },
    Item { name: "training", about: "Newton steps and actions in a step of the hyperparameters", run: training::table },
];

fn main() -> cagey::Result<()> {
    command::main("paper-iterncgp", "Figures of the paper on non-conjugate GPs", ITEMS)
}
