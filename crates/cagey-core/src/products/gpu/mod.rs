//! Covariances and their products on GPUs, as one kernel each. The tensor graph needs a dozen passes over the matrix
//! for the same; a kernel needs no temporary of its size. Any tree of terms works. The
//! [program](super::engine::program::Program) that the CPU runs also writes the kernel's arithmetic for a pair of rows.

mod block_kernel;
mod blocks;
mod kernel;
mod launch;
mod operations;
mod pair;
mod traced;

use crate::kernels::form::Lowered;

/// The most bytes of a row's features. More do not fit the memory that the units of a cube share.
const MOST: usize = 192;

/// Whether a kernel has fused products: if its features are at most 48 numbers in f32, 24 in f64.
pub fn fuses(lowered: &Lowered) -> bool {
    let bytes = |term: &crate::kernels::form::Term| term.features.dims()[1] * term.features.dtype().size();
    lowered.terms().into_iter().map(bytes).sum::<usize>() <= MOST
}
