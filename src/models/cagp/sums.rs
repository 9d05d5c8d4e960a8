//! What the objectives need of dense actions S, products P = KS and targets y, in one pass over chunks of rows: SᵀP, PᵀP,
//! SᵀS, Pᵀy and Sᵀy, multiplied and added in f64 whatever the data, with nothing of the size of S kept but S and P.

use std::sync::Arc;

use burn::tensor::{DType, Tensor, TensorData};

use crate::error::{Error, Result};
use crate::linalg::dense::{product, view, view_mut};
use crate::linalg::host::{HostOp, Saved, apply3};
use crate::linalg::real::{Real, into_vec, with_real};
use crate::scope::Scope;

/// The five products of S `[n, i]`, P `[n, i]` and y `[n]`.
pub struct Sums {
    /// SᵀP `[i, i]`.
    pub sp: Tensor<2>,
    /// PᵀP `[i, i]`.
    pub pp: Tensor<2>,
    /// SᵀS `[i, i]`.
    pub ss: Tensor<2>,
    /// Pᵀy `[i, 1]`.
    pub py: Tensor<2>,
    /// Sᵀy `[i, 1]`.
    pub sy: Tensor<2>,
}

/// The products, in f64 where the device has it.
pub fn sums(scope: &Scope, s: Tensor<2>, p: Tensor<2>, y: Tensor<1>) -> Result<Sums> {
    let i = s.dims()[1];
    let wide = scope.wide() == DType::F64;
    let packed: Tensor<1> = apply3(Op { wide }, s, p, y)?;
    let square = |at: usize| packed.clone().narrow(0, at * i * i, i * i).reshape([i, i]);
    let column = |at: usize| packed.clone().narrow(0, 3 * i * i + at * i, i).reshape([i, 1]);
    Ok(Sums { sp: square(0), pp: square(1), ss: square(2), py: column(0), sy: column(1) })
}

#[derive(Debug)]
struct Op {
    /// Whether the result is f64 even for f32 data.
    wide: bool,
}

struct Kept<T> {
    s: Vec<T>,
    p: Vec<T>,
    y: Vec<T>,
}

/// Rows in a chunk.
const ROWS: usize = 2048;

fn widened<T: Real>(values: &[T]) -> Vec<f64> {
    values.iter().map(|v| v.f64()).collect()
}

impl HostOp<3> for Op {
    fn forward(&self, [s, p, y]: [TensorData; 3]) -> Result<(TensorData, Saved)> {
        let i = s.shape()[1];
        let narrow = s.dtype();
        with_real!(narrow, T => {
            let kept = Kept::<T> { s: into_vec(s)?, p: into_vec(p)?, y: into_vec(y)? };
            let mut packed = vec![0.0; 3 * i * i + 2 * i];
            let (squares, columns) = packed.split_at_mut(3 * i * i);
            let (sp, rest) = squares.split_at_mut(i * i);
            let (pp, ss) = rest.split_at_mut(i * i);
            let (py, sy) = columns.split_at_mut(i);
            let rows = kept.s.chunks(ROWS * i).zip(kept.p.chunks(ROWS * i)).zip(kept.y.chunks(ROWS));
            for ((s, p), y) in rows {
                let (s, p, y) = (widened(s), widened(p), widened(y));
                let (s, p, y) = (view(&s, i), view(&p, i), view(&y, 1));
                for (out, left, right) in [(&mut *sp, s, p), (&mut *pp, p, p), (&mut *ss, s, s)] {
                    product::add(view_mut(out, i), left.transpose(), right, 1.0);
                }
                for (out, left) in [(&mut *py, p), (&mut *sy, s)] {
                    product::add(view_mut(out, 1), left.transpose(), y, 1.0);
                }
            }
            let length = packed.len();
            let packed = TensorData::new(packed, [length]);
            Ok((if self.wide { packed } else { packed.convert_dtype(narrow) }, Arc::new(kept) as Saved))
        })
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, needs: [bool; 3]) -> Result<[Option<TensorData>; 3]> {
        let grad: Vec<f64> = into_vec(grad.convert_dtype(DType::F64))?;
        match saved.downcast::<Kept<f64>>() {
            Ok(kept) => kept.gradients(&grad, needs),
            Err(saved) => match saved.downcast::<Kept<f32>>() {
                Ok(kept) => kept.gradients(&grad, needs),
                Err(_) => Err(Error::Device("an adjoint got another operation's state".into())),
            },
        }
    }
}

impl<T: Real> Kept<T> {
    /// With cotangents A of SᵀP, B of PᵀP, E of SᵀS, b of Pᵀy and e of Sᵀy: S̄ = PAᵀ + S(E + Eᵀ) + yeᵀ,
    /// P̄ = SA + P(B + Bᵀ) + ybᵀ and ȳ = Pb + Se.
    fn gradients(&self, grad: &[f64], [in_s, in_p, in_y]: [bool; 3]) -> Result<[Option<TensorData>; 3]> {
        let n = self.y.len();
        let i = self.s.len() / n.max(1);
        let (squares, columns) = grad.split_at(3 * i * i);
        let twice = |at: usize| -> Vec<f64> {
            let square = &squares[at * i * i..][..i * i];
            (0..i * i).map(|e| square[e] + square[e % i * i + e / i]).collect()
        };
        let (pp, ss) = (twice(1), twice(2));
        let sp = view(&squares[..i * i], i);
        let (py, sy) = columns.split_at(i);
        let length = |needed: bool, length: usize| if needed { Vec::with_capacity(length) } else { Vec::new() };
        let (mut s_grad, mut p_grad, mut y_grad) = (length(in_s, n * i), length(in_p, n * i), length(in_y, n));
        for ((s, p), y) in self.s.chunks(ROWS * i).zip(self.p.chunks(ROWS * i)).zip(self.y.chunks(ROWS)) {
            let (s, p, y) = (widened(s), widened(p), widened(y));
            let (s, p, y) = (view(&s, i), view(&p, i), view(&y, 1));
            if in_s {
                let mut out = vec![0.0; s.nrows() * i];
                product::add(view_mut(&mut out, i), p, sp.transpose(), 1.0);
                product::add(view_mut(&mut out, i), s, view(&ss, i), 1.0);
                product::add(view_mut(&mut out, i), y, view(sy, i), 1.0);
                s_grad.extend(out.into_iter().map(T::of));
            }
            if in_p {
                let mut out = vec![0.0; s.nrows() * i];
                product::add(view_mut(&mut out, i), s, sp, 1.0);
                product::add(view_mut(&mut out, i), p, view(&pp, i), 1.0);
                product::add(view_mut(&mut out, i), y, view(py, i), 1.0);
                p_grad.extend(out.into_iter().map(T::of));
            }
            if in_y {
                let mut out = vec![0.0; s.nrows()];
                product::add(view_mut(&mut out, 1), p, view(py, 1), 1.0);
                product::add(view_mut(&mut out, 1), s, view(sy, 1), 1.0);
                y_grad.extend(out.into_iter().map(T::of));
            }
        }
        Ok([
            in_s.then(|| TensorData::new(s_grad, [n, i])),
            in_p.then(|| TensorData::new(p_grad, [n, i])),
            in_y.then(|| TensorData::new(y_grad, [n])),
        ])
    }
}
