//! What a Laplace approximation with one latent function leaves of the prior covariances at the training rows.

use rayon::prelude::*;

use super::system::{Gram, System};
use crate::linalg::dense::{product, transpose, view, view_mut};
use crate::solvers::blocks::scale;
use crate::threads;

/// `Σ = K − K C K`, from one inverse.
///
/// With `P = (I + W^½ K W^½)⁻¹`, `C = W^½ P W^½`, `I − C K = W^½ P W^-½` and `Σ_ij = −P_ij / √(w_i w_j)` off the
/// diagonal. This is accurate for small w too: the errors of a Cholesky factor scale with the rows and columns of its
/// matrix, so that those of `P_ij` are relative to `√(w_i w_j)`.
pub(super) struct Left {
    /// √w `[n]`.
    roots: Vec<f64>,
    /// `P`, row-major `[n, n]`.
    inverse: Vec<f64>,
    /// The diagonal of Σ `[n]`.
    pub variances: Vec<f64>,
}

impl Left {
    pub fn new(system: &System, gram: Gram) -> Self {
        let (roots, inverse) = (system.roots[0].clone(), system.inverse(0));
        let (n, prior) = (roots.len(), gram.of(0));
        let variance = |(i, row): (usize, &[f64])| {
            let (prior, root) = (&prior[i * n..][..n], roots[i]);
            let left = match root * root * prior[i] > 1.0 {
                true => (1.0 - row[i]) / (root * root),
                // The difference from 1 would be lost in rounding.
                false => (0..n).map(|j| prior[j] * row[j] * roots[j]).sum::<f64>() / root,
            };
            // A variance is at least its rounding error.
            left.max(f64::EPSILON * prior[i])
        };
        let variances = threads::map(inverse.par_chunks(n).enumerate(), variance);
        Self { roots, inverse, variances }
    }

    /// `C`, row-major `[n, n]`.
    pub fn block(&self) -> Vec<f64> {
        let mut block = self.inverse.clone();
        scale(&mut block, &self.roots, &self.roots);
        block
    }

    /// `Σ_j d_j Σ_ij²` for each row i.
    pub fn squares(&self, d: &[f64]) -> Vec<f64> {
        let n = d.len();
        let weights: Vec<f64> = d.iter().zip(&self.roots).map(|(d, root)| d / (root * root)).collect();
        threads::map(self.inverse.par_chunks(n).enumerate(), |(i, row)| {
            let others = row.iter().zip(&weights).enumerate().filter(|(j, _)| *j != i);
            let others: f64 = others.map(|(_, (p, weight))| weight * p * p).sum();
            others / (self.roots[i] * self.roots[i]) + d[i] * self.variances[i].powi(2)
        })
    }

    /// Subtracts from `block` `2 (I − C K) diag(slopes) (I − K C)`, twice the adjoint of Σ's diagonal for K while C
    /// stays.
    pub fn subtract_pulled(&self, slopes: &[f64], block: &mut [f64]) {
        let n = slopes.len();
        let inverse_roots: Vec<f64> = self.roots.iter().map(|root| root.recip()).collect();
        let mut kept = self.inverse.clone();
        scale(&mut kept, &self.roots, &inverse_roots);
        let mut weighted = kept.clone();
        scale(&mut weighted, &vec![1.0; n], slopes);
        product::add_lower(view_mut(block, n), view(&weighted, n), view(&kept, n).transpose(), -2.0);
        transpose::mirror(view_mut(block, n));
    }
}
