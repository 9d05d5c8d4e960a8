//! A likelihood of one's own from its log density alone.

use std::sync::Arc;

use super::Formula;
use super::Likelihood;
use super::{Auxiliary, Row};
use super::{Density, Support};
use crate::arithmetic::Real;
use crate::params::{Parameter, Parameters, shown};

/// A likelihood that a [`Formula`] defines. Derivatives, expectations, Newton's method, moments, quantiles and draws
/// follow from it by differentiation and quadrature. A likelihood with closed forms implements [`Likelihood`] and
/// [`Density`] itself.
#[derive(Debug, Clone)]
pub struct Custom<F> {
    name: &'static str,
    formula: F,
    parameters: Vec<Parameter>,
    auxiliary: Auxiliary,
}

impl<F: Formula + Clone> Custom<F> {
    /// Makes the likelihood with a name and with its own parameters, in the order that the formula takes them.
    pub fn new(name: &'static str, formula: F, parameters: impl Into<Vec<Parameter>>) -> Self {
        Self { name, formula, parameters: parameters.into(), auxiliary: Auxiliary::None }
    }

    /// The same with an auxiliary column.
    pub fn with_auxiliary(self, auxiliary: Auxiliary) -> Self {
        Self { auxiliary, ..self }
    }
}

impl<F> Parameters for Custom<F> {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        self.parameters.iter().map(|p| (p.name.clone(), p)).collect()
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        self.parameters.iter_mut().map(|p| (p.name.clone(), p)).collect()
    }
}

impl<F: Formula + Clone> Likelihood for Custom<F> {
    fn text(&self) -> String {
        match self.parameters.first() {
            Some(first) => format!("{}({})", self.name, shown(first.values()[0])),
            None => self.name.into(),
        }
    }

    fn latents(&self) -> usize {
        self.formula.latents()
    }

    fn auxiliary(&self) -> Auxiliary {
        self.auxiliary
    }

    fn density(&self) -> Arc<dyn Density> {
        let own = self.parameters.iter().flat_map(Parameter::internal).collect();
        Arc::new(Frozen { formula: self.formula.clone(), own })
    }
}

/// A formula at fixed values of its parameters.
#[derive(Debug)]
struct Frozen<F> {
    formula: F,
    own: Vec<f64>,
}

impl<F: Formula> Formula for Frozen<F> {
    fn support(&self, auxiliary: f64) -> Support {
        self.formula.support(auxiliary)
    }

    fn latents(&self) -> usize {
        self.formula.latents()
    }

    fn is_log_concave(&self) -> bool {
        self.formula.is_log_concave()
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], own: &[A]) -> A {
        self.formula.log_density(row, f, own)
    }

    fn rest<A: Real>(&self, row: Row, own: &[A]) -> A {
        self.formula.rest(row, own)
    }

    fn curvature<A: Real>(&self, row: Row, f: &[A], own: &[A], d: &mut [A]) {
        self.formula.curvature(row, f, own, d);
    }
}

impl<F: Formula> Density for Frozen<F> {
    fn own(&self) -> &[f64] {
        &self.own
    }
}
