//! Covariance matrices and products with them, faster than the tensor graph that defines them.
//!
//! [`Covariance`] is K(x, x) and [`Cross`] is K(x1, x2); their methods compute the matrices and the products. Each
//! product exists twice. [`tiled`] is a plain tensor graph, tile by tile, for any device and any kernel. On the CPU,
//! kernels that lower to terms are fused: small tiles of K are computed in the nearest cache from the scaled features
//! of two groups of rows, used, and forgotten. One adjoint, which computes the tiles again, serves every kernel.
//! Results are reproducible for a given number of threads and given [instructions](lanes::instructions). On a GPU the
//! matrix and its products with dense and block-sparse matrices are fused, each in one kernel launch; everything else
//! is made of such matrices and products by [`tiled`].
//!
//! | folder | contents |
//! |---|---|
//! | `engine` | programs that compute a tile of any tree of terms on [`lanes`]; schedules of blocks; sweeps |
//! | `drivers` | operations on the tiles: multiply, sum up, pull back |
//! | `operations` | tensor operations with their adjoints, one file each; [`tiled`] beside the fused ones |
//! | `gpu` | the fused operations on GPUs (features `wgpu`, `cuda`, `rocm`) |

mod anchors;
mod blocks;
mod covariance;
mod cross;
mod drivers;
#[doc(hidden)]
#[allow(clippy::len_without_is_empty)]
pub mod engine;
#[cfg(feature = "gpu")]
mod gpu;
mod operations;

use burn::tensor::Tensor;

pub use anchors::Anchors;
pub use blocks::BlockSparse;
pub use covariance::Covariance;
#[doc(hidden)]
pub use covariance::whole;
pub use cross::Cross;
#[doc(hidden)]
pub use engine::lanes;
pub use operations::explained::{Explained, Prepared};
#[doc(hidden)]
pub use operations::explained::{diagonal, from_products, of_numbers, of_rows, pair_sums};
pub use operations::local::Neighbours;
pub use operations::stacked;
#[doc(hidden)]
pub use operations::tiled;

use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::kernels::form::Lowered;
use crate::scope::Scope;

/// Computes a matrix part by part, for a kernel with a leaf that cannot be lowered: its other summands and factors
/// still can be.
fn by_parts(
    kernel: &Kernel,
    part: impl Fn(&Kernel) -> Result<Tensor<2>>,
    whole: impl Fn() -> Result<Tensor<2>>,
) -> Result<Tensor<2>> {
    let (parts, join): (_, fn(Tensor<2>, Tensor<2>) -> Tensor<2>) = match kernel {
        Kernel::Sum(parts) => (parts, |a, b| a + b),
        Kernel::Product(parts) => (parts, |a, b| a * b),
        _ => return whole(),
    };
    let mut matrices = parts.iter().map(part);
    let Some(first) = matrices.next() else { return whole() };
    matrices.try_fold(first?, |sum, next| Ok(join(sum, next?)))
}

/// Refuses a number of rows that is not that of the inputs.
pub(crate) fn same_rows(what: &str, got: usize, expected: usize) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    Err(Error::shape(what, format!("{expected} rows, one for each row of the inputs"), got.to_string()))
}

/// The kernel's terms, if the matrix and its products with dense matrices are fused.
fn fused(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Option<Lowered>> {
    let lowered = kernel.lower(scope, x)?;
    #[cfg(feature = "gpu")]
    if !scope.compute().kind.is_cpu() {
        return Ok(lowered.filter(gpu::fuses));
    }
    Ok(lowered)
}

/// [`fused`] in the scope's wide type.
fn fused_wide(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Option<Lowered>> {
    fused(kernel, &scope.widened(), &x.clone().cast(scope.wide()))
}

/// The kernel's terms in the scope's wide type, whether or not anything is fused.
fn wide(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Option<Lowered>> {
    kernel.lower(&scope.widened(), &x.clone().cast(scope.wide()))
}

/// The kernel's terms, if products with block-sparse matrices are fused.
fn fused_blocks(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Option<Lowered>> {
    let countable = scope.compute().kind.is_cpu() || x.dims()[0] <= COUNTABLE;
    if countable { fused(kernel, scope, x) } else { Ok(None) }
}

/// The most rows whose numbers are exact in f32, as the GPU's block boundaries must be.
const COUNTABLE: usize = 1 << 24;

/// The kernel's terms, if all products are fused: on the CPU.
fn lowered(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Option<Lowered>> {
    if scope.compute().kind.is_cpu() { kernel.lower(scope, x) } else { Ok(None) }
}

/// [`lowered`] in the scope's wide type.
fn lowered_wide(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Option<Lowered>> {
    if scope.compute().kind.is_cpu() { wide(kernel, scope, x) } else { Ok(None) }
}
