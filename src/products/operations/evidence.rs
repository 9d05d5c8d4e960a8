//! What the evidence lower bound of computation-aware GPs needs of K and block-sparse S, without (K S)ᵀ(K S).
//!
//! With G = SᵀKS, M = G + σ²I = L Lᵀ and v = M⁻¹Sᵀy the bound needs ‖y − KSv‖² and tr(KS M⁻¹SᵀK). From products of KS
//! with itself both would be differences of numbers as large as its largest eigenvalue times 1/σ²; from A = L⁻¹SᵀK they
//! are ‖y − (LA)ᵀv‖² and ‖A‖², at the same cost: one solve and AAᵀ for all rows forwards, Z = L⁻ᵀA backwards. In f64
//! but for K S, A as it is kept, and Z: in f32 the solve for A would lose several times what rounding K S does, AAᵀ
//! more where M is nearly singular; Z comes from A as kept, at no further loss.

use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::error::Result;
use crate::kernels::form::Lowered;
use crate::linalg::Factor;
use crate::linalg::dense::{congruence, product, solve, transpose, triangular, view, view_mut};
use crate::linalg::host::{HostOp, Saved, apply4};
use crate::linalg::jitter::check_rounding;
use crate::linalg::real::{Real, dot, into_real, into_vec, rounded, vectorised, widened, with_real};
use crate::products::blocks::BlockSparse;
use crate::products::drivers::projections::{Frame, Inputs, Origin, Projections, Total};
use crate::products::engine::lanes::{Lanes, Number, Work};
use crate::products::engine::strips::{Part, Strip};
use crate::products::operations::matvec::{coefficients, features, recall};
use crate::threads::{self, GRAIN};

/// `[‖y − KSv‖² − tr(KS M⁻¹SᵀK), vᵀGv − tr(M⁻¹G) + log|M|]` in f64 for columns of S of unit length, `y [n]` and σ²
/// `noise [1]`, with chunks that fit `budget` bytes. `lowered` is in f64; covariances are in the precision of S and y.
pub fn packed(
    lowered: &Lowered,
    blocks: &BlockSparse,
    y: &Tensor<1>,
    noise: &Tensor<1>,
    budget: usize,
) -> Result<Tensor<1>> {
    let op = Evidence(Frame::new(lowered, blocks, budget));
    // Features and coefficients are in f64: the gradients that they receive cancel those of the trace of K.
    let rows: Tensor<1> = Tensor::cat(vec![blocks.values().clone(), y.clone()], 0);
    apply4(op, features(lowered), coefficients(lowered), rows, noise.clone())
}

#[derive(Debug)]
struct Evidence(Frame);

/// The inputs as they came, and what they came to.
struct SavedEvidence<T> {
    inputs: Inputs<T>,
    y: Vec<T>,
    solved: Solved,
    /// A, if it fits.
    whole: Mutex<Option<Vec<Part<T>>>>,
}

/// What the solve came to.
struct Solved {
    /// L `[i, i]`.
    lower: Vec<f64>,
    /// M⁻¹ `[i, i]`.
    inverse: Vec<f64>,
    /// σ², with the jitter that M needed.
    noise: f64,
    /// v and Lᵀv.
    weights: Vec<f64>,
    whitened: Vec<f64>,
    /// The two values.
    values: [f64; 2],
    /// M⁻¹Sᵀ K K S M⁻¹ `[i, i]`.
    squares: Vec<f64>,
    /// M⁻¹SᵀK(y − KSv).
    residual: Vec<f64>,
    /// tr(KS M⁻¹SᵀK).
    explained: f64,
    /// (KSv)ᵀ(y − KSv).
    along: f64,
}

impl HostOp<4> for Evidence {
    fn forward(&self, [x, coefficients, rows, noise]: [TensorData; 4]) -> Result<(TensorData, Saved)> {
        let noise = into_vec::<f64>(noise)?[0];
        let [n, p] = [x.shape()[0], x.shape()[1]];
        let (x, coefficients) = (widened(x)?, widened(coefficients)?);
        with_real!(rows.dtype(), T => {
            let mut s = into_vec::<T>(rows)?;
            let y = s.split_off(n);
            let inputs = Inputs { x: into_real(x), p, coefficients: into_real(coefficients), s };
            let (solved, whole) = T::vectorised(Forward { op: self, inputs: &inputs, y: &y, noise })?;
            let values = solved.values.to_vec();
            let saved = SavedEvidence { inputs, y, solved, whole: Mutex::new(whole) };
            Ok((TensorData::new(values, [2]), Arc::new(saved) as Saved))
        })
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 4]) -> Result<[Option<TensorData>; 4]> {
        let grad = into_vec::<f64>(grad)?;
        match saved.downcast::<SavedEvidence<f64>>() {
            Ok(kept) => self.gradients(&kept, [grad[0], grad[1]]),
            Err(saved) => self.gradients(&*recall::<SavedEvidence<f32>>(saved)?, [grad[0], grad[1]]),
        }
    }
}

impl Evidence {
    fn gradients<T: Number>(&self, kept: &SavedEvidence<T>, grad: [f64; 2]) -> Result<[Option<TensorData>; 4]> {
        let cotangents = Cotangents::new(self, kept, grad);
        let (mut total, [s, y]) = T::vectorised(Adjoint { kept, cotangents: &cotangents });
        self.0.program.pull_factor(cotangents.along, &mut total.coefficients);
        let (n, p, length) = (kept.y.len(), kept.inputs.p, total.coefficients.len());
        let s = total.s.iter().zip(s).map(|(total, direct)| total.f64() + direct);
        let rows: Vec<T> = s.chain(y).map(T::of).collect();
        Ok([
            Some(TensorData::new(into_real::<_, f64>(total.x), [n, p])),
            Some(TensorData::new(total.coefficients, [length])),
            Some(TensorData::new(rows, [2 * n])),
            Some(TensorData::new(vec![cotangents.noise], [1])),
        ])
    }
}

struct Forward<'a, T> {
    op: &'a Evidence,
    inputs: &'a Inputs<T>,
    y: &'a [T],
    noise: f64,
}

impl<T: Number> Work<T> for Forward<'_, T> {
    type Output = Result<(Solved, Option<Vec<Part<T>>>)>;

    fn run<L: Lanes<Element = T>>(self) -> Self::Output {
        let (frame, all) = (&self.op.0, self.op.0.of(self.inputs));
        let (i, mut whole) = (all.blocks(), all.whole::<L>());
        let gram = self.gram::<L>(&all, whole.as_mut());
        let mean_diagonal = gram.iter().step_by(i + 1).sum::<f64>() / i as f64;
        check_rounding(i, mean_diagonal, self.noise);
        let factor = Factor::new(gram, "SᵀK̂S")?;
        let noise = self.noise + factor.jitter() * mean_diagonal;
        let blocks = frame.offsets.windows(2).map(|w| w[0]..w[1]);
        let mut whitened: Vec<f64> = blocks.map(|rows| dot(&self.inputs.s[rows.clone()], &self.y[rows])).collect();
        factor.solve_lower(&mut whitened)?;
        let mut weights = whitened.clone();
        factor.solve_lower_transposed(&mut weights)?;
        let lower = factor.clone().lower();

        let mut squares = vec![0.0; i * i + i + 2];
        all.visit::<L>(whole.as_mut(), |parts| {
            let strips = parts.iter_mut().flat_map(Part::strips_mut).collect();
            all.sum(strips, &mut squares, |strip, sums| self.add(strip, &lower, &whitened, sums));
        });
        let mut residual = squares.split_off(i * i);
        let [squared, along] = [residual[i], residual[i + 1]];
        residual.truncate(i);
        factor.solve_lower_transposed(&mut residual)?;
        let explained = squares.iter().step_by(i + 1).sum::<f64>();
        congruence::whiten_transposed(view(&lower, i), view_mut(&mut squares, i));
        let log_det = factor.log_det();
        let inverse = factor.inverse();
        let trace = inverse.iter().step_by(i + 1).sum::<f64>();
        let complexity = dot(&whitened, &whitened) - i as f64 + noise * (trace - dot(&weights, &weights)) + log_det;
        let values = [squared - explained, complexity];
        Ok((Solved { lower, inverse, noise, weights, whitened, values, squares, residual, explained, along }, whole))
    }
}

impl<T: Number> Forward<'_, T> {
    fn scale(&self) -> f64 {
        self.op.0.program.factor(&self.inputs.coefficients).f64()
    }

    /// M.
    fn gram<L: Lanes<Element = T>>(&self, all: &Projections<T>, whole: Option<&mut Vec<Part<T>>>) -> Vec<f64> {
        let (i, mut gram) = (all.blocks(), all.square::<L>(whole, self.scale()));
        gram.iter_mut().step_by(i + 1).for_each(|v| *v += self.noise);
        gram
    }

    /// Puts A in the place of a strip; adds AAᵀ (the lower triangle), A(y − KSv), ‖y − KSv‖² and (KSv)ᵀ(y − KSv) to the
    /// sums.
    fn add(&self, strip: &mut Strip<&mut [T]>, lower: &[f64], whitened: &[f64], sums: &mut [f64]) {
        let (i, width, y) = (whitened.len(), strip.rows.len(), &self.y[strip.rows.clone()]);
        let a = whiten(strip, lower, self.scale());
        let misfit = misfit(&a, whitened, y);
        let (squares, rest) = sums.split_at_mut(i * i);
        for ((column, a), sum) in strip.columns.iter_mut().zip(a.chunks_exact(width)).zip(&mut rest[..i]) {
            column.iter_mut().zip(a).for_each(|(to, from)| *to = T::of(*from));
            *sum += dot(a, &misfit);
        }
        let squared = dot(&misfit, &misfit);
        rest[i] += squared;
        rest[i + 1] += dot(y, &misfit) - squared;
        let a = view(&a, width);
        product::add_lower(view_mut(squares, i), a, a.transpose(), 1.0);
    }
}

/// A `[i, rows]` from a strip of the projections.
fn whiten<T: Real, P: AsRef<[T]>>(strip: &Strip<P>, lower: &[f64], scale: f64) -> Vec<f64> {
    let mut a: Vec<f64> = strip.copied();
    a.iter_mut().for_each(|v| *v *= scale);
    solve::lower(view(lower, strip.columns.len()), view_mut(&mut a, strip.rows.len()));
    a
}

/// y − Aᵀ Lᵀv.
fn misfit<T: Real, W: Real>(a: &[W], whitened: &[f64], y: &[T]) -> Vec<f64> {
    let mut misfit: Vec<f64> = y.iter().map(|y| y.f64()).collect();
    vectorised(|| {
        for (a, weight) in a.chunks_exact(y.len()).zip(whitened) {
            misfit.iter_mut().zip(a).for_each(|(misfit, a)| *misfit -= weight * a.f64());
        }
    });
    misfit
}

/// From the cotangents ḡ of the values to those of what they are made of. With w = 2ḡ₁M⁻¹Gv − 2ḡ₀Z(y − KSv) that of Sᵀy
/// is w, that of G D = ḡ₀ZZᵀ + ḡ₁(M⁻¹ − σ²M⁻² + vvᵀ) − ½(wvᵀ + vwᵀ), and that of SᵀK DSᵀ − 2ḡ₀(v(y − KSv)ᵀ + Z).
struct Cotangents<'a, T> {
    frame: &'a Frame,
    solved: &'a Solved,
    /// L in the precision of the data.
    lower: Vec<T>,
    /// 2ḡ₀.
    twice: f64,
    /// D `[i, i]`.
    gram: Vec<f64>,
    /// (D L)ᵀ `[i, i]`.
    gram_lower: Vec<f64>,
    /// w.
    projected: Vec<f64>,
    noise: f64,
    /// In the kernel's factor.
    along: f64,
    scale: f64,
}

impl<'a, T: Number> Cotangents<'a, T> {
    fn new(op: &'a Evidence, kept: &'a SavedEvidence<T>, [first, second]: [f64; 2]) -> Self {
        let Solved { lower, inverse, noise, weights, whitened, squares, residual, explained, along, .. } = &kept.solved;
        let i = weights.len();
        let [mut solved, mut sy] = [vec![0.0; i], vec![0.0; i]];
        product::set(view_mut(&mut solved, 1), view(inverse, i), view(weights, 1), 1.0);
        product::set(view_mut(&mut sy, 1), view(lower, i), view(whitened, 1), 1.0);
        let projected: Vec<f64> =
            (0..i).map(|a| 2.0 * (second * (weights[a] - noise * solved[a]) - first * residual[a])).collect();
        let mut gram = vec![0.0; i * i];
        product::add_lower(view_mut(&mut gram, i), view(inverse, i), view(inverse, i), -second * noise);
        transpose::mirror(view_mut(&mut gram, i));
        let rows = gram.par_chunks_exact_mut(i).zip(squares.par_chunks_exact(i)).zip(inverse.par_chunks_exact(i));
        threads::for_each(rows.enumerate().with_min_len(GRAIN / i + 1), |(a, ((row, squares), inverse))| {
            let (of_weights, of_projected) = (second * weights[a] - 0.5 * projected[a], -0.5 * weights[a]);
            for (b, value) in row.iter_mut().enumerate() {
                *value +=
                    first * squares[b] + second * inverse[b] + of_weights * weights[b] + of_projected * projected[b];
            }
        });
        let mut gram_lower = vec![0.0; i * i];
        triangular::upper(view_mut(&mut gram_lower, i), view(lower, i).transpose(), view(&gram, i));
        let trace = |matrix: &[f64]| matrix.iter().step_by(i + 1).sum::<f64>();
        let (in_inverse, in_noise) = (trace(inverse), trace(&gram));
        // tr(D G) = tr(D M) − σ² tr D, with M = L Lᵀ and Mv = Sᵀy.
        let in_gram = first * explained + second * (i as f64 - noise * in_inverse + dot(whitened, whitened))
            - dot(&projected, &sy)
            - noise * in_noise;
        let scale = op.0.program.factor(&kept.inputs.coefficients).f64();
        Self {
            frame: &op.0,
            solved: &kept.solved,
            lower: rounded(lower),
            twice: 2.0 * first,
            noise: in_noise - second * (dot(weights, weights) - in_inverse),
            along: (in_gram - 2.0 * first * (explained + along)) / scale,
            gram,
            gram_lower,
            projected,
            scale,
        }
    }

    /// Puts the cotangent of SᵀK, without the kernel's factor, in the place of a strip; returns the gradients in its
    /// rows of S, on the left, and of y.
    fn replace(&self, strip: &mut Strip<&mut [T]>, origin: Origin, s: &[T], y: &[T]) -> [Vec<f64>; 2] {
        let Solved { lower, weights, whitened, .. } = self.solved;
        let (i, width, blocks) = (weights.len(), strip.rows.len(), self.frame.within(&strip.rows));
        let a: Vec<T> = match origin {
            Origin::Saved => strip.copied(),
            Origin::Anew => into_real(whiten(strip, lower, self.scale)),
        };
        let misfit = misfit(&a, whitened, y);
        let mut z = a.clone();
        solve::upper(view(&self.lower, i).transpose(), view_mut(&mut z, width));
        let own: Vec<f64> = blocks.iter().flat_map(|(b, rows)| rows.clone().map(|_| self.projected[*b])).collect();
        let mut in_s: Vec<f64> = (0..width).map(|r| y[r].f64() * own[r]).collect();
        let in_y = (0..width).map(|r| self.twice * misfit[r] + s[r].f64() * own[r]).collect();
        let rows = strip.columns.iter_mut().zip(a.chunks_exact(width)).zip(z.chunks_exact(width));
        let squares = self.gram.chunks_exact(i).zip(self.gram_lower.chunks_exact(i)).zip(weights);
        vectorised(|| {
            for (((out, a), z), ((gram, whitened), weight)) in rows.zip(squares) {
                for (b, rows) in &blocks {
                    let (gram, whitened) = (gram[*b], whitened[*b]);
                    let (out, in_s) = (&mut out[rows.clone()], &mut in_s[rows.clone()]);
                    let (a, z, s, misfit) =
                        (&a[rows.clone()], &z[rows.clone()], &s[rows.clone()], &misfit[rows.clone()]);
                    for r in 0..rows.len() {
                        let value = gram * s[r].f64() - self.twice * (weight * misfit[r] + z[r].f64());
                        out[r] = T::of(self.scale * value);
                        in_s[r] += whitened * a[r].f64();
                    }
                }
            }
        });
        [in_s, in_y]
    }
}

struct Adjoint<'a, T> {
    kept: &'a SavedEvidence<T>,
    cotangents: &'a Cotangents<'a, T>,
}

impl<T: Number> Work<T> for Adjoint<'_, T> {
    /// What comes through SᵀK, and what S on the left and y receive directly.
    type Output = (Total<T>, [Vec<f64>; 2]);

    fn run<L: Lanes<Element = T>>(self) -> Self::Output {
        let Self { kept, cotangents } = self;
        let (s, y) = (&kept.inputs.s, &kept.y);
        let mut direct = [vec![0.0; s.len()], vec![0.0; y.len()]];
        let saved = kept.whole.lock().unwrap_or_else(PoisonError::into_inner).take();
        let all = cotangents.frame.of(&kept.inputs);
        let total = all.adjoint::<L>(saved, |parts, origin| {
            let strips: Vec<_> = parts.iter_mut().flat_map(Part::strips_mut).collect();
            let gradients = threads::map(strips.into_par_iter(), |mut strip| {
                let rows = strip.rows.clone();
                (rows.start, cotangents.replace(&mut strip, origin, &s[rows.clone()], &y[rows]))
            });
            for (start, gradients) in gradients {
                for (all, part) in direct.iter_mut().zip(gradients) {
                    all[start..][..part.len()].copy_from_slice(&part);
                }
            }
        });
        (total, direct)
    }
}
