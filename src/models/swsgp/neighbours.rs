//! The nearest inducing inputs of rows.

use burn::tensor::{Int, Tensor};
use cagey_base::vectors::{Nearest, squared_distance};
use rayon::prelude::*;

use crate::error::Result;
use crate::kernels::Kernel;
use crate::kernels::form::Metric;
use crate::products::Neighbours;
use crate::scope::{Scope, to_f64};
use crate::threads;

/// The number of rows whose distances are computed together.
const ROWS: usize = 8;

/// Rows in the space in which distances are measured, row-major, and its dimension. These are the scaled inputs of the
/// kernel's distances side by side, or the plain inputs if the kernel has no distances.
pub(super) fn scaled(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<(Vec<f64>, usize)> {
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
    let lists = threads::map(x.par_chunks(ROWS * p), |rows| {
        // Compare a row of z with several rows of x while it is in the nearest cache.
        let mut found: Vec<Nearest> = rows.chunks_exact(p).map(|_| Nearest::new(count)).collect();
        for (z, j) in z.chunks_exact(p).zip(0..) {
            for (found, row) in found.iter_mut().zip(rows.chunks_exact(p)) {
                found.add(squared_distance(row, z), j);
            }
        }
        found.into_iter().flat_map(Nearest::first).collect::<Vec<u32>>()
    });
    Neighbours { indices: lists.concat(), each: count }
}

/// All indices that occur, ascending, and the lists as places in that union.
pub(super) fn union(neighbours: &Neighbours) -> (Vec<u32>, Neighbours) {
    let mut union = neighbours.indices.clone();
    union.sort_unstable();
    union.dedup();
    // Every index is in the union, so that the search always finds it.
    let place = |index: &u32| union.binary_search(index).unwrap_or_else(|place| place) as u32;
    let indices = neighbours.indices.iter().map(place).collect();
    (union, Neighbours { indices, each: neighbours.each })
}

/// Indices as a tensor.
pub(super) fn indices(scope: &Scope, of: &[u32]) -> Tensor<1, Int> {
    scope.indices(&of.iter().map(|&i| i as usize).collect::<Vec<_>>())
}
