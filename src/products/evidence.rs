//! What the evidence lower bound of computation-aware GPs needs of K and block-sparse S, without (K S)ᵀ(K S).
//!
//! With G = SᵀKS, M = G + σ²I = L Lᵀ and v = M⁻¹Sᵀy the bound needs ‖y − KSv‖² and tr(KS M⁻¹SᵀK). From products of KS with itself both
//! would be differences of numbers as large as its largest eigenvalue times 1/σ²; from A = L⁻¹SᵀK they are ‖y − (LA)ᵀv‖² and ‖A‖², at the
//! same cost: one solve and AAᵀ for all rows forwards, Z = L⁻ᵀA backwards. In f64 but for K S and A, which are as precise as the data.

use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::blocks::{BlockSparse, owners};
use super::lanes::{Lanes, Number, Work};
use super::matvec::{coefficients, features, recall};
use super::projections::{Frame, Inputs, Origin, Projections, Total};
use super::strips::{Part, Strip};
use crate::error::Result;
use crate::kernels::form::Lowered;
use crate::linalg::Factor;
use crate::linalg::dense::{congruence, product, solve, transpose, triangular, view, view_mut};
use crate::linalg::host::{HostOp, Saved, apply4};
use crate::linalg::jitter::check_rounding;
use crate::linalg::real::{Real, dot, into_vec, with_real};

/// `[‖y − KSv‖² − tr(KS M⁻¹SᵀK), vᵀGv − tr(M⁻¹G) + log|M|]` in f64 for columns of S of unit length, `y [n]` and σ² `noise [1]`, with chunks
/// that fit `budget` bytes.
pub fn packed(
    lowered: &Lowered,
    blocks: &BlockSparse,
    y: &Tensor<1>,
    noise: &Tensor<1>,
    budget: usize,
) -> Result<Tensor<1>> {
    let op = Evidence(Frame::new(lowered, blocks, budget));
    let rows: Tensor<1> = Tensor::cat(vec![blocks.values().clone(), y.clone()], 0);
    apply4(op, features(lowered), coefficients(lowered), rows, noise.clone())
}

#[derive(Debug)]
struct Evidence(Frame);

/// The inputs as they came, and what they came to.
struct Kept<T> {
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
    /// tr(KS M⁻¹SᵀK) + (KSv)ᵀ(y − KSv).
    along: f64,
}

impl HostOp<4> for Evidence {
    fn forward(&self, [x, coefficients, rows, noise]: [TensorData; 4]) -> Result<(TensorData, Saved)> {
        let noise = into_vec::<f64>(noise)?[0];
        with_real!(x.dtype(), T => {
            let [n, p] = [x.shape()[0], x.shape()[1]];
            let mut s = into_vec::<T>(rows)?;
            let y = s.split_off(n);
            let inputs = Inputs { x: into_vec(x)?, p, coefficients: into_vec(coefficients)?, s };
            let (solved, whole) = T::vectorised(Forward { op: self, inputs: &inputs, y: &y, noise })?;
            let values = solved.values.to_vec();
            Ok((TensorData::new(values, [2]), Arc::new(Kept { inputs, y, solved, whole: Mutex::new(whole) }) as Saved))
        })
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 4]) -> Result<[Option<TensorData>; 4]> {
        let grad = into_vec::<f64>(grad)?;
        match saved.downcast::<Kept<f64>>() {
            Ok(kept) => self.gradients(&kept, [grad[0], grad[1]]),
            Err(saved) => self.gradients(&*recall::<Kept<f32>>(saved)?, [grad[0], grad[1]]),
        }
    }
}

impl Evidence {
    fn gradients<T: Number>(&self, kept: &Kept<T>, grad: [f64; 2]) -> Result<[Option<TensorData>; 4]> {
        let cotangents = Cotangents::new(self, kept, grad);
        let (mut total, [s, y]) = T::vectorised(Adjoint { kept, cotangents: &cotangents });
        self.0.program.pull_factor(cotangents.along, &mut total.coefficients);
        let (n, p, length) = (kept.y.len(), kept.inputs.p, total.coefficients.len());
        let coefficients: Vec<T> = total.coefficients.into_iter().map(T::of).collect();
        let s = total.s.iter().zip(s).map(|(total, direct)| total.f64() + direct);
        let rows: Vec<T> = s.chain(y).map(T::of).collect();
        Ok([
            Some(TensorData::new(total.x, [n, p])),
            Some(TensorData::new(coefficients, [length])),
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
        let (values, along) = ([squared - explained, complexity], explained + along);
        Ok((Solved { lower, inverse, noise, weights, whitened, values, squares, residual, along }, whole))
    }
}

impl<T: Number> Forward<'_, T> {
    fn scale(&self) -> f64 {
        self.op.0.program.factor(&self.inputs.coefficients).f64()
    }

    /// M.
    fn gram<L: Lanes<Element = T>>(&self, all: &Projections<T>, whole: Option<&mut Vec<Part<T>>>) -> Vec<f64> {
        let i = all.blocks();
        let mut sks = vec![0.0; i * i];
        all.visit::<L>(whole, |parts| {
            let strips = parts.iter().flat_map(Part::strips).collect();
            all.sum(strips, &mut sks, |strip, sums| all.add_sks(strip, sums));
        });
        let half = 0.5 * self.scale();
        let mut gram: Vec<f64> = (0..i * i).map(|e| half * (sks[e] + sks[e % i * i + e / i])).collect();
        gram.iter_mut().step_by(i + 1).for_each(|v| *v += self.noise);
        gram
    }

    /// Puts A in the place of a strip; adds AAᵀ (the lower triangle), A(y − KSv), ‖y − KSv‖² and (KSv)ᵀ(y − KSv) to the sums.
    fn add(&self, strip: &mut Strip<&mut [T]>, lower: &[f64], whitened: &[f64], sums: &mut [f64]) {
        let (i, width, y) = (whitened.len(), strip.rows.len(), &self.y[strip.rows.clone()]);
        let a = whiten(strip, lower, self.scale());
        for (column, a) in strip.columns.iter_mut().zip(a.chunks_exact(width)) {
            column.iter_mut().zip(a).for_each(|(to, from)| *to = T::of(*from));
        }
        let misfit = misfit(&a, whitened, y);
        let (squares, rest) = sums.split_at_mut(i * i);
        let a = view(&a, width);
        product::add_lower(view_mut(squares, i), a, a.transpose(), 1.0);
        product::add(view_mut(&mut rest[..i], 1), a, view(&misfit, 1), 1.0);
        let squared = dot(&misfit, &misfit);
        rest[i] += squared;
        rest[i + 1] += dot(y, &misfit) - squared;
    }
}

/// A `[i, rows]` from a strip of the projections.
fn whiten<T: Real, P: AsRef<[T]>>(strip: &Strip<P>, lower: &[f64], scale: f64) -> Vec<f64> {
    let mut a = strip.wide();
    a.iter_mut().for_each(|v| *v *= scale);
    solve::lower(view(lower, strip.columns.len()), view_mut(&mut a, strip.rows.len()));
    a
}

/// y − Aᵀ Lᵀv.
fn misfit<T: Real>(a: &[f64], whitened: &[f64], y: &[T]) -> Vec<f64> {
    let mut misfit: Vec<f64> = y.iter().map(|y| y.f64()).collect();
    product::add(view_mut(&mut misfit, 1), view(a, y.len()).transpose(), view(whitened, 1), -1.0);
    misfit
}

/// From the cotangents ḡ of the values to those of what they are made of. With w = 2ḡ₁M⁻¹Gv − 2ḡ₀Z(y − KSv) that of Sᵀy is w, that of G
/// D = ḡ₀ZZᵀ + ḡ₁(M⁻¹ − σ²M⁻² + vvᵀ) − ½(wvᵀ + vwᵀ), and that of SᵀK DSᵀ − 2ḡ₀(v(y − KSv)ᵀ + Z).
struct Cotangents<'a> {
    op: &'a Evidence,
    solved: &'a Solved,
    /// 2ḡ₀.
    twice: f64,
    /// D `[i, i]`.
    gram: Vec<f64>,
    /// (D L)ᵀ `[i, i]`.
    whitened: Vec<f64>,
    /// w.
    projected: Vec<f64>,
    noise: f64,
    /// In the kernel's factor.
    along: f64,
    scale: f64,
    owners: Vec<usize>,
}

impl<'a> Cotangents<'a> {
    fn new<T: Number>(op: &'a Evidence, kept: &'a Kept<T>, [first, second]: [f64; 2]) -> Self {
        let Solved { lower, inverse, noise, weights, squares, residual, along, .. } = &kept.solved;
        let i = weights.len();
        let mut solved = vec![0.0; i];
        product::set(view_mut(&mut solved, 1), view(inverse, i), view(weights, 1), 1.0);
        let projected: Vec<f64> =
            (0..i).map(|a| 2.0 * (second * (weights[a] - noise * solved[a]) - first * residual[a])).collect();
        let mut gram = vec![0.0; i * i];
        product::add_lower(view_mut(&mut gram, i), view(inverse, i), view(inverse, i), -second * noise);
        transpose::mirror(view_mut(&mut gram, i));
        for (a, row) in gram.chunks_exact_mut(i).enumerate() {
            for (b, value) in row.iter_mut().enumerate() {
                let e = a * i + b;
                *value += first * squares[e] + second * (inverse[e] + weights[a] * weights[b])
                    - 0.5 * (projected[a] * weights[b] + weights[a] * projected[b]);
            }
        }
        let mut whitened = vec![0.0; i * i];
        triangular::upper(view_mut(&mut whitened, i), view(lower, i).transpose(), view(&gram, i));
        let trace = |matrix: &[f64]| matrix.iter().step_by(i + 1).sum::<f64>();
        // tr(D G), with M = L Lᵀ.
        let in_gram = (0..i * i).map(|e| whitened[e] * lower[e % i * i + e / i]).sum::<f64>() - noise * trace(&gram);
        let scale = op.0.program.factor(&kept.inputs.coefficients).f64();
        Self {
            op,
            solved: &kept.solved,
            twice: 2.0 * first,
            noise: trace(&gram) - second * (dot(weights, weights) - trace(inverse)),
            along: (in_gram - 2.0 * first * along) / scale,
            gram,
            whitened,
            projected,
            scale,
            owners: owners(&op.0.offsets),
        }
    }

    /// Puts the cotangent of SᵀK, without the kernel's factor, in the place of a strip; returns the gradients in its rows of S, on the left,
    /// and of y.
    fn replace<T: Number>(&self, strip: &mut Strip<&mut [T]>, origin: Origin, s: &[T], y: &[T]) -> [Vec<f64>; 2] {
        let Solved { lower, weights, whitened, .. } = self.solved;
        let (i, width, owners) = (weights.len(), strip.rows.len(), &self.owners[strip.rows.clone()]);
        let a = match origin {
            Origin::Saved => strip.wide(),
            Origin::Anew => whiten(strip, lower, self.scale),
        };
        let misfit = misfit(&a, whitened, y);
        let mut z = a.clone();
        solve::upper(view(lower, i).transpose(), view_mut(&mut z, width));
        let own = |r: usize| self.projected[owners[r]];
        let mut in_s: Vec<f64> = (0..width).map(|r| y[r].f64() * own(r)).collect();
        let in_y = (0..width).map(|r| self.twice * misfit[r] + s[r].f64() * own(r)).collect();
        let rows = strip.columns.iter_mut().zip(a.chunks_exact(width)).zip(z.chunks_exact(width));
        let squares = self.gram.chunks_exact(i).zip(self.whitened.chunks_exact(i)).zip(weights);
        for (((out, a), z), ((gram, whitened), weight)) in rows.zip(squares) {
            for r in 0..width {
                let value = gram[owners[r]] * s[r].f64() - self.twice * (weight * misfit[r] + z[r]);
                out[r] = T::of(self.scale * value);
                in_s[r] += whitened[owners[r]] * a[r];
            }
        }
        [in_s, in_y]
    }
}

struct Adjoint<'a, T> {
    kept: &'a Kept<T>,
    cotangents: &'a Cotangents<'a>,
}

impl<T: Number> Work<T> for Adjoint<'_, T> {
    /// What comes through SᵀK, and what S on the left and y receive directly.
    type Output = (Total<T>, [Vec<f64>; 2]);

    fn run<L: Lanes<Element = T>>(self) -> Self::Output {
        let Self { kept, cotangents } = self;
        let (s, y) = (&kept.inputs.s, &kept.y);
        let mut direct = [vec![0.0; s.len()], vec![0.0; y.len()]];
        let saved = kept.whole.lock().unwrap_or_else(PoisonError::into_inner).take();
        let all = cotangents.op.0.of(&kept.inputs);
        let total = all.adjoint::<L>(saved, |parts, origin| {
            let strips: Vec<_> = parts.iter_mut().flat_map(Part::strips_mut).collect();
            let gradients = strips.into_par_iter().map(|mut strip| {
                let rows = strip.rows.clone();
                (rows.start, cotangents.replace(&mut strip, origin, &s[rows.clone()], &y[rows]))
            });
            for (start, gradients) in gradients.collect::<Vec<_>>() {
                for (all, part) in direct.iter_mut().zip(gradients) {
                    all[start..][..part.len()].copy_from_slice(&part);
                }
            }
        });
        (total, direct)
    }
}
