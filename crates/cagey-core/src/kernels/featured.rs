//! The built-in forms that are functions of features, which `cagey-serve` knows too.

use std::sync::Arc;

use burn::tensor::Tensor;
use cagey_base::kernels as base;

use super::form::{BuiltIn, Form, Lowered};
use super::graph;
use super::linear::polynomial;
use super::periodic::spectral_mixture;
use crate::params::{Parameter, Unit};

/// A built-in form with its names. Unless it has several components, every parameter is one entry that starts at 1.
#[derive(Debug)]
pub(super) struct Featured {
    pub name: &'static str,
    /// Parameters that may have one entry per input column.
    pub ard: &'static [&'static str],
    /// Names and units, in the order in which the form takes the values.
    pub parameters: &'static [(&'static str, Unit)],
    pub form: base::Form,
}

impl Form for Featured {
    fn name(&self) -> &str {
        self.name
    }

    fn ard(&self) -> &[&str] {
        self.ard
    }

    fn parameters(&self, d: usize) -> Vec<Parameter> {
        let start = |name: &str| match (self.form, name) {
            (base::Form::SpectralMixture(q), "frequency") => {
                (0..q * d).map(|i| 0.5 * ((i / d) as f64 + 1.0) / q as f64).collect()
            }
            (base::Form::SpectralMixture(q), "bandwidth") => vec![0.2; q * d],
            (base::Form::SpectralMixture(q), _) => vec![1.0 / q as f64; q],
            _ => vec![1.0],
        };
        self.parameters.iter().map(|(name, unit)| Parameter::positive(name, *unit, &start(name))).collect()
    }

    fn options(&self) -> Vec<(&str, usize)> {
        match self.form {
            base::Form::Polynomial(power) => vec![("power", power as usize)],
            base::Form::SpectralMixture(components) => vec![("components", components)],
            _ => Vec::new(),
        }
    }

    fn with_option(&self, name: &str, value: usize) -> Option<Arc<dyn Form>> {
        match (self.form, name) {
            (base::Form::Polynomial(_), "power") if (1..=20).contains(&value) => Some(polynomial(value as u32)),
            (base::Form::SpectralMixture(_), "components") if (1..=100).contains(&value) => {
                Some(spectral_mixture(value))
            }
            _ => None,
        }
    }

    fn built_in(&self) -> Option<BuiltIn> {
        Some(BuiltIn::Form(self.form))
    }

    fn lower(&self, p: &[Tensor<1>], x: Tensor<2>) -> Option<Lowered> {
        Some(graph::lower(self.form, p, x))
    }
}
