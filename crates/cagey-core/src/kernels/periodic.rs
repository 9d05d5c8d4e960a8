//! Periodic and cosine kernels, of single coordinates or of the distance.

use std::sync::Arc;

use burn::tensor::Tensor;
use cagey_base::kernels as base;

use super::form::{BuiltIn, Form, Lowered};
use super::graph;
use crate::params::{Parameter, Unit};

/// A kernel whose parameters all start at 1.
#[derive(Debug)]
struct Wave {
    name: &'static str,
    ard: &'static [&'static str],
    parameters: &'static [(&'static str, Unit)],
    form: base::Form,
}

impl Form for Wave {
    fn name(&self) -> &str {
        self.name
    }

    fn ard(&self) -> &[&str] {
        self.ard
    }

    fn parameters(&self, _d: usize) -> Vec<Parameter> {
        self.parameters.iter().map(|(name, unit)| Parameter::positive(name, *unit, &[1.0])).collect()
    }

    fn built_in(&self) -> Option<BuiltIn> {
        Some(BuiltIn::Form(self.form))
    }

    fn lower(&self, p: &[Tensor<1>], x: Tensor<2>) -> Option<Lowered> {
        Some(graph::lower(self.form, p, x))
    }
}

/// Parameters of a periodic kernel.
const PERIODIC: &[(&str, Unit)] =
    &[("period", Unit::Length), ("lengthscale", Unit::None), ("variance", Unit::Variance)];

/// variance · exp(−2 Σ_d sin²(π(x_d − z_d)/period_d)/lengthscale_d²); lengthscales are pure numbers.
///
/// With e(x) = (cos, sin)(2πx/period), ‖e(x) − e(z)‖² = 4 sin²(π(x − z)/period): an RBF kernel on a circle.
pub fn periodic() -> Arc<dyn Form> {
    Arc::new(Wave {
        name: "periodic",
        ard: &["lengthscale", "period"],
        parameters: PERIODIC,
        form: base::Form::Periodic,
    })
}

/// variance · exp(−2 sin²(π‖x − z‖/period)/lengthscale²).
pub fn periodic_norm() -> Arc<dyn Form> {
    Arc::new(Wave { name: "periodic_norm", ard: &[], parameters: PERIODIC, form: base::Form::PeriodicNorm })
}

/// variance · cos(π‖x − z‖/period). Positive semi-definite in one dimension only.
pub fn cosine_norm() -> Arc<dyn Form> {
    Arc::new(Wave {
        name: "cosine_norm",
        ard: &[],
        parameters: &[("period", Unit::Length), ("variance", Unit::Variance)],
        form: base::Form::CosineNorm,
    })
}

/// variance · cos(2π Σ_d (x_d − z_d)/lengthscale_d): an inner product on the circle.
pub fn cosine_sum() -> Arc<dyn Form> {
    Arc::new(Wave {
        name: "cosine_sum",
        ard: &["lengthscale"],
        parameters: &[("lengthscale", Unit::Length), ("variance", Unit::Variance)],
        form: base::Form::CosineSum,
    })
}

/// Σ_q weight_q exp(−2π² Σ_d (bandwidth_qd τ_d)²) cos(2π Σ_d frequency_qd τ_d), τ = x − z: the Fourier dual of a
/// mixture of Gaussians (Wilson and Adams, 2013). `frequency` and `bandwidth` hold one component after another, with d
/// entries each.
#[derive(Debug)]
pub struct SpectralMixture {
    components: usize,
}

/// The spectral mixture kernel with this number of components.
pub fn spectral_mixture(components: usize) -> Arc<dyn Form> {
    Arc::new(SpectralMixture { components })
}

impl Form for SpectralMixture {
    fn name(&self) -> &str {
        "spectral_mixture"
    }

    fn ard(&self) -> &[&str] {
        &[]
    }

    fn options(&self) -> Vec<(&str, usize)> {
        vec![("components", self.components)]
    }

    fn with_option(&self, name: &str, value: usize) -> Option<Arc<dyn Form>> {
        (name == "components" && (1..=100).contains(&value)).then(|| spectral_mixture(value))
    }

    fn parameters(&self, d: usize) -> Vec<Parameter> {
        let q = self.components;
        let frequencies: Vec<f64> = (0..q * d).map(|i| 0.5 * ((i / d) as f64 + 1.0) / q as f64).collect();
        vec![
            Parameter::positive("frequency", Unit::Frequency, &frequencies),
            Parameter::positive("bandwidth", Unit::Frequency, &vec![0.2; q * d]),
            Parameter::positive("variance", Unit::Variance, &vec![1.0 / q as f64; q]),
        ]
    }

    fn built_in(&self) -> Option<BuiltIn> {
        Some(BuiltIn::Form(base::Form::SpectralMixture(self.components)))
    }

    fn lower(&self, p: &[Tensor<1>], x: Tensor<2>) -> Option<Lowered> {
        Some(graph::lower(base::Form::SpectralMixture(self.components), p, x))
    }
}
