//! The same products as plain tensor graphs, tile by tile, on any device and for any kernel, including a user's own.
//!
//! A tile's graph lives only as long as the tile. The adjoint builds it again, so that memory stays within the scope's
//! [budget](Scope::budget). Inputs, sums and gradients stay on the device. On the CPU a tile is the graph that defines
//! it, against which fused products are checked. On a GPU a tile is fused if the kernel's matrix is, and K S for some
//! rows is one operation.

mod by_rows;
mod on_tensors;
mod tiles;

use std::ops::Range;

use burn::tensor::Tensor;
pub use by_rows::{explained, projected};
use on_tensors::{OnTensors, TensorOp};
use tiles::{Columns, Sums, Tiles, rows, times};

use crate::device::Compute;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::linalg::host::{Anywhere, apply4};
use crate::params::Parameters;
use crate::products::blocks::BlockSparse;
use crate::products::fused_blocks;
use crate::products::operations::actions;
use crate::scope::Scope;

/// K(x1, x2) V `[n, t]`.
///
/// # Errors
/// Errors of a user's kernel form.
pub fn kv(kernel: &Kernel, scope: &Scope, x1: &Tensor<2>, x2: &Tensor<2>, v: &Tensor<2>) -> Result<Tensor<2>> {
    product(kernel, scope, [x1, x2, v], Columns::Dense, false)
}

/// K(x, x) V `[n, t]`, with white noise.
///
/// # Errors
/// As [`kv`].
pub fn kv_gram(kernel: &Kernel, scope: &Scope, x: &Tensor<2>, v: &Tensor<2>) -> Result<Tensor<2>> {
    product(kernel, scope, [x, x, v], Columns::Dense, true)
}

/// K(x1, x2) S `[n, i]` for block-sparse S.
///
/// # Errors
/// As [`kv`].
pub fn k_s(kernel: &Kernel, scope: &Scope, x1: &Tensor<2>, x2: &Tensor<2>, blocks: &BlockSparse) -> Result<Tensor<2>> {
    product(kernel, scope, [x1, x2, &blocks.column()], Columns::of(blocks, scope), false)
}

/// K(x, x) S `[n, i]` for block-sparse S, with white noise.
///
/// # Errors
/// As [`kv`].
pub fn k_s_gram(kernel: &Kernel, scope: &Scope, x: &Tensor<2>, blocks: &BlockSparse) -> Result<Tensor<2>> {
    product(kernel, scope, [x, x, &blocks.column()], Columns::of(blocks, scope), true)
}

fn product(
    kernel: &Kernel,
    scope: &Scope,
    [x1, x2, v]: [&Tensor<2>; 3],
    columns: Columns,
    same: bool,
) -> Result<Tensor<2>> {
    let op = OnTensors(Product { tiles: Tiles::new(kernel, scope, x1), columns, same });
    apply4(Anywhere::new(op), x1.clone(), parameters(kernel, scope), v.clone(), x2.clone())
}

/// The internal values of all parameters, one after another `[P, 1]`: the input through which an operation gets its
/// gradient in them.
fn parameters(kernel: &Kernel, scope: &Scope) -> Tensor<2> {
    let values: Vec<_> = kernel.parameters().into_iter().map(|(_, p)| scope.value(p)).collect();
    match values.is_empty() {
        true => scope.matrix(&[0.0], 1, 1),
        false => Tensor::cat(values, 0).unsqueeze_dim(1),
    }
}

/// Gradients of a product in its inputs.
struct Gradients {
    x1: Sums,
    x2: Option<Sums>,
    v: Sums,
    parameters: Sums,
}

#[derive(Debug)]
struct Product {
    tiles: Tiles,
    columns: Columns,
    /// Whether x2 is x1, with white noise; all of its gradient is then that in x1.
    same: bool,
}

/// The inputs of a product.
#[derive(Clone, Copy)]
struct Inputs<'a> {
    x1: &'a Tensor<2>,
    x2: &'a Tensor<2>,
    v: &'a Tensor<2>,
    parameters: &'a Tensor<2>,
}

impl Product {
    /// An evaluation with the parameters of these inputs.
    fn scope(&self, plain: Scope, inputs: Inputs) -> Scope {
        plain.holding(&self.tiles.kernel, inputs.parameters)
    }

    /// K(x1, x2) S for block-sparse S if it is one operation; `own` is the position of x1 in x2, if it is a part of it.
    fn fused(&self, scope: &Scope, [x1, x2, v]: [&Tensor<2>; 3], own: Option<usize>) -> Result<Option<Tensor<2>>> {
        let (kernel, Columns::Blocks { offsets, .. }) = (&self.tiles.kernel, &self.columns) else { return Ok(None) };
        if self.tiles.compute.kind.is_cpu() {
            return Ok(None);
        }
        match (fused_blocks(kernel, scope, x1)?, fused_blocks(kernel, scope, x2)?) {
            (Some(a), Some(b)) => actions::part(&a, &b, v.clone().squeeze_dim(1), offsets, own).map(Some),
            _ => Ok(None),
        }
    }

    /// The adjoint of [`chunk`](Self::chunk) if it is one operation. Returns whether it is.
    fn pull_fused(
        &self,
        inputs: Inputs,
        (at, r): (usize, &Range<usize>),
        grad: &Tensor<2>,
        total: &mut Gradients,
    ) -> Result<bool> {
        let (wide, scope) = (self.tiles.wide, self.scope(Scope::training(self.tiles.compute)?, inputs));
        let leaf = |of: Tensor<2>| Tensor::<2>::from_inner(of).require_grad();
        let (x1, x2, v) = (leaf(rows(inputs.x1, r)), leaf(inputs.x2.clone()), leaf(inputs.v.clone()));
        let own = self.same.then_some(r.start);
        let Some(part) = self.fused(&scope, [&x1, &x2, &v], own)? else { return Ok(false) };
        let mut gradients = (part * Tensor::from_inner(grad.clone())).sum().backward();
        total.x1.add(at, x1.grad_remove(&mut gradients), wide);
        let to = total.x2.as_mut().unwrap_or(&mut total.x1);
        for (leaf, to) in [(x2, to), (v, &mut total.v)] {
            let Some(slopes) = leaf.grad_remove(&mut gradients) else { continue };
            for (place, c) in self.tiles.ranges(slopes.dims()[0]).enumerate() {
                to.add(place, Some(rows(&slopes, &c)), wide);
            }
        }
        total.parameters.add(0, self.tiles.slopes(&scope, &mut gradients), wide);
        Ok(true)
    }

    /// K V for some rows.
    fn chunk(&self, inputs: Inputs, scope: &Scope, r: &Range<usize>) -> Result<Tensor<2>> {
        let (x1, t) = (rows(inputs.x1, r), self.columns.width(inputs.v));
        if let Some(part) = self.fused(scope, [&x1, inputs.x2, inputs.v], self.same.then_some(r.start))? {
            return Ok(part);
        }
        let mut sum = Tensor::zeros([r.len(), t], (&x1.device(), x1.dtype()));
        for c in self.tiles.ranges(inputs.x2.dims()[0]) {
            let k = self.tiles.covariance(scope, &x1, &rows(inputs.x2, &c), self.same && c == *r)?;
            let own = self.columns.within(inputs.v, &c);
            let v = times(rows(inputs.v, &c), &self.columns.owned(&c, &own, k.dtype()));
            let part = sum.clone().narrow(1, own.start, own.len()) + k.matmul(v);
            sum = if own.len() == t { part } else { sum.slice_assign([0..r.len(), own], part) };
        }
        Ok(sum)
    }

    fn zeros(&self, inputs: Inputs) -> Gradients {
        let zeros = |like| Sums::new(&self.tiles, like);
        let x2 = (!self.same).then(|| zeros(inputs.x2));
        Gradients { x1: zeros(inputs.x1), x2, v: zeros(inputs.v), parameters: Sums(vec![None]) }
    }

    /// Adds the adjoint of [`chunk`](Self::chunk), for the cotangents of its rows, which are range number `at`.
    fn pull(
        &self,
        inputs: Inputs,
        (at, r): (usize, &Range<usize>),
        grad: &Tensor<2>,
        total: &mut Gradients,
    ) -> Result<()> {
        let wide = self.tiles.wide;
        if !self.tiles.compute.kind.is_cpu() && self.pull_fused(inputs, (at, r), grad, total)? {
            return Ok(());
        }
        for (place, c) in self.tiles.ranges(inputs.x2.dims()[0]).enumerate() {
            // Each tile has its own graph.
            let scope = self.scope(Scope::training(self.tiles.compute)?, inputs);
            let leaf = |of, range| Tensor::<2>::from_inner(rows(of, range)).require_grad();
            let (x1, x2) = (leaf(inputs.x1, r), leaf(inputs.x2, &c));
            let k = self.tiles.covariance(&scope, &x1, &x2, self.same && c == *r)?;
            let own = self.columns.within(inputs.v, &c);
            let mask = self.columns.owned(&c, &own, grad.dtype());
            let grad = grad.clone().narrow(1, own.start, own.len());
            let in_v = times(k.clone().inner().transpose().matmul(grad.clone()), &mask);
            let in_v = if mask.is_some() { in_v.sum_dim(1) } else { in_v };
            total.v.add(place, Some(in_v), wide);
            let in_k = grad.matmul(times(rows(inputs.v, &c), &mask).transpose());
            if !k.is_tracked() {
                continue;
            }
            let mut gradients = (k * Tensor::from_inner(in_k)).sum().backward();
            total.x1.add(at, x1.grad_remove(&mut gradients), wide);
            total.x2.as_mut().unwrap_or(&mut total.x1).add(place, x2.grad_remove(&mut gradients), wide);
            total.parameters.add(0, self.tiles.slopes(&scope, &mut gradients), wide);
        }
        Ok(())
    }
}

impl Gradients {
    /// The gradients in x1, the parameters, V and x2.
    fn joined(self, tiles: &Tiles, inputs: Inputs) -> [Option<Tensor<2>>; 4] {
        let x2 = self.x2.map(|sums| sums.joined(tiles, inputs.x2));
        let parameters = self.parameters.0.into_iter().next().flatten();
        let parameters = parameters.map(|sum| sum.cast(inputs.parameters.dtype()));
        let parameters = parameters.unwrap_or_else(|| inputs.parameters.zeros_like());
        [Some(self.x1.joined(tiles, inputs.x1)), Some(parameters), Some(self.v.joined(tiles, inputs.v)), x2]
    }
}

impl TensorOp for Product {
    fn compute(&self) -> Compute {
        self.tiles.compute
    }

    fn value(&self, [x1, parameters, v, x2]: &[Tensor<2>; 4]) -> Result<Tensor<2>> {
        let inputs = Inputs { x1, x2, v, parameters };
        let scope = self.scope(Scope::new(self.tiles.compute)?, inputs);
        let chunks = self.tiles.ranges(x1.dims()[0]).map(|r| self.chunk(inputs, &scope, &r));
        Ok(Tensor::cat(chunks.collect::<Result<_>>()?, 0))
    }

    fn slopes(&self, [x1, parameters, v, x2]: &[Tensor<2>; 4], grad: Tensor<2>) -> Result<[Option<Tensor<2>>; 4]> {
        let inputs = Inputs { x1, x2, v, parameters };
        let mut total = self.zeros(inputs);
        for (at, r) in self.tiles.ranges(x1.dims()[0]).enumerate() {
            self.pull(inputs, (at, &r), &rows(&grad, &r), &mut total)?;
        }
        Ok(total.joined(&self.tiles, inputs))
    }
}
