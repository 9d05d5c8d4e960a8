//! Products with covariance matrices, and the matrices themselves, faster than the tensor graph that defines them.
//!
//! Each product exists twice. [`tiled`] is a plain tensor graph, tile by tile: any device, any kernel. On the CPU,
//! kernels that lower to terms are fused: small tiles of K are made in the nearest cache from the scaled features of
//! two groups of rows, used, and forgotten, with one adjoint for every kernel that makes them again. A schedule orders
//! the blocks so that threads share no rows, and visits symmetric matrices by halves; a program computes a tile of any
//! tree of terms on [`lanes`]; the products differ only in what they do with it. Results are the same each time for a
//! given number of threads and given [instructions](lanes::instructions).

mod accumulate;
mod actions;
mod anchors;
mod blocks;
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
mod projections;
mod pull;
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

use std::sync::Arc;

use burn::tensor::{DType, Tensor};

pub use anchors::Anchors;
pub use blocks::BlockSparse;
pub use local::Neighbours;

use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::kernels::form::Lowered;
use crate::linalg::{Projected, marginals, unpack_lower, whiten};
use crate::scope::Scope;

/// k(x1, x2) `[n, m]`: fused operations with an analytic adjoint, on the CPU one for the whole kernel, on a GPU one a
/// term.
///
/// # Errors
/// Whatever a user's kernel form reports.
pub fn cross(kernel: &Kernel, scope: &Scope, x1: &Tensor<2>, x2: &Tensor<2>) -> Result<Tensor<2>> {
    match (kernel.lower(scope, x1)?, kernel.lower(scope, x2)?) {
        #[cfg(any(feature = "wgpu", feature = "cuda"))]
        (Some(a), Some(b)) if !scope.compute().kind.is_cpu() => Ok(gpu::cross(&a, &b)),
        (Some(a), Some(b)) => dense::cross(&a, &b),
        _ => by_parts(kernel, |k| cross(k, scope, x1, x2), || kernel.cross(scope, x1, x2)),
    }
}

/// k(x, x) `[n, n]`, white noise on the diagonal included; fused as [`cross`].
///
/// # Errors
/// As [`cross`].
pub fn gram(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Tensor<2>> {
    match kernel.lower(scope, x)? {
        #[cfg(any(feature = "wgpu", feature = "cuda"))]
        Some(lowered) if !scope.compute().kind.is_cpu() => Ok(gpu::gram(&lowered)),
        Some(lowered) => dense::gram(&lowered),
        None => by_parts(kernel, |k| gram(k, scope, x), || kernel.gram(scope, x)),
    }
}

/// [`cross`] in the scope's [wide](Scope::wide) type. Where the kernel is fused, only inputs are in the scope's own
/// type: whatever the precision of the data, the result is the covariance of *some* inputs, and as definite as that.
///
/// # Errors
/// As [`cross`].
pub fn cross_wide(kernel: &Kernel, scope: &Scope, x1: &Tensor<2>, x2: &Tensor<2>) -> Result<Tensor<2>> {
    match (lowered_wide(kernel, scope, x1)?, lowered_wide(kernel, scope, x2)?) {
        (Some(a), Some(b)) => dense::cross(&a, &b),
        _ => Ok(cross(kernel, scope, x1, x2)?.cast(scope.wide())),
    }
}

/// [`gram`] in the scope's wide type, as [`cross_wide`].
///
/// # Errors
/// As [`cross`].
pub fn gram_wide(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Tensor<2>> {
    match lowered_wide(kernel, scope, x)? {
        Some(lowered) => dense::gram(&lowered),
        None => Ok(gram(kernel, scope, x)?.cast(scope.wide())),
    }
}

/// [`diag`] in the scope's wide type, as [`cross_wide`].
///
/// # Errors
/// As [`diag`].
pub fn diag_wide(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Tensor<1>> {
    match lowered_wide(kernel, scope, x)? {
        Some(lowered) => Ok(lowered.diag()),
        None => Ok(diag(kernel, scope, x)?.cast(scope.wide())),
    }
}

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

/// K(x1, x2) V `[n, t]` for `x1 [n, d]`, `x2 [m, d]`, `v [m, t]`, without storing K.
///
/// Fused on the CPU; elsewhere, and for kernels that cannot be lowered, [`tiled`].
///
/// # Errors
/// [`Shape`](Error::Shape) when rows do not match, and whatever a user's kernel form reports.
pub fn kv(kernel: &Kernel, scope: &Scope, x1: &Tensor<2>, x2: &Tensor<2>, v: &Tensor<2>) -> Result<Tensor<2>> {
    same_rows("v", v.dims()[0], x2.dims()[0])?;
    match (lowered(kernel, scope, x1)?, lowered(kernel, scope, x2)?) {
        (Some(a), Some(b)) => matvec::cross(&a, &b, v.clone()),
        _ => tiled::kv(kernel, scope, x1, x2, v),
    }
}

/// K(x, x) V `[n, t]` for `x [n, d]`, `v [n, t]`, white noise included, at half the cost of [`kv`].
///
/// # Errors
/// As [`kv`].
pub fn kv_gram(kernel: &Kernel, scope: &Scope, x: &Tensor<2>, v: &Tensor<2>) -> Result<Tensor<2>> {
    same_rows("v", v.dims()[0], x.dims()[0])?;
    match lowered(kernel, scope, x)? {
        Some(lowered) => matvec::gram(&lowered, v.clone()),
        None => tiled::kv_gram(kernel, scope, x, v),
    }
}

/// K(x1, x2) S `[n, i]` for block-sparse S `[m, i]`: as much work as one right-hand side.
///
/// # Errors
/// As [`kv`].
pub fn k_s(kernel: &Kernel, scope: &Scope, x1: &Tensor<2>, x2: &Tensor<2>, blocks: &BlockSparse) -> Result<Tensor<2>> {
    same_rows("block-sparse values", blocks.values().dims()[0], x2.dims()[0])?;
    match (lowered(kernel, scope, x1)?, lowered(kernel, scope, x2)?) {
        (Some(a), Some(b)) => actions::cross(&a, &b, blocks),
        _ => tiled::k_s(kernel, scope, x1, x2, blocks),
    }
}

/// K(x, x) S `[n, i]` for block-sparse S `[n, i]`, white noise included, as [`k_s`].
///
/// # Errors
/// As [`kv`].
pub fn k_s_gram(kernel: &Kernel, scope: &Scope, x: &Tensor<2>, blocks: &BlockSparse) -> Result<Tensor<2>> {
    same_rows("block-sparse values", blocks.values().dims()[0], x.dims()[0])?;
    match lowered(kernel, scope, x)? {
        Some(lowered) => actions::gram(&lowered, blocks),
        None => tiled::k_s_gram(kernel, scope, x, blocks),
    }
}

/// Most bytes of a product that is made whole so that what follows from it can be whitened.
const WHOLE: usize = 1 << 28;

/// K(x, x) S `[n, i]` for block-sparse S, white noise included, where products are not fused (on other devices than the
/// CPU and for kernels that cannot be lowered) and it takes at most 256 MB; else nothing.
///
/// # Errors
/// As [`kv`].
pub fn unfused(kernel: &Kernel, scope: &Scope, x: &Tensor<2>, blocks: &BlockSparse) -> Result<Option<Tensor<2>>> {
    let n = x.dims()[0];
    same_rows("block-sparse values", blocks.values().dims()[0], n)?;
    let bytes = n.saturating_mul(blocks.len()).saturating_mul(scope.wide().size());
    let wanted = bytes <= WHOLE && lowered(kernel, scope, x)?.is_none();
    wanted.then(|| tiled::k_s_gram(kernel, scope, x, blocks)).transpose()
}

/// k(x, x) of each row `[n]`, white noise included.
///
/// # Errors
/// Whatever a user's kernel form reports.
pub fn diag(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Tensor<1>> {
    kernel.diag(scope, x)
}

/// What computation-aware objectives need of K = K(x, x), white noise included, and actions S; in f64 even for f32 data
/// (in the data's precision on devices without f64).
#[derive(Debug, Clone)]
pub struct Accumulated {
    /// Sᵀ K S `[i, i]`.
    pub sks: Tensor<2>,
    /// (K S)ᵀ(K S) `[i, i]`.
    pub ksks: Tensor<2>,
    /// (K S)ᵀ y `[i]`.
    pub ksy: Tensor<1>,
    /// tr K `[1]`.
    pub trace: Tensor<1>,
}

/// Sᵀ K S, (K S)ᵀ(K S), (K S)ᵀ y and tr K for block-sparse S `[n, i]` and `y [n]`, in one pass over chunks of rows.
///
/// Memory is O(n + i² + chunk · i), the chunk as large as the scope's [budget](Scope::budget) allows, and i² once for
/// each thread that fits there, too; the adjoint makes each chunk of K S again. Where the budget allows for n · i
/// numbers, K S is kept and every pair of rows visited once.
///
/// # Errors
/// As [`kv`].
pub fn accumulate(
    kernel: &Kernel,
    scope: &Scope,
    x: &Tensor<2>,
    blocks: &BlockSparse,
    y: &Tensor<1>,
) -> Result<Accumulated> {
    let n = x.dims()[0];
    same_rows("block-sparse values", blocks.values().dims()[0], n)?;
    same_rows("y", y.dims()[0], n)?;
    let packed = match lowered(kernel, scope, x)? {
        Some(lowered) => accumulate::packed(&lowered, blocks, y, scope.budget())?,
        None => tiled::packed(kernel, scope, x, blocks, y)?,
    };
    unpack(kernel, scope, x, packed, blocks.len())
}

/// What the evidence lower bound of a computation-aware GP (Wenger et al. 2024, eq. 11) takes from K = K(x, x), white
/// noise included, and block-sparse S `[n, i]` with columns of unit length, for `y [n]` and σ² `noise [1]`: with G =
/// SᵀKS, M = G + σ²I and v = M⁻¹Sᵀy `[‖y − KSv‖² − tr(KS M⁻¹SᵀK), vᵀGv − tr(M⁻¹G) + log|M|]`, in f64. None where
/// products are not fused: on other devices than the CPU, and for kernels that cannot be lowered.
///
/// Memory is that of [`accumulate`]; without room for n · i numbers the pairs of rows are visited once more. Unlike
/// what follows from (KS)ᵀ(KS), both values are good to rounding where M is nearly singular.
///
/// # Errors
/// As [`kv`], and [`Error::NotPositiveDefinite`] for M.
pub fn evidence(
    kernel: &Kernel,
    scope: &Scope,
    x: &Tensor<2>,
    blocks: &BlockSparse,
    y: &Tensor<1>,
    noise: &Tensor<1>,
) -> Result<Option<Tensor<1>>> {
    let n = x.dims()[0];
    same_rows("block-sparse values", blocks.values().dims()[0], n)?;
    same_rows("y", y.dims()[0], n)?;
    let fused = lowered_wide(kernel, scope, x)?;
    fused
        .map(|lowered| evidence::packed(&lowered, blocks, y, &noise.clone().cast(DType::F64), scope.budget()))
        .transpose()
}

/// What collapsed bounds need of A = L⁻¹ K(z, x) diag(s), K(z, z) = L Lᵀ: A Aᵀ `[m, m]` and A t `[m]`, in the scope's
/// wide type, for `x [n, d]`, `z [m, d]` and `s`, `t` `[n]`.
///
/// On the CPU in one pass over chunks of rows that fit half of the scope's [budget](Scope::budget), made again in the
/// adjoint unless all of A fits the other half; A Aᵀ is summed up by as many threads as have room for one there.
/// Elsewhere, and for kernels that cannot be lowered, a graph that holds A.
///
/// # Errors
/// As [`kv`], and [`Error::NotPositiveDefinite`] for K(z, z).
pub fn moments(
    kernel: &Kernel,
    scope: &Scope,
    x: &Tensor<2>,
    z: &Tensor<2>,
    s: &Tensor<1>,
    t: &Tensor<1>,
) -> Result<(Tensor<2>, Tensor<1>)> {
    same_rows("row weights", s.dims()[0], x.dims()[0])?;
    same_rows("row targets", t.dims()[0], x.dims()[0])?;
    let (wide, m) = (scope.wide(), z.dims()[0]);
    if let (Some(a), Some(b)) = (lowered_wide(kernel, scope, x)?, lowered_wide(kernel, scope, z)?) {
        let rows = Tensor::stack::<2>(vec![s.clone(), t.clone()], 1).cast(wide);
        let packed = moments::packed(&a, &b, &rows, scope.budget())?;
        return Ok((packed.clone().narrow(0, 0, m * m).reshape([m, m]), packed.narrow(0, m * m, m)));
    }
    let cross = cross_wide(kernel, scope, z, x)? * s.clone().cast(wide).unsqueeze::<2>();
    let a = whiten(gram_wide(kernel, scope, z)?, cross, "K_ZZ")?;
    let projected = a.clone().matmul(t.clone().cast(wide).unsqueeze_dim::<2>(1));
    Ok((a.clone().matmul(a.transpose()), projected.squeeze_dim(1)))
}

/// A m_I, diag(A(S_I − K_I)Aᵀ) and KL(N(m_I, S_I) ‖ N(0, K_I)) of every row of `x [b, d]` one after another, `[3b]`, A
/// = k(x, Z_I) K_I⁻¹ and I the row's neighbours among `z [U, d]`; `q` holds m `[U]`, then R `[U, C]` with S = R Rᵀ, or
/// the root of a diagonal S `[U]`. In f64 on the CPU.
///
/// # Errors
/// [`Error::Usage`] for kernels that cannot be lowered and on other devices, [`Error::NotPositiveDefinite`] for a K_I
/// or S_I that is not.
pub fn local(
    kernel: &Kernel,
    scope: &Scope,
    x: &Tensor<2>,
    z: &Tensor<2>,
    q: Tensor<1>,
    neighbours: Arc<Neighbours>,
) -> Result<Tensor<1>> {
    match (lowered_wide(kernel, scope, x)?, lowered_wide(kernel, scope, z)?) {
        (Some(a), Some(b)) => local::packed(&a, &b, q, neighbours),
        _ => Err(Error::Usage("neighbours need the CPU and a kernel of the built-in forms".into())),
    }
}

/// What v ~ N(μ, R Rᵀ) with u = m(Z) + L v, K_ZZ = L Lᵀ, says about f − m at rows of `x [b, d]`, for inducing inputs
/// `z [m, d]`: `mean` holds μ `[m]`, `root` R, its rows up to the diagonal `[m(m + 1)/2]` or only the diagonal `[m]`.
///
/// L is made in the scope's wide type. On the CPU one operation, about 12m²b + 5m³ operations with its adjoint.
///
/// # Errors
/// [`Error::Shape`] when shapes disagree, [`Error::NotPositiveDefinite`] for K_ZZ, and whatever a user's kernel form
/// reports.
pub fn whitened(
    kernel: &Kernel,
    scope: &Scope,
    z: &Tensor<2>,
    x: &Tensor<2>,
    mean: Tensor<1>,
    root: Tensor<1>,
) -> Result<Projected> {
    let (wide, single) = (scope.wide(), scope.dtype() != scope.wide());
    if let (Some(z), Some(x)) = (lowered_wide(kernel, scope, z)?, lowered_wide(kernel, scope, x)?) {
        return whitened::marginals(&z, &x, mean, root, single);
    }
    let a = whiten(gram_wide(kernel, scope, z)?, cross_wide(kernel, scope, z, x)?, "K_ZZ")?;
    let diagonal = root.dims() == mean.dims();
    let (mean, root) = (mean.cast(wide), root.cast(wide));
    if diagonal { marginals(a, mean, root, single) } else { marginals(a, mean, unpack_lower(root)?, single) }
}

fn unpack(kernel: &Kernel, scope: &Scope, x: &Tensor<2>, packed: Tensor<1>, i: usize) -> Result<Accumulated> {
    let square = |start: usize| packed.clone().narrow(0, start, i * i).reshape([i, i]);
    let trace = diag_wide(kernel, scope, x)?.sum();
    Ok(Accumulated { sks: square(0), ksks: square(i * i), ksy: packed.clone().narrow(0, 2 * i * i, i), trace })
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
