//! The units of parameter values.

use serde::{Deserialize, Serialize};

/// The source of an entry's unit. It decides how user values follow the scaling of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Unit {
    /// A pure number.
    None,
    /// A length along the inputs (lengthscale, period).
    Length,
    /// An inverse length (a frequency).
    Frequency,
    /// The square of the target's unit (variances).
    Variance,
    /// Target variance per squared input length (linear kernel).
    VariancePerLengthSquared,
    /// The target's own unit, shifted by its mean (constant mean).
    Level,
    /// Target per input length (slope of a linear mean).
    Slope,
}
