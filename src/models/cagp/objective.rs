//! The two losses of computation-aware GPs, from the projections of the data.

use burn::tensor::Tensor;

use crate::error::Result;
use crate::linalg::{cholesky, cholesky_solve, logdet_from_cholesky, solve_lower};
use crate::products::{BlockSparse, Covariance, Explained, tiled};

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

/// What the losses need from data and actions, in f64 if the device supports it.
pub struct Projection<'a> {
    /// SᵀKS `[i, i]`.
    sks: Tensor<2>,
    /// SᵀS `[i, i]`.
    ss: Tensor<2>,
    /// The lower factor of SᵀS.
    root: Tensor<2>,
    /// Sᵀ(y − m) `[i, 1]`.
    pub sy: Tensor<2>,
    /// tr K `[1]`.
    trace: Tensor<1>,
    /// y − m `[n, 1]`.
    y: Tensor<2>,
    products: Products<'a>,
}

/// K S, which the bound needs in addition.
enum Products<'a> {
    /// Stored, `[n, i]`.
    Whole(Box<Tensor<2>>),
    /// Computed in parts when needed.
    Parts(Covariance<'a>, &'a BlockSparse),
}

impl<'a> Projection<'a> {
    /// From unit block-sparse actions and the residual `y − m [n]`. Does not store KS if products are fused or if KS is
    /// too large.
    pub fn sparse(covariance: Covariance<'a>, blocks: &'a BlockSparse, residual: &Tensor<1>) -> Result<Self> {
        let scope = covariance.scope();
        let wide = scope.wide();
        let basis = super::Basis::sparse(blocks.clone());
        // The columns are of unit length and do not overlap.
        let ss = Tensor::<2>::eye(blocks.len(), scope.device()).cast(wide);
        if let Some(ks) = covariance.times_blocks_unfused(blocks)? {
            return Self::whole(covariance, (&basis, ks), [ss.clone(), ss], residual);
        }
        let y = residual.clone().cast(wide).unsqueeze_dim::<2>(1);
        Ok(Self {
            sks: covariance.projected(blocks)?,
            root: ss.clone(),
            ss,
            sy: basis.transposed_times(&y)?,
            trace: covariance.diagonal_wide()?.sum(),
            y,
            products: Products::Parts(covariance, blocks),
        })
    }

    /// From dense actions `s [n, i]` with their products `ks [n, i]`.
    pub fn dense(covariance: Covariance<'a>, (s, ks): (Tensor<2>, Tensor<2>), residual: &Tensor<1>) -> Result<Self> {
        let s = s.cast(covariance.scope().wide());
        let ss = s.clone().transpose().matmul(s.clone());
        let root = cholesky(ss.clone(), "SᵀS")?;
        Self::whole(covariance, (&super::Basis::dense(s), ks), [ss, root], residual)
    }

    /// From any actions with their products `[n, i]`, SᵀS and its lower factor.
    fn whole(
        covariance: Covariance<'a>,
        (basis, ks): (&super::Basis, Tensor<2>),
        [ss, root]: [Tensor<2>; 2],
        residual: &Tensor<1>,
    ) -> Result<Self> {
        let wide = covariance.scope().wide();
        let (ks, y) = (ks.cast(wide), residual.clone().cast(wide).unsqueeze_dim::<2>(1));
        let (sks, sy) = (basis.transposed_times(&ks)?, basis.transposed_times(&y)?);
        Ok(Self {
            sks: (sks.clone() + sks.transpose()) * 0.5,
            root,
            ss,
            sy,
            trace: covariance.diagonal_wide()?.sum(),
            y,
            products: Products::Whole(Box::new(ks)),
        })
    }

    /// M̂ = SᵀKS + σ²SᵀS.
    pub fn gram(&self, noise: &Tensor<1>) -> Tensor<2> {
        self.sks.clone() + self.ss.clone() * noise.clone().cast(self.ss.dtype()).unsqueeze::<2>()
    }

    /// The loss for noise σ² `[1]` and `n` rows, `[1]`.
    pub fn loss(self, objective: CagpObjective, noise: Tensor<1>, n: usize) -> Result<Tensor<1>> {
        let noise = noise.cast(self.sks.dtype());
        let gram = self.gram(&noise);
        let Self { sks, root, sy, trace, y, products, .. } = self;
        let i = sks.dims()[0];
        let log_det_ss = logdet_from_cholesky(root.clone())?;
        let squared = |x: Tensor<2>| x.powi_scalar(2).sum();
        let (error, divergence) = match (objective, products) {
            (CagpObjective::Projected, _) => {
                let factor = cholesky(gram, "SᵀK̂S")?;
                let v = cholesky_solve(factor.clone(), sy.clone())?;
                let loss = (sy * v).sum() + logdet_from_cholesky(factor)? - log_det_ss + i as f64 * log_two_pi();
                return Ok(loss * 0.5);
            }
            (CagpObjective::Elbo, products) => {
                // With M̂ = L Lᵀ and SᵀS = C Cᵀ: t = L⁻¹Sᵀ(y − m), E = L⁻¹C.
                let lower = cholesky(gram, "SᵀK̂S")?;
                let all = solve_lower(lower.clone(), Tensor::cat(vec![sy, root], 1))?;
                let [t, e] = [(0, 1), (1, i)].map(|(start, count)| all.clone().narrow(1, start, count));
                let error = match products {
                    Products::Whole(ks) => tiled::misfit(*ks, y, lower.clone(), t.clone())?,
                    Products::Parts(covariance, blocks) => covariance.misfit(blocks, &y, [lower.clone(), t.clone()])?,
                };
                let spread = squared(e.clone()) - squared(e.transpose().matmul(t.clone()));
                let log_det = logdet_from_cholesky(lower)? - log_det_ss - noise.clone().log() * i as f64;
                (error, squared(t) + noise.clone() * spread - i as f64 + log_det)
            }
        };
        Ok(elbo(trace + error, divergence, noise, n))
    }
}

/// The negative ELBO for unit block-sparse actions, with fused products. The residual `y − m [n]` and σ² `noise [1]`
/// have the wide type.
pub fn fused(
    covariance: Covariance,
    blocks: &BlockSparse,
    residual: &Tensor<1>,
    noise: Tensor<1>,
) -> Result<Option<Tensor<1>>> {
    let n = covariance.order();
    let targets = residual.clone().cast(noise.dtype());
    let told = covariance.explained(blocks, [&targets, &noise.clone().expand([n])], None)?;
    let Some(Explained { divergence, mean, variance, .. }) = told else { return Ok(None) };
    let error = covariance.diagonal_wide()?.sum() + (targets - mean).powi_scalar(2).sum() - variance.sum();
    Ok(Some(elbo(error, divergence, noise, n)))
}

/// The negative ELBO for n rows, from the expected squared error `‖y − m − KSv‖² + tr(K − KS M̂⁻¹SᵀK)`, twice the
/// divergence and σ².
fn elbo(error: Tensor<1>, divergence: Tensor<1>, noise: Tensor<1>, n: usize) -> Tensor<1> {
    (error / noise.clone() + (noise.log() + log_two_pi()) * n as f64 + divergence) * 0.5
}

/// log 2π.
fn log_two_pi() -> f64 {
    (2.0 * std::f64::consts::PI).ln()
}
