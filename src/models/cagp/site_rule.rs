//! Where a likelihood other than the Gaussian is replaced by pseudo-targets.

use serde::{Deserialize, Serialize};

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
