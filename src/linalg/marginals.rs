//! Marginals of a latent function from whitened inducing values, and the divergence of their distribution.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::dense::transpose::transpose_into;
use super::dense::{product, triangular, view, view_mut};
use super::host::{HostOp, Saved, apply3, recall};
use super::real::{Real, dot, narrowed, rounded, vectorised, widened};
use super::shape;
use crate::error::Result;
use crate::threads;

/// Columns that one thread sums over.
const COLUMNS: usize = 256;

/// Numbers that one thread goes through at once.
const PART: usize = 1 << 14;

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

impl Projected {
    /// From all three side by side `[2b + 1]`.
    pub(crate) fn apart(packed: &Tensor<1>) -> Self {
        let b = (packed.dims()[0] - 1) / 2;
        let part = |first, count| packed.clone().narrow(0, first, count);
        Self { shift: part(0, b), change: part(b, b), divergence: part(2 * b, 1) }
    }
}

/// The marginals for A `[m, b]`, μ `[m]` and R, lower triangular `[m, m]` or a diagonal `[m]`.
///
/// About 6m²b operations forward and in reverse, done in f32 if `single`, where A, whose columns are no longer than the
/// prior's standard deviations, is exact enough.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape) when shapes disagree.
pub fn marginals<const D: usize>(a: Tensor<2>, mean: Tensor<1>, root: Tensor<D>, single: bool) -> Result<Projected> {
    let packed: Tensor<1> = apply3(Marginals { single }, a, mean, root)?;
    Ok(Projected::apart(&packed))
}

/// R.
pub(crate) enum Root<T> {
    /// Its diagonal `[m]`.
    Diagonal(Vec<T>),
    /// Row-major `[m, m]`, zeros above the diagonal.
    Lower(Vec<T>),
}

/// μ and R.
pub(crate) struct Normal<T> {
    pub mean: Vec<f64>,
    pub root: Root<T>,
}

/// Gradients in A `[m, b]`, μ `[m]` and R as it came, zeros above a diagonal.
pub(crate) struct Slopes<T> {
    pub a: Vec<T>,
    pub mean: Vec<f64>,
    pub root: Vec<T>,
}

impl<T: Real> Normal<T> {
    /// The marginals and the divergence side by side `[2b + 1]`, and C = RᵀA `[m, b]` (nothing for a diagonal).
    pub(crate) fn marginals(&self, a: &[T], b: usize) -> (Vec<f64>, Vec<T>) {
        let Self { mean, root } = self;
        let m = mean.len();
        let mut out = vec![0.0; 2 * b + 1];
        let (shift, rest) = out.split_at_mut(b);
        let (change, divergence) = rest.split_at_mut(b);
        let (numbers, step, c) = match root {
            Root::Diagonal(root) => {
                columns(a, b, shift, change, |i| (mean[i], root[i].f64().powi(2) - 1.0));
                (root, 1, Vec::new())
            }
            Root::Lower(root) => {
                let mut c = vec![T::of(0.0); a.len()];
                // In order once, not in each of the products that the blocks of a transposed factor would be.
                let mut upper = vec![T::of(0.0); m * m];
                transpose_into(view_mut(&mut upper, m), view(root, m));
                triangular::upper(view_mut(&mut c, b), view(&upper, m), view(a, b));
                columns(a, b, shift, change, |i| (mean[i], -1.0));
                columns(&c, b, shift, change, |_| (0.0, 1.0));
                (root, m + 1, c)
            }
        };
        let squares = dot(mean, mean) + squares(numbers);
        let logs: f64 = numbers.iter().step_by(step).map(|r| r.f64().abs().ln()).sum();
        divergence[0] = 0.5 * (squares - m as f64) - logs;
        (out, c)
    }

    /// The adjoint. With cotangents s̄, c̄, κ̄: `Ā = μ s̄ᵀ + 2(RC − A) diag(c̄)`, `R̄ = tril(2A diag(c̄) Cᵀ) + κ̄(R − diag(1/R))`,
    /// `μ̄ = A s̄ + κ̄ μ`.
    pub(crate) fn adjoint(&self, a: &[T], c: &[T], grad: &[f64]) -> Slopes<T> {
        let Self { mean, root } = self;
        let (m, b) = (mean.len(), (grad.len() - 1) / 2);
        let (in_shift, rest) = grad.split_at(b);
        let (in_change, in_divergence) = (&rest[..b], rest[b]);
        let mut in_mean = vec![0.0; m];
        threads::for_each(in_mean.par_iter_mut().zip(a.par_chunks(b)).zip(mean), |((out, a), mean)| {
            *out = in_divergence * mean + dot(a, in_shift);
        });
        let [shift, twice] = [in_shift, in_change].map(|g| g.iter().map(|g| T::of(*g)).collect::<Vec<T>>());
        let twice: Vec<T> = twice.into_iter().map(|g| g + g).collect();
        let mut in_a = vec![T::of(0.0); a.len()];
        let (mut in_root, numbers, step) = match root {
            Root::Diagonal(root) => {
                let mut in_root = vec![T::of(0.0); m];
                let rows = in_a.par_chunks_mut(b).zip(a.par_chunks(b)).zip(&mut in_root).zip(mean).zip(root);
                threads::for_each(rows, |((((out, a), in_root), mean), root)| {
                    let (mean, less) = (T::of(*mean), *root * *root - T::of(1.0));
                    let mut squares = 0.0;
                    for (((out, a), s), c) in out.iter_mut().zip(a).zip(&shift).zip(&twice) {
                        *out = mean * *s + less * *a * *c;
                        squares += (*c * *a * *a).f64();
                    }
                    *in_root = T::of(root.f64() * squares);
                });
                (in_root, root, 1)
            }
            Root::Lower(root) => {
                let mut scaled = vec![T::of(0.0); c.len()];
                threads::for_each(scaled.par_chunks_mut(b).zip(c.par_chunks(b)), |(scaled, c)| {
                    vectorised(|| scaled.iter_mut().zip(c).zip(&twice).for_each(|((scaled, c), g)| *scaled = *c * *g));
                });
                let mut in_root = vec![T::of(0.0); m * m];
                let scaled = view(&scaled, b);
                threads::join(
                    || product::add_lower(view_mut(&mut in_root, m), view(a, b), scaled.transpose(), T::of(1.0)),
                    || {
                        triangular::lower(view_mut(&mut in_a, b), view(root, m), scaled);
                        threads::for_each(in_a.par_chunks_mut(b).zip(a.par_chunks(b)).zip(mean), |((out, a), mean)| {
                            let mean = T::of(*mean);
                            vectorised(|| {
                                for (((out, a), s), g) in out.iter_mut().zip(a).zip(&shift).zip(&twice) {
                                    *out += mean * *s - *a * *g;
                                }
                            });
                        });
                    },
                );
                (in_root, root, m + 1)
            }
        };
        let in_divergence = T::of(in_divergence);
        threads::for_each(in_root.par_chunks_mut(PART).zip(numbers.par_chunks(PART)), |(out, r)| {
            vectorised(|| out.iter_mut().zip(r).for_each(|(out, r)| *out += in_divergence * *r));
        });
        in_root.iter_mut().zip(numbers).step_by(step).for_each(|(out, r)| *out -= in_divergence / *r);
        Slopes { a: in_a, mean: in_mean, root: in_root }
    }
}

/// Adds Σ_i s_i a_ij to the first sums and Σ_i t_i a_ij² to the second, for the columns j of a row-major matrix and (s_i, t_i) = `weights(i)`.
fn columns<T: Real>(
    a: &[T],
    b: usize,
    first: &mut [f64],
    second: &mut [f64],
    weights: impl Fn(usize) -> (f64, f64) + Sync,
) {
    threads::for_each(
        first.par_chunks_mut(COLUMNS).zip(second.par_chunks_mut(COLUMNS)).enumerate(),
        |(block, (first, second))| {
            vectorised(|| {
                for (i, row) in a.chunks_exact(b.max(1)).enumerate() {
                    let (s, t) = weights(i);
                    for ((first, second), x) in first.iter_mut().zip(&mut *second).zip(&row[block * COLUMNS..]) {
                        let x = x.f64();
                        *first += s * x;
                        *second += t * x * x;
                    }
                }
            });
        },
    );
}

/// The sum of squares, the same however many threads there are.
fn squares<T: Real>(numbers: &[T]) -> f64 {
    threads::map(numbers.par_chunks(PART), |part| dot(part, part)).into_iter().sum()
}

#[derive(Debug)]
struct Marginals {
    single: bool,
}

struct State<T> {
    /// A: if of the tensor's own type, its own memory, which a graph may share.
    a: TensorData,
    c: Vec<T>,
    normal: Normal<T>,
}

impl Marginals {
    fn value<T: Real>(a: TensorData, mean: TensorData, root: TensorData) -> Result<(Vec<f64>, Saved)> {
        let (b, diagonal) = (a.shape()[1], root.shape().len() == 1);
        let numbers = rounded::<T, f64>(&widened(root)?);
        let root = if diagonal { Root::Diagonal(numbers) } else { Root::Lower(numbers) };
        let (a, normal) = (a.convert::<T>(), Normal { mean: widened(mean)?, root });
        let (out, c) = normal.marginals(shape::numbers(&a)?, b);
        Ok((out, Arc::new(State { a, c, normal })))
    }

    fn slopes<T: Real>(saved: Saved, grad: &[f64]) -> Result<[Vec<f64>; 3]> {
        let state = recall::<State<T>>(saved)?;
        let Slopes { a, mean, root } = state.normal.adjoint(shape::numbers(&state.a)?, &state.c, grad);
        Ok([rounded(&a), mean, rounded(&root)])
    }
}

impl HostOp<3> for Marginals {
    fn forward(&self, [a, mean, root]: [TensorData; 3]) -> Result<(TensorData, Saved)> {
        let (m, b) = shape::matrices("L⁻¹K_ZX", &a)?;
        let dtype = a.dtype();
        shape::expect("mean of q", &mean, &[m])?;
        let diagonal = root.shape().len() == 1;
        shape::expect("root of q", &root, &[m, m][usize::from(diagonal)..])?;
        let (out, saved) =
            if self.single { Self::value::<f32>(a, mean, root)? } else { Self::value::<f64>(a, mean, root)? };
        Ok((narrowed(out, &[2 * b + 1], dtype), saved))
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, needs: [bool; 3]) -> Result<[Option<TensorData>; 3]> {
        let dtype = grad.dtype();
        let grad = widened(grad)?;
        let slopes = if self.single { Self::slopes::<f32>(saved, &grad)? } else { Self::slopes::<f64>(saved, &grad)? };
        let (m, b) = (slopes[1].len(), (grad.len() - 1) / 2);
        let diagonal = slopes[2].len() == m;
        let shapes: [&[usize]; 3] = [&[m, b], &[m], &[m, m][usize::from(diagonal)..]];
        let mut all = slopes.into_iter().zip(shapes).zip(needs);
        Ok(std::array::from_fn(|_| {
            all.next().and_then(|((slope, shape), needed)| needed.then(|| narrowed(slope, shape, dtype)))
        }))
    }
}
