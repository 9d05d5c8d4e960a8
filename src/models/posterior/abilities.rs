//! What only some posteriors can do.

use super::{Marginals, Posterior, Uncertainty};
use crate::advice::Advice;
use crate::error::Result;

/// A posterior whose uncertainty includes the error of a limited computation.
pub trait ComputationAware {
    /// Means and variances at rows `x` (row-major). If the exact part is affordable, the variances are split into what
    /// the data leave open and what the computation adds.
    ///
    /// # Errors
    /// As [`predict`](Posterior::predict).
    fn uncertainty(&self, x: &[f64]) -> Result<Uncertainty>;

    /// In words, how many actions were added after training and what they leave open, with a warning if that is too
    /// much; none if their number was given.
    fn added(&self) -> Option<(String, Option<Advice>)> {
        None
    }

    /// The posterior after at most `actions` more actions. The solve is conjugate gradients, which choose them from the
    /// current residual.
    ///
    /// # Errors
    /// What the solve reports.
    fn refined(&self, actions: usize) -> Result<Box<dyn Posterior>>;
}

/// A posterior that combines many posteriors; each prediction may choose the rule that combines them.
pub trait Aggregates {
    /// The names of the rules.
    fn rules(&self) -> Vec<&'static str>;

    /// The rule that it predicts with.
    fn rule(&self) -> &'static str;

    /// The same posterior with another rule. Nothing is computed again.
    ///
    /// # Errors
    /// [`Usage`](crate::Error::Usage) for an unknown name, with the nearest rule suggested.
    fn by(&self, rule: &str) -> Result<Box<dyn Posterior>>;

    /// What predictions of so many rows cost, if the user should know before they start.
    fn cost(&self, rows: usize) -> Option<String>;

    /// Why predictions with this rule may be wrong.
    fn warnings(&self) -> Vec<String>;

    /// What this rule has clipped, floored or replaced in its predictions so far.
    fn notes(&self) -> Vec<String>;
}

/// What only exact posteriors can tell.
pub trait Exact {
    /// The posterior of one summand of an additive kernel at rows `x`: the part of f that this component explains,
    /// without the prior mean. `index` counts in [`Kernel::summands`](crate::kernels::Kernel::summands).
    ///
    /// # Errors
    /// [`Usage`](crate::Error::Usage) when there is no such summand.
    fn predict_component(&self, index: usize, x: &[f64]) -> Result<Marginals>;
}
