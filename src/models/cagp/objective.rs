//! The two losses of computation-aware GPs.

use burn::tensor::Tensor;

use super::explained::explained;
use super::span::Span;
use crate::error::Result;
use crate::linalg::{cholesky, cholesky_solve, logdet_from_cholesky};
use crate::products::{BlockSparse, Covariance, Explained};

/// What a computation-aware GP minimises. Both losses depend only on the span of the actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum CagpObjective {
    /// The negative evidence lower bound (eq. 11), which is never below the exact negative log marginal likelihood.
    Elbo,
    /// The negative log likelihood of the projected data (eq. 9).
    Projected,
}

/// The projections of the data, in f64 if the device supports it.
pub struct Projection {
    /// SᵀKS `[i, i]`.
    sks: Tensor<2>,
    /// SᵀS `[i, i]`.
    ss: Tensor<2>,
    /// The lower factor of SᵀS.
    root: Tensor<2>,
    /// Sᵀ(y − m) `[i, 1]`.
    pub sy: Tensor<2>,
}

impl Projection {
    /// From unit block-sparse actions and the residual `y − m [n]`.
    pub fn sparse(covariance: Covariance, blocks: &BlockSparse, residual: &Tensor<1>) -> Result<Self> {
        let wide = covariance.scope().wide();
        // The columns are of unit length and do not overlap.
        let ss = Tensor::<2>::eye(blocks.len(), covariance.scope().device()).cast(wide);
        let sy = blocks.transposed_times(&residual.clone().cast(wide).unsqueeze_dim(1));
        Ok(Self { sks: covariance.projected(blocks)?, root: ss.clone(), ss, sy })
    }

    /// From dense actions `s [n, i]` with their products `ks [n, i]`.
    pub fn dense(covariance: Covariance, (s, ks): (Tensor<2>, Tensor<2>), residual: &Tensor<1>) -> Result<Self> {
        let wide = covariance.scope().wide();
        let s = s.cast(wide);
        let ss = s.clone().transpose().matmul(s.clone());
        let (span, y) = (Span::Dense(s), residual.clone().cast(wide).unsqueeze_dim::<2>(1));
        let (sks, sy) = (span.gram(&ks, wide)?, span.transposed_times(&y)?);
        Ok(Self { sks, root: cholesky(ss.clone(), "SᵀS")?, ss, sy })
    }

    /// M̂ = SᵀKS + σ²SᵀS.
    pub fn gram(&self, noise: &Tensor<1>) -> Tensor<2> {
        self.sks.clone() + self.ss.clone() * noise.clone().cast(self.ss.dtype()).unsqueeze::<2>()
    }

    /// The negative log likelihood of the projected data for noise σ² `[1]`, `[1]`.
    fn loss(self, noise: &Tensor<1>) -> Result<Tensor<1>> {
        let factor = cholesky(self.gram(noise), "SᵀK̂S")?;
        let Self { root, sy, .. } = self;
        let v = cholesky_solve(factor.clone(), sy.clone())?;
        let constant = sy.dims()[0] as f64 * log_two_pi();
        let log_dets = logdet_from_cholesky(factor)? - logdet_from_cholesky(root)?;
        Ok(((sy * v).sum() + log_dets + constant) * 0.5)
    }
}

impl CagpObjective {
    /// The loss for unit block-sparse actions, the residual `y − m [n]` and σ² `[1]` in the wide type.
    pub(super) fn sparse(
        self,
        covariance: Covariance,
        blocks: &BlockSparse,
        residual: &Tensor<1>,
        noise: Tensor<1>,
    ) -> Result<Tensor<1>> {
        if self == Self::Projected {
            return Projection::sparse(covariance, blocks, residual)?.loss(&noise);
        }
        let targets = residual.clone().cast(noise.dtype());
        let told = covariance.explained(blocks, [&targets, &noise.clone().expand(targets.dims())], None)?;
        elbo(covariance, told, targets, noise)
    }

    /// The loss for dense actions `s [n, i]` with their products `ks [n, i]`.
    pub(super) fn dense(
        self,
        covariance: Covariance,
        (s, ks): (Tensor<2>, Tensor<2>),
        residual: &Tensor<1>,
        noise: Tensor<1>,
    ) -> Result<Tensor<1>> {
        if self == Self::Projected {
            return Projection::dense(covariance, (s, ks), residual)?.loss(&noise);
        }
        let (targets, s) = (residual.clone().cast(noise.dtype()), s.cast(noise.dtype()));
        let ss = s.clone().transpose().matmul(s.clone());
        let root = cholesky(ss.clone(), "SᵀS")?;
        let of_noise = [ss * noise.clone().unsqueeze(), root * noise.clone().sqrt().unsqueeze()];
        let column = targets.clone().unsqueeze_dim(1);
        let told = explained((&Span::Dense(s), ks), &column, of_noise, (1, false))?;
        elbo(covariance, told, targets, noise)
    }
}

/// The negative ELBO: the expected squared error `‖y − m − KSv‖² + tr(K − KS M̂⁻¹SᵀK)` over σ², and the divergence.
fn elbo(covariance: Covariance, told: Explained, residual: Tensor<1>, noise: Tensor<1>) -> Result<Tensor<1>> {
    let Explained { divergence, mean, variance, .. } = told;
    let n = covariance.order() as f64;
    let misfit = (residual.unsqueeze() - mean).powi_scalar(2).sum();
    let error = covariance.diagonal_wide()?.sum() + misfit - variance.sum();
    Ok((error / noise.clone() + (noise.log() + log_two_pi()) * n + divergence) * 0.5)
}

/// log 2π.
fn log_two_pi() -> f64 {
    (2.0 * std::f64::consts::PI).ln()
}
