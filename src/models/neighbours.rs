//! The nearest of many points, as a kernel measures distance.

use burn::tensor::{Int, Tensor};
use cagey_base::vectors::{Nearest, vectorised};
use rayon::prelude::*;

use crate::error::Result;
use crate::kernels::Kernel;
use crate::kernels::form::Metric;
use crate::products::Neighbours;
use crate::scope::{Scope, to_f64};
use crate::solvers::blocks::transposed;
use crate::threads;

/// The number of rows whose distances are computed together.
const ROWS: usize = 8;

/// Points whose distances from a row are computed together.
const BLOCK: usize = 512;

/// Rows in the space in which distances are measured, row-major, and its dimension. These are the scaled inputs of the
/// kernel's distances side by side, or the plain inputs if the kernel has no distances.
pub(in crate::models) fn scaled(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<(Vec<f64>, usize)> {
    let features = kernel.lower(scope, x)?.map(|lowered| {
        let terms = lowered.terms().into_iter().filter(|term| term.metric == Metric::SquaredDistance);
        terms.map(|term| term.features.clone()).collect::<Vec<_>>()
    });
    let rows = match features {
        Some(parts) if !parts.is_empty() => Tensor::cat(parts, 1),
        _ => x.clone(),
    };
    let p = rows.dims()[1];
    Ok((to_f64(rows)?, p))
}

/// The `count` rows of `z` nearest to every row of `x`, nearest first; ties by index. If `z` has fewer rows, all of
/// them. Both matrices are row-major with `p` columns.
pub fn nearest(x: &[f64], z: &[f64], p: usize, count: usize) -> Neighbours {
    let count = count.min(z.len() / p);
    // Column after column, so that many distances are computed side by side.
    let blocks: Vec<Vec<f64>> = z.chunks(BLOCK * p).map(|block| transposed(block, p)).collect();
    let lists = threads::map(x.par_chunks(ROWS * p), |rows| vectorised(|| of_rows(rows, &blocks, p, count)));
    Neighbours { indices: lists.concat(), each: count }
}

/// The rows nearest to a few rows.
#[inline(always)]
fn of_rows(rows: &[f64], blocks: &[Vec<f64>], p: usize, count: usize) -> Vec<u32> {
    let mut found: Vec<Nearest> = rows.chunks_exact(p).map(|_| Nearest::new(count)).collect();
    let (mut distances, mut first) = ([0.0; BLOCK], 0);
    // Compare a block with several rows while it is in the nearest cache.
    for block in blocks {
        let size = block.len() / p;
        for (found, row) in found.iter_mut().zip(rows.chunks_exact(p)) {
            let distances = &mut distances[..size];
            distances.fill(0.0);
            for (column, x) in block.chunks_exact(size).zip(row) {
                distances.iter_mut().zip(column).for_each(|(sum, z)| *sum += (x - z) * (x - z));
            }
            for (distance, j) in distances.iter().zip(first..) {
                found.add(*distance, j);
            }
        }
        first += size as u32;
    }
    found.into_iter().flat_map(Nearest::first).collect()
}

/// All indices that occur, ascending, and the lists as places in that union.
pub(in crate::models) fn union(neighbours: &Neighbours) -> (Vec<u32>, Neighbours) {
    let mut union = neighbours.indices.clone();
    union.sort_unstable();
    union.dedup();
    // Every index is in the union, so that the search always finds it.
    let place = |index: &u32| union.binary_search(index).unwrap_or_else(|place| place) as u32;
    let indices = neighbours.indices.iter().map(place).collect();
    (union, Neighbours { indices, each: neighbours.each })
}

/// Indices as a tensor.
pub(in crate::models) fn indices(scope: &Scope, of: &[u32]) -> Tensor<1, Int> {
    scope.indices(&of.iter().map(|&i| i as usize).collect::<Vec<_>>())
}
