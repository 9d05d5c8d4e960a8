//! Every policy, and a user's own policy.

use burn::tensor::Tensor;
use cagey::params::{Parameter, Parameters, Unit};
use cagey::products::BlockSparse;
use cagey::solvers::itergp::Basis;
use cagey::solvers::policies::{
    Actor, Eigenvector, Lanczos, LanczosSeed, Mixed, Order, Pivots, Policy, Preconditioned, PseudoInput, Random,
    Residual, SolveState, UnitVector,
};
use cagey::solvers::{LinearSystem, Probes};
use cagey::{Error, Result};

use super::noise;

/// Numbers in (-0.5, 0.5), the same on every machine.
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    (0..count).map(|_| noise(&mut state)).collect()
}

pub fn unit(pivots: Pivots) -> Box<dyn Policy> {
    Box::new(UnitVector { pivots })
}

/// Every policy, for inputs of two columns and `n` rows (at least 13).
pub fn policies(n: usize) -> Vec<Box<dyn Policy>> {
    let pseudo = PseudoInput::new(&numbers(16, 5), 2).unwrap();
    let learned = Learned::new(&numbers(n, 6), BlockSparse::even(n, 7));
    let random = |probes| Box::new(Random { probes, seed: 4 }) as Box<dyn Policy>;
    vec![
        Box::new(Residual),
        Box::new(Lanczos { seed: LanczosSeed::Targets }),
        Box::new(Lanczos { seed: LanczosSeed::Gaussian(2) }),
        unit(Pivots::Data),
        unit(Pivots::Largest),
        unit(Pivots::Given(vec![3, 9, 1, 12, 7, 5])),
        Box::new(pseudo),
        Box::new(Eigenvector),
        random(Probes::Rademacher),
        random(Probes::Gaussian),
        Box::new(learned.clone()),
        Box::new(Mixed::new(vec![Box::new(Residual), Box::new(learned)], Order::Turns).unwrap()),
        Box::new(Mixed::new(vec![unit(Pivots::Data), Box::new(Residual)], Order::Switch(vec![2])).unwrap()),
        Box::new(Preconditioned::new(unit(Pivots::Largest), 3, Box::new(Residual))),
        Box::new(Preconditioned::new(Box::new(Residual), 2, random(Probes::Gaussian))),
    ]
}

/// A user's own policy with parameters: the columns of a block-sparse matrix, one after another.
#[derive(Debug, Clone)]
pub struct Learned {
    /// The non-zeros `[n]`.
    values: Parameter,
    offsets: Vec<usize>,
}

impl Learned {
    pub fn new(values: &[f64], offsets: Vec<usize>) -> Self {
        Self { values: Parameter::real("actions", Unit::None, values), offsets }
    }
}

impl Policy for Learned {
    fn name(&self) -> &'static str {
        "learned"
    }

    fn start(&self, system: &dyn LinearSystem, _budget: usize) -> Result<Box<dyn Actor>> {
        let n = system.order();
        if self.values.len() != n {
            return Err(Error::Usage(format!("{} learned numbers for {n} rows", self.values.len())));
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
    fn next(&mut self, _state: &dyn SolveState, most: usize) -> Result<Option<Tensor<2>>> {
        let count = most.min(self.blocks.len() - self.at);
        if count == 0 {
            return Ok(None);
        }
        self.at += count;
        Ok(Some(self.blocks.columns(self.at - count, count)?))
    }
}

/// Something with parameters, and a policy, as one list of parameters.
#[derive(Clone)]
pub struct With<P> {
    pub first: P,
    pub policy: Box<dyn Policy>,
}

impl<P: Parameters> Parameters for With<P> {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        self.first.parameters().into_iter().chain(self.policy.parameters()).collect()
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        self.first.parameters_mut().into_iter().chain(self.policy.parameters_mut()).collect()
    }
}
