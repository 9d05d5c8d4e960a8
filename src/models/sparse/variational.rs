//! The normal distribution of inducing values that variational models learn.

use crate::error::{Error, Result};
use crate::linalg::lower;
use crate::params::{Parameter, Unit};

/// The covariance of q(u).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Covariance {
    /// R Rᵀ with a lower triangular R: m(m + 1)/2 numbers.
    Full,
    /// A diagonal R: m numbers.
    Diagonal,
}

/// q(u) = N(μ, R Rᵀ), or the same for q(v) of whitened values.
#[derive(Debug, Clone)]
pub struct Variational {
    /// μ `[m]`.
    pub mean: Parameter,
    /// The rows of R up to the diagonal `[m(m + 1)/2]`, or only the diagonal `[m]`.
    pub root: Parameter,
}

impl Variational {
    /// Starts at μ = 0, R = I.
    pub fn new(m: usize, covariance: Covariance) -> Self {
        let root = match covariance {
            Covariance::Diagonal => vec![1.0; m],
            Covariance::Full => (0..m).flat_map(|i| (0..=i).map(move |j| f64::from(u8::from(i == j)))).collect(),
        };
        Self {
            mean: Parameter::real("mean", Unit::None, &vec![0.0; m]),
            root: Parameter::real("root", Unit::None, &root),
        }
    }

    pub(in crate::models) fn is_diagonal(&self) -> bool {
        self.root.len() == self.mean.len()
    }

    /// R, row-major `[m, m]`.
    pub(in crate::models) fn lower(&self) -> Result<Vec<f64>> {
        let (m, numbers) = (self.mean.len(), self.root.internal());
        if !self.is_diagonal() {
            return lower::unpacked(&numbers);
        }
        let mut full = vec![0.0; m * m];
        full.iter_mut().step_by(m + 1).zip(numbers).for_each(|(x, r)| *x = r);
        Ok(full)
    }

    /// Adds independent standard normal values.
    pub(in crate::models) fn extend(&mut self, count: usize) -> Result<()> {
        if self.is_diagonal() && self.mean.len() > 1 {
            return Err(Error::Usage("more rows need a full covariance of q, not a diagonal one".into()));
        }
        let (m, lower) = (self.mean.len(), self.lower()?);
        let entry = |i: usize, j: usize| match i < m {
            true => lower[i * m + j],
            false => f64::from(u8::from(i == j)),
        };
        let root: Vec<f64> =
            (0..m + count).flat_map(|i| (0..=i).map(move |j| (i, j))).map(|(i, j)| entry(i, j)).collect();
        self.mean.extend(&vec![0.0; count], 1);
        self.root.extend(&root[self.root.len()..], 1);
        Ok(())
    }

    /// Sets μ and R from a row-major lower triangular matrix.
    pub(in crate::models) fn set(&mut self, mean: &[f64], lower: &[f64]) {
        self.set_packed(mean, &lower::packed(lower, mean.len()));
    }

    /// Sets μ and R from the rows of R up to the diagonal.
    pub(in crate::models) fn set_packed(&mut self, mean: &[f64], packed: &[f64]) {
        self.mean.put_raw(mean);
        self.root.put_raw(packed);
    }
}

crate::parameters!(Variational { "mean": mean, "root": root });
