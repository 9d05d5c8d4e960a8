//! Observations on the host, and as tensors of a device.

use std::ops::Deref;

use burn::tensor::Tensor;

use super::training::batches::Rows;
use crate::data::groups;
use crate::error::{Error, Result};
use crate::likelihoods::{Gaussian, Targets};
use crate::scope::{Scope, to_f64};

/// Observations on the host, as models see them (standardised if the data are). Their numbers agree with each other:
/// [`new`](Self::new) checks them, and their [fields](RowValues) can then only be read.
///
/// ```
/// # use cagey::models::Observations;
/// let data = Observations::new(vec![0.0, 1.0], 1, vec![0.5, 0.7], None)?;
/// assert_eq!((data.x[1], data.d), (1.0, 1));
/// assert!(data.with_targets(vec![0.5]).is_err());
/// # Ok::<(), cagey::Error>(())
/// ```
///
/// ```compile_fail
/// # use cagey::models::Observations;
/// let mut data = Observations::new(vec![0.0, 1.0], 1, vec![0.5, 0.7], None).unwrap();
/// data.d = 0;
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Observations(RowValues);

/// The numbers of [`Observations`].
#[derive(Debug, Clone, PartialEq)]
pub struct RowValues {
    /// Inputs, row-major `[n, d]`.
    pub x: Vec<f64>,
    /// Input columns.
    pub d: usize,
    /// Targets `[n]`.
    pub y: Vec<f64>,
    /// Known noise variances `[n]` in squared target units, or what else the likelihood's auxiliary column holds:
    /// exposures, numbers of trials.
    pub auxiliary: Option<Vec<f64>>,
}

impl Deref for Observations {
    type Target = RowValues;

    fn deref(&self) -> &RowValues {
        &self.0
    }
}

/// Whether these are some of `n` rows, none of them twice.
pub(super) fn all_once<'r>(rows: impl IntoIterator<Item = &'r usize>, n: usize) -> bool {
    let mut seen = vec![false; n];
    rows.into_iter().all(|&row| row < n && !std::mem::replace(&mut seen[row], true))
}

/// Observations as tensors of a device.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Inputs `[n, d]`.
    pub x: Tensor<2>,
    /// Targets `[n]`.
    pub y: Tensor<1>,
    /// Known noise variances `[n]`, or what else the likelihood's auxiliary column holds.
    pub auxiliary: Option<Tensor<1>>,
    /// How many rows of the data set each row stands for: 1 except in minibatches.
    pub scale: f64,
}

impl Batch {
    /// The same rows without gradients.
    pub(crate) fn inner(self) -> Self {
        let Self { x, y, auxiliary, scale } = self;
        Self { x: x.inner(), y: y.inner(), auxiliary: auxiliary.map(Tensor::inner), scale }
    }

    /// The noise variances of the rows `[n]`, in the type of a scope.
    pub(crate) fn noise(&self, scope: &Scope, likelihood: &Gaussian) -> Tensor<1> {
        likelihood.variances(scope, self.y.dims()[0], self.auxiliary.as_ref())
    }

    /// The same rows on the host.
    ///
    /// # Errors
    /// As [`Observations::new`]; [`Error::Device`] when the device cannot be read.
    pub(crate) fn rows(&self) -> Result<Observations> {
        let auxiliary = self.auxiliary.clone().map(to_f64).transpose()?;
        Observations::new(to_f64(self.x.clone())?, self.x.dims()[1], to_f64(self.y.clone())?, auxiliary)
    }

    /// Refuses tensors whose length is wrong or whose type differs from the scope's.
    ///
    /// # Errors
    /// [`Error::Shape`] naming the tensor.
    pub fn check(&self, scope: &Scope) -> Result<()> {
        let n = self.x.dims()[0];
        let rows = std::iter::once(("targets", &self.y))
            .chain(self.auxiliary.as_ref().map(|values| ("auxiliary values", values)));
        for (what, values) in rows {
            if values.dims() != [n] || values.dtype() != scope.dtype() {
                let got = format!("{:?} of {:?}", values.dims(), values.dtype());
                return Err(Error::shape(format!("{what} of a batch"), format!("[{n}] of {:?}", scope.dtype()), got));
            }
        }
        if self.x.dtype() == scope.dtype() {
            return Ok(());
        }
        Err(Error::shape("inputs of a batch", format!("{:?}", scope.dtype()), format!("{:?}", self.x.dtype())))
    }
}

impl Observations {
    /// Checks shapes and values.
    ///
    /// # Errors
    /// [`Error::Shape`] when lengths disagree, [`Error::Data`] when there are no rows or a value is not finite.
    pub fn new(x: Vec<f64>, d: usize, y: Vec<f64>, auxiliary: Option<Vec<f64>>) -> Result<Self> {
        let n = y.len();
        if n == 0 || d == 0 {
            return Err(Error::Data(format!("need at least one row and one input column, got {n} and {d}")));
        }
        if x.len() != n * d {
            return Err(Error::shape("inputs", format!("{n} × {d} values"), x.len().to_string()));
        }
        if let Some(values) = auxiliary.as_ref().filter(|values| values.len() != n) {
            return Err(Error::shape("auxiliary values", n.to_string(), values.len().to_string()));
        }
        let bad = |values: &[f64]| values.iter().position(|v| !v.is_finite());
        if let Some(i) = bad(&x) {
            return Err(Error::Data(format!("input of row {}, column {} is not finite", i / d, i % d)));
        }
        if let Some(i) = bad(&y) {
            return Err(Error::Data(format!("target of row {i} is not finite")));
        }
        if let Some(i) = auxiliary.as_ref().and_then(|values| values.iter().position(|v| !(v.is_finite() && *v >= 0.0)))
        {
            return Err(Error::Data(format!(
                "auxiliary value of row {i}, a noise variance, exposure or number of trials, is negative or not finite"
            )));
        }
        Ok(Self(RowValues { x, d, y, auxiliary }))
    }

    /// Numbers that agree with each other; there may be no rows.
    pub(crate) fn unchecked(x: Vec<f64>, d: usize, y: Vec<f64>, auxiliary: Option<Vec<f64>>) -> Self {
        Self(RowValues { x, d, y, auxiliary })
    }

    /// No rows of `d` columns.
    pub(crate) fn none(d: usize) -> Self {
        Self::unchecked(Vec::new(), d, Vec::new(), None)
    }

    /// The numbers: inputs, columns, targets and auxiliary values.
    pub fn into_values(self) -> RowValues {
        self.0
    }

    /// The same inputs with other targets `[n]`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_targets(self, y: Vec<f64>) -> Result<Self> {
        Self::new(self.0.x, self.0.d, y, self.0.auxiliary)
    }

    /// The same rows with other auxiliary values `[n]`, or none.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_auxiliary(self, auxiliary: Option<Vec<f64>>) -> Result<Self> {
        Self::new(self.0.x, self.0.d, self.0.y, auxiliary)
    }

    /// Number of rows.
    pub fn n(&self) -> usize {
        self.y.len()
    }

    /// A number for each row, from 0 on in the order in which they appear. Rows with the same inputs have the same.
    pub fn groups(&self) -> Vec<usize> {
        groups(self.x.chunks(self.d))
    }

    /// The standard deviation of an input column, or 1 if the column is constant.
    pub fn sd(&self, column: usize) -> f64 {
        let (n, values) = (self.n() as f64, || self.x[column..].iter().step_by(self.d));
        let mean = values().sum::<f64>() / n;
        let sd = (values().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        if sd > 0.0 { sd } else { 1.0 }
    }

    /// The smallest and largest value of each input `[d]`.
    pub fn ranges(&self) -> Vec<[f64; 2]> {
        let column = |at: usize| self.x[at..].iter().step_by(self.d).copied();
        let ends = |at| [column(at).fold(f64::INFINITY, f64::min), column(at).fold(f64::NEG_INFINITY, f64::max)];
        (0..self.d).map(ends).collect()
    }

    /// The rows in another order, which must name every row once.
    ///
    /// # Errors
    /// [`Error::Usage`] if it does not.
    pub fn permuted(&self, order: &[usize]) -> Result<Self> {
        if !all_once(order, self.n()) || order.len() != self.n() {
            return Err(Error::Usage(format!("an order of {} rows must name each of them once", self.n())));
        }
        self.gather(order)
    }

    /// These rows followed by others. If only some rows have an auxiliary value, the rest have 0.
    ///
    /// # Errors
    /// [`Error::Shape`] when the columns differ.
    pub fn extended(&self, more: &Self) -> Result<Self> {
        if more.d != self.d {
            return Err(Error::shape("new inputs", format!("{} columns", self.d), more.d.to_string()));
        }
        let known = |rows: &Self| rows.auxiliary.clone().unwrap_or_else(|| vec![0.0; rows.n()]);
        let auxiliary =
            (self.auxiliary.is_some() || more.auxiliary.is_some()).then(|| [known(self), known(more)].concat());
        let (x, y) = ([&self.x[..], &more.x].concat(), [&self.y[..], &more.y].concat());
        Ok(Self::unchecked(x, self.d, y, auxiliary))
    }

    /// Adds rows after these. Unless these are empty, both or neither must have auxiliary values.
    ///
    /// # Errors
    /// [`Error::Shape`] when the columns differ.
    pub(crate) fn append(&mut self, more: Self) -> Result<()> {
        let alike = self.y.is_empty() || self.auxiliary.is_some() == more.auxiliary.is_some();
        if more.d != self.d || !alike {
            return Err(Error::shape("more rows", format!("{} columns", self.d), more.d.to_string()));
        }
        let (own, more) = (&mut self.0, more.0);
        match &mut own.auxiliary {
            Some(values) => values.extend(more.auxiliary.into_iter().flatten()),
            None => own.auxiliary = more.auxiliary,
        }
        own.x.extend(more.x);
        own.y.extend(more.y);
        Ok(())
    }

    /// The noise variances of the rows `[n]`.
    pub(crate) fn noise(&self, scope: &Scope, likelihood: &Gaussian) -> Result<Vec<f64>> {
        let known = self.auxiliary.as_ref().map(|values| scope.vector(values));
        to_f64(likelihood.variances(scope, self.n(), known.as_ref()))
    }

    /// The targets with their auxiliary values.
    pub fn targets(&self) -> Targets<'_> {
        Targets { y: &self.y, auxiliary: self.auxiliary.as_deref() }
    }

    /// The same rows as tensors of a scope.
    pub fn batch(&self, scope: &Scope) -> Batch {
        Batch {
            x: scope.rows(&self.x, self.d),
            y: scope.vector(&self.y),
            auxiliary: self.auxiliary.as_ref().map(|values| scope.vector(values)),
            scale: 1.0,
        }
    }
}
