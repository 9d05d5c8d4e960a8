//! The options as arguments of the command.

use super::{ActionPolicy, CagpObjective, CagpOptions, Compression, Newton, SiteRule, Stopping};
use crate::error::{Error, Result};
use crate::models::command::{Given, Offered, SolveArguments};
use crate::models::ordering::RowOrder;
use crate::values::{self, MOST};

/// Actions if nobody asks for another number.
const MOST_BY_DEFAULT: usize = 512;

/// Up to this many rows, actions chosen from scratch are worth their time, unless one for each row is learned.
const FEW: usize = 2048;

/// What computation may leave open with `--actions auto`, as a share of the variance of a prediction.
const SHARE: f64 = 0.1;

/// A number of actions.
#[derive(Debug, Clone, Copy)]
enum Count {
    Auto,
    Of(usize),
}

fn count(text: &str) -> std::result::Result<Count, String> {
    match text.parse() {
        _ if text == "auto" => Ok(Count::Auto),
        Ok(count @ 1..=MOST) => Ok(Count::Of(count as usize)),
        _ => Err(format!("must be `auto` or a whole number from 1 to {MOST}")),
    }
}

/// The arguments of computation-aware GPs.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Most actions of a computation-aware model: more actions take longer and are closer to the exact model. With
    /// `auto`, the default of them, and after training further ones until what was not computed adds less than a tenth
    /// to the variance of a prediction [default: 512, but of learned ones and of Gaussian targets no more than rows]
    #[arg(long, value_name = "N|auto", value_parser = count)]
    actions: Option<Count>,
    /// How a computation-aware model chooses its actions [default: learned; for other likelihoods than the Gaussian
    /// preconditioned from 513 to 2,048 rows, and gradient for softmax and fewer]
    #[arg(long, value_name = "NAME", value_enum)]
    policy: Option<ActionPolicy>,
    /// Optimiser steps between two choices of actions by a policy: more steps cost less and improve the model less
    /// [default: 1; 10 for other likelihoods than the Gaussian]
    #[arg(long, value_name = "STEPS", value_parser = values::count(1..=MOST))]
    refresh: Option<usize>,
    #[command(flatten)]
    solves: SolveArguments,
    /// Actions of the first policy of `mixed` and `preconditioned`; for other likelihoods than the Gaussian, the
    /// rank of the preconditioner [default: a quarter of all actions]
    #[arg(long, value_name = "N", value_parser = values::count(1..=MOST))]
    first: Option<usize>,
    /// What a computation-aware model minimises [default: elbo]
    #[arg(long, value_name = "NAME", value_enum)]
    loss: Option<CagpObjective>,
    /// Order of rows that blocks of learned actions are cut from [default: tree]
    #[arg(long, value_name = "NAME", value_enum)]
    row_order: Option<RowOrder>,
    /// Where gradient and curvature of likelihoods other than the Gaussian are taken [default: expectation; mode
    /// with --unroll]
    #[arg(long, value_name = "NAME", value_enum)]
    sites: Option<SiteRule>,
    /// Newton steps that are differentiated, for likelihoods other than the Gaussian: with another policy than
    /// learned, solves and choice of actions included; 0 keeps gradient and curvature, and such actions, for --refresh
    /// steps. For Gaussian targets and another policy than learned, 1 differentiates the whole solve [default: 0]
    #[arg(long, value_name = "STEPS", value_parser = values::count(0..=100))]
    unroll: Option<usize>,
    #[command(flatten)]
    newton: NewtonArguments,
}

/// The arguments of Newton's method: policies, and likelihoods other than the Gaussian.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct NewtonArguments {
    /// Most Newton steps of a solve, for another policy than learned and likelihoods other than the Gaussian
    /// [default: until the mean settles]
    #[arg(long, value_name = "STEPS", value_parser = values::count(1..=MOST))]
    newton_steps: Option<usize>,
    /// New actions in one Newton step, likewise; 1 is best where products with the covariance matrix are the main
    /// cost [default: a fiftieth of --actions]
    #[arg(long, value_name = "N", value_parser = values::count(1..=MOST))]
    actions_per_step: Option<usize>,
    /// Directions that are kept from one Newton step to the next, likewise: memory is so many times the rows
    /// [default: all]
    #[arg(long, value_name = "N", value_parser = values::count(1..=MOST))]
    keep: Option<usize>,
    /// Which directions --keep keeps [default: information]
    #[arg(long, value_name = "RULE", value_enum, requires = "keep")]
    compression: Option<Compression>,
    /// When the Newton steps of a solve end, likewise [default: settled]
    #[arg(long, value_name = "RULE", value_enum)]
    stopping: Option<Stopping>,
}

impl NewtonArguments {
    /// The first option that is given.
    fn given(&self) -> Option<&'static str> {
        let all = [
            ("--newton-steps", self.newton_steps.is_some()),
            ("--actions-per-step", self.actions_per_step.is_some()),
            ("--keep", self.keep.is_some()),
            ("--stopping", self.stopping.is_some()),
        ];
        all.into_iter().find_map(|(name, given)| given.then_some(name))
    }
}

impl Offered for CagpOptions {
    const ABOUT: &'static str = "Computation-aware: error bars include what was not computed";

    const EXAMPLE: Option<&'static str> =
        Some("cagey fit large.csv --model cagp --actions 512 --optimizer adam --lr 0.1");

    type Arguments = Arguments;

    fn from_arguments(arguments: Arguments, given: &Given) -> Result<Self> {
        let Arguments { actions, policy, refresh, solves, first, loss, row_order, sites, unroll, newton: steps } =
            arguments;
        let newton = !given.gaussian();
        let (tolerance, unrolled) = (solves.tolerance(), unroll.is_some_and(|steps| steps > 0));
        let policy = policy.unwrap_or(match given.rows {
            rows if !newton || rows > FEW || unroll.is_some() || row_order.is_some() => ActionPolicy::Learned,
            rows if rows > MOST_BY_DEFAULT => ActionPolicy::Preconditioned,
            // Learned actions are one a row at most, and rows of several classes have more to say.
            _ if given.likelihood.starts_with("softmax") => ActionPolicy::Gradient,
            _ => ActionPolicy::Learned,
        });
        let learned = policy == ActionPolicy::Learned;
        let most = if newton && !learned { MOST_BY_DEFAULT } else { given.rows.min(MOST_BY_DEFAULT) };
        if let Some(option) = steps.given().filter(|_| learned || !newton) {
            let problem =
                format!("{option} is for another --policy than learned and other likelihoods than the Gaussian");
            return Err(Error::Usage(problem));
        }
        let problem = match learned {
            _ if sites.is_some() && !newton => "--sites is for other likelihoods than the Gaussian",
            true if unroll.is_some() && !newton => {
                "--unroll is for other likelihoods than the Gaussian, or another --policy than learned"
            }
            false if !newton && unroll.is_some_and(|steps| steps > 1) => {
                "--unroll: Gaussian targets need one solve; choose 1"
            }
            _ if unrolled && sites == Some(SiteRule::Expectation) => "--unroll is for --sites mode",
            true if refresh.is_some() && !newton => {
                "--refresh is for another --policy than learned: such actions change in every step"
            }
            _ if first.is_some() && !matches!(policy, ActionPolicy::Mixed | ActionPolicy::Preconditioned) => {
                "--first is for --policy mixed and preconditioned"
            }
            true if tolerance.is_some() => "--tolerance is for another --policy than learned, which takes all actions",
            false if row_order.is_some() => "--row-order is for --policy learned: others do not cut rows into blocks",
            _ => {
                return Ok(Self {
                    actions: if let Some(Count::Of(count)) = actions { count } else { most },
                    policy,
                    objective: loss.unwrap_or(CagpObjective::Elbo),
                    order: row_order.unwrap_or(RowOrder::Tree),
                    // New actions and sites in every step would end L-BFGS early.
                    refresh: refresh.unwrap_or(if newton { 10 } else { 1 }),
                    tolerance,
                    first,
                    sites: sites.unwrap_or(if unrolled && newton { SiteRule::Mode } else { SiteRule::Expectation }),
                    unrolled: unroll.unwrap_or(0),
                    newton: Newton {
                        steps: steps.newton_steps,
                        per_step: steps.actions_per_step,
                        kept: steps.keep,
                        compression: steps.compression.unwrap_or_default(),
                        stopping: steps.stopping.unwrap_or_default(),
                    },
                    share: matches!(actions, Some(Count::Auto)).then_some(SHARE),
                });
            }
        };
        Err(Error::Usage(problem.into()))
    }
}
