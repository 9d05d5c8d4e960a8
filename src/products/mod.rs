//! Products with covariance matrices, and the matrices themselves, faster than the tensor graph that defines them.
//!
//! Each product exists twice. [`tiled`] is a plain tensor graph, tile by tile: any device, any kernel. On the CPU,
//! kernels that lower to terms are fused: small tiles of K are made in the nearest cache from the scaled features of
//! two groups of rows, used, and forgotten, with one adjoint for every kernel that makes them again. A schedule orders
//! the blocks so that threads share no rows, and visits symmetric matrices by halves; a program computes a tile of any
//! tree of terms on [`lanes`]; the products differ only in what they do with it. Results are the same each time for a
//! given number of threads and given [instructions](lanes::instructions).

mod actions;
mod anchors;
mod blocks;
mod covariance;
mod cross;
mod dense;
mod evidence;
#[cfg(any(feature = "wgpu", feature = "cuda"))]
pub mod gpu;
pub mod lanes;
mod local;
mod matvec;
mod moments;
mod multiply;
mod pairs;
mod program;
mod projected;
mod projections;
mod pull;
mod reverse;
mod schedule;
mod sparse;
mod sparse_gram;
mod strips;
mod sums;
mod sweep;
mod term;
mod tile;
pub mod tiled;
mod whitened;

use burn::tensor::Tensor;

pub use anchors::Anchors;
pub use blocks::BlockSparse;
pub use covariance::Covariance;
pub use cross::Cross;
pub use local::Neighbours;

use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::kernels::form::Lowered;
use crate::scope::Scope;

/// A kernel with a leaf that cannot be lowered: its other summands and factors still can.
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

fn same_rows(what: &str, got: usize, expected: usize) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    Err(Error::shape(what, format!("{expected} rows, one for each row of the inputs"), got.to_string()))
}

/// The kernel's terms, where products are fused: on the CPU.
fn lowered(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Option<Lowered>> {
    if scope.compute().kind.is_cpu() { kernel.lower(scope, x) } else { Ok(None) }
}

/// [`lowered`] in the scope's wide type.
fn lowered_wide(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Option<Lowered>> {
    lowered(kernel, &scope.widened(), &x.clone().cast(scope.wide()))
}
