//! Kernels of the inner product (linear, polynomial), and the two that ignore the inputs (constant, white).
//!
//! Inner products are about the origin of the inputs that the model sees: for standardised data, about their mean.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::form::{Form, Lowered, Metric, Term};
use super::profile::Profile;
use crate::params::{Parameter, Unit};

/// Σ_d variance_d x_d z_d.
#[derive(Debug)]
pub struct Linear;

/// The linear kernel.
pub fn linear() -> Arc<dyn Form> {
    Arc::new(Linear)
}

impl Form for Linear {
    fn name(&self) -> &str {
        "linear"
    }

    fn ard(&self) -> &[&str] {
        &["variance"]
    }

    fn parameters(&self, _d: usize) -> Vec<Parameter> {
        vec![Parameter::positive("variance", Unit::VariancePerLengthSquared, &[1.0])]
    }

    fn lower(&self, p: &[Tensor<1>], x: Tensor<2>) -> Option<Lowered> {
        let features = x * p[0].clone().sqrt().unsqueeze::<2>();
        Some(Lowered::term(Metric::InnerProduct, Profile::Identity, features, None))
    }
}

/// variance · (xᵀz + offset)^power.
#[derive(Debug)]
pub struct Polynomial {
    power: u32,
}

/// The polynomial kernel with this power.
pub fn polynomial(power: u32) -> Arc<dyn Form> {
    Arc::new(Polynomial { power })
}

impl Form for Polynomial {
    fn name(&self) -> &str {
        "polynomial"
    }

    fn ard(&self) -> &[&str] {
        &[]
    }

    fn options(&self) -> Vec<(&str, usize)> {
        vec![("power", self.power as usize)]
    }

    fn with_option(&self, name: &str, value: usize) -> Option<Arc<dyn Form>> {
        (name == "power" && (1..=20).contains(&value)).then(|| polynomial(value as u32))
    }

    fn parameters(&self, _d: usize) -> Vec<Parameter> {
        vec![Parameter::positive("offset", Unit::None, &[1.0]), Parameter::positive("variance", Unit::Variance, &[1.0])]
    }

    fn lower(&self, p: &[Tensor<1>], x: Tensor<2>) -> Option<Lowered> {
        Some(Lowered::Term(Box::new(Term {
            metric: Metric::InnerProduct,
            profile: Profile::Power(self.power),
            features: x,
            shape: Some(p[0].clone()),
            variance: Some(p[1].clone()),
        })))
    }
}

/// A kernel that ignores the inputs.
#[derive(Debug)]
pub struct Inputless {
    name: &'static str,
    metric: Metric,
}

/// variance.
pub fn constant() -> Arc<dyn Form> {
    Arc::new(Inputless { name: "constant", metric: Metric::InnerProduct })
}

/// variance for a row of an input with itself, else 0.
pub fn white() -> Arc<dyn Form> {
    Arc::new(Inputless { name: "white", metric: Metric::Delta })
}

impl Form for Inputless {
    fn name(&self) -> &str {
        self.name
    }

    fn ard(&self) -> &[&str] {
        &[]
    }

    fn parameters(&self, _d: usize) -> Vec<Parameter> {
        vec![Parameter::positive("variance", Unit::Variance, &[1.0])]
    }

    fn lower(&self, p: &[Tensor<1>], x: Tensor<2>) -> Option<Lowered> {
        // One column of zeros, because burn has no tensors without columns.
        let features = x.narrow(1, 0, 1).zeros_like();
        Some(Lowered::term(self.metric, Profile::One, features, Some(p[0].clone())))
    }
}
