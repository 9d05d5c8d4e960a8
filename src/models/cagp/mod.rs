//! Computation-aware GPs (Wenger et al. 2024): the posterior after a number of projections of the data. Its uncertainty
//! includes the error of the limited computation.
//!
//! With actions S `[n, i]`, M̂ = Sᵀ(K + σ²I)S and ṽ = M̂⁻¹Sᵀ(y − m): mean m + k*ᵀSṽ, variance k** − k*ᵀS M̂⁻¹ Sᵀk*. The
//! variance is never below the exact GP's, falls with every action and depends on the span of S only.
//!
//! For other likelihoods than the Gaussian, y and σ² are pseudo-targets and their noise: the *sites*, which Newton's
//! method finds. There are L latent functions, one below the other.
//!
//! | module | contents |
//! |---|---|
//! | `learned`, `iterative` | the two models: [learned actions](Cagp) (Algorithm S2); by [policy](ActionPolicy) (Algorithm S1) |
//! | `actions`, `numbers` | the actions as parameters, and on the host with their small system; as tensors, a `Basis` |
//! | `products` | K S, and SᵀKS |
//! | `evaluation` | what actions explain about pseudo-targets, and the losses |
//! | `newton` | sites, and Newton's method for given or new actions |
//! | `posterior` and its neighbours | predictions, growth, leaving rows out, files |

mod actions;
#[cfg(feature = "command")]
mod command;
mod enough;
mod evaluation;
mod grow;
mod iterative;
mod learned;
mod left_out;
mod model;
mod newton;
mod numbers;
mod options;
mod paths;
mod posterior;
mod products;
mod saved;

pub use actions::{Actions, Layout};
pub use grow::EXACT_ROWS;
pub use iterative::{Chosen, IterativeCagp};
pub use learned::Cagp;
pub use newton::{Compression, NewtonGraph, NewtonOptions, NewtonReport, Sites, Stopping};
pub use options::{ActionPolicy, CagpOptions, Newton};
pub use posterior::CagpPosterior;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::likelihoods::Likelihood;

/// What a computation-aware GP minimises. Both losses depend only on the span of the actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum CagpObjective {
    /// The negative evidence lower bound (eq. 11), which is never below the exact negative log marginal likelihood.
    Elbo,
    /// The negative log likelihood of the projected data (eq. 9).
    Projected,
}

impl CagpObjective {
    /// Refuses other losses than the bound where targets do not have Gaussian noise.
    fn check(self, likelihood: &dyn Likelihood) -> Result<()> {
        if self == Self::Elbo || likelihood.noise().is_some() {
            return Ok(());
        }
        let problem = format!("with the {} likelihood, actions need the ELBO", likelihood.text());
        Err(Error::Usage(problem).set("CagpOptions::objective", "elbo"))
    }
}

/// Where sites are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum SiteRule {
    /// At the latent mean: gradient and curvature of the log density there, as in Newton's method
    #[default]
    Mode,
    /// Over the latent distribution: the averages of both, which make the bound tighter
    Expectation,
}
