//! Learning-rate schedules: the factor on the learning rate as a function of the step.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How the learning rate changes over the training. With `t = min(k / steps, 1)` for update `k = 0, 1, …`:
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Schedule {
    /// `1`.
    #[default]
    Constant,
    /// `1 + (f − 1) t`, from 1 down to the final fraction `f`.
    Linear {
        /// The factor at the last step, in `[0, 1]`.
        final_fraction: f64,
    },
    /// `f^t`.
    Exponential {
        /// The factor at the last step, in `(0, 1]`.
        final_fraction: f64,
    },
    /// `f + (1 − f) (1 + cos πt) / 2` (Loshchilov and Hutter 2017, without restarts).
    Cosine {
        /// The factor at the last step, in `[0, 1]`.
        final_fraction: f64,
    },
    /// `(k + 1) / w` for the first `w` updates, then another schedule over the remaining ones.
    WarmUp {
        /// Number of updates `w` over which the rate grows.
        steps: usize,
        /// The schedule that follows.
        then: Box<Schedule>,
    },
}

impl Schedule {
    /// The factor on the learning rate at update `k` (from 0) of `steps`.
    pub fn factor(&self, k: usize, steps: usize) -> f64 {
        let t = if steps == 0 { 1.0 } else { (k as f64 / steps as f64).min(1.0) };
        match self {
            Self::Constant => 1.0,
            Self::Linear { final_fraction: f } => 1.0 + (f - 1.0) * t,
            Self::Exponential { final_fraction: f } => f.powf(t),
            Self::Cosine { final_fraction: f } => f + (1.0 - f) * 0.5 * (1.0 + (PI * t).cos()),
            Self::WarmUp { steps: w, .. } if k < *w => (k + 1) as f64 / *w as f64,
            Self::WarmUp { steps: w, then } => then.factor(k - w, steps.saturating_sub(*w)),
        }
    }

    /// Checks the fractions.
    ///
    /// # Errors
    /// [`Error::Usage`] naming the fraction that is out of range.
    pub(crate) fn validate(&self) -> Result<()> {
        match self {
            Self::Constant => Ok(()),
            Self::WarmUp { then, .. } => then.validate(),
            Self::Linear { final_fraction: f } | Self::Cosine { final_fraction: f } if (0.0..=1.0).contains(f) => {
                Ok(())
            }
            Self::Exponential { final_fraction: f } if *f > 0.0 && *f <= 1.0 => Ok(()),
            Self::Linear { final_fraction: f }
            | Self::Cosine { final_fraction: f }
            | Self::Exponential { final_fraction: f } => Err(Error::Usage(format!(
                "the final fraction {f} of the learning-rate schedule must lie between 0 and 1 (above 0 for an \
                 exponential one)"
            ))),
        }
    }
}
