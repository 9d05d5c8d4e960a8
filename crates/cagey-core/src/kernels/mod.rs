//! Kernels: covariance functions, composed in code (`&a + &b * 2.0`) and from [text](mod@text).
//!
//! A kernel is a tree of leaves, sums, products and input transforms. A leaf is a [`Form`] (built-in or a user's own)
//! with its [parameters](crate::params). Covariance matrices are tensors `[n, m]` of a [`Scope`], differentiable in
//! everything; `products` computes the same matrices fast.

mod algebra;
mod featured;
pub mod features;
pub mod form;
mod graph;
pub mod initial;
pub mod linear;
mod numbers;
mod parameters;
pub mod periodic;
mod print;
pub mod registry;
pub mod same;
pub(crate) mod stacked;
pub mod stationary;
pub mod text;
mod tokens;
pub mod transform;
pub mod wiener;

pub use cagey_base::kernels::profile;

use std::sync::Arc;

use burn::tensor::Tensor;

use crate::error::{Error, Result};
use crate::params::{Parameter, Parameters};
use crate::scope::Scope;
use form::{Form, Lowered, fold};
use registry::Registry;
use transform::InputTransform;

/// A covariance function of two rows of inputs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Kernel {
    /// One form with its parameters.
    Leaf(Leaf),
    /// The sum of kernels.
    Sum(Vec<Kernel>),
    /// The product of kernels.
    Product(Vec<Kernel>),
    /// A kernel of transformed inputs.
    Transformed(Transformed),
}

/// A form, the input columns that it sees, and its parameters.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// The covariance function.
    pub form: Arc<dyn Form>,
    /// 0-based input columns; None means all.
    pub dims: Option<Vec<usize>>,
    /// In the order of [`Form::parameters`].
    pub parameters: Vec<Parameter>,
}

/// An input transform and the kernel behind it.
#[derive(Debug, Clone)]
pub struct Transformed {
    /// The map of the inputs.
    pub transform: Arc<dyn InputTransform>,
    /// In the order of [`InputTransform::parameters`].
    pub parameters: Vec<Parameter>,
    /// The kernel of the transformed inputs.
    pub kernel: Box<Kernel>,
}

impl Leaf {
    /// The columns that this leaf sees.
    ///
    /// # Errors
    /// [`Error::Shape`] for rows that do not suit the leaf: one of its columns is missing, a parameter's number of
    /// entries does not fit the columns, or the type is not the scope's.
    fn columns(&self, scope: &Scope, x: &Tensor<2>) -> Result<Tensor<2>> {
        let (d, name) = (x.dims()[1], self.form.name());
        let wrong = |want, got| Error::shape(format!("inputs of `{name}`"), want, got);
        let active = self.dims.as_ref().map_or(d, Vec::len);
        if let Some(column) = self.dims.iter().flatten().find(|column| **column >= d) {
            return Err(wrong(format!("a column {column}, counted from 0"), format!("{d} columns")));
        }
        if x.dtype() != scope.dtype() {
            return Err(wrong(format!("{:?}", scope.dtype()), format!("{:?}", x.dtype())));
        }
        for (own, usual) in paired(&self.parameters, self.form.parameters(active), name)? {
            let each = self.form.ard().contains(&own.name.as_str()) && (own.len() == 1 || own.len() == active);
            if own.len() != usual.len() && !each {
                let expected = format!("values that fit {active} columns");
                return Err(Error::shape(format!("`{}` of `{name}`", own.name), expected, own.len().to_string()));
            }
        }
        Ok(match &self.dims {
            None => x.clone(),
            Some(dims) => x.clone().select(1, scope.indices(dims)),
        })
    }

    fn values(&self, scope: &Scope) -> Vec<Tensor<1>> {
        self.parameters.iter().map(|p| scope.value(p)).collect()
    }

    /// k(x1, x2) `[n, m]` by the form, in the shape and type that it promises.
    fn cross(&self, scope: &Scope, x1: &Tensor<2>, x2: &Tensor<2>) -> Result<Tensor<2>> {
        let values = self.form.cross(&self.values(scope), self.columns(scope, x1)?, self.columns(scope, x2)?)?;
        kept(&format!("`cross` of the kernel form `{}`", self.form.name()), scope, [x1.dims()[0], x2.dims()[0]], values)
    }
}

impl Kernel {
    /// A leaf with this form on `d` input columns, with default parameters.
    pub fn leaf(form: Arc<dyn Form>, d: usize) -> Self {
        let parameters = form.parameters(d);
        Self::Leaf(Leaf { form, dims: None, parameters })
    }

    /// Reads kernel text for inputs with `d` columns, with the built-in forms; see [`text`](mod@text) for the grammar.
    ///
    /// # Errors
    /// [`KernelText`](crate::Error::KernelText), which points at what is wrong.
    pub fn parse(text: &str, d: usize) -> Result<Self> {
        text::parse(text, d, &Registry::default())
    }

    /// This kernel on transformed inputs; `self` must expect the transform's output columns.
    pub fn transformed(self, transform: Arc<dyn InputTransform>, d: usize) -> Self {
        let parameters = transform.parameters(d);
        Self::Transformed(Transformed { transform, parameters, kernel: Box::new(self) })
    }

    /// The same kernel of these columns alone: its first column is `dims[0]`, and so on.
    ///
    /// # Errors
    /// [`Usage`](crate::Error::Usage) for a kernel of transformed inputs, which takes all columns, and for one that
    /// already chooses a column which is not among these.
    pub fn on(self, dims: &[usize]) -> Result<Self> {
        let all = |parts: Vec<Self>| parts.into_iter().map(|part| part.on(dims)).collect::<Result<_>>();
        Ok(match self {
            Self::Leaf(Leaf { form, dims: own, parameters }) => {
                let of = |column: usize| {
                    let (name, count) = (form.name(), dims.len());
                    let missing = || format!("`{name}` takes column {column}, and there are {count} columns");
                    dims.get(column).copied().ok_or_else(|| Error::Usage(missing()))
                };
                let dims = own.map_or(Ok(dims.to_vec()), |own| own.into_iter().map(of).collect())?;
                Self::Leaf(Leaf { dims: Some(dims), form, parameters })
            }
            Self::Sum(parts) => Self::Sum(all(parts)?),
            Self::Product(parts) => Self::Product(all(parts)?),
            Self::Transformed(t) => {
                let name = t.transform.name();
                return Err(Error::Usage(format!("`{name}` takes all columns; choose columns within the transform")));
            }
        })
    }

    /// Sets a parameter of a leaf to given user values (one, or one per column), by name.
    ///
    /// # Errors
    /// [`Usage`](crate::Error::Usage) when there is no such parameter, or when it cannot have such a value.
    pub fn with(mut self, name: &str, values: &[f64]) -> Result<Self> {
        for parameter in self.find_mut(name)? {
            parameter.resize(&vec![1.0; values.len().max(1)]);
            parameter.give(values)?;
        }
        Ok(self)
    }

    /// The kernel lowered to terms for rows `x [n, d]`; None when a leaf is a plain tensor graph.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when a leaf expects other columns or another type, [`Usage`](crate::Error::Usage)
    /// when a user's form lowers to an empty sum or product.
    pub fn lower(&self, scope: &Scope, x: &Tensor<2>) -> Result<Option<Lowered>> {
        let all = |parts: &[Self]| parts.iter().map(|k| k.lower(scope, x)).collect::<Result<Option<Vec<_>>>>();
        match self {
            Self::Leaf(leaf) => {
                let lowered = leaf.form.lower(&leaf.values(scope), leaf.columns(scope, x)?);
                lowered.iter().try_for_each(Lowered::check)?;
                Ok(lowered)
            }
            Self::Sum(parts) | Self::Product(parts) if parts.is_empty() => Ok(None),
            Self::Sum(parts) => Ok(all(parts)?.map(Lowered::Sum)),
            Self::Product(parts) => Ok(all(parts)?.map(Lowered::Product)),
            Self::Transformed(t) => t.kernel.lower(scope, &t.map(scope, x)?),
        }
    }

    /// k(x1, x2) `[n, m]` as a tensor graph. This is the definition against which the fused products are checked.
    ///
    /// # Errors
    /// Errors of a user's form.
    pub fn cross(&self, scope: &Scope, x1: &Tensor<2>, x2: &Tensor<2>) -> Result<Tensor<2>> {
        match self {
            Self::Leaf(leaf) => leaf.cross(scope, x1, x2),
            Self::Sum(parts) => fold(parts.iter().map(|k| k.cross(scope, x1, x2)), |a, b| a + b),
            Self::Product(parts) => fold(parts.iter().map(|k| k.cross(scope, x1, x2)), |a, b| a * b),
            Self::Transformed(t) => t.kernel.cross(scope, &t.map(scope, x1)?, &t.map(scope, x2)?),
        }
    }

    /// k(x, x) `[n, n]` of an input with itself, as a tensor graph; includes white noise on the diagonal.
    ///
    /// # Errors
    /// As [`cross`](Self::cross).
    pub fn gram(&self, scope: &Scope, x: &Tensor<2>) -> Result<Tensor<2>> {
        match self {
            Self::Leaf(leaf) => match self.lower(scope, x)? {
                Some(lowered) => lowered.gram(),
                None => leaf.cross(scope, x, x),
            },
            Self::Sum(parts) => fold(parts.iter().map(|k| k.gram(scope, x)), |a, b| a + b),
            Self::Product(parts) => fold(parts.iter().map(|k| k.gram(scope, x)), |a, b| a * b),
            Self::Transformed(t) => t.kernel.gram(scope, &t.map(scope, x)?),
        }
    }

    /// k(x, x) of each row, `[n]`.
    ///
    /// # Errors
    /// As [`cross`](Self::cross).
    pub fn diag(&self, scope: &Scope, x: &Tensor<2>) -> Result<Tensor<1>> {
        match self {
            Self::Leaf(leaf) => {
                let values = leaf.form.diag(&leaf.values(scope), leaf.columns(scope, x)?)?;
                kept(&format!("`diag` of the kernel form `{}`", leaf.form.name()), scope, [x.dims()[0]], values)
            }
            Self::Sum(parts) => fold(parts.iter().map(|k| k.diag(scope, x)), |a, b| a + b),
            Self::Product(parts) => fold(parts.iter().map(|k| k.diag(scope, x)), |a, b| a * b),
            Self::Transformed(t) => t.kernel.diag(scope, &t.map(scope, x)?),
        }
    }

    /// The summands of this kernel: the components into which a posterior can be split.
    pub fn summands(&self) -> Vec<&Self> {
        match self {
            Self::Sum(parts) => parts.iter().flat_map(Self::summands).collect(),
            other => vec![other],
        }
    }

    /// One of the [`summands`](Self::summands).
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none with this index.
    pub fn summand(&self, index: usize) -> Result<&Self> {
        let summands = self.summands();
        let missing = || {
            Error::Usage(format!("the kernel has {} summands, counted from 0, and no summand {index}", summands.len()))
        };
        summands.get(index).copied().ok_or_else(missing)
    }

    /// Number of leaves.
    pub fn leaves(&self) -> usize {
        self.leaf_names().len()
    }
}

impl Transformed {
    fn map(&self, scope: &Scope, x: &Tensor<2>) -> Result<Tensor<2>> {
        let d = x.dims()[1];
        let name = self.transform.name();
        for (own, usual) in paired(&self.parameters, self.transform.parameters(d), name)? {
            if own.len() != usual.len() {
                let expected = format!("{} values for {d} columns", usual.len());
                return Err(Error::shape(format!("`{}` of `{name}`", own.name), expected, own.len().to_string()));
            }
        }
        let values: Vec<Tensor<1>> = self.parameters.iter().map(|p| scope.value(p)).collect();
        let mapped = self.transform.apply(&values, x.clone());
        kept(&format!("the transform `{name}`"), scope, [x.dims()[0], self.transform.output_dim(d)], mapped)
    }
}

/// The parameters of a form or transform, each with the usual one in its place.
fn paired<'a>(
    own: &'a [Parameter],
    usual: Vec<Parameter>,
    name: &str,
) -> Result<impl Iterator<Item = (&'a Parameter, Parameter)>> {
    if own.len() != usual.len() {
        let (want, got) = (usual.len().to_string(), own.len().to_string());
        return Err(Error::shape(format!("parameters of `{name}`"), want, got));
    }
    Ok(own.iter().zip(usual))
}

/// What a user's piece returned, if it has the shape and type that it promises.
fn kept<const D: usize>(what: &str, scope: &Scope, shape: [usize; D], values: Tensor<D>) -> Result<Tensor<D>> {
    if values.dims() == shape && values.dtype() == scope.dtype() {
        return Ok(values);
    }
    let shown = |shape: &[usize], dtype| format!("{shape:?} of {dtype:?}");
    Err(Error::shape(what, shown(&shape, scope.dtype()), shown(&values.dims(), values.dtype())))
}
