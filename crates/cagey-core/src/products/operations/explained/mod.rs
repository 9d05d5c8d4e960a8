//! What block-sparse projections of noisy targets explain about a GP's rows, without (K S)ᵀ(K S).
//!
//! Let G = SᵀKS, C = SᵀΩS (the diagonal noise), M = G + C = L Lᵀ and v = M⁻¹Sᵀt. The results are the mean K S v of the
//! rows, their explained variances diag(KS M⁻¹SᵀK), and the divergence from the prior. From products of KS with itself,
//! variances would be differences of numbers as large as its largest eigenvalue over the noise. From A = L⁻¹SᵀK they
//! are sums of squares, at the same cost: one solve for all rows forwards; AAᵀ, weighted, and Z = L⁻ᵀA backwards. All
//! is in f64 except K S, the stored A, and Z. In f32 the solve for A would lose several times as much as the rounding
//! of K S; AAᵀ and Z come from the stored A, without further loss.
//!
//! L functions that share K can have different numbers in the same blocks, and then share v: the actions are the sums
//! over the functions. K is evaluated once for all of them.

mod cotangents;
mod graph;
mod pairs;
mod prepared;
mod rows;

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::error::Result;
use crate::kernels::form::Lowered;
use crate::linalg::Factor;
use crate::linalg::host::{HostOp, Vjp, apply4};
use crate::linalg::jitter::check_rounding;
use crate::linalg::real::{dot, into_real, into_vec, vector, widened, with_real};
use crate::products::blocks::BlockSparse;
use crate::products::drivers::projections::{Frame, Inputs};
use crate::products::engine::lanes::{Lanes, Number, Work};
use crate::products::engine::strips::RowsTimesS;
use crate::products::operations::matvec::{coefficients, features};
use crate::threads;

pub(in crate::products) use graph::of_blocks;
#[doc(hidden)]
pub use graph::{diagonal, explained as from_products};
#[doc(hidden)]
pub use pairs::pair_sums;
pub use prepared::Prepared;
use prepared::Ready;
#[doc(hidden)]
pub use rows::{of_numbers, of_rows};

/// What projections of targets explain about the rows of L latent functions, in the scope's wide type.
#[derive(Debug, Clone)]
pub struct Explained {
    /// Twice the divergence of the weights' posterior from their prior, `vᵀGv − i + tr(M⁻¹C) + ln|M| − ln|C|` `[1]`.
    pub divergence: Tensor<1>,
    /// `|v|ᵀ|G||v|` `[1]`: the sum of the absolute terms of `vᵀGv`, for judging its rounding error; without gradient.
    pub magnitude: Tensor<1>,
    /// K S v `[L, n]`.
    pub mean: Tensor<2>,
    /// diag(KS M⁻¹SᵀK) `[L, n]`; if a row's functions are correlated, their covariances `[L L, n]`.
    pub variance: Tensor<2>,
}

impl Explained {
    /// Latent functions that are independent of each other.
    #[doc(hidden)]
    pub fn beside(each: Vec<Self>) -> Self {
        let sum = |of: fn(&Self) -> &Tensor<1>| Tensor::cat(each.iter().map(of).cloned().collect(), 0).sum();
        let rows = |of: fn(&Self) -> &Tensor<2>| Tensor::cat(each.iter().map(of).cloned().collect(), 0);
        Self {
            divergence: sum(|own| &own.divergence),
            magnitude: sum(|own| &own.magnitude),
            mean: rows(|own| &own.mean),
            variance: rows(|own| &own.variance),
        }
    }
}

/// The results for targets `t [L n]` with independent noise of variances `spread [L n]`, with chunks that fit `budget`
/// bytes, and for the non-zeros of L functions in the same blocks. `lowered`, targets and noise are in f64; covariances
/// are in the precision of S. `prepared` holds products with the same numbers.
pub fn explained(
    lowered: &Lowered,
    blocks: &[BlockSparse],
    [targets, spread]: [&Tensor<1>; 2],
    budget: usize,
    prepared: Option<Prepared>,
) -> Result<Explained> {
    let frame = Frame::new(lowered, blocks, budget);
    let op = Explain { frame, prepared: Mutex::new(prepared.map(Prepared::into_any)) };
    let (n, latents) = (blocks[0].values().dims()[0], blocks.len());
    let noisy: Tensor<2> = Tensor::stack(vec![targets.clone(), spread.clone()], 0);
    // Features and coefficients are in f64: their gradients cancel with those of the trace of K.
    let packed: Tensor<1> = apply4(op, features(lowered), coefficients(lowered), values(blocks), noisy)?;
    let part = |start: usize, count: usize| packed.clone().narrow(0, start, count);
    let rows = |first: usize, count: usize| part(2 + first * n, count * n).reshape([count, n]);
    let (mean, variance) = (rows(0, latents), rows(latents, latents * latents));
    Ok(Explained { divergence: part(0, 1), magnitude: part(1, 1).detach(), mean, variance })
}

/// The non-zeros of all functions `[L n]`.
fn values(blocks: &[BlockSparse]) -> Tensor<1> {
    match blocks {
        [one] => one.values().clone(),
        _ => Tensor::cat(blocks.iter().map(|own| own.values().clone()).collect(), 0),
    }
}

struct Explain {
    frame: Frame,
    prepared: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The inputs as given, and the results.
struct SavedExplained<T> {
    inputs: Inputs<T>,
    targets: Vec<f64>,
    spread: Vec<f64>,
    solved: Solved,
    /// A, if it fits.
    whole: Option<Vec<RowsTimesS<T>>>,
}

/// The results of the solve.
struct Solved {
    /// L `[i, i]`.
    lower: Vec<f64>,
    /// M⁻¹ `[i, i]`.
    inverse: Vec<f64>,
    /// The diagonal of C, with the jitter that M needed.
    noise: Vec<f64>,
    /// Sᵀt.
    projected: Vec<f64>,
    /// v.
    weights: Vec<f64>,
    /// Divergence and magnitude.
    values: [f64; 2],
    /// The rows' means, then what is explained of their covariances `[L + L L, n]`.
    rows: Vec<f64>,
}

impl HostOp<4> for Explain {
    fn forward(self: Arc<Self>, [x, coefficients, s, noisy]: [TensorData; 4]) -> Result<(TensorData, Vjp<4>)> {
        let p = x.shape()[1];
        let mut targets = into_vec::<f64>(noisy)?;
        let spread = targets.split_off(targets.len() / 2);
        let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).take();
        with_real!(s.dtype(), T => {
            let ready = match prepared.and_then(|prepared| prepared.downcast::<Ready<T>>().ok()) {
                Some(ready) => *ready,
                None => {
                    let (x, coefficients) = (into_real(widened(x)?), into_real(widened(coefficients)?));
                    Ready::new(&self.frame, Inputs { x, p, coefficients, s: into_vec(s)? })
                }
            };
            let Ready { inputs, gram, mut whole } = ready;
            let forward = ExplainedForward {
                frame: &self.frame, inputs: &inputs, gram, whole: &mut whole, noisy: [&targets, &spread]
            };
            let solved = T::vectorised(forward)?;
            let packed = [&solved.values[..], &solved.rows].concat();
            let kept = SavedExplained { inputs, targets, spread, solved, whole };
            let vjp = move |grad, _needs: [bool; 4]| {
                Ok(cotangents::gradients(&self.frame, kept, &into_vec::<f64>(grad)?))
            };
            Ok((vector(packed), Box::new(vjp)))
        })
    }
}

struct ExplainedForward<'a, T> {
    frame: &'a Frame,
    inputs: &'a Inputs<T>,
    /// G.
    gram: Vec<f64>,
    /// (K S)ᵀ, from which A is computed.
    whole: &'a mut Option<Vec<RowsTimesS<T>>>,
    /// Targets and the variances of their noise.
    noisy: [&'a [f64]; 2],
}

impl<T: Number> Work<T> for ExplainedForward<'_, T> {
    type Output = Result<Solved>;

    fn run<L: Lanes<Element = T>>(self) -> Self::Output {
        let Self { frame, inputs, gram, whole, noisy: [targets, spread] } = self;
        let (i, n, latents, s) = (frame.blocks(), frame.rows(), frame.functions, &inputs.s);
        // Sums over the rows of a block, for all functions.
        let in_blocks = |of: &dyn Fn(Range<usize>) -> f64| -> Vec<f64> {
            let block = |w: &[usize]| (0..latents).map(|l| of(l * n + w[0]..l * n + w[1])).sum();
            frame.offsets.windows(2).map(block).collect()
        };
        let mut noise = in_blocks(&|rows| rows.map(|row| (s[row].f64() * s[row].f64()) * spread[row]).sum());
        let projected = in_blocks(&|rows| dot(&s[rows.clone()], &targets[rows]));
        let mut matrix = gram.clone();
        matrix.iter_mut().step_by(i + 1).zip(&noise).for_each(|(m, noise)| *m += noise);
        let diagonal = matrix.iter().step_by(i + 1).sum::<f64>() / i as f64;
        check_rounding(i, diagonal, noise.iter().sum::<f64>() / i as f64);
        let factor = Factor::new(matrix, "SᵀK̂S")?;
        noise.iter_mut().for_each(|noise| *noise += factor.jitter() * diagonal);
        let mut weights = projected.clone();
        factor.solve(&mut weights)?;
        let lower = factor.clone().lower();

        let scale = frame.program.factor(&inputs.coefficients).f64();
        let mut rows = vec![0.0; (1 + latents) * latents * n];
        frame.of(inputs).visit::<L>(whole.as_mut(), |parts| {
            let strips: Vec<_> = parts.iter_mut().flat_map(RowsTimesS::strips_mut).collect();
            let told = threads::map(strips.into_par_iter(), |mut strip| {
                let mut a = strip.scaled(scale);
                let told = rows::tell(&mut a, latents, &lower, &weights);
                for (column, a) in strip.columns.iter_mut().zip(a.chunks_exact(strip.rows.len())) {
                    column.iter_mut().zip(a).for_each(|(to, a)| *to = T::of(*a));
                }
                (strip.rows, told)
            });
            told.iter().for_each(|(own, told)| place(&mut rows, n, own, told));
        });

        let quadratic = |number: fn(f64) -> f64| -> f64 {
            let row = |row: &[f64]| -> f64 { row.iter().zip(&weights).map(|(g, v)| number(*g) * number(*v)).sum() };
            gram.chunks_exact(i).zip(&weights).map(|(g, v)| number(*v) * row(g)).sum()
        };
        let log_det = factor.log_det();
        let inverse = factor.inverse();
        let spreads = inverse.iter().step_by(i + 1).zip(&noise).map(|(inverse, noise)| inverse * noise - 1.0);
        let divergence = quadratic(|value| value) + spreads.sum::<f64>() + log_det
            - noise.iter().map(|noise| noise.ln()).sum::<f64>();
        let values = [divergence, quadratic(f64::abs)];
        Ok(Solved { lower, inverse, noise, projected, weights, values, rows })
    }
}

/// Copies numbers of some rows `[_, rows]` to their places in those of all rows `[_, n]`.
fn place<T: Copy>(all: &mut [T], n: usize, rows: &Range<usize>, part: &[T]) {
    let each = all.chunks_exact_mut(n).zip(part.chunks_exact(rows.len()));
    each.for_each(|(all, part)| all[rows.clone()].copy_from_slice(part));
}
