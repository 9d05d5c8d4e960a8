//! The small system of some actions at some sites.

use super::super::numbers::Numbers;
use crate::error::Result;
use crate::linalg::Factor;
use crate::linalg::real::dot;

/// `M a = Sᵀ(ŷ − m)` with `M = Sᵀ(K + W⁻¹)S`.
pub struct Small {
    /// The factor of M.
    pub factor: Factor<f64>,
    /// `Sᵀ(ŷ − m)`.
    pub projected: Vec<f64>,
    /// a.
    pub weights: Vec<f64>,
}

impl Small {
    pub fn new(factor: Factor<f64>, projected: Vec<f64>) -> Result<Self> {
        let mut weights = projected.clone();
        factor.solve(&mut weights)?;
        Ok(Self { factor, projected, weights })
    }

    /// From S, SᵀKS, the curvature d `[L n]` of sites and ŷ − m `[L n]`.
    pub fn at(s: &Numbers, mut gram: Vec<f64>, curvature: &[f64], targets: &[f64]) -> Result<Self> {
        s.add_noise(curvature, &mut gram);
        Self::new(Factor::new(gram, "Sᵀ(K + W⁻¹)S")?, s.project(targets))
    }

    /// The divergence of the posterior from the prior, for `N = SᵀW⁻¹S` `[i, i]`:
    /// `½ (aᵀ(M − N)a + ln|M| − ln|N| − i + tr M⁻¹N)`. NaN if rounding errors hide that N is positive definite.
    pub fn divergence(&self, noise: Vec<f64>) -> Result<f64> {
        let (i, a) = (self.weights.len(), &self.weights);
        let pulled =
            dot(&self.projected, a) - noise.chunks_exact(i).zip(a).map(|(row, own)| own * dot(row, a)).sum::<f64>();
        let Ok(root) = Factor::new(noise, "SᵀW⁻¹S") else { return Ok(f64::NAN) };
        let log_dets = self.factor.log_det() - root.log_det();
        let mut e = root.lower();
        self.factor.solve_lower(&mut e)?;
        Ok(0.5 * (pulled + log_dets - i as f64 + dot(&e, &e)))
    }
}
