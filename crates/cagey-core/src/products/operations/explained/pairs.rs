//! Products of a row's functions with each other.

use crate::linalg::real::{Real, vectorised};

/// Adds `A_al A_akᵀ` for one action a to the lower triangle of `sums` `[L L, rows]`. `of(l)` gives `A_al` `[rows]`.
#[inline(always)]
#[doc(hidden)]
pub fn add_pairs<'a>(sums: &mut [f64], of: impl Fn(usize) -> &'a [f64], latents: usize) {
    let rows = sums.len() / (latents * latents);
    for l in 0..latents {
        for k in 0..=l {
            let sums = &mut sums[(l * latents + k) * rows..][..rows];
            sums.iter_mut().zip(of(l).iter().zip(of(k))).for_each(|(sum, (l, k))| *sum += l * k);
        }
    }
}

/// Copies the lower triangle of `[L L, rows]` to the upper one.
#[doc(hidden)]
pub fn mirror_pairs(sums: &mut [f64], latents: usize) {
    let rows = sums.len() / (latents * latents);
    for (l, k) in (0..latents).flat_map(|l| (0..l).map(move |k| (l, k))) {
        sums.copy_within((l * latents + k) * rows..(l * latents + k + 1) * rows, (k * latents + l) * rows);
    }
}

/// `½ (η + ηᵀ)` of some rows, for η `[L L, n]`.
pub(super) fn symmetric<T: Real>(weights: &[f64], rows: &std::ops::Range<usize>, latents: usize) -> Vec<T> {
    let n = weights.len() / (latents * latents);
    let of = |l: usize, k: usize| &weights[(l * latents + k) * n..][rows.clone()];
    let pairs = (0..latents).flat_map(|l| (0..latents).map(move |k| (l, k)));
    pairs.flat_map(|(l, k)| of(l, k).iter().zip(of(k, l)).map(|(a, b)| T::of(0.5 * (a + b)))).collect()
}

/// `Σ_k η_lk A_ak` for each action a `[i, L, rows]`, and symmetric weights η `[L L, rows]`.
pub(super) fn mixed<T: Real>(a: &[T], weights: &[T], latents: usize) -> Vec<T> {
    let (width, mut all) = (weights.len() / (latents * latents), vec![T::of(0.0); a.len()]);
    vectorised(|| {
        for (out, a) in all.chunks_exact_mut(latents * width).zip(a.chunks_exact(latents * width)) {
            for (out, weights) in out.chunks_exact_mut(width).zip(weights.chunks_exact(latents * width)) {
                for (a, weights) in a.chunks_exact(width).zip(weights.chunks_exact(width)) {
                    out.iter_mut().zip(a.iter().zip(weights)).for_each(|(out, (a, weight))| *out += *a * *weight);
                }
            }
        }
    });
    all
}
