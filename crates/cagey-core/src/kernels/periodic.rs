//! Periodic and cosine kernels, of single coordinates or of the distance.

use std::f64::consts::PI;
use std::sync::Arc;

use burn::tensor::Tensor;

use super::form::{Form, Lowered, Metric, Term};
use super::profile::Profile;
use crate::params::{Parameter, Unit};

fn circle(angles: Tensor<2>) -> [Tensor<2>; 2] {
    [angles.clone().cos(), angles.sin()]
}

/// A kernel whose parameters all start at 1.
#[derive(Debug)]
struct Wave {
    name: &'static str,
    ard: &'static [&'static str],
    parameters: &'static [(&'static str, Unit)],
    lower: fn(&[Tensor<1>], Tensor<2>) -> Lowered,
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

    fn lower(&self, p: &[Tensor<1>], x: Tensor<2>) -> Option<Lowered> {
        Some((self.lower)(p, x))
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
        lower: |p, x| {
            let lengthscale = p[1].clone().unsqueeze::<2>();
            let features = circle(x * (2.0 * PI) / p[0].clone().unsqueeze::<2>()).map(|e| e / lengthscale.clone());
            let features = Tensor::cat(features.to_vec(), 1);
            Lowered::term(Metric::SquaredDistance, Profile::Rbf, features, Some(p[2].clone()))
        },
    })
}

/// variance · exp(−2 sin²(π‖x − z‖/period)/lengthscale²).
pub fn periodic_norm() -> Arc<dyn Form> {
    Arc::new(Wave {
        name: "periodic_norm",
        ard: &[],
        parameters: PERIODIC,
        lower: |p, x| {
            Lowered::Term(Box::new(Term {
                metric: Metric::SquaredDistance,
                profile: Profile::PeriodicNorm,
                features: x / p[0].clone().unsqueeze::<2>(),
                shape: Some(p[1].clone()),
                variance: Some(p[2].clone()),
            }))
        },
    })
}

/// variance · cos(π‖x − z‖/period). Positive semi-definite in one dimension only.
pub fn cosine_norm() -> Arc<dyn Form> {
    Arc::new(Wave {
        name: "cosine_norm",
        ard: &[],
        parameters: &[("period", Unit::Length), ("variance", Unit::Variance)],
        lower: |p, x| {
            let features = x / p[0].clone().unsqueeze::<2>();
            Lowered::term(Metric::SquaredDistance, Profile::CosineNorm, features, Some(p[1].clone()))
        },
    })
}

/// variance · cos(2π Σ_d (x_d − z_d)/lengthscale_d): an inner product on the circle.
pub fn cosine_sum() -> Arc<dyn Form> {
    Arc::new(Wave {
        name: "cosine_sum",
        ard: &["lengthscale"],
        parameters: &[("lengthscale", Unit::Length), ("variance", Unit::Variance)],
        lower: |p, x| {
            let angles = (x * (2.0 * PI) / p[0].clone().unsqueeze::<2>()).sum_dim(1);
            let features = Tensor::cat(circle(angles).to_vec(), 1);
            Lowered::term(Metric::InnerProduct, Profile::Identity, features, Some(p[1].clone()))
        },
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

    fn lower(&self, p: &[Tensor<1>], x: Tensor<2>) -> Option<Lowered> {
        let d = x.dims()[1];
        let component = |q: usize| {
            let entries = |p: &Tensor<1>| p.clone().narrow(0, q * d, d).unsqueeze::<2>();
            let envelope = x.clone() * entries(&p[1]) * (2.0 * PI);
            let angles = (x.clone() * entries(&p[0]) * (2.0 * PI)).sum_dim(1);
            let weight = p[2].clone().narrow(0, q, 1);
            Lowered::Product(vec![
                Lowered::term(Metric::SquaredDistance, Profile::Rbf, envelope, Some(weight)),
                Lowered::term(Metric::InnerProduct, Profile::Identity, Tensor::cat(circle(angles).to_vec(), 1), None),
            ])
        };
        Some(Lowered::Sum((0..self.components).map(component).collect()))
    }
}
