//! Rows that belong together: several series with functions of their own.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::form::{Form, fold};
use super::{Kernel, Leaf};
use crate::error::Result;
use crate::params::Parameter;

/// 1 for rows with the same values, 0 for others.
///
/// A kernel times this one, of a column that tells series apart, has a function for each series: all have the same
/// distribution, and they are independent. It has no parameters.
#[derive(Debug)]
pub struct Same;

/// The kernel of rows with the same values.
pub fn same() -> Arc<dyn Form> {
    Arc::new(Same)
}

/// Its name.
const NAME: &str = "same";

impl Form for Same {
    fn name(&self) -> &str {
        NAME
    }

    fn ard(&self) -> &[&str] {
        &[]
    }

    fn parameters(&self, _d: usize) -> Vec<Parameter> {
        Vec::new()
    }

    fn cross(&self, _p: &[Tensor<1>], x1: Tensor<2>, x2: Tensor<2>) -> Result<Tensor<2>> {
        let columns = (0..x1.dims()[1]).map(|k| {
            let difference = x1.clone().narrow(1, k, 1) - x2.clone().narrow(1, k, 1).transpose();
            // Gradients in rows are zeros, not missing.
            Ok(difference.clone() * 0.0 + difference.equal_elem(0.0).float().cast(x1.dtype()))
        });
        fold(columns, |a, b| a * b)
    }

    fn diag(&self, _p: &[Tensor<1>], x: Tensor<2>) -> Result<Tensor<1>> {
        Ok(Tensor::ones([x.dims()[0]], (&x.device(), x.dtype())))
    }
}

impl Kernel {
    /// This kernel within each of several series, which the column of this number, of `d`, tells apart; it is of the
    /// other columns. Its summands stay summands.
    ///
    /// # Errors
    /// As [`on`](Self::on).
    pub fn within(self, column: usize, d: usize) -> Result<Self> {
        let others: Vec<usize> = (0..d).filter(|other| *other != column).collect();
        let same = || Self::Leaf(Leaf { form: same(), dims: Some(vec![column]), parameters: Vec::new() });
        let within = |part: Self| Self::product(vec![part, same()]);
        Ok(match self.on(&others)? {
            Self::Sum(parts) => Self::sum(parts.into_iter().map(within).collect()),
            other => within(other),
        })
    }

    /// The column that tells series apart, if all summands are [within](Self::within) them.
    pub fn series(&self) -> Option<usize> {
        let mut all = self.summands().into_iter().map(|part| match part {
            Self::Product(factors) => factors.iter().find_map(Self::of_same),
            other => other.of_same(),
        });
        let first = all.next()??;
        all.all(|other| other == Some(first)).then_some(first)
    }

    /// The column of this kernel if it is `same` of a single one.
    pub fn of_same(&self) -> Option<usize> {
        match self {
            Self::Leaf(Leaf { form, dims: Some(dims), .. }) if form.name() == NAME && dims.len() == 1 => Some(dims[0]),
            _ => None,
        }
    }

    /// What is within the series: the kernel without its factor `same`, if it is one of two.
    pub fn inner(&self) -> &Self {
        match self {
            Self::Product(factors) if factors.len() == 2 && factors[1].of_same().is_some() => &factors[0],
            other => other,
        }
    }
}
