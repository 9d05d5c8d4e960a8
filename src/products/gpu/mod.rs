//! Covariances and their products on GPUs, as one kernel each: what the tensor graph computes in a dozen passes over
//! the matrix, without a temporary of its size. Any tree of terms; the arithmetic of a pair of rows is written by the
//! [program](super::engine::program::Program) of the kernel that the CPU runs, too.

mod kernel;
mod launch;
mod operations;
mod pair;
mod traced;

use crate::kernels::form::Lowered;

/// Most bytes of a row's features: more do not fit the memory that the units of a cube share.
const MOST: usize = 192;

/// Whether a kernel has fused products: those whose features are at most 48 numbers in f32, 24 in f64.
pub fn fuses(lowered: &Lowered) -> bool {
    let bytes = |term: &crate::kernels::form::Term| term.features.dims()[1] * term.features.dtype().size();
    lowered.terms().into_iter().map(bytes).sum::<usize>() <= MOST
}
