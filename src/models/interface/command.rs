//! How the command offers kinds of models: their help texts, their arguments, and when they are the default.

use clap::{Arg, ArgMatches, Args, FromArgMatches};

use super::options::{Kind, ModelChoice};
use crate::error::Result;
use crate::models::variational::Covariance;
use crate::values::{self, MOST};

/// What is known when options are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// Rows of the training data.
    pub rows: usize,
    /// Whether L-BFGS was asked for.
    pub lbfgs: bool,
    /// The text of the likelihood.
    pub likelihood: &'a str,
    /// Whether other kinds of models get the same arguments, so that some of them may not be for this one.
    pub compared: bool,
}

impl Given<'_> {
    /// Whether the likelihood is Gaussian.
    pub fn gaussian(&self) -> bool {
        self.likelihood.starts_with("gaussian")
    }
}

/// A kind of model that the command offers.
pub trait Offered: Kind {
    /// One line of help.
    const ABOUT: &'static str;

    /// The message when the command chooses this approximation by default.
    const INSTEAD_OF_EXACT: Option<&'static str> = None;

    /// Whether training takes minibatches, so that rows may stay in a file.
    const TAKES_MINIBATCHES: bool = false;

    /// A line of the command as an example, if one is needed.
    const EXAMPLE: Option<&'static str> = None;

    /// The arguments for its options. Arguments that several kinds share are declared once: [`InducingArguments`],
    /// [`BatchArguments`].
    type Arguments: Args;

    /// The options from the arguments.
    ///
    /// # Errors
    /// [`Usage`](crate::Error::Usage) for arguments that exclude each other.
    fn from_arguments(arguments: Self::Arguments, given: &Given) -> Result<Self>;

    /// Whether it is the default for a likelihood, given by its text, and so many rows. Of several the first counts.
    fn is_usual(_likelihood: &str, _rows: usize) -> bool {
        false
    }
}

/// What the command knows of a kind of model.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// One line of help.
    pub about: &'static str,
    /// The message when it is chosen by default instead of the exact model.
    pub instead_of_exact: Option<&'static str>,
    /// Whether training takes minibatches.
    pub takes_minibatches: bool,
    /// A line of the command as an example.
    pub example: Option<&'static str>,
    /// Whether it is the default for a likelihood and so many rows.
    pub is_usual: fn(&str, usize) -> bool,
    arguments: fn(clap::Command) -> clap::Command,
    options: fn(&ArgMatches, &Given) -> Result<ModelChoice>,
}

impl Command {
    /// From a kind that is offered.
    pub fn of<K: Offered>() -> Self {
        Self {
            about: K::ABOUT,
            instead_of_exact: K::INSTEAD_OF_EXACT,
            takes_minibatches: K::TAKES_MINIBATCHES,
            example: K::EXAMPLE,
            is_usual: K::is_usual,
            arguments: K::Arguments::augment_args,
            options: |matches, given| {
                let arguments =
                    K::Arguments::from_arg_matches(matches).map_err(|e| crate::Error::Usage(e.to_string()))?;
                Ok(K::from_arguments(arguments, given)?.into())
            },
        }
    }

    /// The arguments for its options.
    pub fn arguments(&self) -> Vec<Arg> {
        (self.arguments)(clap::Command::new("model")).get_arguments().cloned().collect()
    }

    /// The kind with the options that the arguments give.
    ///
    /// # Errors
    /// [`Usage`](crate::Error::Usage) for arguments that exclude each other.
    pub fn choice(&self, matches: &ArgMatches, given: &Given) -> Result<ModelChoice> {
        (self.options)(matches, given)
    }
}

/// No arguments.
#[derive(Debug, Clone, Copy, Args)]
pub struct NoArguments {}

/// The arguments of models with inducing inputs.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct InducingArguments {
    /// Inducing inputs of a sparse model [default: 512]
    #[arg(long, value_name = "M", value_parser = values::count(1..=MOST))]
    inducing: Option<usize>,
}

impl InducingArguments {
    /// Whether the argument was given.
    pub fn given(&self) -> bool {
        self.inducing.is_some()
    }

    /// The number of inducing inputs.
    pub fn count(&self) -> usize {
        self.inducing.unwrap_or(512)
    }
}

/// The arguments of variational models on minibatches.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct BatchArguments {
    /// Rows of a minibatch [default: 1024; nearest: 128]
    #[arg(long, value_name = "ROWS", value_parser = values::count(1..=MOST))]
    batch: Option<usize>,
    /// Learn only the variances of the variational distribution, not its covariances
    #[arg(long)]
    mean_field: bool,
}

impl BatchArguments {
    /// Rows of a minibatch.
    pub fn size(&self) -> usize {
        self.batch.unwrap_or(1024)
    }

    /// The form of the variational distribution's covariance.
    pub fn covariance(&self) -> Covariance {
        if self.mean_field { Covariance::Diagonal } else { Covariance::Full }
    }
}

/// The arguments of models that solve linear systems step by step.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct SolveArguments {
    /// Relative norm of the residual at which a solve ends; 0 continues as long as it helps [default: 1e-6; of
    /// computation-aware models 1e-4 with cg and lanczos, else 0]
    #[arg(long, value_name = "SHARE", value_parser = values::rate)]
    tolerance: Option<f64>,
}

impl SolveArguments {
    /// The tolerance asked for.
    pub fn tolerance(&self) -> Option<f64> {
        self.tolerance
    }
}
