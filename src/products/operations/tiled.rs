//! The same products as plain tensor graphs, tile by tile: on any device, for any kernel, a user's own included.
//!
//! A tile's graph lives only as long as the tile; the adjoint builds it again, so that memory stays within the scope's
//! [budget](Scope::budget). These are the definitions that the fused products are checked against.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{DType, Tensor, TensorData};

use crate::device::Compute;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::linalg::host::{HostOp, Saved, apply3, apply4, apply5};
use crate::linalg::solve_lower;
use crate::params::Parameters;
use crate::products::blocks::{BlockSparse, owners};
use crate::products::operations::matvec::recall;
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

/// Sᵀ K S `[i, i]` for block-sparse S, in the scope's wide type.
///
/// # Errors
/// As [`kv`].
pub fn projected(kernel: &Kernel, scope: &Scope, x: &Tensor<2>, blocks: &BlockSparse) -> Result<Tensor<2>> {
    let none = Tensor::zeros([1, 1], (scope.device(), scope.dtype()));
    let y = Tensor::zeros([blocks.values().dims()[0], 1], (scope.device(), scope.dtype()));
    over_rows(kernel, scope, x, blocks, [y, none], Summand::Projected)
}

/// What [`misfit`] makes of K S, `[1]`, in the wide type, without K S: chunk of rows after chunk.
///
/// # Errors
/// As [`kv`], and what the triangular solves report.
pub fn misfit_of_rows(
    kernel: &Kernel,
    scope: &Scope,
    x: &Tensor<2>,
    blocks: &BlockSparse,
    y: &Tensor<2>,
    [lower, t]: [Tensor<2>; 2],
) -> Result<Tensor<1>> {
    let solved = Tensor::cat(vec![lower, t], 1);
    Ok(over_rows(kernel, scope, x, blocks, [y.clone(), solved], Summand::Misfit)?.reshape([1]))
}

/// `‖y − Aᵀt‖² − ‖A‖²` `[1]` for A = L⁻¹(K S)ᵀ, given `ks [n, i]`, `y [n, 1]`, `lower` L `[i, i]` and `t [i, 1]`:
/// unlike what follows from (K S)ᵀ(K S), good to rounding where L Lᵀ is nearly singular.
///
/// # Errors
/// What the triangular solve reports.
pub fn misfit(ks: Tensor<2>, y: Tensor<2>, lower: Tensor<2>, t: Tensor<2>) -> Result<Tensor<1>> {
    let a = solve_lower(lower, ks.transpose())?;
    let misfit = y - a.clone().transpose().matmul(t);
    Ok(misfit.powi_scalar(2).sum() - a.powi_scalar(2).sum())
}

fn over_rows(
    kernel: &Kernel,
    scope: &Scope,
    x: &Tensor<2>,
    blocks: &BlockSparse,
    [y, solved]: [Tensor<2>; 2],
    summand: Summand,
) -> Result<Tensor<2>> {
    let product = Product { tiles: Tiles::new(kernel, scope, x), columns: Columns::of(blocks) };
    let op = OverRows { product, summand, wide: scope.wide() };
    let values = blocks.values().clone().unsqueeze_dim::<2>(1);
    apply5(op, x.clone(), parameters(kernel, scope), values, y, solved)
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
struct SavedProduct {
    x1: TensorData,
    x2: Option<TensorData>,
    v: TensorData,
}

impl SavedProduct {
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
    fn chunk(&self, kept: &SavedProduct, scope: &Scope, r: &Range<usize>) -> Result<Tensor<2>> {
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

    fn zeros(&self, kept: &SavedProduct) -> Gradients {
        let zeros = |data: &TensorData| vec![0.0; data.num_elements()];
        let parameters = self.tiles.kernel.parameters().iter().map(|(_, p)| p.len()).sum::<usize>().max(1);
        let x2 = kept.x2.as_ref().map_or_else(Vec::new, zeros);
        Gradients { x1: zeros(&kept.x1), x2, v: zeros(&kept.v), parameters: vec![0.0; parameters] }
    }

    /// Adds the adjoint of [`chunk`](Self::chunk) for the cotangents of its rows.
    fn pull(&self, kept: &SavedProduct, r: &Range<usize>, grad: &TensorData, total: &mut Gradients) -> Result<()> {
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

    fn value(&self, kept: &SavedProduct) -> Result<TensorData> {
        let scope = Scope::new(self.tiles.compute)?;
        let (n, t) = (kept.x1.shape()[0], self.width(&kept.v));
        let mut out = Vec::with_capacity(n * t);
        for r in self.tiles.ranges(n) {
            out.extend(to_f64(self.chunk(kept, &scope, &r)?)?);
        }
        Ok(TensorData::new(out, [n, t]).convert_dtype(scope.dtype()))
    }

    fn gradients(&self, saved: Saved, grad: TensorData) -> Result<[Option<TensorData>; 4]> {
        let kept = recall::<SavedProduct>(saved)?;
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
    fn data(self, kept: &SavedProduct, dtype: DType) -> [Option<TensorData>; 4] {
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
        let kept = SavedProduct { x1, x2: None, v };
        Ok((self.value(&kept)?, Arc::new(kept)))
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 3]) -> Result<[Option<TensorData>; 3]> {
        let [x1, parameters, v, _] = self.gradients(saved, grad)?;
        Ok([x1, parameters, v])
    }
}

impl HostOp<4> for Product {
    fn forward(&self, [x1, _, v, x2]: [TensorData; 4]) -> Result<(TensorData, Saved)> {
        let kept = SavedProduct { x1, x2: Some(x2), v };
        Ok((self.value(&kept)?, Arc::new(kept)))
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 4]) -> Result<[Option<TensorData>; 4]> {
        self.gradients(saved, grad)
    }
}

/// What is summed over chunks of rows.
#[derive(Debug, Clone, Copy)]
enum Summand {
    /// Sᵀ(K S).
    Projected,
    /// [`misfit`].
    Misfit,
}

/// A sum over rows of what a chunk of K S, the same rows of S and of y, and L and t come to.
#[derive(Debug)]
struct OverRows {
    product: Product,
    summand: Summand,
    /// The type of the sum.
    wide: DType,
}

impl OverRows {
    /// S for some rows, spread to its columns.
    fn actions(&self, v: &TensorData, scope: &Scope, r: &Range<usize>) -> Tensor<2> {
        let eye = Tensor::<2>::eye(r.len(), scope.device()).cast(scope.dtype());
        self.product.apply(eye, &rows(v, scope, r), r)
    }

    fn of(&self, ks: Tensor<2>, s: Tensor<2>, y: Tensor<2>, solved: Tensor<2>) -> Result<Tensor<2>> {
        let (i, ks) = (ks.dims()[1], ks.cast(self.wide));
        match self.summand {
            Summand::Projected => Ok(s.cast(self.wide).transpose().matmul(ks)),
            Summand::Misfit => {
                let (lower, t) = (solved.clone().narrow(1, 0, i), solved.narrow(1, i, 1));
                Ok(misfit(ks, y.cast(self.wide), lower.cast(self.wide), t.cast(self.wide))?.unsqueeze())
            }
        }
    }
}

/// The inputs of [`OverRows`] as they came.
struct SavedRows {
    product: SavedProduct,
    y: TensorData,
    solved: TensorData,
}

fn tensor(data: &TensorData, scope: &Scope) -> Tensor<2> {
    Tensor::from_data(data.clone(), (scope.device(), data.dtype()))
}

impl HostOp<5> for OverRows {
    fn forward(&self, [x, _, v, y, solved]: [TensorData; 5]) -> Result<(TensorData, Saved)> {
        let tiles = &self.product.tiles;
        let scope = Scope::new(tiles.compute)?;
        let n = x.shape()[0];
        let kept = SavedRows { product: SavedProduct { x1: x, x2: None, v }, y, solved };
        let (solved, y) = (tensor(&kept.solved, &scope), tensor(&kept.y, &scope));
        let mut total: Option<Tensor<2>> = None;
        for r in tiles.ranges(n) {
            let ks = self.product.chunk(&kept.product, &scope, &r)?;
            let s = self.actions(&kept.product.v, &scope, &r);
            let part = self.of(ks, s, y.clone().narrow(0, r.start, r.len()), solved.clone())?;
            total = Some(match total {
                None => part,
                Some(total) => total + part,
            });
        }
        let total = total.ok_or_else(|| crate::Error::shape("inputs", "at least one row", "none"))?;
        Ok((total.into_data(), Arc::new(kept)))
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 5]) -> Result<[Option<TensorData>; 5]> {
        let kept = recall::<SavedRows>(saved)?;
        let (tiles, product) = (&self.product.tiles, &kept.product);
        let plain = Scope::new(tiles.compute)?;
        let n = product.x1.shape()[0];
        let mut total = self.product.zeros(product);
        let mut in_y = vec![0.0; n];
        let mut in_solved = vec![0.0; kept.solved.num_elements()];
        let ones = TensorData::ones::<f32, _>([n, 1]).convert_dtype(plain.dtype());
        for r in tiles.ranges(n) {
            // A graph of what follows from this chunk of K S, then the adjoint of the chunk itself.
            let scope = Scope::training(tiles.compute)?;
            let leaf = |data: &TensorData| tensor(data, &scope).require_grad();
            let ks = leaf(&self.product.chunk(product, &plain, &r)?.into_data());
            let s = leaf(&self.actions(&product.v, &plain, &r).into_data());
            let y = leaf(&tensor(&kept.y, &plain).narrow(0, r.start, r.len()).into_data());
            let solved = leaf(&kept.solved);
            let value = self.of(ks.clone(), s.clone(), y.clone(), solved.clone())?;
            let mut slopes = (value * tensor(&grad, &scope)).sum().backward();
            if let Some(in_ks) = ks.grad_remove(&mut slopes) {
                self.product.pull(product, &r, &in_ks.into_data(), &mut total)?;
            }
            // S on the left: the entry of each row's own column.
            if let Some(in_s) = s.grad_remove(&mut slopes) {
                let own = Tensor::<2>::from_data(in_s.into_data(), (plain.device(), plain.dtype()));
                let own = (own * self.actions(&ones, &plain, &r)).sum_dim(1);
                add(&mut total.v[r.start..r.end], Some(own))?;
            }
            add(&mut in_y[r.start..r.end], y.grad_remove(&mut slopes))?;
            add(&mut in_solved, solved.grad_remove(&mut slopes))?;
        }
        let [x, parameters, v, _] = total.data(product, plain.dtype());
        let like = |values: Vec<f64>, data: &TensorData| {
            Some(TensorData::new(values, data.shape().clone()).convert_dtype(data.dtype()))
        };
        Ok([x, parameters, v, like(in_y, &kept.y), like(in_solved, &kept.solved)])
    }
}
