//! The part of the covariances of a row's latent functions that actions explain.

use rayon::prelude::*;

use crate::linalg::real::vectorised;
use crate::threads;

/// Rows processed at once.
const ROWS: usize = 256;

/// `Σ_a A_aln A_akn` `[L L, n]` for all pairs l, k of latent functions. `of(a, l)` gives the rows `A_a` `[L][n]`.
pub(super) fn sums<'a>(
    of: impl Fn(usize, usize) -> &'a [f64] + Sync,
    (i, latents, n): (usize, usize, usize),
) -> Vec<f64> {
    let starts: Vec<usize> = (0..n).step_by(ROWS).collect();
    let parts = threads::map(starts.par_iter(), |start| {
        let rows = ROWS.min(n - start);
        let mut part = vec![0.0; latents * latents * rows];
        vectorised(|| {
            for a in 0..i {
                for l in 0..latents {
                    let left = &of(a, l)[*start..][..rows];
                    for k in 0..=l {
                        let right = &of(a, k)[*start..][..rows];
                        let sums = &mut part[(l * latents + k) * rows..][..rows];
                        sums.iter_mut().zip(left.iter().zip(right)).for_each(|(sum, (l, r))| *sum += l * r);
                    }
                }
            }
        });
        part
    });
    let mut all = vec![0.0; latents * latents * n];
    for (start, part) in starts.iter().zip(parts) {
        let rows = ROWS.min(n - start);
        for (l, k) in (0..latents).flat_map(|l| (0..=l).map(move |k| (l, k))) {
            let sums = &part[(l * latents + k) * rows..][..rows];
            all[(l * latents + k) * n + start..][..rows].copy_from_slice(sums);
            all[(k * latents + l) * n + start..][..rows].copy_from_slice(sums);
        }
    }
    all
}
