//! The collapsed variational bound of inducing points, fused with its adjoint.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use super::dense::{inverse, solve, view, view_mut};
use super::factor::Factor;
use super::host::{HostOp, Saved, apply3};
use super::real::{narrowed, widened};
use super::shape;
use crate::error::Result;

/// What factorising `K = L Lᵀ` and `B = I + Q`, `Q = L⁻¹ P L⁻ᵀ`, leaves of a collapsed bound, row-major.
#[derive(Debug, Clone)]
pub struct Collapsed {
    /// The factor L `[m, m]`.
    pub lower: Vec<f64>,
    /// Q `[m, m]`.
    pub projected: Vec<f64>,
    /// The factor of B.
    pub factor: Factor<f64>,
    /// B⁻¹ L⁻¹ b `[m]`: the whitened mean.
    pub mean: Vec<f64>,
    /// L⁻¹ b `[m]`.
    target: Vec<f64>,
}

impl Collapsed {
    /// Factors K and B for `k`, `p` `[m, m]` and `b` `[m]`.
    ///
    /// # Errors
    /// [`NotPositiveDefinite`](crate::Error::NotPositiveDefinite) by the policy of [`jitter`](super::jitter).
    pub fn new(k: Vec<f64>, p: Vec<f64>, b: Vec<f64>) -> Result<Self> {
        let m = b.len();
        let lower = Factor::new(k, "K_ZZ")?.lower();
        let (mut projected, mut target) = (p, b);
        solve::lower(view(&lower, m), view_mut(&mut projected, m));
        solve::lower(view(&lower, m), view_mut(&mut projected, m).transpose_mut());
        solve::lower(view(&lower, m), view_mut(&mut target, 1));
        let mut inner = projected.clone();
        inner.iter_mut().step_by(m + 1).for_each(|d| *d += 1.0);
        let factor = Factor::new(inner, "I + L⁻¹K_ZX Σ⁻¹K_XZ L⁻ᵀ")?;
        let mut mean = target.clone();
        factor.solve(&mut mean)?;
        Ok(Self { lower, projected, factor, mean, target })
    }

    fn value(&self) -> f64 {
        let explained: f64 = self.target.iter().zip(&self.mean).map(|(a, b)| a * b).sum();
        let trace: f64 = self.projected.iter().step_by(self.mean.len() + 1).sum();
        0.5 * (self.factor.log_det() - explained - trace)
    }
}

/// `½ (log|B| − bᵀL⁻ᵀB⁻¹L⁻¹b − tr Q)` with `B = I + Q`, `Q = L⁻¹PL⁻ᵀ`, `k = L Lᵀ`: the part of Titsias's bound (2009, eq. 9) that
/// is made of m × m matrices, `[1]`.
///
/// With the whitened mean `γ = B⁻¹L⁻¹b`: `P̄ = ½ L⁻ᵀ(B⁻¹ + γγᵀ − I)L⁻¹`, `K̄ = P̄ + ½ L⁻ᵀQL⁻¹`, `b̄ = −L⁻ᵀγ`. About 8m³ operations
/// in all, in f64 whatever the inputs.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape), or [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite) by the policy of
/// [`jitter`](super::jitter).
pub fn collapsed(k: Tensor<2>, p: Tensor<2>, b: Tensor<1>) -> Result<Tensor<1>> {
    apply3(Bound, k, p, b)
}

#[derive(Debug)]
struct Bound;

impl HostOp<3> for Bound {
    fn forward(&self, [k, p, b]: [TensorData; 3]) -> Result<(TensorData, Saved)> {
        let (m, dtype) = (shape::square("K_ZZ", &k)?, k.dtype());
        shape::expect("K_ZX Σ⁻¹K_XZ", &p, &[m, m])?;
        shape::expect("K_ZX Σ⁻¹y", &b, &[m])?;
        let collapsed = Collapsed::new(widened(k)?, widened(p)?, widened(b)?)?;
        Ok((narrowed(vec![collapsed.value()], &[1], dtype), Arc::new(collapsed)))
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 3]) -> Result<[Option<TensorData>; 3]> {
        let dtype = grad.dtype();
        let Collapsed { lower, projected, factor, mut mean, .. } = shape::take::<Collapsed>(saved)?;
        let (m, grad) = (mean.len(), widened(grad)?.into_iter().sum::<f64>());
        let back = |matrix: &mut Vec<f64>| {
            solve::upper(view(&lower, m).transpose(), view_mut(matrix, m));
            solve::upper(view(&lower, m).transpose(), view_mut(matrix, m).transpose_mut());
            inverse::mirror(view_mut(matrix, m));
        };
        let mut in_p = factor.inverse();
        for (i, row) in in_p.chunks_exact_mut(m).enumerate() {
            row.iter_mut().zip(&mean).for_each(|(x, b)| *x = 0.5 * grad * (*x + mean[i] * b));
            row[i] -= 0.5 * grad;
        }
        back(&mut in_p);
        let mut in_k: Vec<f64> = projected.into_iter().map(|q| 0.5 * grad * q).collect();
        back(&mut in_k);
        in_k.iter_mut().zip(&in_p).for_each(|(k, p)| *k += p);
        solve::upper(view(&lower, m).transpose(), view_mut(&mut mean, 1));
        let in_b: Vec<f64> = mean.into_iter().map(|b| -grad * b).collect();
        Ok([
            Some(narrowed(in_k, &[m, m], dtype)),
            Some(narrowed(in_p, &[m, m], dtype)),
            Some(narrowed(in_b, &[m], dtype)),
        ])
    }
}
