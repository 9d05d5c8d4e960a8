//! The parts of a kernel: forms (one covariance function each), and how they are lowered to features and a profile.

use std::fmt::Debug;
use std::ops::{Add, Mul};
use std::sync::Arc;

use burn::tensor::Tensor;

pub use cagey_base::kernels::Metric;

use super::graph::Graph;
use super::profile::Profile;
use crate::error::{Error, Result};
use crate::params::Parameter;

/// A covariance in the form v · profile(s(z₁, z₂); a). The fused products evaluate it without storing anything else.
#[derive(Debug, Clone)]
pub struct Term {
    /// How features are compared.
    pub metric: Metric,
    /// The function of s.
    pub profile: Profile,
    /// Features z `[n, p]` of the rows, lengthscales already divided out.
    pub features: Tensor<2>,
    /// Shape parameter a `[1]`, if the profile has one.
    pub shape: Option<Tensor<1>>,
    /// Factor v `[1]`; 1 if there is none.
    pub variance: Option<Tensor<1>>,
}

/// A covariance lowered to terms, their sums and their products.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Lowered {
    /// One term.
    Term(Box<Term>),
    /// The sum of its parts.
    Sum(Vec<Lowered>),
    /// The product of its parts.
    Product(Vec<Lowered>),
}

/// A form that comes with the library. Programs that only predict know it.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum BuiltIn {
    /// A function of features.
    Form(cagey_base::kernels::Form),
    /// A random walk.
    Wiener(cagey_base::kernels::Wiener),
}

/// One covariance function. Implement this trait to add a kernel; the built-in kernels do the same.
///
/// Give either [`lower`](Form::lower) (fast: it joins the fused products) or [`cross`](Form::cross) and
/// [`diag`](Form::diag) (any tensor graph). Everything must be differentiable in `p`, and finite at coincident rows.
pub trait Form: Debug + Send + Sync {
    /// Name in kernel text, `[a-z][a-z0-9_]*`.
    fn name(&self) -> &str;

    /// Parameters with default values, for `d` active input columns. Each has one entry, or one per column.
    fn parameters(&self, d: usize) -> Vec<Parameter>;

    /// Names of the parameters that `ard` gives one entry per input column.
    fn ard(&self) -> &[&str] {
        &["lengthscale"]
    }

    /// Structural options that are not learned (`power`, `components`) and their values, for printing.
    fn options(&self) -> Vec<(&str, usize)> {
        Vec::new()
    }

    /// The same form with a structural option changed; None when there is no such option or value.
    fn with_option(&self, _name: &str, _value: usize) -> Option<Arc<dyn Form>> {
        None
    }

    /// What it is, if it comes with the library.
    fn built_in(&self) -> Option<BuiltIn> {
        None
    }

    /// The terms of the covariance for rows `x [n, d]` and parameter tensors `p`, in the order of `parameters`.
    fn lower(&self, _p: &[Tensor<1>], _x: Tensor<2>) -> Option<Lowered> {
        None
    }

    /// k(x1, x2) `[n, m]` for `x1 [n, d]`, `x2 [m, d]`.
    ///
    /// # Errors
    /// Whatever the implementation reports; the default needs [`lower`](Form::lower).
    fn cross(&self, p: &[Tensor<1>], x1: Tensor<2>, x2: Tensor<2>) -> Result<Tensor<2>> {
        match (self.lower(p, x1), self.lower(p, x2)) {
            (Some(a), Some(b)) => a.cross(&b),
            _ => Err(Error::Usage(format!("kernel form `{}` implements neither `lower` nor `cross`", self.name()))),
        }
    }

    /// k(x, x) of each row, `[n]`.
    ///
    /// # Errors
    /// As [`cross`](Form::cross).
    fn diag(&self, p: &[Tensor<1>], x: Tensor<2>) -> Result<Tensor<1>> {
        let neither = || Error::Usage(format!("kernel form `{}` implements neither `lower` nor `diag`", self.name()));
        self.lower(p, x).ok_or_else(neither)?.diag()
    }
}

impl Lowered {
    /// A term without shape parameter.
    pub fn term(metric: Metric, profile: Profile, features: Tensor<2>, variance: Option<Tensor<1>>) -> Self {
        Self::Term(Box::new(Term { metric, profile, features, shape: None, variance }))
    }

    /// The covariance between the rows of `self` and those of `other` (the same kernel at other inputs), as a graph.
    ///
    /// # Errors
    /// [`Error::Usage`] when the two differ in structure, or when one contains an empty sum or product, to which a
    /// user's form may lower.
    pub fn cross(&self, other: &Self) -> Result<Tensor<2>> {
        match (self, other) {
            (Self::Term(a), Self::Term(b)) => Ok(a.cross(&b.features)),
            (Self::Sum(a), Self::Sum(b)) => fold(a.iter().zip(b).map(|(a, b)| a.cross(b)), |x, y| x + y),
            (Self::Product(a), Self::Product(b)) => fold(a.iter().zip(b).map(|(a, b)| a.cross(b)), |x, y| x * y),
            _ => Err(Error::Usage("a kernel form lowers to different structures for different rows".into())),
        }
    }

    /// The covariance of the rows with themselves, as a graph; includes white terms on the diagonal.
    ///
    /// # Errors
    /// [`Error::Usage`] for an empty sum or product.
    pub fn gram(&self) -> Result<Tensor<2>> {
        self.folded(&mut |term| {
            if term.metric != Metric::Delta {
                return Ok(term.cross(&term.features));
            }
            let n = term.features.dims()[0];
            let eye = Tensor::<2>::eye(n, &term.features.device()).cast(term.features.dtype());
            let [_, variance] = term.values();
            Ok(scaled(eye, variance))
        })
    }

    /// What `of` makes of each term, left to right, with the sums and products of the covariance.
    ///
    /// # Errors
    /// What `of` reports; [`Error::Usage`] for an empty sum or product.
    pub(super) fn folded<T: Add<Output = T> + Mul<Output = T>>(
        &self,
        of: &mut impl FnMut(&Term) -> Result<T>,
    ) -> Result<T> {
        match self {
            Self::Term(term) => of(term),
            Self::Sum(parts) => fold(parts.iter().map(|part| part.folded(of)), |x, y| x + y),
            Self::Product(parts) => fold(parts.iter().map(|part| part.folded(of)), |x, y| x * y),
        }
    }

    /// The covariances of arbitrary pairs of rows. `compared` yields the comparison s of each term, left to right; for
    /// [`Metric::Delta`] it is 1 or 0.
    ///
    /// # Errors
    /// [`Error::Shape`] for fewer comparisons than terms, otherwise as [`gram`](Self::gram).
    pub(crate) fn of_pairs(&self, compared: &mut impl Iterator<Item = Tensor<2>>) -> Result<Tensor<2>> {
        let missing = || Error::shape("comparisons of rows", "one for each term", "fewer");
        self.folded(&mut |term| {
            let s = compared.next().ok_or_else(missing)?;
            let [shape, variance] = term.values();
            let values = match term.metric {
                Metric::Delta => s,
                _ => profiled(term.profile, s, shape, None),
            };
            // As a matrix product: for some numbers of rows (1,025 × 81), Burn's sum of the gradient of a broadcast
            // scale is wrong on software Vulkan.
            let [rows, columns] = values.dims();
            let scale = |v: Tensor<2>| values.clone().reshape([rows * columns, 1]).matmul(v).reshape([rows, columns]);
            Ok(variance.map_or_else(|| values.clone(), scale))
        })
    }

    /// The diagonal of [`gram`](Self::gram).
    ///
    /// # Errors
    /// As [`gram`](Self::gram).
    pub fn diag(&self) -> Result<Tensor<1>> {
        self.folded(&mut |term| Ok(term.diag()))
    }

    /// Refuses empty sums and products, to which a user's form may lower.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Term(_) => Ok(()),
            Self::Sum(parts) | Self::Product(parts) if parts.is_empty() => Err(nothing()),
            Self::Sum(parts) | Self::Product(parts) => parts.iter().try_for_each(Self::check),
        }
    }

    /// All terms, left to right.
    pub fn terms(&self) -> Vec<&Term> {
        match self {
            Self::Term(term) => vec![term],
            Self::Sum(parts) | Self::Product(parts) => parts.iter().flat_map(Self::terms).collect(),
        }
    }
}

pub(super) fn fold<T>(mut items: impl Iterator<Item = Result<T>>, join: impl Fn(T, T) -> T) -> Result<T> {
    let first = items.next().unwrap_or_else(|| Err(nothing()))?;
    items.try_fold(first, |all, item| Ok(join(all, item?)))
}

fn nothing() -> Error {
    Error::Usage("a sum or product of no kernels".into())
}

fn scaled(values: Tensor<2>, variance: Option<Tensor<2>>) -> Tensor<2> {
    match variance {
        Some(v) => values * v,
        None => values,
    }
}

/// v · profile(s; a), for values that broadcast.
fn profiled(profile: Profile, s: Tensor<2>, shape: Option<Tensor<2>>, variance: Option<Tensor<2>>) -> Tensor<2> {
    let shape = shape.unwrap_or_else(|| s.zeros_like().slice([0..1, 0..1]));
    scaled(profile.value(Graph(s), Graph(shape)).0, variance)
}

/// The variances of rows `[n, 1]` with features `[n, p]`; shape and variance are `[1, 1]` or `[n, 1]`.
pub(super) fn variances(
    (metric, profile): (Metric, Profile),
    features: &Tensor<2>,
    shape: Option<Tensor<2>>,
    variance: Option<Tensor<2>>,
) -> Tensor<2> {
    let zeros = Tensor::<2>::zeros([features.dims()[0], 1], (&features.device(), features.dtype()));
    match metric {
        Metric::Delta => scaled(zeros + 1.0, variance),
        Metric::SquaredDistance => profiled(profile, zeros, shape, variance),
        Metric::InnerProduct => profiled(profile, features.clone().powi_scalar(2).sum_dim(1), shape, variance),
    }
}

impl Term {
    /// Shape and variance `[1, 1]`.
    fn values(&self) -> [Option<Tensor<2>>; 2] {
        [&self.shape, &self.variance].map(|value| value.clone().map(Tensor::unsqueeze))
    }

    fn cross(&self, other: &Tensor<2>) -> Tensor<2> {
        let [n, m] = [self.features.dims()[0], other.dims()[0]];
        let options = (&self.features.device(), self.features.dtype());
        let of = |s| {
            let [shape, variance] = self.values();
            profiled(self.profile, s, shape, variance)
        };
        match self.metric {
            Metric::Delta => Tensor::zeros([n, m], options),
            // One column at a time, from direct differences: the expanded square loses half the digits.
            Metric::SquaredDistance => {
                let columns = (0..self.features.dims()[1]).map(|k| {
                    let difference = self.features.clone().narrow(1, k, 1) - other.clone().narrow(1, k, 1).transpose();
                    difference.powi_scalar(2)
                });
                // Rows without features are all equal.
                of(columns.reduce(|x, y| x + y).unwrap_or_else(|| Tensor::zeros([n, m], options)))
            }
            Metric::InnerProduct => of(self.features.clone().matmul(other.clone().transpose())),
        }
    }

    fn diag(&self) -> Tensor<1> {
        let [shape, variance] = self.values();
        variances((self.metric, self.profile), &self.features, shape, variance).squeeze_dim(1)
    }
}
