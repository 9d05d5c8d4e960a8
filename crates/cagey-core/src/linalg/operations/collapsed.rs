//! The collapsed variational bound of inducing points, fused with its adjoint.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use crate::error::Result;
use crate::linalg::factor::Factor;
use crate::linalg::host::{Anywhere, HostOp, Vjp, apply2};
use crate::linalg::real::{dot, narrowed, widened};
use crate::linalg::shape;

/// The results of factorising `B = I + Q`, for a collapsed bound.
#[derive(Debug, Clone)]
pub struct Collapsed {
    /// The factor of B.
    pub factor: Factor<f64>,
    /// B⁻¹ b `[m]`: the whitened mean.
    pub mean: Vec<f64>,
    value: f64,
}

impl Collapsed {
    /// Factors B for `q` `[m, m]` and `b` `[m]`.
    ///
    /// # Errors
    /// [`NotPositiveDefinite`](crate::Error::NotPositiveDefinite) by the policy of [`jitter`](crate::linalg::jitter).
    pub fn new(q: Vec<f64>, b: &[f64]) -> Result<Self> {
        let mut inner = q;
        let mut trace = 0.0;
        inner.iter_mut().step_by(b.len() + 1).for_each(|d| {
            trace += *d;
            *d += 1.0;
        });
        let factor = Factor::new(inner, "I + L⁻¹K_ZX Σ⁻¹K_XZ L⁻ᵀ")?;
        let mut mean = b.to_vec();
        factor.solve(&mut mean)?;
        let value = 0.5 * (factor.log_det() - dot(b, &mean) - trace);
        Ok(Self { factor, mean, value })
    }
}

/// `½ (log|B| − bᵀB⁻¹b − tr Q)` with `B = I + Q`, `[1]`, for `Q = L⁻¹K_ZX Σ⁻¹K_XZ L⁻ᵀ` and `b = L⁻¹K_ZX Σ⁻¹y`: the part
/// of Titsias's bound (2009, eq. 9) that consists of whitened m × m matrices.
///
/// With the whitened mean `γ = B⁻¹b`: `Q̄ = ½ (B⁻¹ + γγᵀ − I)` and `b̄ = −γ`. About m³ operations in all, in f64 for
/// inputs of any type.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape), or [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite) by the
/// policy of [`jitter`](crate::linalg::jitter).
pub fn collapsed(q: Tensor<2>, b: Tensor<1>) -> Result<Tensor<1>> {
    apply2(Anywhere::new(Bound), q, b)
}

pub(in crate::linalg) struct Bound;

impl HostOp<2> for Bound {
    fn forward(self: Arc<Self>, [q, b]: [TensorData; 2]) -> Result<(TensorData, Vjp<2>)> {
        let (m, dtype) = (shape::square("Q", &q)?, q.dtype());
        shape::expect("b", &b, &[m])?;
        let Collapsed { factor, mean, value } = Collapsed::new(widened(q)?, &widened(b)?)?;
        let vjp = move |grad, _needs: [bool; 2]| {
            let (mut in_q, grad) = (factor.inverse(), widened(grad)?.into_iter().sum::<f64>());
            for (i, row) in in_q.chunks_exact_mut(m).enumerate() {
                row.iter_mut().zip(&mean).for_each(|(x, b)| *x = 0.5 * grad * (*x + mean[i] * b));
                row[i] -= 0.5 * grad;
            }
            let in_b: Vec<f64> = mean.into_iter().map(|b| -grad * b).collect();
            Ok([Some(narrowed(in_q, &[m, m], dtype)), Some(narrowed(in_b, &[m], dtype))])
        };
        Ok((narrowed(vec![value], &[1], dtype), Box::new(vjp)))
    }
}
