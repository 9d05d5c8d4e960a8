//! The part of the covariances of a row's latent functions that actions explain.

use rayon::prelude::*;

use crate::linalg::real::vectorised;
use crate::products::{add_pairs, mirror_pairs};
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
                add_pairs(&mut part, |l| &of(a, l)[*start..][..rows], latents);
            }
        });
        part
    });
    let mut all = vec![0.0; latents * latents * n];
    for (start, part) in starts.iter().zip(parts) {
        let rows = ROWS.min(n - start);
        let each = all.chunks_exact_mut(n).zip(part.chunks_exact(rows));
        each.for_each(|(all, sums)| all[*start..][..rows].copy_from_slice(sums));
    }
    mirror_pairs(&mut all, latents);
    all
}
