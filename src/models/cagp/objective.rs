//! The two losses of computation-aware GPs, from the projections of the data.

use burn::tensor::{Tensor, TensorData};

use super::sums::{Sums, sums};
use crate::error::Result;
use crate::kernels::Kernel;
use crate::linalg::{cholesky, cholesky_solve, explained, logdet_from_cholesky};
use crate::products::{self, BlockSparse};
use crate::scope::Scope;

/// What a computation-aware GP minimises; both depend on the span of the actions only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CagpObjective {
    /// The negative evidence lower bound (eq. 11): never below the exact negative log marginal likelihood.
    Elbo,
    /// The negative log likelihood of the projected data (eq. 9).
    Projected,
}

/// What the losses need of n-sized quantities, in f64 where the device has it.
pub struct Projection {
    /// SᵀKS `[i, i]`.
    pub sks: Tensor<2>,
    /// (KS)ᵀ(KS) `[i, i]`.
    pub ksks: Tensor<2>,
    /// (KS)ᵀ(y − m) `[i, 1]`.
    pub ksy: Tensor<2>,
    /// SᵀS `[i, i]`.
    pub ss: Tensor<2>,
    /// Sᵀ(y − m) `[i, 1]`.
    pub sy: Tensor<2>,
    /// ‖y − m‖² `[1]`.
    pub yy: Tensor<1>,
    /// tr K `[1]`.
    pub trace: Tensor<1>,
    /// log|SᵀS| `[1]`.
    pub log_det_ss: Tensor<1>,
}

impl Projection {
    /// Of unit block-sparse actions and the residual `y − m [n]`: accumulated over chunks of rows, never KS itself.
    pub fn sparse(
        kernel: &Kernel,
        scope: &Scope,
        x: &Tensor<2>,
        blocks: &BlockSparse,
        residual: &Tensor<1>,
    ) -> Result<Self> {
        let wide = scope.wide();
        let sums = products::accumulate(kernel, scope, x, blocks, residual)?;
        let basis = super::Basis::sparse(blocks.clone());
        let residual = residual.clone().cast(wide);
        // The columns are of unit length and do not overlap.
        let ss = Tensor::<2>::eye(blocks.len(), scope.device()).cast(wide);
        Ok(Self {
            sks: sums.sks.cast(wide),
            ksks: sums.ksks.cast(wide),
            ksy: sums.ksy.cast(wide).unsqueeze_dim(1),
            ss,
            sy: basis.transposed_times(&residual.clone().unsqueeze_dim(1))?,
            yy: residual.powi_scalar(2).sum(),
            trace: sums.trace.cast(wide),
            log_det_ss: Tensor::from_data(TensorData::from([0.0]), (scope.device(), wide)),
        })
    }

    /// Of dense actions `s [n, i]` with their products `ks [n, i]`.
    pub fn dense(
        kernel: &Kernel,
        scope: &Scope,
        x: &Tensor<2>,
        (s, ks): (Tensor<2>, Tensor<2>),
        residual: &Tensor<1>,
    ) -> Result<Self> {
        let wide = scope.wide();
        let Sums { sp, pp, ss, py, sy } = sums(scope, s, ks, residual.clone())?;
        Ok(Self {
            sks: (sp.clone() + sp.transpose()) * 0.5,
            ksks: pp,
            ksy: py,
            log_det_ss: logdet_from_cholesky(cholesky(ss.clone(), "SᵀS")?)?,
            ss,
            sy,
            yy: residual.clone().cast(wide).powi_scalar(2).sum(),
            trace: kernel.diag(scope, x)?.cast(wide).sum(),
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
        let Self { sks, ksks, ksy, sy, yy, trace, log_det_ss, .. } = self;
        let (n, i) = (n as f64, sks.dims()[0] as f64);
        let two_pi = (2.0 * std::f64::consts::PI).ln();
        let loss = match objective {
            CagpObjective::Projected => {
                let factor = cholesky(gram, "SᵀK̂S")?;
                let v = cholesky_solve(factor.clone(), sy.clone())?;
                (sy * v).sum() + logdet_from_cholesky(factor)? - log_det_ss + i * two_pi
            }
            CagpObjective::Elbo => {
                let parts = explained(gram, sks, ksks, Tensor::cat(vec![ksy, sy], 1))?;
                let (error, complexity) = (parts.clone().narrow(0, 0, 1), parts.narrow(0, 1, 1));
                return Ok(elbo(yy + trace + error, complexity - log_det_ss, noise, [n, i]));
            }
        };
        Ok(loss * 0.5)
    }
}

/// The negative ELBO for unit block-sparse actions and the residual `y − m [n]`, where products are fused.
pub fn fused(
    kernel: &Kernel,
    scope: &Scope,
    x: &Tensor<2>,
    blocks: &BlockSparse,
    residual: &Tensor<1>,
    noise: Tensor<1>,
) -> Result<Option<Tensor<1>>> {
    let Some(parts) = products::evidence(kernel, scope, x, blocks, residual, &noise)? else { return Ok(None) };
    let (error, complexity) = (parts.clone().narrow(0, 0, 1), parts.narrow(0, 1, 1));
    let trace = kernel.diag(scope, x)?.cast(error.dtype()).sum();
    let sizes = [x.dims()[0], blocks.len()].map(|size| size as f64);
    Ok(Some(elbo(trace + error, complexity, noise.cast(scope.wide()), sizes)))
}

/// From the expected squared error `‖y − m − KSv‖² + tr(K − KS M̂⁻¹SᵀK)` and what the divergence depends on, for n rows and i actions.
fn elbo(error: Tensor<1>, complexity: Tensor<1>, noise: Tensor<1>, [n, i]: [f64; 2]) -> Tensor<1> {
    let two_pi = (2.0 * std::f64::consts::PI).ln();
    (error / noise.clone() + noise.log() * (n - i) + n * two_pi + complexity) * 0.5
}
