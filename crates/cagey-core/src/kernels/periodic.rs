//! Periodic and cosine kernels, of single coordinates or of the distance.

use std::sync::Arc;

use cagey_base::kernels as base;

use super::featured::Featured;
use super::form::Form;
use crate::params::Unit;

/// Parameters of a periodic kernel.
const PERIODIC: &[(&str, Unit)] =
    &[("period", Unit::Length), ("lengthscale", Unit::None), ("variance", Unit::Variance)];

/// variance · exp(−2 Σ_d sin²(π(x_d − z_d)/period_d)/lengthscale_d²); lengthscales are pure numbers.
///
/// With e(x) = (cos, sin)(2πx/period), ‖e(x) − e(z)‖² = 4 sin²(π(x − z)/period): an RBF kernel on a circle.
pub fn periodic() -> Arc<dyn Form> {
    Arc::new(Featured {
        name: "periodic",
        ard: &["lengthscale", "period"],
        parameters: PERIODIC,
        form: base::Form::Periodic,
    })
}

/// variance · exp(−2 sin²(π‖x − z‖/period)/lengthscale²).
pub fn periodic_norm() -> Arc<dyn Form> {
    Arc::new(Featured { name: "periodic_norm", ard: &[], parameters: PERIODIC, form: base::Form::PeriodicNorm })
}

/// variance · cos(π‖x − z‖/period). Positive semi-definite in one dimension only.
pub fn cosine_norm() -> Arc<dyn Form> {
    Arc::new(Featured {
        name: "cosine_norm",
        ard: &[],
        parameters: &[("period", Unit::Length), ("variance", Unit::Variance)],
        form: base::Form::CosineNorm,
    })
}

/// variance · cos(2π Σ_d (x_d − z_d)/lengthscale_d): an inner product on the circle.
pub fn cosine_sum() -> Arc<dyn Form> {
    Arc::new(Featured {
        name: "cosine_sum",
        ard: &["lengthscale"],
        parameters: &[("lengthscale", Unit::Length), ("variance", Unit::Variance)],
        form: base::Form::CosineSum,
    })
}

/// Σ_q weight_q exp(−2π² Σ_d (bandwidth_qd τ_d)²) cos(2π Σ_d frequency_qd τ_d), τ = x − z, with this number of
/// components: the Fourier dual of a mixture of Gaussians (Wilson and Adams, 2013). `frequency` and `bandwidth` hold
/// one component after another, with d entries each.
pub fn spectral_mixture(components: usize) -> Arc<dyn Form> {
    Arc::new(Featured {
        name: "spectral_mixture",
        ard: &[],
        parameters: &[("frequency", Unit::Frequency), ("bandwidth", Unit::Frequency), ("variance", Unit::Variance)],
        form: base::Form::SpectralMixture(components),
    })
}
