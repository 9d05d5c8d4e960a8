//! The same products as plain tensor graphs, tile by tile: on any device, for any kernel, a user's own included.
//!
//! A tile's graph lives only as long as the tile; the adjoint builds it again, so that memory stays within the scope's
//! [budget](Scope::budget). These are the definitions that the fused products are checked against.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{DType, Tensor, TensorData};

use super::blocks::{BlockSparse, owners};
use super::matvec::recall;
use super::{Accumulated, unpack};
use crate::device::Compute;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::linalg::host::{HostOp, Saved, apply3, apply4};
use crate::params::Parameters;
use crate::scope::{Scope, to_f64};

/// K(x1, x2) V `[n, t]`.
///
/// # Errors
/// Whatever a user's kernel form reports.
pub fn kv(kernel: &Kernel, scope: &Scope, x1: &Tensor<2>, x2: &Tensor<2>, v: &Tensor<2>) -> Result<Tensor<2>> {
    let op = Product { tiles: Tiles::new(kernel, scope, x1), columns: Columns::Dense };
    apply4(op, x1.clone(), parameters(kernel, scope), v.clone(), x2.clone())
}

/// K(x, x) V `[n, t]`, white noise included.
///
/// # Errors
/// As [`kv`].
pub fn kv_gram(kernel: &Kernel, scope: &Scope, x: &Tensor<2>, v: &Tensor<2>) -> Result<Tensor<2>> {
    let op = Product { tiles: Tiles::new(kernel, scope, x), columns: Columns::Dense };
    apply3(op, x.clone(), parameters(kernel, scope), v.clone())
}

/// K(x1, x2) S `[n, i]` for block-sparse S.
///
/// # Errors
/// As [`kv`].
pub fn k_s(kernel: &Kernel, scope: &Scope, x1: &Tensor<2>, x2: &Tensor<2>, blocks: &BlockSparse) -> Result<Tensor<2>> {
    let op = Product { tiles: Tiles::new(kernel, scope, x1), columns: Columns::of(blocks) };
    apply4(op, x1.clone(), parameters(kernel, scope), blocks.values().clone().unsqueeze_dim::<2>(1), x2.clone())
}

/// K(x, x) S `[n, i]` for block-sparse S, white noise included.
///
/// # Errors
/// As [`kv`].
pub fn k_s_gram(kernel: &Kernel, scope: &Scope, x: &Tensor<2>, blocks: &BlockSparse) -> Result<Tensor<2>> {
    let op = Product { tiles: Tiles::new(kernel, scope, x), columns: Columns::of(blocks) };
    apply3(op, x.clone(), parameters(kernel, scope), blocks.values().clone().unsqueeze_dim::<2>(1))
}

/// Sᵀ K S, (K S)ᵀ(K S), (K S)ᵀ y and tr K for block-sparse S.
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
    unpack(kernel, scope, x, packed(kernel, scope, x, blocks, y)?, blocks.len())
}

/// Sᵀ K S, (K S)ᵀ(K S) and (K S)ᵀ y one after another, in f64 where the device has it.
pub(super) fn packed(
    kernel: &Kernel,
    scope: &Scope,
    x: &Tensor<2>,
    blocks: &BlockSparse,
    y: &Tensor<1>,
) -> Result<Tensor<1>> {
    let columns = Columns::of(blocks);
    let wide = scope.wide() == DType::F64;
    let op = Accumulate { product: Product { tiles: Tiles::new(kernel, scope, x), columns }, wide };
    let values = blocks.values().clone().unsqueeze_dim::<2>(1);
    apply4(op, x.clone(), parameters(kernel, scope), values, y.clone().unsqueeze_dim::<2>(1))
}

/// The internal values of all parameters, one after another: what an operation takes for its gradient in them.
fn parameters(kernel: &Kernel, scope: &Scope) -> Tensor<1> {
    let values: Vec<_> = kernel.parameters().into_iter().map(|(_, p)| scope.value(p)).collect();
    match values.is_empty() {
        true => scope.vector(&[0.0]),
        false => Tensor::cat(values, 0),
    }
}

/// A kernel, and how much of its matrix exists at once.
#[derive(Debug)]
struct Tiles {
    kernel: Kernel,
    compute: Compute,
    /// Rows and columns of a tile.
    side: usize,
}

/// Gradients of a tile or of many.
struct Gradients {
    x1: Vec<f64>,
    x2: Vec<f64>,
    v: Vec<f64>,
    parameters: Vec<f64>,
}

impl Tiles {
    fn new(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Self {
        // A leaf's graph holds two matrices for each input column and a dozen for its profile.
        let matrices = kernel.leaves() * (2 * x.dims()[1] + 12);
        let pairs = scope.budget() / (matrices * scope.dtype().size());
        Self { kernel: kernel.clone(), compute: scope.compute(), side: pairs.isqrt().max(1) }
    }

    fn ranges(&self, n: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let side = self.side;
        (0..n).step_by(side).map(move |start| start..(start + side).min(n))
    }

    /// The covariances of a tile; of an input with itself on the diagonal of the whole.
    fn covariance(&self, scope: &Scope, x1: &Tensor<2>, x2: &Tensor<2>, diagonal: bool) -> Result<Tensor<2>> {
        if diagonal { self.kernel.gram(scope, x1) } else { self.kernel.cross(scope, x1, x2) }
    }
}

/// What the columns of a tile are multiplied with.
#[derive(Debug)]
enum Columns {
    /// V as it is.
    Dense,
    /// Block-sparse: a value a row, in the column of its block.
    Blocks { owners: Vec<usize>, count: usize },
}

impl Columns {
    fn of(blocks: &BlockSparse) -> Self {
        Self::Blocks { owners: owners(blocks.offsets()), count: blocks.len() }
    }
}

#[derive(Debug)]
struct Product {
    tiles: Tiles,
    columns: Columns,
}

/// The inputs as they came.
#[derive(Clone)]
struct Kept {
    x1: TensorData,
    x2: Option<TensorData>,
    v: TensorData,
}

impl Kept {
    fn x2(&self) -> &TensorData {
        self.x2.as_ref().unwrap_or(&self.x1)
    }
}

/// Rows of a host matrix as a tensor.
fn rows(data: &TensorData, scope: &Scope, range: &Range<usize>) -> Tensor<2> {
    Tensor::<2>::from_data(data.clone(), (scope.device(), scope.dtype())).narrow(0, range.start, range.len())
}

fn add(to: &mut [f64], tensor: Option<Tensor<2>>) -> Result<()> {
    if let Some(tensor) = tensor {
        to.iter_mut().zip(to_f64(tensor)?).for_each(|(t, v)| *t += v);
    }
    Ok(())
}

impl Product {
    fn width(&self, v: &TensorData) -> usize {
        match &self.columns {
            Columns::Dense => v.shape()[1],
            Columns::Blocks { count, .. } => *count,
        }
    }

    /// K V for a tile, with V's rows spread to their columns if block-sparse.
    fn apply(&self, k: Tensor<2>, v: &Tensor<2>, range: &Range<usize>) -> Tensor<2> {
        let Columns::Blocks { owners, count } = &self.columns else { return k.matmul(v.clone()) };
        let mut one_hot = vec![0.0f32; range.len() * count];
        for (row, &owner) in owners[range.clone()].iter().enumerate() {
            one_hot[row * count + owner] = 1.0;
        }
        let one_hot = TensorData::new(one_hot, [range.len(), *count]);
        k.matmul(v.clone() * Tensor::<2>::from_data(one_hot, (&v.device(), v.dtype())))
    }

    /// K V for some rows.
    fn chunk(&self, kept: &Kept, scope: &Scope, r: &Range<usize>) -> Result<Tensor<2>> {
        let x1 = rows(&kept.x1, scope, r);
        let mut sum = None;
        for c in self.tiles.ranges(kept.x2().shape()[0]) {
            let (x2, v) = (rows(kept.x2(), scope, &c), rows(&kept.v, scope, &c));
            let k = self.tiles.covariance(scope, &x1, &x2, kept.x2.is_none() && c == *r)?;
            let part = self.apply(k, &v, &c);
            sum = Some(match sum {
                None => part,
                Some(sum) => sum + part,
            });
        }
        Ok(sum.unwrap_or_else(|| Tensor::zeros([r.len(), self.width(&kept.v)], (scope.device(), scope.dtype()))))
    }

    fn zeros(&self, kept: &Kept) -> Gradients {
        let zeros = |data: &TensorData| vec![0.0; data.num_elements()];
        let parameters = self.tiles.kernel.parameters().iter().map(|(_, p)| p.len()).sum::<usize>().max(1);
        let x2 = kept.x2.as_ref().map_or_else(Vec::new, zeros);
        Gradients { x1: zeros(&kept.x1), x2, v: zeros(&kept.v), parameters: vec![0.0; parameters] }
    }

    /// Adds the adjoint of [`chunk`](Self::chunk) for the cotangents of its rows.
    fn pull(&self, kept: &Kept, r: &Range<usize>, grad: &TensorData, total: &mut Gradients) -> Result<()> {
        let (d, t) = (kept.x1.shape()[1], kept.v.shape()[1]);
        for c in self.tiles.ranges(kept.x2().shape()[0]) {
            // A graph of its own: parameters live on the host, so a fresh scope has the same values.
            let scope = Scope::training(self.tiles.compute)?;
            let x1 = rows(&kept.x1, &scope, r).require_grad();
            let x2 = rows(kept.x2(), &scope, &c).require_grad();
            let v = rows(&kept.v, &scope, &c).require_grad();
            let grad = Tensor::<2>::from_data(grad.clone(), (scope.device(), scope.dtype()));
            let k = self.tiles.covariance(&scope, &x1, &x2, kept.x2.is_none() && c == *r)?;
            let mut gradients = (self.apply(k, &v, &c) * grad).sum().backward();
            add(&mut total.x1[r.start * d..], x1.grad_remove(&mut gradients))?;
            let in_x2 = if kept.x2.is_some() { &mut total.x2 } else { &mut total.x1 };
            add(&mut in_x2[c.start * d..], x2.grad_remove(&mut gradients))?;
            add(&mut total.v[c.start * t..], v.grad_remove(&mut gradients))?;
            let mut at = 0;
            for (_, parameter) in self.tiles.kernel.parameters() {
                let slope = scope.wide_value(parameter).grad_remove(&mut gradients).map(|g| g.unsqueeze());
                add(&mut total.parameters[at..at + parameter.len()], slope)?;
                at += parameter.len();
            }
        }
        Ok(())
    }

    fn value(&self, kept: &Kept) -> Result<TensorData> {
        let scope = Scope::new(self.tiles.compute)?;
        let (n, t) = (kept.x1.shape()[0], self.width(&kept.v));
        let mut out = Vec::with_capacity(n * t);
        for r in self.tiles.ranges(n) {
            out.extend(to_f64(self.chunk(kept, &scope, &r)?)?);
        }
        Ok(TensorData::new(out, [n, t]).convert_dtype(scope.dtype()))
    }

    fn gradients(&self, saved: Saved, grad: TensorData) -> Result<[Option<TensorData>; 4]> {
        let kept = recall::<Kept>(saved)?;
        let mut total = self.zeros(&kept);
        let scope = Scope::new(self.tiles.compute)?;
        for r in self.tiles.ranges(kept.x1.shape()[0]) {
            let grad = rows(&grad, &scope, &r).into_data();
            self.pull(&kept, &r, &grad, &mut total)?;
        }
        Ok(total.data(&kept, scope.dtype()))
    }
}

impl Gradients {
    fn data(self, kept: &Kept, dtype: DType) -> [Option<TensorData>; 4] {
        let data = |values: Vec<f64>, like: &TensorData| {
            Some(TensorData::new(values, like.shape().clone()).convert_dtype(dtype))
        };
        let length = self.parameters.len();
        let parameters = TensorData::new(self.parameters, [length]).convert_dtype(dtype);
        let x2 = kept.x2.as_ref().and_then(|like| data(self.x2, like));
        [data(self.x1, &kept.x1), Some(parameters), data(self.v, &kept.v), x2]
    }
}

impl HostOp<3> for Product {
    fn forward(&self, [x1, _, v]: [TensorData; 3]) -> Result<(TensorData, Saved)> {
        let kept = Kept { x1, x2: None, v };
        Ok((self.value(&kept)?, Arc::new(kept)))
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 3]) -> Result<[Option<TensorData>; 3]> {
        let [x1, parameters, v, _] = self.gradients(saved, grad)?;
        Ok([x1, parameters, v])
    }
}

impl HostOp<4> for Product {
    fn forward(&self, [x1, _, v, x2]: [TensorData; 4]) -> Result<(TensorData, Saved)> {
        let kept = Kept { x1, x2: Some(x2), v };
        Ok((self.value(&kept)?, Arc::new(kept)))
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 4]) -> Result<[Option<TensorData>; 4]> {
        self.gradients(saved, grad)
    }
}

#[derive(Debug)]
struct Accumulate {
    product: Product,
    /// Whether results are f64.
    wide: bool,
}

impl Accumulate {
    /// S for some rows, spread to its columns.
    fn actions(&self, kept: &Kept, scope: &Scope, r: &Range<usize>) -> Tensor<2> {
        let eye = Tensor::<2>::eye(r.len(), scope.device()).cast(scope.dtype());
        self.product.apply(eye, &rows(&kept.v, scope, r), r)
    }
}

impl HostOp<4> for Accumulate {
    fn forward(&self, [x, _, v, y]: [TensorData; 4]) -> Result<(TensorData, Saved)> {
        let tiles = &self.product.tiles;
        let scope = Scope::new(tiles.compute)?;
        let (n, i) = (x.shape()[0], self.product.width(&v));
        let kept = Kept { x1: x, x2: None, v };
        let mut total = vec![0.0; 2 * i * i + i];
        for r in tiles.ranges(n) {
            let ks = self.product.chunk(&kept, &scope, &r)?;
            let ks_t = ks.clone().transpose();
            let (sks, rest) = total.split_at_mut(i * i);
            let (ksks, ksy) = rest.split_at_mut(i * i);
            add(sks, Some(self.actions(&kept, &scope, &r).transpose().matmul(ks.clone())))?;
            add(ksks, Some(ks_t.clone().matmul(ks)))?;
            add(ksy, Some(ks_t.matmul(rows(&y, &scope, &r))))?;
        }
        let dtype = if self.wide { DType::F64 } else { scope.dtype() };
        let length = total.len();
        Ok((TensorData::new(total, [length]).convert_dtype(dtype), Arc::new((kept, y))))
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 4]) -> Result<[Option<TensorData>; 4]> {
        let saved = recall::<(Kept, TensorData)>(saved)?;
        let (kept, y) = &*saved;
        let tiles = &self.product.tiles;
        let scope = Scope::new(tiles.compute)?;
        let (n, i) = (kept.x1.shape()[0], self.product.width(&kept.v));
        let grad = Tensor::<1>::from_data(grad, (scope.device(), scope.dtype()));
        let in_sks = grad.clone().narrow(0, 0, i * i).reshape([i, i]);
        let in_ksks = grad.clone().narrow(0, i * i, i * i).reshape([i, i]);
        let in_ksks = in_ksks.clone() + in_ksks.transpose();
        let in_ksy = grad.narrow(0, 2 * i * i, i).reshape([i, 1]);
        let mut total = self.product.zeros(kept);
        let mut in_y = vec![0.0; n];
        for r in tiles.ranges(n) {
            let ks = self.product.chunk(kept, &scope, &r)?;
            let grad = self.actions(kept, &scope, &r).matmul(in_sks.clone())
                + ks.clone().matmul(in_ksks.clone())
                + rows(y, &scope, &r).matmul(in_ksy.clone().transpose());
            self.product.pull(kept, &r, &grad.into_data(), &mut total)?;
            // S on the left: the entries of (K S) Āᵀ in each row's own column.
            let ones = Kept { v: TensorData::ones::<f32, _>([n, 1]).convert_dtype(scope.dtype()), ..kept.clone() };
            let own = ks.clone().matmul(in_sks.clone().transpose()) * self.actions(&ones, &scope, &r);
            add(&mut total.v[r.start..r.end], Some(own.sum_dim(1)))?;
            add(&mut in_y[r.start..r.end], Some(ks.matmul(in_ksy.clone())))?;
        }
        let [x, parameters, v, _] = total.data(kept, scope.dtype());
        Ok([x, parameters, v, Some(TensorData::new(in_y, [n, 1]).convert_dtype(scope.dtype()))])
    }
}
