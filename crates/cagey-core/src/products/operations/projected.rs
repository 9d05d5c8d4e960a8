//! Sᵀ K S for block-sparse S as one operation. K S is computed part by part, and stored only if it fits.
//!
//! K S is in the precision of the data; sums over it are in f64.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::error::Result;
use crate::kernels::form::Lowered;
use crate::linalg::host::{HostOp, Vjp, apply3};
use crate::linalg::real::{Real, dot, into_real, into_vec, vector, with_real};
use crate::products::blocks::{BlockSparse, owners};
use crate::products::drivers::projections::{Frame, Inputs, Projections, Total};
use crate::products::engine::lanes::{Lanes, Number, Work};
use crate::products::engine::strips::{RowsTimesS, Strip};
use crate::products::operations::matvec::{coefficients, features};
use crate::threads;

/// Sᵀ K S `[i, i]` in f64, with chunks that fit `budget` bytes.
pub fn square(lowered: &Lowered, blocks: &BlockSparse, budget: usize) -> Result<Tensor<2>> {
    let op = Square(Frame::new(lowered, std::slice::from_ref(blocks), budget));
    apply3(op, features(lowered), coefficients(lowered), blocks.values().clone())
}

struct Square(Frame);

/// The inputs as given, the result without the kernel's factor, and (K S)ᵀ if it fits.
struct SavedSquare<T> {
    inputs: Inputs<T>,
    square: Vec<f64>,
    whole: Option<Vec<RowsTimesS<T>>>,
}

impl HostOp<3> for Square {
    fn forward(self: Arc<Self>, [x, coefficients, s]: [TensorData; 3]) -> Result<(TensorData, Vjp<3>)> {
        with_real!(x.dtype(), T => {
            let p = x.shape()[1];
            let inputs = Inputs::<T> { x: into_vec(x)?, p, coefficients: into_vec(coefficients)?, s: into_vec(s)? };
            let (square, whole) = T::vectorised(ProjectedForward(self.0.of(&inputs)));
            let (i, factor) = (self.0.blocks(), self.0.program.factor(&inputs.coefficients).f64());
            let scaled: Vec<f64> = square.iter().map(|v| v * factor).collect();
            let kept = SavedSquare { inputs, square, whole };
            let vjp = move |grad, _needs: [bool; 3]| Ok(self.gradients(kept, &into_vec::<f64>(grad)?));
            Ok((TensorData::new(scaled, [i, i]), Box::new(vjp)))
        })
    }
}

impl Square {
    fn gradients<T: Number>(&self, kept: SavedSquare<T>, grad: &[f64]) -> [Option<TensorData>; 3] {
        let along = dot(grad, &kept.square);
        let (n, p) = (kept.inputs.s.len(), kept.inputs.p);
        let mut total = T::vectorised(ProjectedAdjoint { op: self, kept, grad });
        self.0.program.pull_factor(along, &mut total.coefficients);
        [
            Some(TensorData::new(total.x, [n, p])),
            Some(vector(into_real::<_, T>(total.coefficients))),
            Some(vector(total.s)),
        ]
    }
}

struct ProjectedForward<'a, T>(Projections<'a, T>);

impl<T: Number> Work<T> for ProjectedForward<'_, T> {
    type Output = (Vec<f64>, Option<Vec<RowsTimesS<T>>>);

    fn run<L: Lanes<Element = T>>(self) -> Self::Output {
        let mut whole = self.0.whole::<L>();
        (self.0.square::<L>(whole.as_mut(), 1.0), whole)
    }
}

struct ProjectedAdjoint<'a, T> {
    op: &'a Square,
    kept: SavedSquare<T>,
    grad: &'a [f64],
}

impl<T: Number> Work<T> for ProjectedAdjoint<'_, T> {
    /// All gradients except the factor's.
    type Output = Total<T>;

    fn run<L: Lanes<Element = T>>(self) -> Self::Output {
        let Self { op, kept: SavedSquare { inputs, whole, .. }, grad } = self;
        let (i, factor) = (op.0.blocks(), op.0.program.factor(&inputs.coefficients).f64());
        // The result is symmetrised, so its cotangent is, too.
        let grad: Vec<f64> = (0..i * i).map(|e| 0.5 * factor * (grad[e] + grad[e % i * i + e / i])).collect();
        let (owners, s) = (owners(&op.0.offsets), &inputs.s);
        let mut direct = vec![0.0; s.len()];
        let mut total = op.0.of(&inputs).adjoint::<L>(whole, |parts, _| {
            let strips: Vec<_> = parts.iter_mut().flat_map(RowsTimesS::strips_mut).collect();
            let gradients = threads::map(strips.into_par_iter(), |mut strip| {
                let rows = strip.rows.clone();
                (rows.start, replace(&mut strip, &grad, &owners[rows.clone()], &s[rows]))
            });
            for (start, in_s) in gradients {
                direct[start..].iter_mut().zip(in_s).for_each(|(s, g)| *s += g);
            }
        });
        total.s.iter_mut().zip(direct).for_each(|(s, g)| *s += T::of(g));
        total
    }
}

/// Overwrites a strip of (K S)ᵀ by its cotangent Ā Sᵀ, for the cotangent Ā `grad` of Sᵀ K S. Returns the gradient in
/// the strip's rows of the left S.
fn replace<T: Number>(strip: &mut Strip<&mut [T]>, grad: &[f64], owners: &[usize], s: &[T]) -> Vec<f64> {
    let (mut in_s, i) = (vec![0.0; s.len()], strip.columns.len());
    for (column, grad) in strip.columns.iter_mut().zip(grad.chunks_exact(i)) {
        for (r, value) in column.iter_mut().enumerate() {
            let of_s = grad[owners[r]];
            in_s[r] += of_s * value.f64();
            *value = T::of(of_s * s[r].f64());
        }
    }
    in_s
}
