//! How members of many parts, such as experts, are trained together.
//!
//! - **FACT**: steps of the ordinary optimiser on Σ L_i(θ).
//! - **FedAvg** (McMahan et al. 2017): clients take E local steps from z, then z ← Σ n_i θ_i / Σ n_i. For E = 1 it ends
//!   at the optimum of the sum, for larger E near it.
//! - **FedProx** (Li et al. 2020): the same with μ/2 ‖θ − z‖² at each client.
//! - **ADMM** (Boyd et al. 2011): θ_i = argmin L_i + ψ_iᵀ(θ − z) + ρ/2 ‖θ − z‖², ψ_i ← ψ_i + ρ(θ_i − z), z ← mean(θ_i +
//!   ψ_i/ρ). It ends at the optimum of the sum.
//! - **pxADMM** (Xie et al. 2019): the same with θ_i = z − (∇L_i(z) + ψ_i)/(ρ + ℓ), one gradient per round.
//!
//! L_i is the objective of expert i, a sum over its rows. It includes the share n_i/n of the parameters' negative log
//! priors, so that these count once in total. θ are the raw, unconstrained values. Local steps of Adam and of gradient
//! descent minimise L_i/n_i. So their learning rate does not depend on the number of rows, and FedAvg with one step of
//! descent is a step of descent on the mean loss per row. A client's Adam keeps its moments from round to round; L-BFGS
//! starts anew in each round.
//!
//! For the trainer a round is one evaluation of an ordinary objective whose gradient leads to the next z. Observers,
//! checkpoints, time limits and early stopping work as in every training.

pub(crate) mod client;
mod rounds;

pub use rounds::Rounds;
pub(super) use rounds::train;
use serde::{Deserialize, Serialize};

use super::Experts;
use crate::error::{Error, Result};
use crate::train::{self, Optimizer, TrainConfig};

/// The algorithm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Algorithm {
    /// The sum of the experts' objectives, by the ordinary optimiser
    #[default]
    Fact,
    /// Federated averaging: local steps of each expert, then the mean of their parameters
    Fedavg,
    /// Federated averaging with a term that keeps local steps near
    Fedprox,
    /// Consensus by alternating directions: each expert finds its own minimum, then the mean
    Admm,
    /// The same with one gradient for each expert and round
    Pxadmm,
}

/// An algorithm and its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Federation {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The largest number E of local steps in a round. If none, 5 for FedAvg and FedProx, 20 for ADMM.
    pub local_steps: Option<usize>,
    /// The share of the experts that take part in a round of FedAvg and FedProx. The seed decides which ones.
    pub share: f64,
    /// μ of FedProx.
    pub proximal: f64,
    /// ρ of ADMM and pxADMM. If none, the mean number of rows of an expert, because objectives are proportional to it.
    pub penalty: Option<f64>,
    /// ℓ of pxADMM, a bound on the curvature of an expert's objective. If none, the same mean number of rows.
    pub curvature: Option<f64>,
}

impl Default for Federation {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::default(),
            local_steps: None,
            share: 1.0,
            proximal: 0.01,
            penalty: None,
            curvature: None,
        }
    }
}

impl Federation {
    /// E.
    pub(super) fn steps(&self) -> usize {
        self.local_steps.unwrap_or(if self.algorithm == Algorithm::Admm { 20 } else { 5 })
    }

    /// The usual training configuration.
    pub fn training(&self) -> TrainConfig {
        match self.algorithm {
            Algorithm::Fact => TrainConfig::while_it_pays(),
            Algorithm::Fedavg | Algorithm::Fedprox => {
                TrainConfig::new(Optimizer::Adam(train::Adam { rate: 0.05, ..train::Adam::default() }), 200)
            }
            Algorithm::Admm => TrainConfig::new(Optimizer::default(), 100),
            Algorithm::Pxadmm => TrainConfig::new(Optimizer::default(), 500),
        }
    }

    /// Refuses settings without a meaning.
    ///
    /// # Errors
    /// [`Error::Usage`] about the field.
    pub fn check(&self) -> Result<()> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let wrong = |problem: String, field| Err(Error::Usage(problem).about(field));
        match self {
            Self { local_steps: Some(0), .. } => {
                wrong("0 local steps: there must be at least one".into(), "Federation::local_steps")
            }
            Self { share, .. } if !(positive(*share) && *share <= 1.0) => {
                let problem = format!("{share} of the clients: the share must be above 0 and at most 1");
                wrong(problem, "Federation::share")
            }
            Self { proximal, .. } if !(proximal.is_finite() && *proximal >= 0.0) => {
                wrong(format!("proximal weight {proximal}: it must not be negative"), "Federation::proximal")
            }
            Self { penalty: Some(penalty), .. } if !positive(*penalty) => {
                wrong(format!("penalty {penalty}: it must be positive"), "Federation::penalty")
            }
            Self { curvature: Some(curvature), .. } if !positive(*curvature) => {
                wrong(format!("curvature {curvature}: it must be positive"), "Federation::curvature")
            }
            _ => Ok(()),
        }
    }
}
