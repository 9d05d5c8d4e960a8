//! Stationary kernels of the scaled distance r² = Σ_d ((x_d − z_d)/ℓ_d)².

use std::sync::Arc;

use cagey_base::kernels as base;

use super::featured::Featured;
use super::form::Form;
use super::profile::Profile;
use crate::params::Unit;

/// A kernel with lengthscale and variance.
fn stationary(name: &'static str, profile: Profile) -> Arc<dyn Form> {
    Arc::new(Featured {
        name,
        ard: &["lengthscale"],
        parameters: &[("lengthscale", Unit::Length), ("variance", Unit::Variance)],
        form: base::Form::Stationary(profile),
    })
}

/// variance · exp(−r²/2).
pub fn rbf() -> Arc<dyn Form> {
    stationary("rbf", Profile::Rbf)
}

/// Matérn 1/2: variance · exp(−r).
pub fn matern12() -> Arc<dyn Form> {
    stationary("matern12", Profile::Matern12)
}

/// Matérn 3/2: variance · (1 + √3 r) exp(−√3 r).
pub fn matern32() -> Arc<dyn Form> {
    stationary("matern32", Profile::Matern32)
}

/// Matérn 5/2: variance · (1 + √5 r + 5r²/3) exp(−√5 r).
pub fn matern52() -> Arc<dyn Form> {
    stationary("matern52", Profile::Matern52)
}

/// The rational quadratic: variance · (1 + r²/(2 alpha))^(−alpha).
pub fn rational_quadratic() -> Arc<dyn Form> {
    Arc::new(Featured {
        name: "rq",
        ard: &["lengthscale"],
        parameters: &[("lengthscale", Unit::Length), ("alpha", Unit::None), ("variance", Unit::Variance)],
        form: base::Form::RationalQuadratic,
    })
}
