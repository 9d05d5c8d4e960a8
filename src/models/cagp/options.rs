//! The options of computation-aware GPs.

use serde::{Deserialize, Serialize};

use super::{
    Actions, Cagp, CagpObjective, Compression, Differentiation, IterativeCagp, NewtonOptions, SiteRule, Stopping,
};
use crate::advice::Advice;
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::likelihoods::Likelihood;
use crate::models::Observations;
use crate::models::gp_model::GpModel;
use crate::models::options::{Context, Kind, ModelOptions, Parts, setters};
use crate::models::ordering::RowOrder;
use crate::models::start::variance_of_classes;
use crate::params;
use crate::solvers::Probes;
use crate::solvers::itergp::IterGpOptions;
use crate::solvers::policies::{
    Eigenvector, Gradient, Lanczos, LanczosSeed, Mixed, Order, Pivots, Policy, Preconditioned, PseudoInput, Random,
    Residual, UnitVector,
};

/// Computation-aware: n² time, and variances that include the error of the limited computation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CagpOptions {
    /// Most actions. Learned actions and Gaussian targets allow at most one a row; rows of several latent functions
    /// allow more.
    pub actions: usize,
    /// How they are chosen.
    pub policy: ActionPolicy,
    /// What to minimise.
    pub objective: CagpObjective,
    /// The order of rows that blocks of learned actions are cut from.
    pub order: RowOrder,
    /// Steps of the optimiser, at least 1, between two choices of actions by a policy.
    pub refresh: usize,
    /// Largest ‖y − K̂v‖ / ‖y‖ at which a solve by a policy ends before it has taken all actions. None is 1e-4 for
    /// conjugate gradients and other policies that choose the next action from the residual, and 0 for the rest.
    pub tolerance: Option<f64>,
    /// Actions of the first policy of a mixed or preconditioned one, fewer than all; for other likelihoods than the
    /// Gaussian, the rank of the preconditioner. None is a quarter of them.
    pub first: Option<usize>,
    /// Where the sites of likelihoods other than the Gaussian are taken.
    pub sites: SiteRule,
    /// Newton steps of these likelihoods that gradients go through; 0 holds the sites fixed. For Gaussian targets and a
    /// policy, 1 lets gradients go through the whole solve.
    pub unrolled: usize,
    /// How Newton's method of a policy goes.
    pub newton: Newton,
}

/// What differs from the usual [`NewtonOptions`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Newton {
    /// Most Newton steps.
    pub steps: Option<usize>,
    /// Most actions in one step.
    pub per_step: Option<usize>,
    /// How many directions to keep from step to step.
    pub kept: Option<usize>,
    /// Which ones.
    pub compression: Compression,
    /// When to end.
    pub stopping: Stopping,
}

/// The change of f − m at which the steps end, as in the paper.
const CHANGE: f64 = 0.01;

impl Newton {
    fn options(self, usual: NewtonOptions) -> NewtonOptions {
        let Self { steps, per_step, kept, compression, stopping } = self;
        let (steps, per_step) = (steps.unwrap_or(usual.steps), per_step.unwrap_or(usual.per_step));
        let by_change = stopping == Stopping::Change;
        let settled = if by_change { CHANGE } else { usual.settled };
        NewtonOptions { per_step, kept, compression, stopping, settled, steps, explain: usual.explain && !by_change }
    }
}

impl Default for CagpOptions {
    /// At most 512 learned actions in the order of a k-d tree, trained with the ELBO.
    fn default() -> Self {
        Self {
            actions: 512,
            policy: ActionPolicy::Learned,
            objective: CagpObjective::Elbo,
            order: RowOrder::Tree,
            refresh: 1,
            tolerance: None,
            first: None,
            sites: SiteRule::Expectation,
            unrolled: 0,
            newton: Newton::default(),
        }
    }
}

impl CagpOptions {
    /// Refuses no actions, or more than rows.
    fn few_enough(&self, rows: usize) -> Result<()> {
        match self.actions {
            actions if actions == 0 || actions > rows => {
                let problem = format!("{actions} actions for {rows} rows: choose from 1 to {rows}");
                Err(Error::Usage(problem).about("CagpOptions::actions"))
            }
            _ => Ok(()),
        }
    }

    /// The rank of the first policy.
    fn rank(&self) -> usize {
        self.first.unwrap_or(self.actions / 4).max(1)
    }

    /// The policy that chooses actions in a solve. Learned actions have none.
    fn chosen(&self, kernel: &Kernel, latents: usize, context: &Context) -> Result<Option<Box<dyn Policy>>> {
        let rows = || Box::new(UnitVector { pivots: Pivots::Largest });
        let first = self.rank();
        Ok(Some(match self.policy {
            ActionPolicy::Learned => return Ok(None),
            ActionPolicy::Cg => Box::new(Residual),
            ActionPolicy::Gradient => Box::new(Gradient { per_class: false }),
            ActionPolicy::ClassGradients => Box::new(Gradient { per_class: true }),
            ActionPolicy::Cholesky => rows(),
            // A row has a latent value of each function, and values are stored function after function.
            ActionPolicy::Rows => {
                let n = context.data.n();
                let pivots = match latents {
                    1 => Pivots::Data,
                    _ => Pivots::Given((0..n).flat_map(|row| (0..latents).map(move |l| l * n + row)).collect()),
                };
                Box::new(UnitVector { pivots })
            }
            ActionPolicy::Lanczos => Box::new(Lanczos { seed: LanczosSeed::Targets }),
            ActionPolicy::Eigenvector => Box::new(Eigenvector),
            ActionPolicy::Random => Box::new(Random { probes: Probes::Gaussian, seed: context.seed }),
            ActionPolicy::PseudoInput => {
                let count = self.actions.min(context.data.n());
                let mut policy = PseudoInput::new(&context.pseudo_inputs(kernel, count)?, context.data.d)?;
                // Gradients do not go through the choice of actions.
                policy.inputs.fixed = true;
                Box::new(policy)
            }
            ActionPolicy::Mixed => Box::new(Mixed::new(vec![rows(), Box::new(Residual)], Order::Switch(vec![first]))?),
            ActionPolicy::Preconditioned => Box::new(Preconditioned::new(rows(), first, Box::new(Residual))),
        }))
    }

    /// The largest relative residual at which a solve ends.
    fn relative(&self, known: bool) -> f64 {
        let by_residual = match self.policy {
            ActionPolicy::Learned
            | ActionPolicy::Rows
            | ActionPolicy::Cholesky
            | ActionPolicy::Eigenvector
            | ActionPolicy::Random
            | ActionPolicy::PseudoInput => 0.0,
            _ => IterGpOptions::default().relative,
        };
        self.tolerance.unwrap_or(if known { by_residual } else { NEWTON })
    }
}

/// The largest relative residual of Newton's method.
const NEWTON: f64 = 1e-6;

/// How a computation-aware model chooses its actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum ActionPolicy {
    /// Block-sparse actions, learned with the hyperparameters (CaGP-Opt)
    Learned,
    /// Residuals: conjugate gradients (CaGP-CG)
    Cg,
    /// Rows by pivoted Cholesky (CaGP-Chol)
    Cholesky,
    /// Rows in their order: a subset of the data
    Rows,
    /// Lanczos vectors from the targets
    Lanczos,
    /// Eigenvectors of the largest eigenvalues
    Eigenvector,
    /// Gaussian random vectors
    Random,
    /// Covariances with cluster centres of the data
    PseudoInput,
    /// Rows by pivoted Cholesky first (--first), then residuals
    Mixed,
    /// Rows by pivoted Cholesky first (--first), then residuals with the preconditioner that these rows make; for other
    /// likelihoods gradients with such a preconditioner, which smooth kernels and many rows need
    Preconditioned,
    /// Gradients of the log posterior by Newton's method; when the mean has converged, the directions that the data say
    /// most about. For the Gaussian likelihood it is cg
    Gradient,
    /// Gradients of the log posterior, one action for each class: ten classes give ten actions for one product with K
    ClassGradients,
}

setters!(CagpOptions {
    actions: usize,
    policy: ActionPolicy,
    objective: CagpObjective,
    order: RowOrder,
    refresh: usize,
    tolerance: Option<f64>,
    first: Option<usize>,
    sites: SiteRule,
    unrolled: usize,
    newton: Newton,
});

impl Kind for CagpOptions {
    const NAME: &'static str = "cagp";
    const ANY_LIKELIHOOD: bool = true;
}

impl ModelOptions for CagpOptions {
    fn build(&self, Parts { prior, likelihood }: Parts, context: &Context) -> Result<Box<dyn GpModel>> {
        let Self { actions, policy, objective, refresh, sites, unrolled, .. } = *self;
        let (n, known) = (context.data.n(), likelihood.noise().is_some());
        self.check(n)?;
        objective.check(&*likelihood)?;
        if known {
            self.few_enough(n)?;
        }
        let Some(chosen) = self.chosen(&prior.kernel, likelihood.latents(), context)? else {
            // Rows that came after training have actions that are not learned.
            let learned = context.saved.and_then(|saved| saved.parameters.iter().find(|own| own.name == "actions"));
            let actions = match learned {
                Some(learned) if known => Actions::averages(learned.len(), actions)?,
                _ => Actions::start(&*likelihood, context.data, actions)?,
            };
            let model = Cagp::boxed(prior, likelihood, actions);
            return Ok(Box::new(Cagp { objective, sites, unrolled, refresh, ..model }));
        };
        let options = IterGpOptions { relative: self.relative(known), ..IterGpOptions::budget(actions) };
        let model = IterativeCagp::boxed(prior, likelihood, chosen, options);
        let explain =
            matches!(policy, ActionPolicy::Gradient | ActionPolicy::ClassGradients | ActionPolicy::Preconditioned);
        let newton = self.newton.options(NewtonOptions { explain, ..model.newton });
        let differentiation = if known && unrolled > 0 { Differentiation::Unrolled } else { Differentiation::Detached };
        Ok(Box::new(IterativeCagp { objective, sites, refresh, newton, differentiation, ..model }))
    }

    fn check(&self, rows: usize) -> Result<()> {
        if let Some(first) = self.first.filter(|first| *first >= self.actions) {
            let actions = self.actions;
            let problem = format!("{first} first actions of {actions}: choose fewer than all");
            return Err(Error::Usage(problem).about("CagpOptions::first"));
        }
        // Newton's method stops by itself when actions of other policies add nothing more.
        if self.actions == 0 || self.policy == ActionPolicy::Learned { self.few_enough(rows) } else { Ok(()) }
    }

    fn leaves_one_out(&self) -> bool {
        true
    }

    fn order(&self, data: &Observations) -> Result<Option<Vec<usize>>> {
        let blocks = self.policy == ActionPolicy::Learned;
        blocks.then(|| self.order.rows(data, self.actions)).transpose()
    }

    /// Actions that are learned with the loss of the projected data may project the data that are easiest to explain.
    fn warnings(&self, _rows: usize) -> Vec<Advice> {
        let learned = self.policy == ActionPolicy::Learned && self.objective == CagpObjective::Projected;
        let warning = learned.then(|| {
            let text = "learned actions with the loss of projected data learn to project the data that are easiest to \
                        explain, and error bars become far too narrow. Prefer the ELBO, or another policy";
            Advice::from(text).set("CagpOptions::objective", "elbo").about("CagpOptions::policy")
        });
        warning.into_iter().collect()
    }

    fn variance_prior(&self, likelihood: &dyn Likelihood) -> Option<params::Prior> {
        variance_of_classes(likelihood)
    }

    fn smaller(&self) -> Advice {
        Advice::from("choose fewer actions, or a variational model")
            .about("CagpOptions::actions")
            .about("Settings::model")
    }
}

#[cfg(feature = "command")]
mod command {
    use super::{
        ActionPolicy, CagpObjective, CagpOptions, Compression, Error, Newton, Result, RowOrder, SiteRule, Stopping,
    };
    use crate::models::command::{Given, Offered, SolveArguments};
    use crate::values::{self, MOST};

    /// Actions if nobody asks for another number.
    const MOST_BY_DEFAULT: usize = 512;

    /// Up to this many rows, actions chosen from scratch are worth their time, unless one for each row is learned.
    const FEW: usize = 2048;

    /// The arguments of computation-aware GPs.
    #[derive(Debug, Clone, clap::Args)]
    #[group(skip)]
    pub struct Arguments {
        /// Most actions of a computation-aware model: more actions take longer and are closer to the exact model
        /// [default: 512, but of learned ones and of Gaussian targets no more than rows]
        #[arg(long, value_name = "N", value_parser = values::count(1..=MOST))]
        actions: Option<usize>,
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
        /// Newton steps that are differentiated, with learned actions and likelihoods other than the Gaussian; 0 keeps
        /// gradient and curvature for --refresh steps. For Gaussian targets and another policy than learned, 1
        /// differentiates the whole solve, which then takes place in every step [default: 0]
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
                _ if unroll.is_some() && learned != newton => {
                    "--unroll is for --policy learned with other likelihoods than the Gaussian, and for other policies \
                     with the Gaussian"
                }
                false if unroll.is_some_and(|steps| steps > 1) => "--unroll: Gaussian targets need one solve; choose 1",
                _ if unrolled && sites == Some(SiteRule::Expectation) => "--unroll is for --sites mode",
                true if refresh.is_some() && !newton => {
                    "--refresh is for another --policy than learned: such actions change in every step"
                }
                _ if first.is_some() && !matches!(policy, ActionPolicy::Mixed | ActionPolicy::Preconditioned) => {
                    "--first is for --policy mixed and preconditioned"
                }
                true if tolerance.is_some() => {
                    "--tolerance is for another --policy than learned, which takes all actions"
                }
                false if row_order.is_some() => {
                    "--row-order is for --policy learned: others do not cut rows into blocks"
                }
                _ => {
                    return Ok(Self {
                        actions: actions.unwrap_or(most),
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
                    });
                }
            };
            Err(Error::Usage(problem.into()))
        }

        fn example() -> Option<&'static str> {
            Some("cagey fit large.csv --model cagp --actions 512 --optimizer adam --lr 0.1")
        }
    }
}
