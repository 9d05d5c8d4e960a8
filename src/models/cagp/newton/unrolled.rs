//! Newton steps that gradients go through.
//!
//! For given actions S and `T = K S`, the latent mean is the fixed point of `Φ(f) = m + T M⁻¹Sᵀ(ŷ − m)`. Here the
//! matrix `M = Sᵀ(K + W⁻¹)S` and the pseudo-targets `ŷ = f + W⁻¹g` depend on f. With actions that span everything and
//! the density's own curvature, Φ is Newton's method, and its derivative at the fixed point is 0. Otherwise the
//! residual `r = g − S a` of the weights a is not zero, and the derivative is `T M⁻¹SᵀD` for a held r, with
//! `D = ∂(W⁻¹r)/∂f + I + W⁻¹∂g/∂f`. So a step here solves `f = Φ(f)` by Newton's method for equations. It adds
//! `(I + T (M − SᵀDT)⁻¹SᵀD)(Φ(f) − f)` to f. Its derivative in parameters, at the fixed point, is that of the fixed
//! point itself.

use std::sync::Arc;

use burn::tensor::Tensor;
use faer::MatRef;
use faer::linalg::solvers::DenseSolveCore;

use super::sites::{FLAT, of_row};
use crate::error::Result;
use crate::likelihoods::{Density, Row};
use crate::linalg::dense::registers;
use crate::linalg::{cholesky, cholesky_solve};
use crate::models::cagp::evaluation::{Evaluation, checked_rows};
use crate::models::cagp::noisy::Noisy;
use crate::models::cagp::products;
use crate::scope::{Scope, to_f64};
use crate::solvers::itergp::Basis;

/// The largest change of f by Φ, relative to the largest distance from the prior mean or to 1, at which f is near
/// enough to a fixed point for a step of Newton's method. Elsewhere a step is Φ.
const NEAR: f64 = 1e-2;

/// The system of given actions.
pub(in crate::models::cagp) struct Unrolled<'a> {
    scope: &'a Scope,
    density: Arc<dyn Density>,
    rows: Vec<Row>,
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
        let wide = at.scope.wide();
        Ok(Self {
            scope: at.scope,
            density: at.likelihood.density(),
            rows: checked_rows(at.likelihood, at.batch)?,
            s: s.cast(wide)?,
            products: ks.clone().cast(wide),
            gram: products::gram(s, ks, wide)?,
            mean: at.means()?,
        })
    }

    /// The latent values after a step from `f` `[L n]`, where gradient and curvature are `tied` `[2, L n]`.
    pub fn step(&self, f: Tensor<1>, tied: Tensor<2>) -> Result<Tensor<1>> {
        let Self { s, products, gram, mean, .. } = self;
        let f = f.unsqueeze_dim::<2>(1);
        let Noisy { targets, spread } = Noisy::new(f.clone().squeeze_dim(1), tied.clone());
        let [noise, _] = products::noise(s, &spread)?;
        let matrix = gram.clone() + noise;
        let lower = cholesky(matrix.clone(), "Sᵀ(K + W⁻¹)S")?;
        let weights = cholesky_solve(lower, s.transposed_times(&(targets - mean.clone()))?)?;
        let next = mean.clone() + products.clone().matmul(weights.clone());
        let change = next.clone() - f.clone();
        let largest = |x: Tensor<2>| to_f64(x.detach().abs().max());
        if largest(change.clone())?[0] > NEAR * largest(next.clone() - mean.clone())?[0].max(1.0) {
            return Ok(next.squeeze_dim(1));
        }
        let residual = tied.narrow(0, 0, 1).transpose() - s.times(&weights)?;
        let bends = self.bends(&to_f64(f.detach())?, &to_f64(residual)?);
        let matrix = matrix - s.transposed_times(&bent(&bends, products.clone()))?;
        let inverse = self.inverse(&to_f64(matrix.detach())?);
        let later = inverse.matmul(s.transposed_times(&bent(&bends, change))?);
        Ok((next + products.clone().matmul(later)).squeeze_dim(1))
    }

    /// D, row by row `[L L, n]`.
    fn bends(&self, f: &[f64], residual: &[f64]) -> Tensor<2> {
        let (n, latents, density) = (self.rows.len(), self.density.latents(), &*self.density);
        let (mut values, mut d) = (Vec::new(), vec![0.0; latents]);
        let (mut first, mut hessian) = (vec![0.0; latents], vec![0.0; latents * latents]);
        let (mut weights, mut slopes) = (vec![0.0; latents * latents], vec![0.0; latents]);
        let mut all = vec![0.0; latents * latents * n];
        for (i, row) in self.rows.iter().enumerate() {
            let f = of_row(f, i, n, &mut values);
            density.curvature(*row, f, &mut d);
            density.derivatives(*row, f, &mut first, &mut hessian);
            for l in 0..latents {
                slopes.fill(0.0);
                if density.is_centred() {
                    // The curvatures are probabilities, whose derivatives are minus those of the gradient.
                    slopes.iter_mut().zip(&hessian[l * latents..]).for_each(|(slope, h)| *slope = -h);
                } else {
                    weights.fill(0.0);
                    weights[l * (latents + 1)] = 1.0;
                    density.add_curvature_slopes(*row, f, &weights, &mut slopes, &mut []);
                }
                let factor = -residual[l * n + i] / d[l].max(FLAT).powi(2);
                for (k, slope) in slopes.iter().enumerate() {
                    // Where W is the density's own curvature, actions see nothing of the rest.
                    let own = if l == k { 1.0 } else { 0.0 };
                    let rest = if density.is_log_concave() { 0.0 } else { own + hessian[l * latents + k] / d[l] };
                    all[(l * latents + k) * n + i] = factor * slope + rest;
                }
            }
        }
        self.scope.matrix_in(&all, latents * latents, n, self.scope.wide())
    }

    /// The inverse of a matrix that need not be symmetric.
    fn inverse(&self, matrix: &[f64]) -> Tensor<2> {
        let i = matrix.len().isqrt();
        let inverse = MatRef::from_row_major_slice(matrix, i, i).partial_piv_lu().inverse();
        registers::clear();
        let values: Vec<f64> = (0..i * i).map(|e| inverse[(e / i, e % i)]).collect();
        self.scope.matrix_in(&values, i, i, self.scope.wide())
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
