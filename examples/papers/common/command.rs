//! A program with one subcommand for each figure and table.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cagey::device::{Compute, Precision};
use cagey::train::TrainConfig;
use cagey::{Error, Result};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde_json::Value;

use cagey_examples::Device;

/// A figure or table.
pub struct Item<O> {
    pub name: &'static str,
    pub about: &'static str,
    pub run: fn(&Job<O>) -> Result<()>,
}

/// What all figures and tables take.
#[derive(Args, Clone)]
pub struct Common {
    /// Sizes that take seconds
    #[arg(long)]
    quick: bool,
    /// The sizes of the paper, which may take hours
    #[arg(long, conflicts_with = "quick")]
    paper: bool,
    /// Number of runs, with data and seeds of their own
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Folder of results (JSON lines, which a later run goes on with) and figures
    #[arg(long, value_name = "FOLDER", default_value = "papers")]
    pub output: PathBuf,
    /// Folder of tables, NAME.csv.gz with the target last, and published splits, splits/NAME.csv.gz with 0/1 columns
    /// `split0`, `split1`, … [default: generated tables]
    #[arg(long, value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    device: Device,
    /// Pause each training after so many minutes; the same command goes on with it
    #[arg(long, value_name = "MINUTES")]
    minutes: Option<f64>,
}

/// A figure or table to make.
pub struct Job<O> {
    pub program: &'static str,
    pub name: &'static str,
    pub common: Common,
    pub own: O,
    /// The lines of the file of results, read once.
    pub(super) lines: RefCell<Option<Vec<Value>>>,
}

impl<O> Job<O> {
    /// The same figure with other options.
    pub fn with(&self, own: O) -> Self {
        let Self { program, name, common, .. } = self;
        Self { program, name, common: common.clone(), own, lines: RefCell::default() }
    }

    /// The quick, the usual or the paper's size.
    pub fn pick<T>(&self, [quick, usual, paper]: [T; 3]) -> T {
        match (self.common.quick, self.common.paper) {
            (true, _) => quick,
            (_, true) => paper,
            _ => usual,
        }
    }

    /// The option if it is given, or else a size.
    pub fn size<T: Clone>(&self, given: &Option<T>, sizes: [T; 3]) -> T {
        given.clone().unwrap_or_else(|| self.pick(sizes))
    }

    /// The numbers of the runs.
    pub fn seeds(&self, counts: [u64; 3]) -> std::ops::Range<u64> {
        0..self.size(&self.common.seeds, counts)
    }

    /// Device and number type.
    pub fn compute(&self, usual: Precision) -> Compute {
        self.common.device.compute(usual)
    }

    /// The configuration with the time limit.
    pub fn limited(&self, mut config: TrainConfig) -> Result<TrainConfig> {
        let limit = self.common.minutes.map(|minutes| Duration::try_from_secs_f64(60.0 * minutes)).transpose();
        config.max_time = limit.map_err(|e| Error::Usage(format!("--minutes: {e}")))?.or(config.max_time);
        Ok(config)
    }

    /// A file of this figure.
    pub fn file(&self, suffix: &str) -> PathBuf {
        self.common.output.join(format!("{}{suffix}", self.name))
    }
}

/// Runs the program with the given figures and tables.
pub fn main<O: Args + Clone>(program: &'static str, about: &'static str, items: &'static [Item<O>]) -> Result<()> {
    cagey::memory::keep_freed();
    // The documentation of the options would replace what is said of the figure.
    let with = |name, about| O::augment_args(Common::augment_args(Command::new(name))).about(about);
    let mut command = Command::new(program).about(about).subcommand_required(true).arg_required_else_help(true);
    for Item { name, about, .. } in items {
        command = command.subcommand(with(*name, *about));
    }
    let matches = command.subcommand(with("all", "All of them, one after another")).get_matches();
    let Some((chosen, matches)) = matches.subcommand() else { return Ok(()) };
    let common: Common = read(matches)?;
    cagey::threads::start(None)?;
    std::fs::create_dir_all(&common.output).map_err(|e| Error::io(&common.output, &e))?;
    for Item { name, about, run } in items.iter().filter(|item| chosen == "all" || chosen == item.name) {
        let (started, own) = (Instant::now(), read(matches)?);
        println!("{program} {name}: {about}");
        run(&Job { program, name, common: common.clone(), own, lines: RefCell::default() })?;
        println!("{program} {name}: {:.1} s\n", started.elapsed().as_secs_f64());
    }
    Ok(())
}

fn read<T: FromArgMatches>(matches: &ArgMatches) -> Result<T> {
    T::from_arg_matches(matches).map_err(|e| Error::Usage(e.to_string()))
}
