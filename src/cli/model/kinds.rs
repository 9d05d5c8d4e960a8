//! The kinds of models: their names, and the options of each as arguments.

use cagey::models::command::Given;
use cagey::models::options::ModelChoice;
use cagey::models::registry::Row;
use cagey::{Error, Result};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use crate::cli::registry;

/// The names of all kinds, as values of an option.
pub fn names() -> PossibleValuesParser {
    let rows = registry().models.rows().iter();
    rows.map(|row| PossibleValue::new(row.name).help(row.command.about)).collect::<Vec<_>>().into()
}

/// The kind with that name.
fn named(name: &str) -> Result<&'static Row> {
    registry().models.row(name).ok_or_else(|| Error::Usage(format!("no model `{name}`")))
}

/// The kind for rows that are not all in memory: the one asked for, or the first that `prefers` such rows. An error
/// begins with `what`.
fn kind_that(
    takes: impl Fn(&Row) -> bool,
    prefers: impl Fn(&Row) -> bool,
    what: &str,
    asked: Option<&str>,
) -> Result<&'static Row> {
    let rows = registry().models.rows();
    let found = match asked {
        Some(name) => Some(named(name)?).filter(|row| takes(row)),
        None => rows.iter().find(|row| prefers(row)),
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = rows.iter().filter(|row| takes(row)).map(|row| row.name).collect();
        Error::Usage(format!("{what}: choose --model {}", names.join(" or ")))
    })
}

/// The kind for rows that stay in a file.
pub fn kind_for_file(asked: Option<&str>) -> Result<&'static Row> {
    let minibatches = |row: &Row| row.command.takes_minibatches;
    let what = "rows in a file are for models that take them in parts";
    kind_that(|row| minibatches(row) || row.reads, minibatches, what, asked)
}

/// The kind for rows that stay apart, each part with its rank.
pub fn kind_for_shards(asked: Option<&str>) -> Result<&'static Row> {
    kind_that(|row| row.apart, |row| row.apart, "--shards is for models whose rows stay apart", asked)
}

/// The options of all kinds of models. An option that several kinds share appears once.
#[derive(Debug, Clone)]
pub struct KindArguments(ArgMatches);

impl KindArguments {
    /// Every option once, with the kinds that have it.
    fn all() -> Vec<(Arg, Vec<&'static str>)> {
        let mut all: Vec<(Arg, Vec<&str>)> = Vec::new();
        for row in registry().models.rows() {
            for arg in row.command.arguments() {
                match all.iter_mut().find(|(other, _)| other.get_id() == arg.get_id()) {
                    Some((_, owners)) => owners.push(row.name),
                    None => all.push((arg, vec![row.name])),
                }
            }
        }
        all
    }

    /// The kind for a likelihood and a number of rows: the one asked for, or the usual one. Of several usual ones for
    /// targets that are not Gaussian, the first that takes the options given.
    pub fn kind(&self, asked: Option<&str>, likelihood: &str, rows: usize) -> Result<&'static Row> {
        if let Some(name) = asked {
            return named(name);
        }
        let usual = || registry().models.rows().iter().filter(|row| (row.command.is_usual)(likelihood, rows));
        let fits = |row: &&Row| !likelihood.starts_with("gaussian") && self.foreign(&[*row]).is_none();
        let found = usual().find(fits).or_else(|| usual().next());
        found.ok_or_else(|| Error::Usage("no model is usual for such data: choose one with --model".into()))
    }

    /// Whether no option of any kind is given.
    pub fn is_silent(&self) -> bool {
        self.foreign(&[]).is_none()
    }

    /// The first option given that belongs to none of the kinds, and the kinds that it belongs to.
    fn foreign(&self, fitted: &[&Row]) -> Option<(Arg, Vec<&'static str>)> {
        let given = |arg: &Arg| self.0.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
        let foreign = |owners: &[&str]| !fitted.iter().any(|row| owners.contains(&row.name));
        Self::all().into_iter().find(|(arg, owners)| given(arg) && foreign(owners))
    }

    /// Refuses options that belong to none of the kinds.
    pub fn check(&self, fitted: &[&Row]) -> Result<()> {
        let Some((foreign, owners)) = self.foreign(fitted) else { return Ok(()) };
        let fitted: Vec<&str> = fitted.iter().map(|row| row.name).collect();
        Err(Error::Usage(format!(
            "--{} is for --model {}, and this fits {}",
            foreign.get_long().unwrap_or_default(),
            owners.join(" or "),
            fitted.join(" and ")
        )))
    }

    /// A kind with the options asked for.
    pub fn choice(&self, row: &Row, given: &Given) -> Result<ModelChoice> {
        row.command.choice(&self.0, given)
    }
}

impl FromArgMatches for KindArguments {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        Ok(Self(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        self.0 = matches.clone();
        Ok(())
    }
}

/// Only reads the options: commands declare them by [`arguments`] where the help shows them.
impl Args for KindArguments {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

/// The options of all kinds as arguments of a command: one group of its help for each kind, and before them one for
/// the options that the same kinds share.
pub fn arguments() -> Vec<Arg> {
    let (shared, own): (Vec<_>, Vec<_>) = KindArguments::all().into_iter().partition(|(_, owners)| owners.len() > 1);
    let arguments = shared.into_iter().chain(own).enumerate().map(|(place, (arg, owners))| {
        let models = if owners.len() > 1 { "Models" } else { "Model" };
        arg.help_heading(format!("{models} {}", owners.join(", "))).display_order(place)
    });
    arguments.collect()
}
