//! Newton steps that gradients go through.
//!
//! For given actions S and `T = K S`, the latent mean is the fixed point of `Φ(f) = m + T M⁻¹Sᵀ(ŷ − m)`. Here the
//! matrix `M = Sᵀ(K + W⁻¹)S` and the pseudo-targets `ŷ = f + W⁻¹g` depend on f. With actions that span everything and
//! the density's own curvature, Φ is Newton's method, and its derivative at the fixed point is 0. Otherwise the
//! residual `r = g − S a` of the weights a is not zero, and the derivative is `T M⁻¹SᵀD` for a held r, with
//! `D = ∂(W⁻¹r)/∂f + I + W⁻¹∂g/∂f`. So a step here solves `f = Φ(f)` by Newton's method for equations. It adds
//! `(I + T (M − SᵀDT)⁻¹SᵀD)(Φ(f) − f)` to f. Its derivative in parameters, at the fixed point, is that of the fixed
//! point itself.

use burn::tensor::Tensor;

use super::observed::{Derivatives, Likely};
use super::sites::Sites;
use crate::error::Result;
use crate::linalg::dense::decompositions;
use crate::linalg::{cholesky, cholesky_solve};
use crate::models::cagp::evaluation::{Evaluation, Noisy};
use crate::models::cagp::products;
use crate::scope::{Scope, to_f64};
use crate::solvers::itergp::Basis;

/// The largest change of f by Φ, relative to the largest distance from the prior mean or to 1, at which f is near
/// enough to a fixed point for a step of Newton's method. Elsewhere a step is Φ.
const NEAR: f64 = 1e-2;

/// The system of given actions.
pub(in crate::models::cagp) struct Unrolled<'a> {
    scope: &'a Scope,
    derivatives: Derivatives,
    /// S in the wide type.
    s: Basis,
    /// T in the wide type `[L n, i]`.
    products: Tensor<2>,
    /// SᵀT `[i, i]`.
    gram: Tensor<2>,
    /// m `[L n, 1]`.
    mean: Tensor<2>,
}

impl<'a> Unrolled<'a> {
    /// From S and K S.
    pub fn new(at: &Evaluation<'a>, s: &Basis, ks: &Tensor<2>) -> Result<Self> {
        let (scope, wide) = (at.scope, at.scope.wide());
        Ok(Self {
            scope,
            derivatives: Derivatives::new(at, Likely::new(at)?),
            s: s.cast(wide)?,
            products: ks.clone().cast(wide),
            gram: products::gram(s, ks, wide)?,
            mean: at.means()?,
        })
    }

    /// Sites after some steps from others, differentiable in the likelihood's own parameters and through the steps.
    pub fn sites(&self, from: &Sites, steps: usize) -> Result<Noisy> {
        let mut f = self.scope.matrix_in(&from.f, 1, from.f.len(), self.scope.wide()).squeeze_dim(0);
        for _ in 0..steps {
            f = self.step(f)?;
        }
        Ok(Noisy::new(f.clone(), self.derivatives.at(f)?))
    }

    /// The latent values after a step from `f` `[L n]`.
    fn step(&self, f: Tensor<1>) -> Result<Tensor<1>> {
        let Self { s, products, gram, mean, .. } = self;
        let derivatives = self.derivatives.at(f.clone())?;
        let Noisy { targets, spread, .. } = Noisy::new(f.clone(), derivatives.clone());
        let f = f.unsqueeze_dim::<2>(1);
        let matrix = gram.clone() + products::noise(s, &spread)?;
        let lower = cholesky(matrix.clone(), "Sᵀ(K + W⁻¹)S")?;
        let weights = cholesky_solve(lower, s.transposed_times(&(targets - mean.clone()))?)?;
        let next = mean.clone() + products.clone().matmul(weights.clone());
        let change = next.clone() - f.clone();
        let largest = |x: Tensor<2>| to_f64(x.detach().abs().max());
        if largest(change.clone())?[0] > NEAR * largest(next.clone() - mean.clone())?[0].max(1.0) {
            return Ok(next.squeeze_dim(1));
        }
        let residual = derivatives.narrow(0, 0, 1).transpose() - s.times(&weights)?;
        let bends = self.bends(&to_f64(f.detach())?, &to_f64(residual)?);
        let matrix = matrix - s.transposed_times(&bent(&bends, products.clone()))?;
        let inverse = self.inverse(&to_f64(matrix.detach())?);
        let later = inverse.matmul(s.transposed_times(&bent(&bends, change))?);
        Ok((next + products.clone().matmul(later)).squeeze_dim(1))
    }

    /// D, row by row `[L L, n]`.
    fn bends(&self, f: &[f64], residual: &[f64]) -> Tensor<2> {
        let likely = &self.derivatives.likely;
        let (d, latents) = (likely.sites(f.to_vec()).curvature, likely.density.latents());
        let n = f.len() / latents;
        // Where W is the density's own curvature, actions see nothing of the rest.
        let rest = if likely.density.is_log_concave() { 0.0 } else { 1.0 };
        let mut all = Vec::with_capacity(latents * f.len());
        for l in 0..latents {
            let own = l * n..(l + 1) * n;
            let mut grad = vec![0.0; 2 * f.len()];
            for i in own.clone() {
                grad[i] = rest / d[i];
                grad[f.len() + i] = -residual[i] / d[i].powi(2);
            }
            let (mut slopes, _) = likely.slopes(f, &grad);
            slopes[own].iter_mut().for_each(|slope| *slope += rest);
            all.extend(slopes);
        }
        self.scope.matrix_in(&all, latents * latents, n, self.scope.wide())
    }

    /// The inverse of a matrix that need not be symmetric.
    fn inverse(&self, matrix: &[f64]) -> Tensor<2> {
        let i = matrix.len().isqrt();
        let mut inverse: Vec<f64> = (0..i * i).map(|e| f64::from(u8::from(e % i == e / i))).collect();
        decompositions::solve(matrix, &mut inverse, i);
        self.scope.matrix_in(&inverse, i, i, self.scope.wide())
    }
}

/// `D x` for D `[L L, n]` and x `[L n, t]`.
fn bent(bends: &Tensor<2>, x: Tensor<2>) -> Tensor<2> {
    let [pairs, n] = bends.dims();
    let latents = pairs.isqrt();
    let of =
        |l: usize, k: usize| bends.clone().narrow(0, l * latents + k, 1).transpose() * x.clone().narrow(0, k * n, n);
    let row = |l: usize| (1..latents).fold(of(l, 0), |sum, k| sum + of(l, k));
    Tensor::cat((0..latents).map(row).collect(), 0)
}
