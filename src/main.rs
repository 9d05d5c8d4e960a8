//! The command: fit, predict, evaluate, inspect, plot and sample, from the terminal.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cagey::memory::keep_freed();
    cagey::device::ignore_settings_files();
    cli::run()
}
