//! Latent functions of classes that share a kernel and its points: means without variances.
//!
//! With c the covariances of a row with the points, the functions are level + s Wᵀc.

use serde::{Deserialize, Serialize};

use super::latent::{Moments, ROWS, dot};
use super::{Find, VARIANCE_FLOOR, needed, prepared, sized};
use crate::kernels::{Kernel, Prepared};

/// The functions, whose long lists are arrays of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// The covariance.
    pub kernel: Kernel,
    /// The array of the points, row-major.
    pub points: String,
    /// The array W, row-major `[points, functions]`.
    pub weights: String,
    /// The factor s.
    pub scale: f64,
    /// The level of each function.
    pub levels: Vec<f64>,
}

/// [`Scores`], ready to predict.
#[derive(Debug, Clone)]
pub struct Scored {
    kernel: Kernel,
    d: usize,
    fixed: Prepared,
    /// One function after another.
    weights: Vec<f64>,
    scale: f64,
    levels: Vec<f64>,
}

impl Scores {
    /// Reads the arrays, for inputs with `d` columns.
    ///
    /// # Errors
    /// What is missing or does not fit.
    pub fn ready(&self, d: usize, array: Find) -> Result<Scored, String> {
        let fixed = prepared(&self.kernel, &needed(array, &self.points)?, &self.points, d)?;
        let (rows, count) = (fixed.rows(), self.levels.len());
        let by_rows = sized(array, &self.weights, rows * count)?;
        let weights = (0..count).flat_map(|l| by_rows.iter().skip(l).step_by(count).copied()).collect();
        let (kernel, scale, levels) = (self.kernel.clone(), self.scale, self.levels.clone());
        Ok(Scored { kernel, d, fixed, weights, scale, levels })
    }
}

impl Scored {
    /// The moments of each function at rows `x`.
    pub fn moments(&self, x: &[f64]) -> Vec<Vec<Moments>> {
        let mut all = vec![Vec::new(); self.levels.len()];
        for x in x.chunks(ROWS * self.d) {
            let cross = self.kernel.prepare(x, self.d).cross(&self.fixed);
            for c in cross.chunks_exact(self.fixed.rows()) {
                let functions = self.weights.chunks_exact(c.len()).zip(&self.levels);
                for (own, (weights, level)) in all.iter_mut().zip(functions) {
                    own.push(Moments { mean: self.scale * dot(weights, c) + level, variance: VARIANCE_FLOOR });
                }
            }
        }
        all
    }
}
