//! The adjoint.

use std::borrow::Cow;
use std::sync::PoisonError;

use burn::tensor::TensorData;
use rayon::prelude::*;

use super::{SavedExplained, Solved};
use crate::linalg::dense::{congruence, product, solve, transpose, triangular, view, view_mut};
use crate::linalg::real::{dot, into_real, rounded, vectorised};
use crate::products::drivers::projections::{Frame, Inputs, Origin, Projections, Total};
use crate::products::engine::lanes::{Lanes, Number, Work};
use crate::products::engine::strips::{Part, Strip};
use crate::threads::{self, GRAIN};

/// Gradients in the features, the coefficients, S, and the targets with their noise.
pub(super) fn gradients<T: Number>(frame: &Frame, kept: &SavedExplained<T>, grad: &[f64]) -> [Option<TensorData>; 4] {
    let n = kept.targets.len();
    let cotangents = OfRows { divergence: grad[0], mean: &grad[2..][..n], variance: &grad[2 + n..] };
    let (mut total, along, direct) = T::vectorised(Adjoint { frame, kept, of: cotangents });
    frame.program.pull_factor(along, &mut total.coefficients);
    let (p, length) = (kept.inputs.p, total.coefficients.len());
    let [s, targets, spread] = direct;
    let s: Vec<T> = total.s.iter().zip(s).map(|(total, direct)| T::of(total.f64() + direct)).collect();
    [
        Some(TensorData::new(into_real::<_, f64>(total.x), [n, p])),
        Some(TensorData::new(total.coefficients, [length])),
        Some(TensorData::new(s, [n])),
        Some(TensorData::new([targets, spread].concat(), [2, n])),
    ]
}

/// Cotangents of the results.
#[derive(Clone, Copy)]
struct OfRows<'a> {
    divergence: f64,
    mean: &'a [f64],
    variance: &'a [f64],
}

struct Adjoint<'a, T> {
    frame: &'a Frame,
    kept: &'a SavedExplained<T>,
    of: OfRows<'a>,
}

impl<T: Number> Work<T> for Adjoint<'_, T> {
    /// The gradients through SᵀK, that in the kernel's factor, and the direct gradients in S on the left, in targets
    /// and in noise.
    type Output = (Total<T>, f64, [Vec<f64>; 3]);

    fn run<L: Lanes<Element = T>>(self) -> Self::Output {
        let Self { frame, kept, of } = self;
        let all = frame.of(&kept.inputs);
        let mut saved = kept.whole.lock().unwrap_or_else(PoisonError::into_inner).take();
        let scale = frame.program.factor(&kept.inputs.coefficients).f64();
        let sums = weighted_sums::<T, L>(&all, saved.as_mut(), (&kept.solved.lower, scale), of);
        let cotangents = Cotangents::new(frame, (kept, scale), of, sums);
        let n = kept.targets.len();
        let mut direct = [const { Vec::new() }; 3].map(|_: Vec<f64>| vec![0.0; n]);
        let total = all.adjoint::<L>(saved, |parts, origin| {
            let strips: Vec<_> = parts.iter_mut().flat_map(Part::strips_mut).collect();
            let gradients = threads::map(strips.into_par_iter(), |mut strip| {
                (strip.rows.start, cotangents.replace(&mut strip, origin))
            });
            for (start, gradients) in gradients {
                for (all, part) in direct.iter_mut().zip(gradients) {
                    all[start..][..part.len()].copy_from_slice(&part);
                }
            }
        });
        (total, cotangents.along, direct)
    }
}

/// A `[i, rows]` of a strip, which holds (K S)ᵀ or what the forward pass left in its place.
fn whitened<T: Number, P: AsRef<[T]>>(strip: &Strip<P>, origin: Origin, lower: &[f64], scale: f64) -> Vec<f64> {
    let mut a: Vec<f64> = strip.copied();
    if origin == Origin::Anew {
        a.iter_mut().for_each(|v| *v *= scale);
        solve::lower(view(lower, strip.columns.len()), view_mut(&mut a, strip.rows.len()));
    }
    a
}

/// `Σ_n η_n A_n A_nᵀ` (the lower triangle) and `Σ_n α_n A_n` for the cotangents α of means and η of variances.
fn weighted_sums<T: Number, L: Lanes<Element = T>>(
    all: &Projections<T>,
    saved: Option<&mut Vec<Part<T>>>,
    (lower, scale): (&[f64], f64),
    of: OfRows,
) -> Vec<f64> {
    let i = all.blocks();
    let mut sums = vec![0.0; i * i + i];
    let origin = if saved.is_some() { Origin::Saved } else { Origin::Anew };
    // Rows with equal weights need no weighted copy.
    let same = of.variance.first().copied().filter(|first| of.variance.iter().all(|weight| weight == first));
    all.visit::<L>(saved, |parts| {
        let strips: Vec<_> = parts.iter().flat_map(Part::strips).collect();
        all.sum(strips, &mut sums, |strip, sums| {
            let (width, rows) = (strip.rows.len(), strip.rows.clone());
            let a = whitened::<T, _>(strip, origin, lower, scale);
            let (squares, means) = sums.split_at_mut(i * i);
            for (a, mean) in a.chunks_exact(width).zip(means) {
                *mean += dot(a, &of.mean[rows.clone()]);
            }
            let weighted = match same {
                Some(_) => Cow::Borrowed(&a),
                None => Cow::Owned(a.chunks_exact(width).flat_map(|a| scaled(a, &of.variance[rows.clone()])).collect()),
            };
            let (weighted, a) = (view(&weighted, width), view(&a, width));
            product::add_lower(view_mut(squares, i), weighted, a.transpose(), same.unwrap_or(1.0));
        });
    });
    sums
}

/// Products, number by number.
fn scaled(values: &[f64], weights: &[f64]) -> impl Iterator<Item = f64> {
    values.iter().zip(weights).map(|(value, weight)| value * weight)
}

/// Turns the cotangents κ of the divergence, α of the means and η of the variances into those of their operands.
/// Let w = M⁻¹(Σ α_n k_n + 2κ G v), with k_n the columns of SᵀK, and Z = L⁻ᵀA. The cotangent of Sᵀt is w. That of M is
/// `M̄ = −Σ η_n z_n z_nᵀ − ½(wvᵀ + vwᵀ) + κ(M⁻¹ − M⁻¹CM⁻¹)`. That of G is D = M̄ + κ vvᵀ, that of C is the diagonal of
/// `M̄ + κ(M⁻¹ − C⁻¹)`, and that of SᵀK is D Sᵀ + v αᵀ + 2 Z diag(η).
struct Cotangents<'a, T> {
    frame: &'a Frame,
    inputs: &'a Inputs<T>,
    noisy: [&'a [f64]; 2],
    solved: &'a Solved,
    of: OfRows<'a>,
    /// L in the precision of the data.
    lower: Vec<T>,
    /// D `[i, i]`.
    gram: Vec<f64>,
    /// (D L)ᵀ `[i, i]`.
    gram_lower: Vec<f64>,
    /// w.
    projected: Vec<f64>,
    /// The cotangent of C.
    noise: Vec<f64>,
    /// The cotangent of the kernel's factor.
    along: f64,
    scale: f64,
}

impl<'a, T: Number> Cotangents<'a, T> {
    fn new(
        frame: &'a Frame,
        (kept, scale): (&'a SavedExplained<T>, f64),
        of: OfRows<'a>,
        mut squares: Vec<f64>,
    ) -> Self {
        let Solved { lower, inverse, noise, projected: sy, weights, rows, .. } = &kept.solved;
        let (i, second, n) = (weights.len(), of.divergence, kept.targets.len());
        let solve_transposed = |b: &mut [f64]| solve::upper(view(lower, i).transpose(), view_mut(b, 1));
        // M⁻¹ Σ α_n k_n, and M⁻¹G v = v − M⁻¹C v.
        let mut of_means = squares.split_off(i * i);
        solve_transposed(&mut of_means);
        let noisy: Vec<f64> = scaled(weights, noise).collect();
        let mut solved = vec![0.0; i];
        product::set(view_mut(&mut solved, 1), view(inverse, i), view(&noisy, 1), 1.0);
        let projected: Vec<f64> = (0..i).map(|a| of_means[a] + 2.0 * second * (weights[a] - solved[a])).collect();

        congruence::whiten_transposed(view(lower, i), view_mut(&mut squares, i));
        let mut gram = vec![0.0; i * i];
        let inverse_noise: Vec<f64> = inverse.chunks_exact(i).flat_map(|row| scaled(row, noise)).collect();
        product::add_lower(view_mut(&mut gram, i), view(&inverse_noise, i), view(inverse, i), -second);
        transpose::mirror(view_mut(&mut gram, i));
        let rows_of = gram.par_chunks_exact_mut(i).zip(squares.par_chunks_exact(i)).zip(inverse.par_chunks_exact(i));
        threads::for_each(rows_of.enumerate().with_min_len(GRAIN / i + 1), |(a, ((row, squares), inverse))| {
            let (of_weights, of_projected) = (second * weights[a] - 0.5 * projected[a], -0.5 * weights[a]);
            for (b, value) in row.iter_mut().enumerate() {
                *value += second * inverse[b] - squares[b] + of_weights * weights[b] + of_projected * projected[b];
            }
        });
        let mut gram_lower = vec![0.0; i * i];
        triangular::upper(view_mut(&mut gram_lower, i), view(lower, i).transpose(), view(&gram, i));

        let diagonal = |matrix: &[f64]| matrix.iter().step_by(i + 1).copied().collect::<Vec<f64>>();
        let (in_gram, inverse) = (diagonal(&gram), diagonal(inverse));
        let in_noise =
            (0..i).map(|b| in_gram[b] + second * (inverse[b] - 1.0 / noise[b] - weights[b] * weights[b])).collect();
        // tr(D G) = tr(D M) − tr(D C), with Mv = Sᵀt.
        let (means, variances) = rows.split_at(n);
        let explained = dot(of.variance, variances);
        let in_factor = second * (i as f64 - dot(&inverse, noise) + dot(weights, sy))
            - explained
            - dot(&projected, sy)
            - dot(&in_gram, noise);
        let along = (in_factor + dot(of.mean, means) + 2.0 * explained) / scale;
        Self {
            frame,
            inputs: &kept.inputs,
            noisy: [&kept.targets, &kept.spread],
            solved: &kept.solved,
            of,
            lower: rounded(lower),
            gram,
            gram_lower,
            projected,
            noise: in_noise,
            along,
            scale,
        }
    }

    /// Overwrites a strip by the cotangent of SᵀK, without the kernel's factor. Returns, for the strip's rows, the
    /// gradients in S (on the left and in C), in targets and in noise.
    fn replace(&self, strip: &mut Strip<&mut [T]>, origin: Origin) -> [Vec<f64>; 3] {
        let Solved { lower, weights, .. } = self.solved;
        let (i, width, rows) = (weights.len(), strip.rows.len(), strip.rows.clone());
        let blocks = self.frame.within(&rows);
        let s = &self.inputs.s[rows.clone()];
        let [targets, spread] = self.noisy.map(|all| &all[rows.clone()]);
        let [of_mean, of_variance] = [self.of.mean, self.of.variance].map(|all| &all[rows.clone()]);
        let a: Vec<T> = match origin {
            Origin::Saved => strip.copied(),
            Origin::Anew => into_real(whitened::<T, _>(strip, origin, lower, self.scale)),
        };
        let mut z = a.clone();
        solve::upper(view(&self.lower, i).transpose(), view_mut(&mut z, width));

        let mut direct = [const { Vec::new() }; 3].map(|_: Vec<f64>| vec![0.0; width]);
        let [in_s, in_targets, in_spread] = &mut direct;
        for (b, rows) in &blocks {
            for r in rows.clone() {
                let s = s[r].f64();
                in_s[r] = targets[r] * self.projected[*b] + 2.0 * s * spread[r] * self.noise[*b];
                in_targets[r] = s * self.projected[*b];
                in_spread[r] = s * s * self.noise[*b];
            }
        }
        let rows = strip.columns.iter_mut().zip(a.chunks_exact(width)).zip(z.chunks_exact(width));
        let squares = self.gram.chunks_exact(i).zip(self.gram_lower.chunks_exact(i)).zip(weights);
        vectorised(|| {
            for (((out, a), z), ((gram, whitened), weight)) in rows.zip(squares) {
                for (b, rows) in &blocks {
                    let (gram, whitened) = (gram[*b], whitened[*b]);
                    let (out, in_s) = (&mut out[rows.clone()], &mut in_s[rows.clone()]);
                    let (a, z, s) = (&a[rows.clone()], &z[rows.clone()], &s[rows.clone()]);
                    let (of_mean, of_variance) = (&of_mean[rows.clone()], &of_variance[rows.clone()]);
                    for r in 0..rows.len() {
                        let value = gram * s[r].f64() + of_mean[r] * weight + 2.0 * of_variance[r] * z[r].f64();
                        out[r] = T::of(self.scale * value);
                        in_s[r] += whitened * a[r].f64();
                    }
                }
            }
        });
        direct
    }
}
