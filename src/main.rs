//! The command: fit, predict, evaluate, inspect, plot and sample, from the terminal.

use std::process::ExitCode;

use cagey::fitted::Registry;

fn main() -> ExitCode {
    cagey::memory::keep_freed();
    cagey::device::ignore_settings_files();
    cagey::cli::run(Registry::default())
}
