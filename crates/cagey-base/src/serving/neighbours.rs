//! A model in which each row sees its nearest points only, in numbers.
//!
//! The points are inducing inputs, with q(u) = N(m, R Rᵀ), or rows with residuals m and the variances D of their noise.
//! With the covariances k and K of a row and its neighbours I and α = (K + D)⁻¹k, the mean is m₀ + α·m and the variance
//! k** − k·α + ‖Rᵀα‖² (Tran et al. 2021).

use serde::{Deserialize, Serialize};

use super::latent::{Moments, dot, solve_packed, solve_packed_transposed};
use super::{Find, Function, Mean, left, needed, prepared, sized};
use crate::kernels::Kernel;
use crate::vectors::{Nearest, squared_distance};

/// The points and what is known there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Neighbours<A = String> {
    /// The prior covariance.
    pub kernel: Kernel,
    /// The prior mean.
    pub mean: Mean,
    /// The array of the points.
    pub points: A,
    /// The array of the means of q, or of residuals.
    pub means: A,
    /// The array of the root of q's covariance: its diagonal, or its rows up to the diagonal; none for rows.
    pub root: Option<A>,
    /// The array of the variances of the noise of rows; none for inducing inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<A>,
    /// How many neighbours a row has.
    pub count: usize,
    /// The share of the prior variance that is added to that of each inducing value.
    pub nugget: f64,
}

/// [`Neighbours`], ready to predict.
#[derive(Debug, Clone)]
pub(super) struct Ready {
    of: Neighbours<Vec<f64>>,
    d: usize,
    /// The points where distances are measured, and the number of their columns.
    places: (Vec<f64>, usize),
}

impl Neighbours {
    pub(super) fn ready(&self, d: usize, array: Find) -> Result<Ready, String> {
        let points = needed(array, &self.points)?;
        let fixed = prepared(&self.kernel, &points, &self.points, d)?;
        let count = fixed.rows();
        let means = sized(array, &self.means, count)?;
        let root = self.root.as_ref().map(|root| needed(array, root)).transpose()?;
        let noise = self.noise.as_ref().map(|noise| sized(array, noise, count)).transpose()?;
        if root.as_ref().is_some_and(|root| root.len() != count && root.len() != count * (count + 1) / 2) {
            return Err(format!("the root of a covariance does not fit its {count} points"));
        }
        if self.count == 0 || self.count > count {
            return Err(format!("has {} neighbours of {count} points", self.count));
        }
        self.mean.check(d)?;
        let places = fixed.places().unwrap_or_else(|| (points.clone(), d));
        let (kernel, mean) = (self.kernel.clone(), self.mean.clone());
        let of = Neighbours { kernel, mean, points, means, root, noise, count: self.count, nugget: self.nugget };
        Ok(Ready { of, d, places })
    }
}

impl Function for Ready {
    fn moments(&self, x: &[f64]) -> Result<Vec<Moments>, String> {
        x.chunks_exact(self.d).map(|x| self.at(x)).collect()
    }
}

impl Ready {
    fn at(&self, x: &[f64]) -> Result<Moments, String> {
        let (kernel, h) = (&self.of.kernel, self.of.count);
        let row = kernel.prepare(x, self.d);
        let place = row.places().map_or_else(|| x.to_vec(), |(place, _)| place);
        let mut nearest = Nearest::new(h);
        for (z, j) in self.places.0.chunks_exact(self.places.1).zip(0..) {
            nearest.add(squared_distance(&place, z), j);
        }
        let near: Vec<usize> = nearest.first().map(|j| j as usize).collect();
        let points: Vec<f64> = near.iter().flat_map(|j| &self.of.points[j * self.d..][..self.d]).copied().collect();
        let points = kernel.prepare(&points, self.d);
        let k = row.cross(&points);
        let mut gram = points.cross(&points);
        gram.iter_mut().step_by(h + 1).zip(points.diagonal()).for_each(|(own, k)| *own = k * (1.0 + self.of.nugget));
        if let Some(noise) = &self.of.noise {
            gram.iter_mut().step_by(h + 1).zip(&near).for_each(|(own, j)| *own += noise[*j]);
        }
        let lower = factor(&gram, h).ok_or("the covariance of its neighbours is singular; fit it with a nugget")?;
        let mut weights = k.clone();
        solve_packed(&lower, &mut weights);
        solve_packed_transposed(&lower, &mut weights);
        let mean = near.iter().zip(&weights).map(|(j, w)| w * self.of.means[*j]).sum::<f64>();
        let spread = self.spread(&near, &weights);
        let prior = row.diagonal()[0];
        Ok(Moments { mean: self.of.mean.at(x) + mean, variance: left(prior, dot(&weights, &k) - spread) })
    }

    /// ‖Rᵀα‖².
    fn spread(&self, near: &[usize], weights: &[f64]) -> f64 {
        let Neighbours { means, root: Some(root), .. } = &self.of else { return 0.0 };
        if root.len() == means.len() {
            return near.iter().zip(weights).map(|(j, w)| (w * root[*j]).powi(2)).sum();
        }
        let mut sums = vec![0.0; means.len()];
        for (j, w) in near.iter().zip(weights) {
            let row = &root[j * (j + 1) / 2..][..=*j];
            sums.iter_mut().zip(row).for_each(|(sum, r)| *sum += w * r);
        }
        dot(&sums, &sums)
    }
}

/// The Cholesky factor of a small matrix, its rows up to the diagonal; none if it has none.
fn factor(matrix: &[f64], h: usize) -> Option<Vec<f64>> {
    let mut lower = Vec::with_capacity(h * (h + 1) / 2);
    for (i, row) in matrix.chunks_exact(h).enumerate() {
        let mut own = row[..i].to_vec();
        solve_packed(&lower, &mut own);
        let left = row[i] - dot(&own, &own);
        lower.append(&mut own);
        lower.push(Some(left.sqrt()).filter(|pivot| *pivot > 0.0)?);
    }
    Some(lower)
}
