//! The options of computation-aware GPs.

use serde::{Deserialize, Serialize};

use super::enough;
use super::{Actions, Cagp, CagpObjective, Compression, IterativeCagp, NewtonOptions, SiteRule, Stopping};
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
    /// Newton steps of these likelihoods that gradients go through; 0 holds the sites and a policy's actions. For
    /// Gaussian targets and a policy, 1 lets gradients go through the whole solve.
    pub unrolled: usize,
    /// How Newton's method of a policy goes.
    pub newton: Newton,
    /// After training, further actions until what was not computed adds at most this share to the variance of a
    /// prediction.
    pub share: Option<f64>,
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
            share: None,
        }
    }
}

impl CagpOptions {
    /// Refuses no actions, or more than rows.
    fn few_enough(&self, rows: usize) -> Result<()> {
        let actions = self.actions;
        if (1..=rows).contains(&actions) {
            return Ok(());
        }
        let problem = format!("{actions} actions for {rows} rows: choose from 1 to {rows}");
        Err(Error::Usage(problem).about("CagpOptions::actions"))
    }

    /// Refuses what Newton's steps as a graph do not follow.
    fn check_unrolled(&self) -> Result<()> {
        use ActionPolicy::{ClassGradients, Lanczos, Learned, Mixed, Preconditioned};
        let Newton { steps, kept, stopping, .. } = self.newton;
        let problem = match self.policy {
            Learned => return Ok(()),
            ClassGradients | Preconditioned | Lanczos | Mixed => {
                "Newton's steps are differentiated with actions by gradients, residuals or rows, or learned"
            }
            _ if self.sites == SiteRule::Expectation => "Newton's steps are differentiated for sites at the mode",
            _ if steps.is_some() || kept.is_some() || stopping == Stopping::Change => {
                "Newton's steps that are differentiated are so many, keep all actions and end when they settle"
            }
            _ => return Ok(()),
        };
        Err(Error::Usage(problem.into()).about("CagpOptions::unrolled"))
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
    share: Option<f64>,
});

impl Kind for CagpOptions {
    const NAME: &'static str = "cagp";
    const ANY_LIKELIHOOD: bool = true;
}

impl ModelOptions for CagpOptions {
    fn build(&self, Parts { prior, likelihood }: Parts, context: &Context) -> Result<Box<dyn GpModel>> {
        let Self { actions, policy, objective, refresh, sites, unrolled, share, .. } = *self;
        let (n, known) = (context.data.n(), likelihood.noise().is_some());
        self.check(n)?;
        objective.check(&*likelihood)?;
        // A file may have got more rows since.
        if share.is_some() && context.saved.is_none() {
            enough::check(&*likelihood, n)?;
        }
        if unrolled > 0 && !known && context.saved.is_none() {
            self.check_unrolled()?;
        }
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
            return Ok(Box::new(Cagp { objective, sites, unrolled, refresh, share, ..model }));
        };
        let relative = match known {
            false => NEWTON,
            // The policies that follow the residual ask for orthogonal actions.
            true if chosen.orthogonal() => IterGpOptions::default().relative,
            true => 0.0,
        };
        let relative = self.tolerance.unwrap_or(relative);
        let options = IterGpOptions { relative, ..IterGpOptions::budget(actions) };
        let model = IterativeCagp::boxed(prior, likelihood, chosen, options);
        let explain =
            matches!(policy, ActionPolicy::Gradient | ActionPolicy::ClassGradients | ActionPolicy::Preconditioned);
        let newton = self.newton.options(NewtonOptions { explain, ..model.newton });
        Ok(Box::new(IterativeCagp { objective, sites, refresh, newton, unrolled, share, ..model }))
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
        let blocks = self.policy == ActionPolicy::Learned || self.share.is_some();
        blocks.then(|| self.order.rows(data, self.actions.min(data.n()))).transpose()
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
