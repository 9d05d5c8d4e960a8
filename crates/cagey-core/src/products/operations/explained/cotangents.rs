//! The adjoint.

use std::borrow::Cow;

use burn::tensor::TensorData;
use rayon::prelude::*;

use super::pairs::{mixed, symmetric};
use super::{SavedExplained, Solved, place};
use crate::linalg::dense::{congruence, product, solve, transpose, triangular, view, view_mut};
use crate::linalg::real::{dot, into_real, rounded, vector, vectorised};
use crate::products::drivers::projections::{Frame, Inputs, Origin, Projections, Total};
use crate::products::engine::lanes::{Lanes, Number, Work};
use crate::products::engine::strips::{RowsTimesS, Strip};
use crate::threads::{self, GRAIN};

/// Gradients in the features, the coefficients, S, and the targets with their noise.
pub(super) fn gradients<T: Number>(
    frame: &Frame,
    mut kept: SavedExplained<T>,
    grad: &[f64],
) -> [Option<TensorData>; 4] {
    let (n, all) = (frame.rows(), kept.targets.len());
    let cotangents = OfRows { divergence: grad[0], mean: &grad[2..][..all], variance: &grad[2 + all..] };
    let (mut total, along, direct) =
        T::vectorised(ExplainedAdjoint { frame, whole: kept.whole.take(), kept: &kept, of: cotangents });
    frame.program.pull_factor(along, &mut total.coefficients);
    let [s, targets, spread] = direct;
    let s: Vec<T> = total.s.iter().zip(s).map(|(total, direct)| T::of(total.f64() + direct)).collect();
    [
        Some(TensorData::new(into_real::<_, f64>(total.x), [n, kept.inputs.p])),
        Some(vector(total.coefficients)),
        Some(vector(s)),
        Some(TensorData::new([targets, spread].concat(), [2, all])),
    ]
}

/// Cotangents of the results.
#[derive(Clone, Copy)]
struct OfRows<'a> {
    divergence: f64,
    mean: &'a [f64],
    variance: &'a [f64],
}

struct ExplainedAdjoint<'a, T> {
    frame: &'a Frame,
    kept: &'a SavedExplained<T>,
    /// A, if it was kept.
    whole: Option<Vec<RowsTimesS<T>>>,
    of: OfRows<'a>,
}

impl<T: Number> Work<T> for ExplainedAdjoint<'_, T> {
    /// The gradients through SᵀK, that in the kernel's factor, and the direct gradients in S on the left, in targets
    /// and in noise.
    type Output = (Total<T>, f64, [Vec<f64>; 3]);

    fn run<L: Lanes<Element = T>>(self) -> Self::Output {
        let Self { frame, kept, whole: mut saved, of } = self;
        let all = frame.of(&kept.inputs);
        let scale = frame.program.factor(&kept.inputs.coefficients).f64();
        let sums = weighted_sums::<T, L>((frame, &all), saved.as_mut(), (&kept.solved.lower, scale), of);
        let cotangents = Cotangents::new(frame, (kept, scale), of, sums);
        let (n, all_rows) = (frame.rows(), kept.targets.len());
        let mut direct = [const { Vec::new() }; 3].map(|_: Vec<f64>| vec![0.0; all_rows]);
        let total = all.adjoint::<L>(saved, |parts, origin| {
            let strips: Vec<_> = parts.iter_mut().flat_map(RowsTimesS::strips_mut).collect();
            let gradients = threads::map(strips.into_par_iter(), |mut strip| {
                (strip.rows.clone(), cotangents.replace(&mut strip, origin))
            });
            for (rows, gradients) in gradients {
                direct.iter_mut().zip(gradients).for_each(|(all, part)| place(all, n, &rows, &part));
            }
        });
        (total, cotangents.along, direct)
    }
}

/// A `[i, L rows]` of a strip, which holds (K S)ᵀ or what the forward pass left in its place.
fn whitened<T: Number, P: AsRef<[T]>>(strip: &Strip<P>, origin: Origin, lower: &[f64], scale: f64) -> Vec<f64> {
    if origin == Origin::Saved {
        return strip.copied();
    }
    let (mut a, i) = (strip.scaled(scale), lower.len().isqrt());
    let width = a.len() / i;
    solve::lower(view(lower, i), view_mut(&mut a, width));
    a
}

/// `Σ_n A_n η_n A_nᵀ` (the lower triangle) and `Σ_n A_n α_n` for the cotangents α of means and η of covariances.
fn weighted_sums<T: Number, L: Lanes<Element = T>>(
    (frame, all): (&Frame, &Projections<T>),
    saved: Option<&mut Vec<RowsTimesS<T>>>,
    (lower, scale): (&[f64], f64),
    of: OfRows,
) -> Vec<f64> {
    let (i, n, latents) = (frame.blocks(), frame.rows(), frame.functions);
    let mut sums = vec![0.0; i * i + i];
    let origin = if saved.is_some() { Origin::Saved } else { Origin::Anew };
    // Rows with equal weights need no weighted copy.
    let equal = |first: &f64| latents == 1 && of.variance.iter().all(|weight| weight == first);
    let same = of.variance.first().copied().filter(equal);
    all.visit::<L>(saved, |parts| {
        let strips: Vec<_> = parts.iter().flat_map(RowsTimesS::strips).collect();
        all.sum(strips, &mut sums, |strip, sums| {
            let (rows, width) = (strip.rows.clone(), latents * strip.rows.len());
            let a = whitened::<T, _>(strip, origin, lower, scale);
            let (squares, means) = sums.split_at_mut(i * i);
            for (a, sum) in a.chunks_exact(width).zip(means) {
                let each = a.chunks_exact(rows.len()).zip(of.mean.chunks_exact(n));
                *sum += each.map(|(a, of_mean)| dot(a, &of_mean[rows.clone()])).sum::<f64>();
            }
            let weighted = match same {
                Some(_) => Cow::Borrowed(&a),
                None => Cow::Owned(mixed(&a, &symmetric::<f64>(of.variance, &rows, latents), latents)),
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
/// `M̄ + κ(M⁻¹ − C⁻¹)`, and that of SᵀK is D Sᵀ + v αᵀ + 2 Z diag(η). With several functions, columns belong to a row
/// and a function, and η is a symmetric matrix for each row, which takes the place of its number.
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
        let (i, second, all) = (weights.len(), of.divergence, kept.targets.len());
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
        let (means, variances) = rows.split_at(all);
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
    /// gradients in S (on the left and in C), in targets and in noise, `[L rows]` each.
    fn replace(&self, strip: &mut Strip<&mut [T]>, origin: Origin) -> [Vec<f64>; 3] {
        let Solved { lower, weights, .. } = self.solved;
        let (i, rows, n) = (weights.len(), strip.rows.clone(), self.frame.rows());
        let (latents, count) = (self.frame.functions, strip.rows.len());
        let width = latents * count;
        let blocks = self.frame.within(&rows);
        let own = |all: &'a [f64], l: usize| &all[l * n..][rows.clone()];
        let s = |l: usize| &self.inputs.s[l * n..][rows.clone()];
        let a: Vec<T> = match origin {
            Origin::Saved => strip.copied(),
            Origin::Anew => into_real(whitened::<T, _>(strip, origin, lower, self.scale)),
        };
        let mut z = mixed(&a, &symmetric::<T>(self.of.variance, &rows, latents), latents);
        solve::upper(view(&self.lower, i).transpose(), view_mut(&mut z, width));

        let mut direct = [const { Vec::new() }; 3].map(|_: Vec<f64>| vec![0.0; width]);
        let [in_s, in_targets, in_spread] = &mut direct;
        for l in 0..latents {
            let (s, [targets, spread]) = (s(l), self.noisy.map(|all| own(all, l)));
            for (b, rows) in &blocks {
                for r in rows.clone() {
                    let (s, at) = (s[r].f64(), l * count + r);
                    in_s[at] = targets[r] * self.projected[*b] + 2.0 * s * spread[r] * self.noise[*b];
                    in_targets[at] = s * self.projected[*b];
                    in_spread[at] = s * s * self.noise[*b];
                }
            }
        }
        let rows = strip.columns.chunks_exact_mut(latents).zip(a.chunks_exact(width)).zip(z.chunks_exact(width));
        let squares = self.gram.chunks_exact(i).zip(self.gram_lower.chunks_exact(i)).zip(weights);
        // The numbers of the rows' blocks, row by row.
        let (mut gram, mut whitened) = (vec![0.0; count], vec![0.0; count]);
        vectorised(|| {
            for (((columns, a), z), ((of_gram, of_whitened), weight)) in rows.zip(squares) {
                for (b, rows) in &blocks {
                    gram[rows.clone()].fill(self.scale * of_gram[*b]);
                    whitened[rows.clone()].fill(of_whitened[*b]);
                }
                let (weight, twice) = (self.scale * weight, 2.0 * self.scale);
                for (l, out) in columns.iter_mut().enumerate() {
                    let at = l * count..(l + 1) * count;
                    let (s, of_mean, in_s) = (s(l), own(self.of.mean, l), &mut in_s[at.clone()]);
                    let (a, z) = (&a[at.clone()], &z[at]);
                    for r in 0..count {
                        out[r] = T::of(gram[r] * s[r].f64() + weight * of_mean[r] + twice * z[r].f64());
                        in_s[r] += whitened[r] * a[r].f64();
                    }
                }
            }
        });
        direct
    }
}
