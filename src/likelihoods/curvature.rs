//! The curvature of a row's log density as a product of roots, for the computation-aware Newton's method.

use super::Density;
use super::Row;

/// The curvature `W = R Rᵀ` of a row's negative log density in its latent functions, and its gradient `g = R c`. The
/// likelihood's [curvature](Density::curvature) is `d`. In general `R = diag(√d)`; for [centred](Density::is_centred)
/// likelihoods `R = diag(√d)(I − √d√dᵀ)`. In both cases `c = g/√d`.
///
/// Neither `W⁻¹` nor a pseudo-inverse of a singular `W` is needed: `(K + W⁻¹)⁻¹ = R (I + RᵀKR)⁻¹ Rᵀ`.
#[derive(Debug, Clone, PartialEq)]
pub struct Root {
    /// √d `[L]`.
    scale: Vec<f64>,
    centred: bool,
    pull: Vec<f64>,
}

impl Root {
    /// The root at latent values `f` `[L]`.
    pub fn of<D: Density + ?Sized>(density: &D, row: Row, f: &[f64]) -> Self {
        let latents = f.len();
        let (mut gradient, mut scale) = (vec![0.0; latents], vec![0.0; latents]);
        density.derivatives(row, f, &mut gradient, &mut vec![0.0; latents * latents]);
        density.curvature(row, f, &mut scale);
        scale.iter_mut().for_each(|d| *d = d.sqrt());
        // Without any curvature a Newton step has no length. Such a row does not move until the others move it.
        let pull = gradient.iter().zip(&scale).map(|(g, s)| if *s > 0.0 { g / s } else { 0.0 }).collect();
        Self { scale, centred: density.is_centred(), pull }
    }

    /// c `[L]`.
    pub fn pull(&self) -> &[f64] {
        &self.pull
    }

    /// `x ← R x`.
    pub fn apply(&self, x: &mut [f64]) {
        self.centre(x);
        self.rescale(x);
    }

    /// `x ← Rᵀ x`.
    pub fn apply_transposed(&self, x: &mut [f64]) {
        self.rescale(x);
        self.centre(x);
    }

    fn rescale(&self, x: &mut [f64]) {
        x.iter_mut().zip(&self.scale).for_each(|(x, s)| *x *= s);
    }

    fn centre(&self, x: &mut [f64]) {
        if self.centred {
            let along: f64 = x.iter().zip(&self.scale).map(|(x, s)| x * s).sum();
            x.iter_mut().zip(&self.scale).for_each(|(x, s)| *x -= s * along);
        }
    }
}
