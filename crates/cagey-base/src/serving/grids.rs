//! Sparse models on grids whose means are combined, in numbers.
//!
//! With a_l = L_l⁻¹k(Ω_l, x) of each grid, the mean is m + Σ c_l γ_l·a_l. For φ = (c_l B_l⁻¹a_l), H and A k of all
//! features, the part of the prior variance that the data explain is φ·(2 A k − H φ).

use serde::{Deserialize, Serialize};

use super::latent::{Moments, ROWS, dot, solve_packed, solve_packed_transposed};
use super::{Find, Function, Mean, left, needed, prepared, sized};
use crate::kernels::{Kernel, Prepared};

/// One grid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grid<A = String> {
    /// The places of its points among all.
    pub members: Vec<usize>,
    /// The array of L_l, its rows up to the diagonal.
    pub lower: A,
    /// The array of the factor of B_l, likewise.
    pub inner: A,
    /// c_l.
    pub coefficient: f64,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grids<A = String, P = String> {
    /// The prior covariance.
    pub kernel: Kernel,
    /// The prior mean.
    pub mean: Mean,
    /// The array of all points.
    pub points: P,
    /// The grids.
    pub grids: Vec<Grid<A>>,
    /// The array of the weights c_l γ_l of all features.
    pub weights: A,
    /// The array of the rows conditioned on.
    pub rows: P,
    /// The array A W^½, row-major `[features, rows]`.
    pub features: A,
    /// The array H, row-major.
    pub errors: A,
}

/// [`Grids`], ready to predict.
#[derive(Debug, Clone)]
pub(super) struct Ready {
    of: Grids<Vec<f64>, Prepared>,
    d: usize,
}

impl Grids {
    pub(super) fn ready(&self, d: usize, array: Find) -> Result<Ready, String> {
        let points = prepared(&self.kernel, &needed(array, &self.points)?, &self.points, d)?;
        let rows = prepared(&self.kernel, &needed(array, &self.rows)?, &self.rows, d)?;
        let mut grids = Vec::new();
        for Grid { members, lower, inner, coefficient } in &self.grids {
            if members.iter().any(|at| *at >= points.rows()) {
                return Err(format!("has a grid with more points than the array `{}`", self.points));
            }
            let triangle = members.len() * (members.len() + 1) / 2;
            let [lower, inner] = [lower, inner].map(|name| sized(array, name, triangle));
            let (members, coefficient) = (members.clone(), *coefficient);
            grids.push(Grid { members, lower: lower?, inner: inner?, coefficient });
        }
        let total: usize = grids.iter().map(|grid| grid.members.len()).sum();
        let weights = sized(array, &self.weights, total)?;
        let features = sized(array, &self.features, total * rows.rows())?;
        let errors = sized(array, &self.errors, total * total)?;
        self.mean.check(d)?;
        let (kernel, mean) = (self.kernel.clone(), self.mean.clone());
        Ok(Ready { of: Grids { kernel, mean, points, grids, weights, rows, features, errors }, d })
    }
}

impl Function for Ready {
    fn moments(&self, x: &[f64]) -> Result<Vec<Moments>, String> {
        Ok(x.chunks(ROWS * self.d).flat_map(|x| self.chunk(x)).collect())
    }
}

impl Ready {
    fn chunk(&self, x: &[f64]) -> Vec<Moments> {
        let of = &self.of;
        let rows = of.kernel.prepare(x, self.d);
        let (with_points, with_rows) = (rows.cross(&of.points), rows.cross(&of.rows));
        let each = with_points.chunks_exact(of.points.rows()).zip(with_rows.chunks_exact(of.rows.rows()));
        let mut all = Vec::new();
        for (((c, k), prior), x) in each.zip(rows.diagonal()).zip(x.chunks_exact(self.d)) {
            let (mut features, mut spread) = (Vec::new(), Vec::new());
            for grid in &of.grids {
                let mut own: Vec<f64> = grid.members.iter().map(|at| c[*at]).collect();
                solve_packed(&grid.lower, &mut own);
                features.extend(&own);
                solve_packed(&grid.inner, &mut own);
                solve_packed_transposed(&grid.inner, &mut own);
                spread.extend(own.into_iter().map(|value| grid.coefficient * value));
            }
            let with = of.features.chunks_exact(k.len()).map(|row| 2.0 * dot(row, k));
            let errors = of.errors.chunks_exact(spread.len()).map(|row| dot(row, &spread));
            let explained = spread.iter().zip(with.zip(errors)).map(|(s, (with, error))| s * (with - error)).sum();
            all.push(Moments { mean: of.mean.at(x) + dot(&of.weights, &features), variance: left(prior, explained) });
        }
        all
    }
}
