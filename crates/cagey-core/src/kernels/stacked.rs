//! Kernels of one structure with values of their own, lowered together for the rows of all of them.

use std::sync::Arc;

use burn::tensor::{Int, Tensor};
use cagey_base::kernels::{Lowered, Rows, Values};

use super::form::{self, BuiltIn};
use super::graph::Graph;
use super::{Kernel, Leaf};
use crate::error::Result;
use crate::params::Parameter;

/// Rows of several models, with the model of each.
#[derive(Debug, Clone)]
pub(crate) struct Stacked {
    pub rows: Tensor<2>,
    pub owner: Arc<Tensor<1, Int>>,
}

/// The entries of a parameter in every model, `[models, entries]`.
#[derive(Debug, Clone)]
pub(crate) struct Each {
    pub values: Tensor<2>,
    owner: Arc<Tensor<1, Int>>,
}

impl Values for Each {
    fn sqrt(&self) -> Self {
        Self { values: self.values.clone().sqrt(), owner: self.owner.clone() }
    }

    fn part(&self, start: usize, count: usize) -> Self {
        Self { values: self.values.clone().narrow(1, start, count), owner: self.owner.clone() }
    }
}

impl Each {
    /// The entries for each row and each of so many columns, among which they repeat.
    fn across(&self, columns: usize) -> Tensor<2> {
        let of_rows = self.values.clone().select(0, (*self.owner).clone());
        let own = of_rows.dims()[1];
        if own == 1 || own == columns { of_rows } else { Tensor::cat(vec![of_rows; columns / own], 1) }
    }
}

impl Stacked {
    fn with(&self, rows: Tensor<2>) -> Self {
        Self { rows, owner: self.owner.clone() }
    }
}

/// The prior variance of every row `[rows, 1]`.
pub(crate) fn variances(lowered: &Lowered<Stacked>) -> Result<Tensor<2>> {
    match lowered {
        Lowered::Term(term) => {
            let of_rows = |each: &Option<Each>| each.as_ref().map(|each| each.across(1));
            let (shape, variance) = (of_rows(&term.shape), of_rows(&term.variance));
            Ok(form::variances((term.metric, term.profile), &term.features.rows, shape, variance))
        }
        Lowered::Sum(parts) => form::fold(parts.iter().map(variances), |x, y| x + y),
        Lowered::Product(parts) => form::fold(parts.iter().map(variances), |x, y| x * y),
    }
}

impl Rows for Stacked {
    type Values = Each;

    fn columns(&self) -> usize {
        self.rows.dims()[1]
    }

    fn times(self, by: &Each) -> Self {
        self.with(self.rows.clone() * by.across(self.columns()))
    }

    fn over(self, by: &Each) -> Self {
        self.with(self.rows.clone() / by.across(self.columns()))
    }

    fn scale(self, factor: f64) -> Self {
        self.with(self.rows.clone() * factor)
    }

    fn total(self) -> Self {
        self.with(self.rows.clone().sum_dim(1))
    }

    fn waves(self) -> Self {
        self.with(Rows::waves(Graph(self.rows.clone())).0)
    }

    fn zeros(&self) -> Self {
        self.with(Rows::zeros(&Graph(self.rows.clone())).0)
    }
}

impl Kernel {
    /// Whether kernels of this structure can be lowered together: sums and products of built-in forms.
    pub fn stacks(&self) -> bool {
        match self {
            Self::Leaf(leaf) => matches!(leaf.form.built_in(), Some(BuiltIn::Form(_))),
            Self::Sum(parts) | Self::Product(parts) => !parts.is_empty() && parts.iter().all(Self::stacks),
            Self::Transformed(_) => false,
        }
    }

    /// The kernel's structure, with the columns and the number of values of each leaf.
    pub fn layout(&self) -> String {
        match self {
            Self::Leaf(Leaf { form, dims, parameters }) => {
                let sizes: Vec<usize> = parameters.iter().map(Parameter::len).collect();
                format!("{}{:?}{dims:?}{sizes:?}", form.name(), form.options())
            }
            Self::Sum(parts) => format!("({})", parts.iter().map(Self::layout).collect::<Vec<_>>().join("+")),
            Self::Product(parts) => parts.iter().map(Self::layout).collect::<Vec<_>>().join("*"),
            Self::Transformed(t) => format!("{}({})", t.transform.name(), t.kernel.layout()),
        }
    }

    /// The kernels of this structure at the rows of all models. `values` yields `[models, entries]` of each parameter
    /// in their order; none if they do not [stack](Self::stacks).
    pub(crate) fn stacked(
        &self,
        values: &mut impl Iterator<Item = Tensor<2>>,
        x: &Stacked,
        columns: &dyn Fn(&[usize]) -> Tensor<1, Int>,
    ) -> Option<Lowered<Stacked>> {
        let mut all = |parts: &[Self]| {
            parts.iter().map(|part| part.stacked(values, x, columns)).collect::<Option<Vec<Lowered<Stacked>>>>()
        };
        match self {
            Self::Leaf(Leaf { form, dims, parameters }) => {
                let Some(BuiltIn::Form(form)) = form.built_in() else { return None };
                let each = |values| Each { values, owner: x.owner.clone() };
                let p: Vec<Each> = values.by_ref().take(parameters.len()).map(each).collect();
                let own = dims.as_ref().map(|dims| x.rows.clone().select(1, columns(dims)));
                (p.len() == parameters.len()).then(|| form.lower(&p, own.map_or(x.clone(), |own| x.with(own))))
            }
            Self::Sum(parts) => Some(Lowered::Sum(all(parts)?)),
            Self::Product(parts) => Some(Lowered::Product(all(parts)?)),
            Self::Transformed(_) => None,
        }
    }
}
