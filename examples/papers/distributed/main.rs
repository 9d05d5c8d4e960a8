//! Chen and Tuo 2024, *Aggregation models with optimal weights for distributed Gaussian processes*: its figures and
//! tables.
//!
//! `cargo run --release --example paper-distributed -- figure-4 --experts 2,10`, or `table-3 --data FOLDER`. `--help`
//! lists all of them; `--quick` makes them in seconds, `--paper` in the paper's sizes.

#[path = "../common/mod.rs"]
mod common;

mod ackley;
mod grids;
mod rules;
mod tables;
mod training;

use clap::Args;
use common::command::{self, Item};

/// What these figures and tables take.
#[derive(Args, Clone)]
pub struct Options {
    /// Tables of the folder
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    sets: Vec<String>,
    /// Training rows
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Numbers of experts
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    experts: Option<Vec<usize>>,
    /// Inducing inputs that sparse experts share
    #[arg(long, value_name = "N")]
    inducing: Option<usize>,
    /// Lengthscales of fixed kernels; scores are means over them
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    lengthscales: Option<Vec<f64>>,
    /// Gradients of each expert
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Local steps of FedAvg and FedProx
    #[arg(long, value_name = "STEPS", default_value_t = 5)]
    local_steps: usize,
    /// Train the tables' experts by the sum of their objectives (FACT) instead of FedAvg
    #[arg(long)]
    fact: bool,
    /// Give each expert the rows of a box instead of random ones
    #[arg(long)]
    tree: bool,
    /// Highest levels of sparse grids over two and three inputs
    #[arg(long, value_name = "LEVELS", num_args = 2)]
    levels: Option<Vec<usize>>,
}

const ITEMS: &[Item<Options>] = &[
    Item { name: "figure-1", about: "Sparse grids combined by two sets of coefficients", run: grids::figure },
    Item { name: "figure-2", about: "Hyperparameters by rounds of each training", run: training::paths },
    Item { name: "figure-3", about: "Posteriors of four experts over a line, by rule", run: ackley::line },
    Item { name: "figure-4", about: "Ackley, exact experts: RMSE, NLPD and time by rule", run: ackley::exact },
    Item { name: "figure-5", about: "Ackley, sparse experts: RMSE, NLPD and time by rule", run: ackley::sparse },
    Item { name: "figure-6", about: "Tables 2 and 3 as figures", run: tables::figure },
    Item { name: "figure-8", about: "Hyperparameters at the end, by number of experts", run: training::ends },
    Item { name: "figure-9", about: "Figure 4: the spread of RMSE", run: ackley::exact_rmse },
    Item { name: "figure-10", about: "Figure 4: the spread of NLPD", run: ackley::exact_nlpd },
    Item { name: "figure-11", about: "Figure 5: the spread of RMSE", run: ackley::sparse_rmse },
    Item { name: "figure-12", about: "Figure 5: the spread of NLPD", run: ackley::sparse_nlpd },
    Item { name: "table-2", about: "Rules on tables of 15,000 rows", run: tables::second },
    Item { name: "table-3", about: "Rules on tables of 45,000 rows", run: tables::third },
];

fn main() -> cagey::Result<()> {
    command::main("paper-distributed", "Figures and tables of the paper on distributed GPs", ITEMS)
}
