//! Marginals of a latent function given whitened inducing values, and the divergence of their distribution.

use std::sync::Arc;

#[cfg(feature = "gpu")]
use burn::tensor::Slice;
use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::error::Result;
use crate::linalg::dense::transpose::transpose_into;
use crate::linalg::dense::{product, triangular, view, view_mut};
use crate::linalg::host::{HostOp, Vjp, apply3};
use crate::linalg::real::{Real, dot, narrowed, rounded, vectorised, widened};
use crate::linalg::shape;
use crate::threads::{self, GRAIN};

/// The number of columns over which one thread sums.
const COLUMNS: usize = 256;

/// The effect of inducing values v ~ N(μ, R Rᵀ) on the marginals of f = aᵀv + …, for the columns a of A.
#[derive(Debug, Clone)]
pub struct Projected {
    /// Aᵀμ `[b]`.
    pub shift: Tensor<1>,
    /// diag(AᵀR RᵀA − AᵀA) `[b]`: the change of the variance.
    pub change: Tensor<1>,
    /// KL(N(μ, R Rᵀ) ‖ N(0, I)) `[1]`.
    pub divergence: Tensor<1>,
}

impl Projected {
    /// Splits a vector `[2b + 1]` that holds all three side by side.
    pub(crate) fn apart(packed: &Tensor<1>) -> Self {
        let b = (packed.dims()[0] - 1) / 2;
        let part = |first, count| packed.clone().narrow(0, first, count);
        Self { shift: part(0, b), change: part(b, b), divergence: part(2 * b, 1) }
    }
}

/// The marginals for A `[m, b]`, μ `[m]` and R, which is lower triangular `[m, m]` or a diagonal `[m]`.
///
/// About 6m²b operations, forward and in reverse. They are in f32 if `single`: A is exact enough in f32, because its
/// columns are no longer than the prior's standard deviations.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape) when shapes disagree.
pub fn marginals<const D: usize>(a: Tensor<2>, mean: Tensor<1>, root: Tensor<D>, single: bool) -> Result<Projected> {
    #[cfg(feature = "gpu")]
    if !crate::device::is_host(&a.device()) {
        return Ok(on_device(a, mean, root));
    }
    let packed: Tensor<1> = apply3(Marginals { single }, a, mean, root)?;
    Ok(Projected::apart(&packed))
}

/// The same as a graph: on a GPU, only the products matter.
#[cfg(feature = "gpu")]
fn on_device<const D: usize>(a: Tensor<2>, mean: Tensor<1>, root: Tensor<D>) -> Projected {
    let (m, diagonal) = (mean.dims()[0], D == 1);
    let square = |x: Tensor<2>| x.clone() * x;
    let (c, of_root, logs) = if diagonal {
        let root: Tensor<1> = root.reshape([m]);
        (a.clone() * root.clone().unsqueeze_dim(1), root.clone().powi_scalar(2).sum(), root.abs().log().sum())
    } else {
        let root: Tensor<2> = root.reshape([m, m]);
        let entries = root.clone().reshape([m * m]).slice([Slice::new(0, None, m as isize + 1)]);
        (root.clone().transpose().matmul(a.clone()), square(root).sum(), entries.abs().log().sum())
    };
    let shift = a.clone().transpose().matmul(mean.clone().unsqueeze_dim(1)).squeeze_dim(1);
    let change = (square(c).sum_dim(0) - square(a).sum_dim(0)).squeeze_dim(0);
    let divergence = (mean.powi_scalar(2).sum() + of_root - m as f64) * 0.5 - logs;
    Projected { shift, change, divergence }
}

/// R.
pub(crate) enum Root<T> {
    /// Its diagonal `[m]`.
    Diagonal(Vec<T>),
    /// Row-major `[m, m]`, zeros above the diagonal.
    Lower(Vec<T>),
}

impl<T> Root<T> {
    /// Its numbers, and the distance between those on its diagonal.
    fn numbers(&self, m: usize) -> (&[T], usize) {
        match self {
            Self::Diagonal(numbers) => (numbers, 1),
            Self::Lower(numbers) => (numbers, m + 1),
        }
    }
}

/// μ and R.
pub(crate) struct Normal<T> {
    pub mean: Vec<f64>,
    pub root: Root<T>,
}

/// The effect of μ and R on a block of columns.
pub(crate) struct Block<T> {
    /// Aᵀμ.
    pub shift: Vec<f64>,
    /// diag(AᵀR RᵀA − AᵀA).
    pub change: Vec<f64>,
    /// C = RᵀA; empty for a diagonal R.
    pub c: Vec<T>,
}

/// Gradients in the blocks of A, in μ `[m]`, and in R in its own form; zeros above the diagonal of a full R.
pub(crate) struct Slopes<T> {
    pub a: Vec<Vec<T>>,
    pub mean: Vec<f64>,
    pub root: Vec<T>,
}

/// A block's contribution to the gradients in its part of A, in μ and in a diagonal R; and C with its columns scaled.
struct Share<T> {
    a: Vec<T>,
    mean: Vec<f64>,
    root: Vec<f64>,
    scaled: Vec<T>,
}

impl<T: Real> Normal<T> {
    /// KL(N(μ, R Rᵀ) ‖ N(0, I)).
    pub(crate) fn divergence(&self) -> f64 {
        let (numbers, step) = self.root.numbers(self.mean.len());
        let squares = dot(&self.mean, &self.mean) + squares(numbers);
        let logs: f64 = numbers.iter().step_by(step).map(|r| r.f64().abs().ln()).sum();
        0.5 * (squares - self.mean.len() as f64) - logs
    }

    /// Rᵀ, row-major like R, with which the products of [`block`](Self::block) are fastest; empty for a diagonal R.
    pub(crate) fn transposed(&self) -> Vec<T> {
        match &self.root {
            Root::Diagonal(_) => Vec::new(),
            Root::Lower(root) => {
                let m = self.mean.len();
                let mut upper = vec![T::of(0.0); m * m];
                transpose_into(view_mut(&mut upper, m), view(root, m));
                upper
            }
        }
    }

    /// The results for `b` columns of A, given Rᵀ.
    pub(crate) fn block(&self, transposed: &[T], a: &[T], b: usize) -> Block<T> {
        let Self { mean, root } = self;
        let (mut shift, mut change, mut c) = (vec![0.0; b], vec![0.0; b], Vec::new());
        match root {
            Root::Diagonal(root) => {
                columns(a, b, &mut shift, &mut change, |i| (mean[i], root[i].f64().powi(2) - 1.0));
            }
            Root::Lower(_) => {
                c = vec![T::of(0.0); a.len()];
                triangular::upper(view_mut(&mut c, b), view(transposed, mean.len()), view(a, b));
                columns(a, b, &mut shift, &mut change, |i| (mean[i], -1.0));
                columns(&c, b, &mut shift, &mut change, |_| (0.0, 1.0));
            }
        }
        Block { shift, change, c }
    }

    /// The adjoint, given A and C of all blocks. With cotangents s̄, c̄, κ̄: `Ā = μ s̄ᵀ + 2(RC − A) diag(c̄)`,
    /// `R̄ = tril(2A diag(c̄) Cᵀ) + κ̄(R − diag(1/R))`, `μ̄ = A s̄ + κ̄ μ`.
    pub(crate) fn adjoint(&self, blocks: &[(&[T], &[T])], grad: &[f64]) -> Slopes<T> {
        let Self { mean, root } = self;
        let (m, b) = (mean.len(), (grad.len() - 1) / 2);
        let (in_shift, rest) = grad.split_at(b);
        let (in_change, in_divergence) = (&rest[..b], rest[b]);
        let mut end = 0;
        let ends = blocks.iter().map(|(a, _)| {
            end += a.len() / m.max(1);
            end
        });
        let ends: Vec<usize> = ends.collect();
        let shares = threads::map(blocks.par_iter().zip(ends), |(&(a, c), end)| {
            let columns = end - a.len() / m.max(1)..end;
            self.share(a, c, &in_shift[columns.clone()], &in_change[columns])
        });
        let mut in_mean: Vec<f64> = mean.iter().map(|mean| in_divergence * mean).collect();
        let mut diagonal = vec![0.0; m];
        for share in &shares {
            in_mean.iter_mut().zip(&share.mean).for_each(|(sum, x)| *sum += x);
            diagonal.iter_mut().zip(&share.root).for_each(|(sum, x)| *sum += x);
        }
        let mut in_root = match root {
            Root::Diagonal(_) => diagonal.into_iter().map(T::of).collect(),
            Root::Lower(_) => {
                let mut in_root = vec![T::of(0.0); m * m];
                let terms = blocks.iter().zip(&shares).map(|((a, _), share)| {
                    let columns = a.len() / m.max(1);
                    (view(a, columns), view(&share.scaled, columns).transpose())
                });
                product::add_all_lower(view_mut(&mut in_root, m), &terms.collect::<Vec<_>>(), T::of(1.0));
                in_root
            }
        };
        let (numbers, step) = root.numbers(m);
        let in_divergence = T::of(in_divergence);
        threads::for_each(in_root.par_chunks_mut(GRAIN).zip(numbers.par_chunks(GRAIN)), |(out, r)| {
            vectorised(|| out.iter_mut().zip(r).for_each(|(out, r)| *out += in_divergence * *r));
        });
        in_root.iter_mut().zip(numbers).step_by(step).for_each(|(out, r)| *out -= in_divergence / *r);
        Slopes { a: shares.into_iter().map(|share| share.a).collect(), mean: in_mean, root: in_root }
    }

    /// The contribution of a block with these cotangents.
    fn share(&self, a: &[T], c: &[T], in_shift: &[f64], in_change: &[f64]) -> Share<T> {
        let Self { mean, root } = self;
        let (m, b) = (mean.len(), in_shift.len());
        let in_mean = threads::map(a.par_chunks(b), |a| dot(a, in_shift));
        let shift: Vec<T> = in_shift.iter().map(|g| T::of(*g)).collect();
        let twice: Vec<T> = in_change.iter().map(|g| T::of(2.0 * g)).collect();
        let mut in_a = vec![T::of(0.0); a.len()];
        let rows = || a.par_chunks(b).zip(mean);
        match root {
            Root::Diagonal(root) => {
                let mut in_root = vec![0.0; m];
                let rows = in_a.par_chunks_mut(b).zip(rows()).zip(&mut in_root).zip(root);
                threads::for_each(rows, |(((out, (a, mean)), in_root), root)| {
                    let (mean, less) = (T::of(*mean), *root * *root - T::of(1.0));
                    let mut squares = 0.0;
                    for (((out, a), s), c) in out.iter_mut().zip(a).zip(&shift).zip(&twice) {
                        *out = mean * *s + less * *a * *c;
                        squares += (*c * *a * *a).f64();
                    }
                    *in_root = root.f64() * squares;
                });
                Share { a: in_a, mean: in_mean, root: in_root, scaled: Vec::new() }
            }
            Root::Lower(root) => {
                let mut scaled = vec![T::of(0.0); c.len()];
                threads::for_each(scaled.par_chunks_mut(b).zip(c.par_chunks(b)), |(scaled, c)| {
                    vectorised(|| scaled.iter_mut().zip(c).zip(&twice).for_each(|((scaled, c), g)| *scaled = *c * *g));
                });
                triangular::lower(view_mut(&mut in_a, b), view(root, m), view(&scaled, b));
                threads::for_each(in_a.par_chunks_mut(b).zip(rows()), |(out, (a, mean))| {
                    let mean = T::of(*mean);
                    vectorised(|| {
                        for (((out, a), s), g) in out.iter_mut().zip(a).zip(&shift).zip(&twice) {
                            *out += mean * *s - *a * *g;
                        }
                    });
                });
                Share { a: in_a, mean: in_mean, root: Vec::new(), scaled }
            }
        }
    }
}

/// Adds Σ_i s_i a_ij to the first sums and Σ_i t_i a_ij² to the second, for the columns j of a row-major matrix, with
/// (s_i, t_i) = `weights(i)`.
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

/// The sum of squares; it does not depend on the number of threads.
fn squares<T: Real>(numbers: &[T]) -> f64 {
    threads::map(numbers.par_chunks(GRAIN), |part| dot(part, part)).into_iter().sum()
}

struct Marginals {
    single: bool,
}

impl Marginals {
    fn value<T: Real>([a, mean, root]: [TensorData; 3]) -> Result<(TensorData, Vjp<3>)> {
        let (b, dtype) = (a.shape()[1], a.dtype());
        let shapes = [&a, &mean, &root].map(|input| input.shape().clone());
        let numbers = rounded::<T, f64>(&widened(root)?);
        let root = if shapes[2].len() == 1 { Root::Diagonal(numbers) } else { Root::Lower(numbers) };
        // If A has the tensor's own type, this is the tensor's memory, which a graph may share.
        let (a, normal) = (a.convert::<T>(), Normal { mean: widened(mean)?, root });
        let Block { shift, change, c } = normal.block(&normal.transposed(), shape::numbers(&a)?, b);
        let out = [shift, change, vec![normal.divergence()]].concat();
        let vjp = move |grad, needs: [bool; 3]| {
            let blocks = [(shape::numbers(&a)?, c.as_slice())];
            let Slopes { mut a, mean, root } = normal.adjoint(&blocks, &widened(grad)?);
            let slopes = [rounded(&a.pop().unwrap_or_default()), mean, rounded(&root)];
            let mut all = slopes.into_iter().zip(shapes).zip(needs);
            Ok(std::array::from_fn(|_| {
                all.next().and_then(|((slope, shape), needed)| needed.then(|| narrowed(slope, &shape, dtype)))
            }))
        };
        Ok((narrowed(out, &[2 * b + 1], dtype), Box::new(vjp)))
    }
}

impl HostOp<3> for Marginals {
    fn forward(self: Arc<Self>, inputs: [TensorData; 3]) -> Result<(TensorData, Vjp<3>)> {
        let [a, mean, root] = &inputs;
        let m = shape::matrices("L⁻¹K_ZX", a)?.0;
        shape::expect("mean of q", mean, &[m])?;
        let diagonal = root.shape().len() == 1;
        shape::expect("root of q", root, &[m, m][usize::from(diagonal)..])?;
        if self.single { Self::value::<f32>(inputs) } else { Self::value::<f64>(inputs) }
    }
}
