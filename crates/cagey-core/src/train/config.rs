//! The settings of a training.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Adam, CheckpointPlan, Cooling, Descent, EarlyStopping, Lbfgs, Restarts};
use crate::{Error, Result};

/// The optimiser and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Optimizer {
    /// Adam, for stochastic objectives and objectives with very many parameters.
    Adam(Adam),
    /// L-BFGS, for everything else.
    Lbfgs(Lbfgs),
    /// Gradient descent, the usual choice in the literature for the local steps of clients.
    Descent(Descent),
}

impl Optimizer {
    /// The name, as in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Adam(_) => "Adam",
            Self::Lbfgs(_) => "L-BFGS",
            Self::Descent(_) => "gradient descent",
        }
    }
}

impl Default for Optimizer {
    fn default() -> Self {
        Self::Lbfgs(Lbfgs::default())
    }
}

/// How to train. The default is 200 steps of L-BFGS from the given point.
///
/// ```
/// use cagey::train::{Adam, Optimizer, Restarts, Schedule, TrainConfig};
///
/// let schedule = Schedule::Linear { final_fraction: 0.1 };
/// let adam = Adam { rate: 0.1, schedule, ..Adam::default() };
/// let config = TrainConfig::new(Optimizer::Adam(adam), 500).restarts(Restarts::new(3, 0.5)).loss_scale(1000.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrainConfig {
    /// The optimiser.
    pub optimizer: Optimizer,
    /// Most steps of one run.
    pub steps: usize,
    /// Wall-clock budget of one call of [`minimise`](super::minimise), checked before every evaluation. A resumed
    /// training gets the full budget again.
    pub max_time: Option<Duration>,
    /// The initial points.
    pub restarts: Restarts,
    /// Determines the minibatches and the perturbed initial points.
    pub seed: u64,
    /// Whether to stop when the loss no longer improves.
    pub early_stopping: Option<EarlyStopping>,
    /// How the learning rate falls at the end, besides the optimiser's own schedule.
    pub cooling: Option<Cooling>,
    /// Where and how often to save the state.
    pub checkpoint: Option<CheckpointPlan>,
    /// A checkpoint to continue from. `steps` may be larger, and the time budget, the rule of early stopping and the
    /// cooling may change; all other settings must be the same. Runs that ended for another reason stay ended. Rates
    /// that decrease with the steps decrease according to the new number of steps.
    pub resume: Option<PathBuf>,
    /// Identifies what must be the same on resuming: model, data and their options. If it is a JSON object, an error
    /// names the entries that differ.
    pub fingerprint: String,
    /// What came before the first step, such as a race of starts. It is saved with the state.
    pub prelude: Value,
    /// What losses and gradients are divided by before optimisers and observers see them, such as the number of data.
    pub loss_scale: f64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            optimizer: Optimizer::default(),
            steps: 200,
            max_time: None,
            restarts: Restarts::default(),
            seed: 0,
            early_stopping: None,
            cooling: None,
            checkpoint: None,
            resume: None,
            fingerprint: String::new(),
            prelude: Value::Null,
            loss_scale: 1.0,
        }
    }
}

crate::setters!(TrainConfig {
    max_time: Duration,
    restarts: Restarts,
    seed: u64,
    early_stopping: EarlyStopping,
    cooling: Cooling,
    checkpoint: CheckpointPlan,
    fingerprint: impl Into<String>,
    loss_scale: f64,
});

impl TrainConfig {
    /// `steps` steps of `optimizer`, and defaults for everything else.
    pub fn new(optimizer: Optimizer, steps: usize) -> Self {
        Self { optimizer, steps, ..Self::default() }
    }

    /// Steps of L-BFGS as long as fifty of them lower the loss by a ten thousandth, but 1,000 at most.
    pub fn while_it_pays() -> Self {
        let rule = EarlyStopping { patience: 50, improvement: 1e-4 };
        Self::new(Optimizer::default(), 1000).early_stopping(rule)
    }

    /// The same with this [`resume`](Self#structfield.resume).
    pub fn resume(mut self, path: impl Into<PathBuf>) -> Self {
        self.resume = Some(path.into());
        self
    }

    /// Checks every number.
    ///
    /// # Errors
    /// [`Error::Usage`] naming the setting without a valid value.
    pub fn validate(&self) -> Result<()> {
        if !(self.loss_scale.is_finite() && self.loss_scale > 0.0) {
            return Err(Error::Usage(format!("the loss scale {} must be positive", self.loss_scale)));
        }
        if let Some(EarlyStopping { patience, improvement }) = self.early_stopping
            && (patience == 0 || !improvement.is_finite() || improvement < 0.0)
        {
            return Err(Error::Usage(format!(
                "early stopping needs a patience of at least 1 and an improvement of at least 0, not {patience} and \
                 {improvement}"
            )));
        }
        self.restarts.validate()?;
        match &self.optimizer {
            Optimizer::Adam(adam) => adam.validate(),
            Optimizer::Lbfgs(lbfgs) => lbfgs.validate(),
            Optimizer::Descent(descent) => descent.validate(),
        }
    }

    /// The settings that determine the numbers of a step, as text. A checkpoint resumes only with the same settings.
    pub(crate) fn signature(&self) -> String {
        let Self { optimizer, restarts, seed, loss_scale, .. } = self;
        serde_json::json!({ "optimizer": optimizer, "restarts": restarts, "seed": seed, "loss_scale": loss_scale })
            .to_string()
    }
}
