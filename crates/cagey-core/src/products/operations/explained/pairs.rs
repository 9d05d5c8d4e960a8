//! Products of a row's functions with each other.

use crate::linalg::real::{Real, vectorised};

/// `Σ_a A_al A_ak` for all pairs l, k of L functions `[L L, rows]`; `of(a, l)` gives `A_al` `[rows]` of i actions.
#[doc(hidden)]
pub fn pair_sums<'a>(of: impl Fn(usize, usize) -> &'a [f64], (i, latents, rows): (usize, usize, usize)) -> Vec<f64> {
    let place = |l: usize, k: usize| (l * latents + k) * rows;
    let mut sums = vec![0.0; latents * latents * rows];
    vectorised(|| {
        for a in 0..i {
            for (l, k) in (0..latents).flat_map(|l| (0..=l).map(move |k| (l, k))) {
                let sums = sums[place(l, k)..][..rows].iter_mut();
                sums.zip(of(a, l).iter().zip(of(a, k))).for_each(|(sum, (l, k))| *sum += l * k);
            }
        }
    });
    for (l, k) in (0..latents).flat_map(|l| (0..l).map(move |k| (l, k))) {
        sums.copy_within(place(l, k)..place(l, k) + rows, place(k, l));
    }
    sums
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
