//! The command line: one file a subcommand, no mathematics.

mod allocation;
mod columns;
mod compare;
mod data;
mod devices;
mod evaluate;
mod fit;
mod inspect;
mod interrupt;
mod memory;
mod model;
mod output;
mod plot;
mod predict;
mod report;
mod sample;
mod scoring;
mod standard;
mod training;
mod values;

use std::process::ExitCode;

use cagey::{Error, Result, threads};
use clap::{CommandFactory, Parser, Subcommand};

/// Gaussian processes with error bars you can trust.
#[derive(Debug, Parser)]
#[command(name = "cagey", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Threads to compute with; all cores by default
    #[arg(long, global = true, display_order = 1000, value_name = "N", value_parser = values::count(1..=MOST_THREADS))]
    threads: Option<usize>,
}

/// More threads than this only wait for each other, and starting them takes minutes.
const MOST_THREADS: u64 = 1024;

const EXAMPLES: &str = "\
Examples:
  cagey fit sales.csv --target price -o price.cagey
  cagey fit co2.csv --kernel \"rbf + periodic(period=1) * rbf + rq\" -o co2.cagey
  cagey compare sales.csv --target price --models exact,cagp,sgpr --folds 5
  cagey predict price.cagey new.csv -o predictions.csv
  cagey evaluate price.cagey test.csv --json
  cagey plot price.cagey -o fit.png";

#[derive(Debug, Subcommand)]
enum Command {
    /// Fit a model to a table and save it
    Fit(Box<fit::Fit>),
    /// Fit several models or kernels to the same rows and set their scores side by side
    Compare(Box<compare::Compare>),
    /// Predict the target, with error bars or probabilities, for the rows of a table
    Predict(predict::Predict),
    /// Score a model on a table with known targets
    Evaluate(evaluate::Evaluate),
    /// Say what a model is: parameters, data, training
    Inspect(inspect::Inspect),
    /// Draw a model: posterior, components, calibration or learning curve
    Plot(plot::Plot),
    /// Draw joint samples of the latent function at the rows of a table
    Sample(sample::Sample),
    /// List the devices of this build and machine
    Devices(devices::Devices),
    /// Print shell completions
    #[command(after_help = "\
Examples:
  cagey completions bash > ~/.local/share/bash-completion/completions/cagey
  cagey completions zsh > ~/.zfunc/_cagey
  cagey completions fish > ~/.config/fish/completions/cagey.fish")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Runs the command of this process's arguments: exit code 0, 1 for failures, 2 for wrong usage.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe is the reader's choice.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    interrupt::install();
    match execute(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::say(&format!("error: {error}"));
            ExitCode::from(if matches!(error, Error::Usage(_) | Error::KernelText { .. }) { 2 } else { 1 })
        }
    }
}

fn execute(cli: Cli) -> Result<()> {
    let problem = |e| Error::Io { path: "threads".into(), problem: format!("{e} (ask for fewer with `--threads`)") };
    threads::start(cli.threads).map_err(problem)?;
    match cli.command {
        Command::Fit(command) => command.run(),
        Command::Compare(command) => command.run(),
        Command::Predict(command) => command.run(),
        Command::Evaluate(command) => command.run(),
        Command::Inspect(command) => command.run(),
        Command::Plot(command) => command.run(),
        Command::Sample(command) => command.run(),
        Command::Devices(command) => command.run(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "cagey", &mut script);
            report::print(&String::from_utf8_lossy(&script))
        }
    }
}
