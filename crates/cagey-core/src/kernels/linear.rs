//! Kernels of the inner product (linear, polynomial), and the two that ignore the inputs (constant, white).
//!
//! Inner products are about the origin of the inputs that the model sees: for standardised data, about their mean.

use std::sync::Arc;

use burn::tensor::Tensor;
use cagey_base::kernels as base;

use super::form::{BuiltIn, Form, Lowered};
use super::graph;
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

    fn built_in(&self) -> Option<BuiltIn> {
        Some(BuiltIn::Form(base::Form::Linear))
    }

    fn lower(&self, p: &[Tensor<1>], x: Tensor<2>) -> Option<Lowered> {
        Some(graph::lower(base::Form::Linear, p, x))
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

    fn built_in(&self) -> Option<BuiltIn> {
        Some(BuiltIn::Form(base::Form::Polynomial(self.power)))
    }

    fn lower(&self, p: &[Tensor<1>], x: Tensor<2>) -> Option<Lowered> {
        Some(graph::lower(base::Form::Polynomial(self.power), p, x))
    }
}

/// A kernel that ignores the inputs.
#[derive(Debug)]
pub struct Inputless {
    name: &'static str,
    form: base::Form,
}

/// variance.
pub fn constant() -> Arc<dyn Form> {
    Arc::new(Inputless { name: "constant", form: base::Form::Constant })
}

/// variance for a row of an input with itself, else 0.
pub fn white() -> Arc<dyn Form> {
    Arc::new(Inputless { name: "white", form: base::Form::White })
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

    fn built_in(&self) -> Option<BuiltIn> {
        Some(BuiltIn::Form(self.form))
    }

    fn lower(&self, p: &[Tensor<1>], x: Tensor<2>) -> Option<Lowered> {
        Some(graph::lower(self.form, p, x))
    }
}
