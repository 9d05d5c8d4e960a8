//! What to fit.

use serde::{Deserialize, Serialize};

use crate::data::TargetTransform;
use crate::device::Compute;
use crate::models::cagp::CagpObjective;
use crate::models::exact::ExactObjective;
use crate::models::minibatch::Minibatches;
use crate::models::ordering::RowOrder;
use crate::models::svgp::Covariance;
use crate::params::Prior;

/// What to fit: the model and what is known of its parameters, all numbers in the units of the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Kernel text; see [`kernels::text`](mod@crate::kernels::text).
    pub kernel: String,
    /// `zero`, `constant` or `linear`.
    pub mean: String,
    /// Likelihood text; see [`likelihoods::text`](crate::likelihoods::text).
    pub likelihood: String,
    /// The model and its approximation.
    pub model: ModelChoice,
    /// Whether inputs and target are standardised for the computation.
    pub standardize: bool,
    /// The function of the target that is modelled.
    pub target_transform: TargetTransform,
    /// Column of known standard deviations of the target per row, of exposures or of numbers of trials: what the likelihood's
    /// [auxiliary column](crate::likelihoods::Likelihood::auxiliary) is.
    pub row_column: Option<String>,
    /// Initial values by parameter name.
    pub init: Vec<(String, Vec<f64>)>,
    /// Parameters to keep at their initial values.
    pub fix: Vec<String>,
    /// Priors by parameter name.
    pub priors: Vec<(String, Prior)>,
    /// Bounds by parameter name.
    pub bounds: Vec<(String, f64, f64)>,
    /// Device and precision.
    pub compute: Compute,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kernel: "matern32(ard)".into(),
            mean: "zero".into(),
            likelihood: "gaussian".into(),
            model: ModelChoice::default(),
            standardize: true,
            target_transform: TargetTransform::Identity,
            row_column: None,
            init: Vec::new(),
            fix: Vec::new(),
            priors: Vec::new(),
            bounds: Vec::new(),
            compute: Compute::default(),
        }
    }
}

/// A model with the options of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ModelChoice {
    /// Without approximation: n³ time, n² memory.
    Exact {
        /// What to minimise.
        objective: ExactObjective,
    },
    /// Computation-aware: n² time, and variances that include what was not computed.
    Cagp {
        /// Most actions.
        actions: usize,
        /// How they are chosen.
        policy: ActionPolicy,
        /// What to minimise.
        objective: CagpObjective,
        /// The order of rows that blocks of learned actions are cut from.
        order: RowOrder,
        /// Steps of the optimiser, at least 1, from one choice of actions by a policy to the next.
        #[serde(default = "every_step")]
        refresh: usize,
        /// Largest ‖y − K̂v‖ / ‖y‖ at which a solve by a policy ends before all actions are taken; none is 1e-4 for conjugate gradients and
        /// Lanczos, whose next actions come from the residual, and 0 for others.
        #[serde(default)]
        tolerance: Option<f64>,
    },
    /// Sparse, with the collapsed bound: n m² time.
    Sgpr {
        /// Inducing inputs m.
        inducing: usize,
    },
    /// Sparse and variational, on minibatches and for any likelihood: m³ + b m² time a step.
    Svgp {
        /// Inducing inputs m.
        inducing: usize,
        /// Of the distribution of inducing values.
        covariance: Covariance,
        /// How the data are taken in.
        batches: Minibatches,
    },
    /// Sparse within sparse: every row sees its nearest inducing inputs only, b H³ time a step.
    Swsgp {
        /// Inducing inputs M.
        inducing: usize,
        /// Neighbours H of a row.
        neighbours: usize,
        /// Weight of the divergence in the objective, more than 0.
        #[serde(default = "as_published")]
        divergence: f64,
        /// Whether all rows of a minibatch see the neighbours of each of them (SWSGP-U).
        #[serde(default)]
        union: bool,
        /// Of the distribution of inducing values.
        covariance: Covariance,
        /// How the data are taken in.
        batches: Minibatches,
    },
}

/// How often actions are chosen anew in files that do not say it.
fn every_step() -> usize {
    1
}

/// The weight of the divergence in the paper, which files that do not name one were trained with.
fn as_published() -> f64 {
    1.0
}

impl ModelChoice {
    /// The names of all models, as a file has them.
    pub const KINDS: [&str; 5] = ["exact", "cagp", "sgpr", "svgp", "swsgp"];

    /// How minibatches are made, for models that take them.
    pub fn minibatches(&self) -> Option<&Minibatches> {
        match self {
            Self::Svgp { batches, .. } | Self::Swsgp { batches, .. } => Some(batches),
            Self::Exact { .. } | Self::Cagp { .. } | Self::Sgpr { .. } => None,
        }
    }

    /// Rows that a training step sees of `n`.
    pub(super) fn batch(&self, n: usize) -> usize {
        self.minibatches().map_or(n, |batches| batches.size.min(n))
    }

    /// The name of this one.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Exact { .. } => Self::KINDS[0],
            Self::Cagp { .. } => Self::KINDS[1],
            Self::Sgpr { .. } => Self::KINDS[2],
            Self::Svgp { .. } => Self::KINDS[3],
            Self::Swsgp { .. } => Self::KINDS[4],
        }
    }
}

impl Default for ModelChoice {
    fn default() -> Self {
        Self::Exact { objective: ExactObjective::MarginalLikelihood }
    }
}

/// How a computation-aware model chooses its actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionPolicy {
    /// Block-sparse and learned with the hyperparameters (CaGP-Opt).
    Learned,
    /// Residuals (CaGP-CG).
    Cg,
    /// Rows by pivoted Cholesky (CaGP-Chol).
    Cholesky,
    /// Lanczos vectors from the targets.
    Lanczos,
    /// Eigenvectors with the largest eigenvalues.
    Eigenvector,
    /// Gaussian random vectors.
    Random,
}
