//! The operation K(x1, x2) S for block-sparse S, with its adjoint.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use crate::error::Result;
use crate::kernels::form::Lowered;
use crate::linalg::host::{Anywhere, HostOp, Vjp, apply4};
use crate::linalg::real::{Real, into_real, into_vec, vector, with_real};
use crate::products::blocks::{BlockSparse, Segments};
use crate::products::drivers::sparse;
use crate::products::engine::lanes::{Lanes, Number, Work};
use crate::products::engine::program::Program;
use crate::products::engine::sweep::{Sweep, scale};
use crate::products::operations::matvec::{coefficients, features};

/// K(x1, x2) S `[n, i]`, for inputs lowered from the same kernel.
pub fn cross(a: &Lowered, b: &Lowered, blocks: &BlockSparse) -> Result<Tensor<2>> {
    part(a, b, blocks.values().clone(), blocks.offsets(), None)
}

/// K(x, x) S `[n, i]`, with white noise.
pub fn gram(lowered: &Lowered, blocks: &BlockSparse) -> Result<Tensor<2>> {
    part(lowered, lowered, blocks.values().clone(), blocks.offsets(), Some(0))
}

/// K(x1, x2) S `[n, i]`, where S has the non-zeros `s [m]` and these block boundaries. `own` is the position of the
/// first row of x1 among those of x2, if they are some of those.
pub fn part(a: &Lowered, b: &Lowered, s: Tensor<1>, offsets: &[usize], own: Option<usize>) -> Result<Tensor<2>> {
    let op = Actions { program: Program::new(a), offsets: offsets.to_vec(), own };
    let transposed: Tensor<2> = apply4(Anywhere::new(op), features(a), coefficients(a), s, features(b))?;
    Ok(transposed.transpose())
}

/// (K S)ᵀ `[i, n]`.
#[derive(Debug)]
pub struct Actions {
    pub(in crate::products) program: Program,
    pub(in crate::products) offsets: Vec<usize>,
    /// The position of the first row of x1 among those of x2, if they are some of those.
    pub(in crate::products) own: Option<usize>,
}

/// The inputs as given.
struct SavedActions<T> {
    x1: Vec<T>,
    coefficients: Vec<T>,
    s: Vec<T>,
    x2: Vec<T>,
    p: usize,
}

impl HostOp<4> for Actions {
    fn forward(self: Arc<Self>, [x1, coefficients, s, x2]: [TensorData; 4]) -> Result<(TensorData, Vjp<4>)> {
        with_real!(x1.dtype(), T => {
            let ([n, p], i) = ([x1.shape()[0], x1.shape()[1]], self.offsets.len() - 1);
            let kept = SavedActions::<T> {
                x1: into_vec(x1)?,
                coefficients: into_vec(coefficients)?,
                s: into_vec(s)?,
                x2: into_vec(x2)?,
                p,
            };
            let mut value = T::vectorised(ActionsForward { op: &self, kept: &kept });
            scale(&mut value, self.program.factor(&kept.coefficients));
            let vjp = move |grad, _needs: [bool; 4]| {
                let m = kept.s.len();
                let part = T::vectorised(ActionsAdjoint { op: &self, kept: &kept, grad: &into_vec(grad)? });
                let factor = self.program.factor(&kept.coefficients);
                let mut x2: Vec<T> = part.rows.chunks_exact(p + 1).flat_map(|row| &row[..p]).copied().collect();
                let mut s: Vec<T> = part.rows.chunks_exact(p + 1).map(|row| row[p]).collect();
                let mut x1 = part.columns;
                let along = kept.s.iter().zip(&s).map(|(a, b)| a.f64() * b.f64()).sum();
                let coefficients = self.program.with_factor(&kept.coefficients, part.coefficients, along);
                [&mut x1, &mut x2, &mut s].into_iter().for_each(|g| scale(g, factor));
                Ok([
                    Some(TensorData::new(x1, [n, p])),
                    Some(vector(into_real::<_, T>(coefficients))),
                    Some(vector(s)),
                    Some(TensorData::new(x2, [m, p])),
                ])
            };
            Ok((TensorData::new(value, [i, n]), Box::new(vjp)))
        })
    }
}

struct ActionsForward<'a, T> {
    op: &'a Actions,
    kept: &'a SavedActions<T>,
}

impl<T: Number> SavedActions<T> {
    fn sweep<'a, L: Lanes<Element = T>>(&'a self, op: &'a Actions) -> Sweep<'a, L> {
        Sweep { own: op.own, ..Sweep::cross(&op.program, &self.coefficients, &self.x2, &self.x1, self.p) }
    }
}

impl<T: Number> Work<T> for ActionsForward<'_, T> {
    type Output = Vec<T>;

    fn run<L: Lanes<Element = T>>(self) -> Vec<T> {
        let (i, n) = (self.op.offsets.len() - 1, self.kept.x1.len() / self.kept.p);
        let segments = Segments::new(&self.kept.s, &self.op.offsets);
        let padded = sparse::forward(&self.kept.sweep::<L>(self.op), &segments, i, n);
        padded.chunks_exact(sparse::stride::<L>(n)).flat_map(|row| &row[..n]).copied().collect()
    }
}

struct ActionsAdjoint<'a, T> {
    op: &'a Actions,
    kept: &'a SavedActions<T>,
    grad: &'a [T],
}

impl<T: Number> Work<T> for ActionsAdjoint<'_, T> {
    type Output = sparse::Gradients<T>;

    fn run<L: Lanes<Element = T>>(self) -> Self::Output {
        let (m, n) = (self.kept.s.len(), self.kept.x1.len() / self.kept.p);
        let segments = Segments::new(&self.kept.s, &self.op.offsets);
        let stride = sparse::stride::<L>(n);
        let mut padded = vec![T::of(0.0); self.grad.len() / n * stride];
        padded.chunks_exact_mut(stride).zip(self.grad.chunks_exact(n)).for_each(|(to, from)| {
            to[..n].copy_from_slice(from);
        });
        sparse::adjoint(&self.kept.sweep::<L>(self.op), &segments, &padded, m, n)
    }
}
