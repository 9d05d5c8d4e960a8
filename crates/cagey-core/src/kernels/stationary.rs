//! Stationary kernels of the scaled distance r² = Σ_d ((x_d − z_d)/ℓ_d)².

use std::sync::Arc;

use burn::tensor::Tensor;
use cagey_base::kernels as base;

use super::form::{BuiltIn, Form, Lowered};
use super::graph;
use super::profile::Profile;
use crate::params::{Parameter, Unit};

/// A stationary kernel with lengthscale and variance: RBF and the Matérn family.
#[derive(Debug)]
pub struct Stationary {
    name: &'static str,
    profile: Profile,
}

/// variance · exp(−r²/2).
pub fn rbf() -> Arc<dyn Form> {
    Arc::new(Stationary { name: "rbf", profile: Profile::Rbf })
}

/// Matérn 1/2: variance · exp(−r).
pub fn matern12() -> Arc<dyn Form> {
    Arc::new(Stationary { name: "matern12", profile: Profile::Matern12 })
}

/// Matérn 3/2: variance · (1 + √3 r) exp(−√3 r).
pub fn matern32() -> Arc<dyn Form> {
    Arc::new(Stationary { name: "matern32", profile: Profile::Matern32 })
}

/// Matérn 5/2: variance · (1 + √5 r + 5r²/3) exp(−√5 r).
pub fn matern52() -> Arc<dyn Form> {
    Arc::new(Stationary { name: "matern52", profile: Profile::Matern52 })
}

impl Form for Stationary {
    fn name(&self) -> &str {
        self.name
    }

    fn parameters(&self, _d: usize) -> Vec<Parameter> {
        vec![
            Parameter::positive("lengthscale", Unit::Length, &[1.0]),
            Parameter::positive("variance", Unit::Variance, &[1.0]),
        ]
    }

    fn built_in(&self) -> Option<BuiltIn> {
        Some(BuiltIn::Form(base::Form::Stationary(self.profile)))
    }

    fn lower(&self, p: &[Tensor<1>], x: Tensor<2>) -> Option<Lowered> {
        Some(graph::lower(base::Form::Stationary(self.profile), p, x))
    }
}

/// variance · (1 + r²/(2 alpha))^(−alpha).
#[derive(Debug)]
pub struct RationalQuadratic;

/// The rational quadratic kernel.
pub fn rational_quadratic() -> Arc<dyn Form> {
    Arc::new(RationalQuadratic)
}

impl Form for RationalQuadratic {
    fn name(&self) -> &str {
        "rq"
    }

    fn parameters(&self, _d: usize) -> Vec<Parameter> {
        vec![
            Parameter::positive("lengthscale", Unit::Length, &[1.0]),
            Parameter::positive("alpha", Unit::None, &[1.0]),
            Parameter::positive("variance", Unit::Variance, &[1.0]),
        ]
    }

    fn built_in(&self) -> Option<BuiltIn> {
        Some(BuiltIn::Form(base::Form::RationalQuadratic))
    }

    fn lower(&self, p: &[Tensor<1>], x: Tensor<2>) -> Option<Lowered> {
        Some(graph::lower(base::Form::RationalQuadratic, p, x))
    }
}
