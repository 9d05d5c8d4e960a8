//! What a likelihood says at latent values: pseudo-targets with noise.

use crate::likelihoods::{Density, Row};

/// The smallest curvature of a row: below it a row has no say, whatever the actions.
const FLAT: f64 = 1e-150;

/// Gradient and curvature of the log density at latent values f: pseudo-targets `f + g/d` with noise variances `1/d`.
#[derive(Debug, Clone, PartialEq)]
pub struct Sites {
    /// f `[n]`.
    pub f: Vec<f64>,
    /// g `[n]`.
    pub gradient: Vec<f64>,
    /// d `[n]`, positive.
    pub curvature: Vec<f64>,
}

impl Sites {
    /// At `f`.
    pub fn at(density: &dyn Density, rows: &[Row], f: Vec<f64>) -> Self {
        let (mut gradient, mut curvature, mut hessian) = (f.clone(), f.clone(), [0.0]);
        for (i, row) in rows.iter().enumerate() {
            density.derivatives(*row, &f[i..=i], &mut gradient[i..=i], &mut hessian);
            density.curvature(*row, &f[i..=i], &mut curvature[i..=i]);
            curvature[i] = curvature[i].max(FLAT);
        }
        Self { f, gradient, curvature }
    }

    /// `W⁻¹ s`.
    pub(super) fn spread(&self, s: &[f64]) -> Vec<f64> {
        s.iter().zip(&self.curvature).map(|(s, d)| s / d).collect()
    }

    /// How many rows have a curvature below rounding of the largest: they tell next to nothing.
    pub(super) fn flat(&self) -> usize {
        let largest = self.curvature.iter().fold(0.0f64, |largest, d| largest.max(*d));
        self.curvature.iter().filter(|d| **d <= f64::EPSILON * largest).count()
    }
}
