//! The command: fit, predict, evaluate, inspect, plot and sample, from the terminal.

use std::process::ExitCode;

use cagey::fitted::Registry;

fn main() -> ExitCode {
    cagey::memory::keep_freed();
    cagey::cli::run(Registry::default())
}
