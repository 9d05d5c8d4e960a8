//! The command line: one file or folder for each subcommand, and no mathematics.

mod aggregation;
mod columns;
mod compare;
mod data;
mod devices;
mod evaluate;
mod fit;
mod forecast;
mod inspect;
mod interrupt;
mod memory;
mod model;
mod output;
mod parameters;
mod plot;
mod predict;
#[doc(hidden)]
pub mod ranks;
mod refine;
mod report;
pub mod request;
mod sample;
mod saved;
mod scoring;
#[doc(hidden)]
pub mod settings;
mod shards;
mod training;
mod trust;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use cagey::distributed::{self, Guard, Ranks};
use cagey::fitted::Registry;
use cagey::{Error, Result, threads};
use clap::{CommandFactory, Parser, Subcommand};
use interrupt::Watch;
pub use output::without_output;

use crate::values;

/// Gaussian processes with error bars you can trust.
#[derive(Debug, Parser)]
#[command(name = "cagey", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Threads to compute with; all cores by default
    #[arg(long, global = true, display_order = 1000, value_name = "N", value_parser = values::count(1..=MOST_THREADS))]
    threads: Option<usize>,
    /// Print only results, warnings and errors
    #[arg(short, long, global = true, display_order = 1001)]
    quiet: bool,
}

/// The command as clap knows it.
#[doc(hidden)]
pub fn command() -> clap::Command {
    Cli::command()
}

/// More threads than this only wait for each other, and starting them takes minutes.
const MOST_THREADS: u64 = 1024;

const EXAMPLES: &str = "\
Examples:
  cagey fit sales.csv --target price -o price.cagey
  cagey fit co2.csv --kernel \"rbf + periodic(period=1) * rbf + rq\" -o co2.cagey
  cagey compare sales.csv --target price --kernels \"rbf(ard)\" \"matern32(ard)\" --folds 5
  cagey predict price.cagey new.csv -o predictions.csv
  cagey evaluate price.cagey test.csv --json
  cagey plot price.cagey -o fit.png";

#[derive(Debug, Subcommand)]
enum Command {
    /// Fit a model to a table and save it
    Fit(Box<fit::Fit>),
    /// Fit several models or kernels to the same rows and compare their scores
    Compare(Box<compare::Compare>),
    /// Predict the target, with error bars or probabilities, for the rows of a table
    Predict(predict::Predict),
    /// Predict the rows that follow the last one of a series
    Forecast(forecast::Forecast),
    /// Score a model on a table with known targets
    Evaluate(evaluate::Evaluate),
    /// Describe a model: parameters, data, training
    Inspect(inspect::Inspect),
    /// Draw a model: posterior, components, calibration or learning curve
    Plot(plot::Plot),
    /// Compute more with a trained computation-aware model: less uncertainty from what was not computed
    Refine(refine::Refine),
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
    /// Print the manual page of the command, or of one of its subcommands
    #[command(after_help = "\
Examples:
  cagey man > ~/.local/share/man/man1/cagey.1
  cagey man fit | man -l -")]
    Man {
        /// The subcommand
        of: Option<String>,
    },
}

/// What names in settings, files and arguments mean. It is a static because clap builds arguments without a context.
/// The registry before the ranks of the job are known, for the arguments.
static KNOWN: OnceLock<Registry> = OnceLock::new();
static REGISTRY: OnceLock<Registry> = OnceLock::new();

fn registry() -> &'static Registry {
    REGISTRY.get().unwrap_or_else(|| KNOWN.get_or_init(Registry::default))
}

/// Whether the result of this process is written.
static WRITTEN: AtomicBool = AtomicBool::new(false);

/// Notes that the result is written.
fn result_is_written() {
    WRITTEN.store(true, Ordering::Relaxed);
}

/// Whether the command has written its model: what goes wrong afterwards takes nothing back, and is no failure.
pub fn is_written() -> bool {
    WRITTEN.load(Ordering::Relaxed)
}

/// Runs the command that this process's arguments ask for, with the kernels and models of a registry. The exit code is
/// 0, 1 for failures, 2 for wrong usage.
///
/// A program with its own models calls this once, with a registry that holds them.
pub fn run(known: Registry) -> ExitCode {
    run_with(std::env::args_os(), known)
}

/// [`run`] with other arguments than those of this process; the first is the name of the program.
pub fn run_with(arguments: impl IntoIterator<Item = OsString>, known: Registry) -> ExitCode {
    let _ = KNOWN.set(known);
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(report::refuse(&error)),
    };
    interrupt::install();
    #[cfg(feature = "parquet")]
    hide_guarded_panics();
    let code = match ranks::join() {
        Err(error) => failed(&error),
        Ok(None) => finished(execute(cli)),
        Ok(Some(exchange)) if exchange.rank() == 0 => {
            let others = Arc::new(Ranks::new(exchange));
            let _ = REGISTRY.set(registry().clone().over(Arc::clone(&others)));
            let _guard = others.guard();
            let code = finished(others.agree(ranks::arguments()).and_then(|()| execute(cli)));
            others.end().map_or_else(|error| failed(&error), |()| code)
        }
        Ok(Some(exchange)) => {
            let _watch = Watch::serve();
            let _guard = Guard::new(&*exchange);
            report::be_quiet();
            if let Err(error) = begin(&cli, exchange.size())
                .and_then(|()| distributed::serve(&*exchange, registry(), &ranks::arguments()))
            {
                failed(&error);
                // Otherwise the other ranks would wait for this one forever.
                panic!("rank {} cannot go on", exchange.rank());
            }
            0
        }
    };
    ExitCode::from(code)
}

/// Keeps panics that become errors from the terminal.
#[cfg(feature = "parquet")]
fn hide_guarded_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !crate::data::is_guarded() {
            usual(panic);
        }
    }));
}

/// The exit code of a command.
fn finished(done: Result<()>) -> u8 {
    done.map_or_else(|error| failed(&error), |()| 0)
}

/// Prints the error that ended the command and returns the exit code.
fn failed(error: &Error) -> u8 {
    report::fail(error);
    if matches!(error.cause(), Error::Usage(_) | Error::KernelText { .. }) { 2 } else { 1 }
}

/// Starts the threads of one of `ranks` processes.
fn begin(cli: &Cli, ranks: usize) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
    if let Some(threads) = cli.threads.filter(|threads| *threads > cores) {
        let cores = report::count(cores, "core");
        report::say(&format!("--threads {threads}: there are {cores}, and the command uses one thread for each"));
    }
    let threads = cli.threads.map(|threads| threads.min(cores)).or_else(|| ranks::threads(cores, ranks));
    let problem = |e| Error::Io { path: "threads".into(), problem: format!("{e} (ask for fewer with `--threads`)") };
    threads::start(threads).map_err(problem)
}

fn execute(cli: Cli) -> Result<()> {
    if cli.quiet {
        report::be_quiet();
    }
    begin(&cli, registry().crew.as_ref().map_or(1, |crew| crew.size()))?;
    match cli.command {
        Command::Fit(command) => command.run(),
        Command::Compare(command) => command.run(),
        Command::Predict(command) => command.run(),
        Command::Forecast(command) => command.run(),
        Command::Evaluate(command) => command.run(),
        Command::Inspect(command) => command.run(),
        Command::Plot(command) => command.run(),
        Command::Refine(command) => command.run(),
        Command::Sample(command) => command.run(),
        Command::Devices(command) => command.run(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "cagey", &mut script);
            report::print(&String::from_utf8_lossy(&script))
        }
        Command::Man { of } => manual(of.as_deref()),
    }
}

/// Prints a manual page in the form that `man` reads.
fn manual(of: Option<&str>) -> Result<()> {
    let mut cagey = Cli::command();
    cagey.build();
    let (page, title) = match of {
        None => (cagey, "cagey".to_string()),
        Some(name) => {
            let known: Vec<&str> = cagey.get_subcommands().map(clap::Command::get_name).collect();
            let known = known.join(", ");
            let found = cagey.find_subcommand(name).cloned();
            let found = found.ok_or_else(|| Error::Usage(format!("no subcommand `{name}`; there are {known}")))?;
            (found, format!("cagey-{name}"))
        }
    };
    let mut text = Vec::new();
    let rendered = clap_mangen::Man::new(page).title(title).render(&mut text);
    rendered.map_err(|e| Error::io("standard output", &e))?;
    report::print(&String::from_utf8_lossy(&text))
}
