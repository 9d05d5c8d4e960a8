//! Tensor graphs as the numbers and the rows of formulas.

use burn::tensor::Tensor;
use cagey_base::kernels::{self as base, Magnitude, Rows, Values};

use super::form::{Lowered, Term};
use crate::arithmetic::{Arithmetic, SMALLEST_SQUARE, largest_square};

/// The covariance of a built-in form for rows `x` and the tensors of its parameters.
pub(super) fn lower(form: base::Form, p: &[Tensor<1>], x: Tensor<2>) -> Lowered {
    let p: Vec<Entries> = p.iter().cloned().map(Entries).collect();
    tensors(form.lower(&p, Graph(x)))
}

fn tensors(lowered: base::Lowered<Graph>) -> Lowered {
    let all = |parts: Vec<base::Lowered<Graph>>| parts.into_iter().map(tensors).collect();
    match lowered {
        base::Lowered::Term(base::Term { metric, profile, features, shape, variance }) => {
            Lowered::Term(Box::new(Term {
                metric,
                profile,
                features: features.0,
                shape: shape.map(|shape| shape.0),
                variance: variance.map(|variance| variance.0),
            }))
        }
        base::Lowered::Sum(parts) => Lowered::Sum(all(parts)),
        base::Lowered::Product(parts) => Lowered::Product(all(parts)),
    }
}

/// The entries of a parameter as a tensor.
#[derive(Debug, Clone)]
pub(crate) struct Entries(pub Tensor<1>);

impl Values for Entries {
    fn sqrt(&self) -> Self {
        Self(self.0.clone().sqrt())
    }

    fn part(&self, start: usize, count: usize) -> Self {
        Self(self.0.clone().narrow(0, start, count))
    }
}

impl Entries {
    /// One entry, or one for each of so many columns, among which they repeat.
    fn across(&self, columns: usize) -> Tensor<2> {
        let own = self.0.dims()[0];
        match own == 1 || own == columns {
            true => self.0.clone().unsqueeze::<2>(),
            false => Tensor::cat(vec![self.0.clone(); columns / own], 0).unsqueeze::<2>(),
        }
    }
}

impl Rows for Graph {
    type Values = Entries;

    fn columns(&self) -> usize {
        self.0.dims()[1]
    }

    fn times(self, by: &Entries) -> Self {
        let by = by.across(self.columns());
        Self(self.0 * by)
    }

    fn over(self, by: &Entries) -> Self {
        let by = by.across(self.columns());
        Self(self.0 / by)
    }

    fn scale(self, factor: f64) -> Self {
        Self(self.0 * factor)
    }

    fn total(self) -> Self {
        Self(self.0.sum_dim(1))
    }

    fn waves(self) -> Self {
        Self(Tensor::cat(vec![self.0.clone().cos(), self.0.sin()], 1))
    }

    /// One column, because burn has no tensors without columns.
    fn zeros(&self) -> Self {
        Self(self.0.clone().narrow(1, 0, 1).zeros_like())
    }
}

impl Magnitude for Graph {
    fn abs(self) -> Self {
        Self(self.0.abs())
    }
}

/// A tensor as a number of formulas, entry by entry.
#[derive(Debug, Clone)]
pub(crate) struct Graph(pub Tensor<2>);

impl Arithmetic for Graph {
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
    fn mul(self, other: Self) -> Self {
        Self(self.0 * other.0)
    }
    fn div(self, other: Self) -> Self {
        Self(self.0 / other.0)
    }
    fn scale(self, factor: f64) -> Self {
        Self(self.0 * factor)
    }
    fn shift(self, constant: f64) -> Self {
        Self(self.0 + constant)
    }
    fn exp(self) -> Self {
        Self(self.0.exp())
    }
    fn ln(self) -> Self {
        Self(self.0.log())
    }
    fn at_most(self, bound: f64) -> Self {
        Self(self.0.clamp_max(bound))
    }
    fn safe_sqrt(self) -> Self {
        let largest = largest_square(self.0.dtype().size());
        Self(self.0.clamp(SMALLEST_SQUARE, largest).sqrt())
    }
    fn sin(self) -> Self {
        Self(self.0.sin())
    }
    fn cos(self) -> Self {
        Self(self.0.cos())
    }
}
