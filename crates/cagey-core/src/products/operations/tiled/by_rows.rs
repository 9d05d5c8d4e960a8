//! What follows from K S for block-sparse S, without storing it: one chunk of rows after another.

use std::ops::Range;

use burn::tensor::{DType, Tensor};

use super::on_tensors::{OnTensors, TensorOp};
use super::tiles::{Columns, Sums, Tiles, rows};
use super::{Inputs, Product, parameters};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::linalg::host::{Anywhere, apply4};
use crate::products::blocks::BlockSparse;
use crate::products::operations::explained::{Explained, of_blocks, of_rows};
use crate::scope::Scope;

/// Sᵀ K S `[i, i]` for block-sparse S, in the scope's wide type.
///
/// # Errors
/// As [`kv`](super::kv).
pub fn projected(kernel: &Kernel, scope: &Scope, x: &Tensor<2>, blocks: &BlockSparse) -> Result<Tensor<2>> {
    let none = Tensor::zeros([1, 1], (scope.device(), scope.wide()));
    by_rows(kernel, scope, x, blocks, none, Wanted::Projected)
}

/// What the block-sparse projections Sᵀt explain about the rows, in the scope's wide type, for targets `t [n]` with
/// noise of variances `spread [n]`.
///
/// # Errors
/// As [`kv`](super::kv), and [`NotPositiveDefinite`](Error::NotPositiveDefinite) for M.
pub fn explained(
    kernel: &Kernel,
    scope: &Scope,
    x: &Tensor<2>,
    blocks: &BlockSparse,
    noisy: [&Tensor<1>; 2],
) -> Result<Explained> {
    of_blocks(blocks, noisy, projected(kernel, scope, x, blocks)?, |lower, values| {
        let solved = Tensor::cat(vec![lower, values], 1);
        by_rows(kernel, scope, x, blocks, solved, Wanted::Explained)
    })
}

fn by_rows(
    kernel: &Kernel,
    scope: &Scope,
    x: &Tensor<2>,
    blocks: &BlockSparse,
    solved: Tensor<2>,
    part: Wanted,
) -> Result<Tensor<2>> {
    let product = Product { tiles: Tiles::new(kernel, scope, x), columns: Columns::of(blocks, scope), same: true };
    let op = OnTensors(ByRows { product, part, wide: scope.wide() });
    apply4(Anywhere::new(op), x.clone(), parameters(kernel, scope), blocks.column(), solved)
}

/// What is computed from the chunks of K S.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    /// Sᵀ(K S) `[i, i]`, the sum over all chunks.
    Projected,
    /// Means and explained variances `[2, n]`, a chunk's beside the next one's.
    Explained,
}

/// A function of K S, its S, and L and v side by side.
#[derive(Debug)]
struct ByRows {
    product: Product,
    part: Wanted,
    /// The type of the output.
    wide: DType,
}

impl ByRows {
    /// S for some rows, spread to its columns; and 1 at its non-zeros, else 0.
    fn actions(&self, v: &Tensor<2>, r: &Range<usize>) -> [Tensor<2>; 2] {
        let columns = &self.product.columns;
        let mask = columns.owned(r, &(0..columns.width(v)), v.dtype()).unwrap_or_else(|| rows(v, r).ones_like());
        [rows(v, r) * mask.clone(), mask]
    }

    /// The part of a chunk.
    fn applied(&self, ks: Tensor<2>, s: Tensor<2>, solved: Tensor<2>) -> Result<Tensor<2>> {
        let (i, ks) = (ks.dims()[1], ks.cast(self.wide));
        match self.part {
            Wanted::Projected => Ok(s.cast(self.wide).transpose().matmul(ks)),
            Wanted::Explained => {
                let (lower, values) = (solved.clone().narrow(1, 0, i), solved.narrow(1, i, 1));
                of_rows(ks.transpose(), lower, values, (1, false))
            }
        }
    }
}

impl TensorOp for ByRows {
    fn compute(&self) -> Compute {
        self.product.tiles.compute
    }

    fn value(&self, [x1, parameters, v, solved]: &[Tensor<2>; 4]) -> Result<Tensor<2>> {
        let (product, inputs) = (&self.product, Inputs { x1, x2: x1, v, parameters });
        let scope = product.scope(Scope::new(product.tiles.compute)?, inputs);
        let parts = product.tiles.ranges(x1.dims()[0]).map(|r| {
            let [s, _] = self.actions(v, &r);
            self.applied(product.chunk(inputs, &scope, &r)?, s, solved.clone())
        });
        let joined = match self.part {
            Wanted::Projected => parts.reduce(|sum, part| Ok(sum? + part?)),
            Wanted::Explained => Some(parts.collect::<Result<_>>().map(|parts| Tensor::cat(parts, 1))),
        };
        joined.unwrap_or_else(|| Err(Error::shape("inputs", "at least one row", "none")))
    }

    fn slopes(&self, [x1, parameters, v, solved]: &[Tensor<2>; 4], grad: Tensor<2>) -> Result<[Option<Tensor<2>>; 4]> {
        let (product, inputs) = (&self.product, Inputs { x1, x2: x1, v, parameters });
        let (tiles, wide) = (&product.tiles, product.tiles.wide);
        let scope = product.scope(Scope::new(tiles.compute)?, inputs);
        let (mut total, mut in_solved) = (product.zeros(inputs), Sums(vec![None]));
        for (at, r) in tiles.ranges(x1.dims()[0]).enumerate() {
            // First the graph from this chunk of K S onwards, then the adjoint of the chunk itself.
            let leaf = |of: Tensor<2>| Tensor::<2>::from_inner(of).require_grad();
            let [s, mask] = self.actions(v, &r);
            let (ks, s, solved) = (leaf(product.chunk(inputs, &scope, &r)?), leaf(s), leaf(solved.clone()));
            let value = self.applied(ks.clone(), s.clone(), solved.clone())?;
            let grad = match self.part {
                Wanted::Projected => grad.clone(),
                Wanted::Explained => grad.clone().narrow(1, r.start, r.len()),
            };
            let mut slopes = (value * Tensor::from_inner(grad)).sum().backward();
            if let Some(in_ks) = ks.grad_remove(&mut slopes) {
                product.pull(inputs, (at, &r), &in_ks, &mut total)?;
            }
            // S on the left: each row contributes the entry of its own column.
            total.v.add(at, s.grad_remove(&mut slopes).map(|in_s| (in_s * mask).sum_dim(1)), wide);
            in_solved.add(0, solved.grad_remove(&mut slopes), wide);
        }
        let [x, parameters, v, _] = total.joined(tiles, inputs);
        let in_solved = in_solved.0.into_iter().next().flatten().unwrap_or_else(|| solved.zeros_like());
        Ok([x, parameters, v, Some(in_solved)])
    }
}
