//! Many small models as one operation: one graph, and one pass over all of them.

mod apart;
mod bounds;
mod likelihoods;

use std::ops::Range;
use std::sync::Arc;

pub use bounds::{Expected, Sparse, bounds};
use burn::tensor::{DType, Gradients, Tensor};
use cagey_base::kernels as base;
pub use likelihoods::{Member, likelihoods};

use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::kernels::form::{Lowered, Term};
use crate::kernels::stacked::Stacked;
use crate::means::Mean;
use crate::params::{Parameter, Parameters};
use crate::products::engine::program::Program;
use crate::scope::{Scope, to_f64};

/// What one evaluation finds for a member.
#[derive(Debug, Clone)]
pub struct Found {
    /// The objective; NaN if its matrix has no factor.
    pub loss: f64,
    /// Its slopes in the internal values of each parameter, in the order that each function says.
    pub slopes: Vec<Vec<f64>>,
    /// The relative jitter that its factorisation needed.
    pub jitter: f64,
}

fn different() -> Error {
    Error::shape("models of a batch", "one kernel that stacks, and one mean", "others")
}

/// The parameters that all members have, as leaves of one graph.
struct Shared<'a> {
    all: Vec<Vec<&'a Parameter>>,
    /// Of each parameter, its values in all members `[members, entries]`.
    leaves: Vec<Tensor<2>>,
}

impl<'a> Shared<'a> {
    fn new(scope: &Scope, all: Vec<Vec<&'a Parameter>>) -> Result<Self> {
        if all.iter().any(|own| own.len() != all[0].len() || own.iter().zip(&all[0]).any(|(a, b)| a.len() != b.len())) {
            return Err(different());
        }
        let leaf = |slot: usize| {
            let values: Vec<f64> = all.iter().flat_map(|own| own[slot].internal()).collect();
            scope.matrix_in(&values, all.len(), all[0][slot].len(), scope.wide()).require_grad()
        };
        Ok(Self { leaves: (0..all[0].len()).map(leaf).collect(), all })
    }

    fn values(&self, dtype: DType) -> impl Iterator<Item = Tensor<2>> {
        self.leaves.iter().map(move |leaf| leaf.clone().cast(dtype))
    }

    /// The slopes in each leaf; none where the objective does not depend on it.
    fn slopes(&self, gradients: &mut Gradients) -> Result<Vec<Option<Vec<f64>>>> {
        self.leaves.iter().map(|leaf| leaf.grad_remove(gradients).map(to_f64).transpose()).collect()
    }

    /// Those of one member.
    fn of_member(&self, slopes: &[Option<Vec<f64>>], k: usize) -> Vec<Vec<f64>> {
        let each = slopes.iter().zip(&self.all[k]);
        each.map(|(slope, p)| slope.as_ref().map_or(vec![0.0; p.len()], |all| all[k * p.len()..][..p.len()].to_vec()))
            .collect()
    }
}

fn lengths<'a>(parts: impl Iterator<Item = &'a [f64]>) -> Vec<usize> {
    parts.map(<[f64]>::len).collect()
}

/// The places of parts of these lengths, one after another.
fn ranges(counts: &[usize]) -> Vec<Range<usize>> {
    let mut start = 0;
    let each = counts.iter().map(|n| {
        start += n;
        start - n..start
    });
    each.collect()
}

/// The rows `x`, row-major, of all members, `counts` of each, with the member of each row.
fn rows_of(scope: &Scope, x: &[f64], counts: &[usize], d: usize, dtype: DType) -> Stacked {
    stacked(scope, scope.matrix_in(x, x.len() / d, d, dtype), counts)
}

fn stacked(scope: &Scope, rows: Tensor<2>, counts: &[usize]) -> Stacked {
    let owners: Vec<usize> = counts.iter().enumerate().flat_map(|(k, n)| vec![k; *n]).collect();
    Stacked { rows, owner: Arc::new(scope.indices(&owners)) }
}

/// The kernel of all members: its structure, coefficients `[members, c]`, and the features of each set of rows.
struct Structure<const N: usize> {
    program: Program,
    coefficients: Tensor<2>,
    features: [Tensor<2>; N],
    /// The kernel at the last set of rows.
    last: base::Lowered<Stacked>,
}

fn structure<const N: usize>(
    scope: &Scope,
    kernel: &Kernel,
    members: usize,
    values: &mut impl Iterator<Item = Tensor<2>>,
    rows: [&Stacked; N],
) -> Result<Structure<N>> {
    let own: Vec<Tensor<2>> = values.by_ref().take(kernel.parameters().len()).collect();
    let lower =
        |x: &Stacked| kernel.stacked(&mut own.iter().cloned(), x, &|dims| scope.indices(dims)).ok_or_else(different);
    let mut all: Vec<base::Lowered<Stacked>> = rows.iter().map(|x| lower(x)).collect::<Result<_>>()?;
    let program = Program::new(&of_one(&all[0]));
    let features: Vec<Tensor<2>> = all.iter().map(features).collect();
    let last = all.pop().ok_or_else(different)?;
    let mut coefficients = Vec::new();
    each_term(&last, &mut |term| {
        coefficients.extend(term.variance.iter().chain(&term.shape).map(|each| each.values.clone()));
    });
    // Tensors cannot be empty.
    if coefficients.is_empty() {
        coefficients.push(Tensor::ones([members, 1], (&features[0].device(), features[0].dtype())));
    }
    let features = features.try_into().map_err(|_| different())?;
    Ok(Structure { program, coefficients: Tensor::cat(coefficients, 1), features, last })
}

/// The structure alone, with the numbers of the first member.
fn of_one(lowered: &base::Lowered<Stacked>) -> Lowered {
    let all = |parts: &[base::Lowered<Stacked>]| parts.iter().map(of_one).collect();
    match lowered {
        base::Lowered::Term(term) => {
            let first = |values: &Tensor<2>| values.clone().narrow(0, 0, 1).squeeze_dim::<1>(0);
            Lowered::Term(Box::new(Term {
                metric: term.metric,
                profile: term.profile,
                features: term.features.rows.clone(),
                shape: term.shape.as_ref().map(|each| first(&each.values)),
                variance: term.variance.as_ref().map(|each| first(&each.values)),
            }))
        }
        base::Lowered::Sum(parts) => Lowered::Sum(all(parts)),
        base::Lowered::Product(parts) => Lowered::Product(all(parts)),
    }
}

/// The features `[rows, p]` of all terms, in the order of [`Program`].
fn features(lowered: &base::Lowered<Stacked>) -> Tensor<2> {
    let mut all = Vec::new();
    each_term(lowered, &mut |term| all.push(term.features.rows.clone()));
    Tensor::cat(all, 1)
}

fn each_term(lowered: &base::Lowered<Stacked>, see: &mut impl FnMut(&base::Term<Stacked>)) {
    match lowered {
        base::Lowered::Term(term) => see(term),
        base::Lowered::Sum(parts) | base::Lowered::Product(parts) => {
            parts.iter().for_each(|part| each_term(part, see));
        }
    }
}

/// The prior means of all rows `[rows, 1]`; none if they are 0.
fn level(mean: &Mean, values: &mut impl Iterator<Item = Tensor<2>>, x: &Stacked) -> Result<Option<Tensor<2>>> {
    let mut of_rows = || values.next().ok_or_else(different).map(|each| each.select(0, (*x.owner).clone()));
    Ok(match mean {
        Mean::Zero => None,
        Mean::Constant(_) => Some(of_rows()?),
        Mean::Linear { .. } => {
            let constant = of_rows()?;
            Some(constant + (x.rows.clone() * of_rows()?).sum_dim(1))
        }
    })
}
