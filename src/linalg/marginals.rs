//! Marginals of a latent function from whitened inducing values, and the divergence of their distribution, in one operation.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::dense::{product, triangular, view, view_mut};
use super::host::{HostOp, Saved, apply3, recall};
use super::real::{Real, narrowed, widened};
use super::shape;
use crate::error::Result;

/// Columns that one thread sums over.
const COLUMNS: usize = 256;

/// What inducing values v ~ N(μ, R Rᵀ) say about f = aᵀv + …, for the columns a of A.
#[derive(Debug, Clone)]
pub struct Projected {
    /// Aᵀμ `[b]`.
    pub shift: Tensor<1>,
    /// diag(AᵀR RᵀA − AᵀA) `[b]`: what they change of the variance.
    pub change: Tensor<1>,
    /// KL(N(μ, R Rᵀ) ‖ N(0, I)) `[1]`.
    pub divergence: Tensor<1>,
}

/// The marginals for A `[m, b]`, μ `[m]` and R, lower triangular `[m, m]` or a diagonal `[m]`.
///
/// About 6m²b operations forward and in reverse; those with R are done in f32 if `single`, where A, whose columns are
/// no longer than the prior's standard deviations, is exact enough. With cotangents s̄, c̄, κ̄ and C = RᵀA:
/// `Ā = μ s̄ᵀ + 2(RC − A) diag(c̄)`, `R̄ = tril(2A diag(c̄) Cᵀ) + κ̄(R − diag(1/R))`, `μ̄ = A s̄ + κ̄ μ`.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape) when shapes disagree.
pub fn marginals<const D: usize>(a: Tensor<2>, mean: Tensor<1>, root: Tensor<D>, single: bool) -> Result<Projected> {
    let b = a.dims()[1];
    let packed: Tensor<1> = apply3(Marginals { single }, a, mean, root)?;
    Ok(Projected {
        shift: packed.clone().narrow(0, 0, b),
        change: packed.clone().narrow(0, b, b),
        divergence: packed.narrow(0, 2 * b, 1),
    })
}

#[derive(Debug)]
struct Marginals {
    single: bool,
}

/// R and C = RᵀA.
enum Kept {
    Diagonal,
    Wide(Vec<f64>),
    Single { a: Vec<f32>, root: Vec<f32>, c: Vec<f32> },
}

struct State {
    /// A in f64: the tensor's own memory, which a graph may share.
    a: TensorData,
    mean: Vec<f64>,
    root: Vec<f64>,
    kept: Kept,
}

/// Σ_i weight_i g(a_ij) for the columns of a row-major matrix.
fn columns<T: Real>(a: &[T], b: usize, out: &mut [f64], term: impl Fn(usize, f64) -> f64 + Sync) {
    out.par_chunks_mut(COLUMNS).enumerate().for_each(|(block, out)| {
        for (i, row) in a.chunks_exact(b.max(1)).enumerate() {
            out.iter_mut().zip(&row[block * COLUMNS..]).for_each(|(sum, x)| *sum += term(i, x.f64()));
        }
    });
}

fn rounded(values: &[f64]) -> Vec<f32> {
    values.par_iter().with_min_len(1 << 14).map(|&x| x as f32).collect()
}

fn lower_product<T: Real>(root: &[T], a: &[T], b: usize) -> Vec<T> {
    let m = a.len() / b;
    let mut c = vec![T::of(0.0); a.len()];
    triangular::upper(view_mut(&mut c, b), view(root, m).transpose(), view(a, b));
    c
}

/// RC, and C with its columns times 2c̄.
fn back<T: Real>(root: &[T], c: &[T], grad: &[f64]) -> (Vec<T>, Vec<T>) {
    let b = grad.len();
    let m = c.len() / b;
    let mut rc = vec![T::of(0.0); c.len()];
    triangular::lower(view_mut(&mut rc, b), view(root, m), view(c, b));
    let twice: Vec<T> = grad.iter().map(|g| T::of(2.0 * g)).collect();
    let mut scaled = c.to_vec();
    scaled.par_chunks_mut(b).for_each(|row| row.iter_mut().zip(&twice).for_each(|(x, &g)| *x *= g));
    (rc, scaled)
}

/// tril(A (scaled C)ᵀ).
fn root_gradient<T: Real>(a: &[T], scaled: &[T], b: usize) -> Vec<T> {
    let m = a.len() / b;
    let mut root = vec![T::of(0.0); m * m];
    product::add_lower(view_mut(&mut root, m), view(a, b), view(scaled, b).transpose(), T::of(1.0));
    root
}

impl HostOp<3> for Marginals {
    fn forward(&self, [a, mean, root]: [TensorData; 3]) -> Result<(TensorData, Saved)> {
        let (m, b) = shape::matrices("L⁻¹K_ZX", &a)?;
        let dtype = a.dtype();
        shape::expect("mean of q", &mean, &[m])?;
        let diagonal = root.shape().len() == 1;
        shape::expect("root of q", &root, &[m, m][usize::from(diagonal)..])?;
        let (data, mean, root) = (a.convert::<f64>(), widened(mean)?, widened(root)?);
        let a = shape::numbers::<f64>(&data)?;
        let mut out = vec![0.0; 2 * b + 1];
        let (shift, rest) = out.split_at_mut(b);
        let (change, divergence) = rest.split_at_mut(b);
        columns(a, b, shift, |i, x| mean[i] * x);
        let kept = if diagonal {
            columns(a, b, change, |i, x| (root[i] * root[i] - 1.0) * x * x);
            Kept::Diagonal
        } else {
            columns(a, b, change, |_, x| -x * x);
            if self.single {
                let (a, root) = (rounded(a), rounded(&root));
                let c = lower_product(&root, &a, b);
                columns(&c, b, change, |_, x| x * x);
                Kept::Single { a, root, c }
            } else {
                let c = lower_product(&root, a, b);
                columns(&c, b, change, |_, x| x * x);
                Kept::Wide(c)
            }
        };
        let step = if diagonal { 1 } else { m + 1 };
        let squares = |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>();
        let logs: f64 = root.iter().step_by(step).map(|r| r.abs().ln()).sum();
        divergence[0] = 0.5 * (squares(&root) + squares(&mean) - m as f64) - logs;
        Ok((narrowed(out, &[2 * b + 1], dtype), Arc::new(State { a: data, mean, root, kept })))
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, needs: [bool; 3]) -> Result<[Option<TensorData>; 3]> {
        let dtype = grad.dtype();
        let state = recall::<State>(saved)?;
        let State { a, mean, root, kept } = &*state;
        let (a, grad) = (shape::numbers::<f64>(a)?, widened(grad)?);
        let (m, b) = (mean.len(), (grad.len() - 1) / 2);
        let (in_shift, rest) = grad.split_at(b);
        let (in_change, in_divergence) = (&rest[..b], rest[b]);

        let mut in_mean = vec![0.0; m];
        in_mean.par_iter_mut().zip(a.par_chunks(b)).zip(mean).for_each(|((out, a), mean)| {
            *out = in_divergence * mean + a.iter().zip(in_shift).map(|(a, g)| a * g).sum::<f64>();
        });
        let (mut in_root, in_a) = match kept {
            Kept::Diagonal => {
                let mut in_a = vec![0.0; a.len()];
                let mut in_root = vec![0.0; m];
                let rows = in_a.par_chunks_mut(b).zip(a.par_chunks(b)).zip(&mut in_root).zip(mean).zip(root);
                rows.for_each(|((((out, a), in_root), mean), root)| {
                    let factor = 2.0 * (root * root - 1.0);
                    for (((out, a), s), c) in out.iter_mut().zip(a).zip(in_shift).zip(in_change) {
                        *out = mean * s + factor * a * c;
                        *in_root += 2.0 * root * c * a * a;
                    }
                });
                (in_root, in_a)
            }
            Kept::Wide(c) => {
                let (mut rc, scaled) = back(root, c, in_change);
                let in_root = root_gradient(a, &scaled, b);
                fill(&mut rc, a, mean, in_shift, in_change);
                (in_root, rc)
            }
            Kept::Single { a: short, root, c } => {
                let (rc, scaled) = back(root, c, in_change);
                let in_root = root_gradient(short, &scaled, b);
                let mut in_a: Vec<f64> = rc.into_par_iter().with_min_len(1 << 14).map(f64::from).collect();
                fill(&mut in_a, a, mean, in_shift, in_change);
                (in_root.into_iter().map(f64::from).collect(), in_a)
            }
        };
        let diagonal = matches!(kept, Kept::Diagonal);
        let step = if diagonal { 1 } else { m + 1 };
        in_root.iter_mut().zip(root).for_each(|(out, r)| *out += in_divergence * r);
        in_root.iter_mut().zip(root).step_by(step).for_each(|(out, r)| *out -= in_divergence / r);
        Ok([
            needs[0].then(|| narrowed(in_a, &[m, b], dtype)),
            needs[1].then(|| narrowed(in_mean, &[m], dtype)),
            needs[2].then(|| narrowed(in_root, &[m, m][usize::from(diagonal)..], dtype)),
        ])
    }
}

/// From RC to `Ā = μ s̄ᵀ + 2(RC − A) diag(c̄)`.
fn fill(rc: &mut [f64], a: &[f64], mean: &[f64], in_shift: &[f64], in_change: &[f64]) {
    let b = in_shift.len();
    rc.par_chunks_mut(b).zip(a.par_chunks(b)).zip(mean).for_each(|((out, a), mean)| {
        for (((out, a), s), c) in out.iter_mut().zip(a).zip(in_shift).zip(in_change) {
            *out = mean * s + 2.0 * (*out - a) * c;
        }
    });
}
