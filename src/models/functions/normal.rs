//! Joint normal distributions as tensors.

use std::ops::Range;

use burn::tensor::{Tensor, TensorData};

use crate::device::transfers::upload;
use crate::error::{Error, Result};
use crate::linalg::{cholesky, solve_lower};

/// A joint normal distribution of f at `t` points, differentiable in them.
#[derive(Debug, Clone)]
pub struct Normal {
    /// Means `[t]`.
    pub mean: Tensor<1>,
    /// Covariances `[t, t]`.
    pub covariance: Tensor<2>,
}

/// Normal distributions with the same covariances, one for each column of means.
#[derive(Debug, Clone)]
pub struct Normals {
    /// Means `[t, s]`.
    pub mean: Tensor<2>,
    /// Covariances `[t, t]`.
    pub covariance: Tensor<2>,
}

impl Normal {
    /// Number of points t.
    pub fn len(&self) -> usize {
        self.mean.dims()[0]
    }

    /// Whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The distribution at some of the points.
    pub fn part(&self, range: Range<usize>) -> Self {
        let (at, count) = (range.start, range.len());
        let covariance = self.covariance.clone().narrow(0, at, count).narrow(1, at, count);
        Self { mean: self.mean.clone().narrow(0, at, count), covariance }
    }

    /// Samples `[t, s]` from standard normal numbers `base [t, s]`, row-major: mean + L base with covariance L Lᵀ. The
    /// same numbers give samples that are a differentiable function of the points.
    ///
    /// # Errors
    /// [`Error::Shape`] for base samples that do not fill rows of all points,
    /// [`Error::NotPositiveDefinite`] when the covariance cannot be factorised.
    pub fn samples(&self, base: &[f64]) -> Result<Tensor<2>> {
        let t = self.len();
        if t == 0 || base.is_empty() || !base.len().is_multiple_of(t) {
            let want = format!("{t} rows, one for each point");
            return Err(Error::shape("base samples", want, format!("{} numbers", base.len())));
        }
        let base = TensorData::new(base.to_vec(), [t, base.len() / t]);
        let base = upload::<2, _>(base, &self.mean.device(), self.mean.dtype());
        let lower = cholesky(self.covariance.clone(), "posterior covariance")?;
        Ok(self.mean.clone().unsqueeze_dim(1) + lower.matmul(base))
    }

    /// The distributions at the other points, given values `y [q, s]` of the first q points with this noise variance:
    /// one for each column of y. For fantasies, y are samples at these points.
    ///
    /// # Errors
    /// [`Error::Shape`] for more values than points, [`Error::NotPositiveDefinite`] when the covariance of the first
    /// points cannot be factorised.
    pub fn given(&self, y: &Tensor<2>, noise: f64) -> Result<Normals> {
        let (all, [q, _]) = (self.len(), y.dims());
        if q == 0 || q > all {
            return Err(Error::shape("values to condition on", format!("1 to {all} rows"), q.to_string()));
        }
        let (device, dtype, t) = (self.mean.device(), self.mean.dtype(), all - q);
        let y = y.clone().cast(dtype);
        let y = if device.is_autodiff() && !y.is_autodiff() { Tensor::from_inner(y) } else { y };
        let block = |row: usize, rows: usize, column: usize, columns: usize| {
            self.covariance.clone().narrow(0, row, rows).narrow(1, column, columns)
        };
        let noise = Tensor::<2>::eye(q, &device).cast(dtype) * noise;
        let lower = cholesky(block(0, q, 0, q) + noise, "the covariance of what is conditioned on")?;
        let mean = |at, count| self.mean.clone().narrow(0, at, count).unsqueeze_dim::<2>(1);
        let whitened = solve_lower(lower.clone(), y - mean(0, q))?;
        let cross = solve_lower(lower, block(0, q, q, t))?.transpose();
        let covariance = block(q, t, q, t) - cross.clone().matmul(cross.clone().transpose());
        Ok(Normals { mean: mean(q, t) + cross.matmul(whitened), covariance })
    }
}
