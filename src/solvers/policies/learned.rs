//! Learned block-sparse actions as a policy, to stand beside others.

use burn::tensor::Tensor;

use super::{Actor, Policy, State};
use crate::error::{Error, Result};
use crate::params::{Parameter, Unit};
use crate::products::BlockSparse;
use crate::solvers::basis::Basis;
use crate::solvers::system::System;

/// s = the columns of a block-sparse matrix of parameters, one after another. On its own, the batch form is faster: it
/// needs one product for all of them.
#[derive(Debug, Clone)]
pub struct Learned {
    /// The non-zeros `[n]`.
    pub values: Parameter,
    offsets: Vec<usize>,
}

impl Learned {
    /// Non-zeros and the boundaries of their blocks.
    pub fn new(values: &[f64], offsets: Vec<usize>) -> Self {
        Self { values: Parameter::real("actions", Unit::None, values), offsets }
    }
}

impl Policy for Learned {
    fn name(&self) -> &'static str {
        "learned"
    }

    fn start(&self, system: &System, _budget: usize) -> Result<Box<dyn Actor>> {
        let n = system.order();
        if self.values.len() != n {
            return Err(Error::shape("learned actions", format!("{n} rows"), self.values.len().to_string()));
        }
        let blocks = BlockSparse::new(system.scope().value(&self.values), self.offsets.clone())?;
        Ok(Box::new(Columns { blocks: Basis::sparse(blocks), at: 0 }))
    }

    fn parameters(&self) -> Vec<(String, &Parameter)> {
        vec![("actions".into(), &self.values)]
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        vec![("actions".into(), &mut self.values)]
    }
}

struct Columns {
    blocks: Basis,
    at: usize,
}

impl Actor for Columns {
    fn next(&mut self, _state: &State, most: usize) -> Result<Option<Tensor<2>>> {
        let count = most.min(self.blocks.len() - self.at);
        if count == 0 {
            return Ok(None);
        }
        self.at += count;
        Ok(Some(self.blocks.columns(self.at - count, count)?))
    }
}
