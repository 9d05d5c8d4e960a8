//! Latent functions of classes that share a kernel and its points: means without variances.
//!
//! With c the covariances of a row with the points, the functions are level + s Wᵀc.

use serde::{Deserialize, Serialize};

use super::latent::{Moments, ROWS, dot};
use super::{Find, VARIANCE_FLOOR, needed, prepared, sized};
use crate::kernels::{Kernel, Prepared};

/// The functions, whose long lists are arrays of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scores<A = String, P = String> {
    /// The covariance.
    pub kernel: Kernel,
    /// The array of the points, row-major.
    pub points: P,
    /// The array W, row-major `[points, functions]`; one function after another, once it is read.
    pub weights: A,
    /// The factor s.
    pub scale: f64,
    /// The level of each function.
    pub levels: Vec<f64>,
}

/// [`Scores`], ready to predict.
#[derive(Debug, Clone)]
pub struct Scored {
    of: Scores<Vec<f64>, Prepared>,
    d: usize,
}

impl Scores {
    /// Reads the arrays, for inputs with `d` columns.
    ///
    /// # Errors
    /// What is missing or does not fit.
    pub fn ready(&self, d: usize, array: Find) -> Result<Scored, String> {
        let points = prepared(&self.kernel, &needed(array, &self.points)?, &self.points, d)?;
        let (rows, count) = (points.rows(), self.levels.len());
        let by_rows = sized(array, &self.weights, rows * count)?;
        let weights = (0..count).flat_map(|l| by_rows.iter().skip(l).step_by(count).copied()).collect();
        let (kernel, scale, levels) = (self.kernel.clone(), self.scale, self.levels.clone());
        Ok(Scored { of: Scores { kernel, points, weights, scale, levels }, d })
    }
}

impl Scored {
    /// The moments of each function at rows `x`.
    pub fn moments(&self, x: &[f64]) -> Vec<Vec<Moments>> {
        let Scores { kernel, points, weights, scale, levels } = &self.of;
        let mut all = vec![Vec::new(); levels.len()];
        for x in x.chunks(ROWS * self.d) {
            let cross = kernel.prepare(x, self.d).cross(points);
            for c in cross.chunks_exact(points.rows()) {
                let functions = weights.chunks_exact(c.len()).zip(levels);
                for (own, (weights, level)) in all.iter_mut().zip(functions) {
                    own.push(Moments { mean: scale * dot(weights, c) + level, variance: VARIANCE_FLOOR });
                }
            }
        }
        all
    }
}
