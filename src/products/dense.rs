//! The covariance matrix itself as one operation: every entry computed once forward and once more in the adjoint,
//! nothing of its size kept between the two.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::program::{Block, Program, Sums, WIDTH};
use super::scalar::Elementary;
use crate::error::{Error, Result};
use crate::kernels::form::Lowered;
use crate::linalg::host::{HostOp, Saved, apply2, apply3};
use crate::linalg::real::{into_vec, with_real};

/// The covariance of two inputs lowered from the same kernel, `[n, m]`.
pub fn cross(a: &Lowered, b: &Lowered) -> Result<Tensor<2>> {
    apply3(Cross { program: Program::new(a) }, features(a), features(b), coefficients(a))
}

/// The covariance of an input with itself, `[n, n]`.
pub fn gram(lowered: &Lowered) -> Result<Tensor<2>> {
    apply2(Gram { program: Program::new(lowered) }, features(lowered), coefficients(lowered))
}

fn features(lowered: &Lowered) -> Tensor<2> {
    Tensor::cat(lowered.terms().into_iter().map(|t| t.features.clone()).collect(), 1)
}

/// Variances and shapes in the order of [`Program`]; a lone 1 when there are none, since tensors cannot be empty.
fn coefficients(lowered: &Lowered) -> Tensor<1> {
    let terms = lowered.terms();
    let all: Vec<Tensor<1>> = terms.iter().flat_map(|t| t.variance.iter().chain(t.shape.iter())).cloned().collect();
    match all.is_empty() {
        false => Tensor::cat(all, 0),
        true => Tensor::ones([1], (&terms[0].features.device(), terms[0].features.dtype())),
    }
}

#[derive(Debug)]
struct Cross {
    program: Program,
}

#[derive(Debug)]
struct Gram {
    program: Program,
}

/// Features of rows and columns, and coefficients, as they came.
struct Kept<T> {
    rows: Vec<T>,
    columns: Option<Vec<T>>,
    coefficients: Vec<T>,
    p: usize,
}

impl HostOp<3> for Cross {
    fn forward(&self, [rows, columns, coefficients]: [TensorData; 3]) -> Result<(TensorData, Saved)> {
        let (n, m, p) = (rows.shape()[0], columns.shape()[0], rows.shape()[1]);
        with_real!(rows.dtype(), T => {
            let kept = Kept::<T> {
                rows: into_vec(rows)?,
                columns: Some(into_vec(columns)?),
                coefficients: into_vec(coefficients)?,
                p,
            };
            Ok((TensorData::new(evaluate(&self.program, &kept), [n, m]), Arc::new(kept) as Saved))
        })
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 3]) -> Result<[Option<TensorData>; 3]> {
        with_real!(grad.dtype(), T => {
            let kept = recall::<T>(saved)?;
            let (n, m, p) = (grad.shape()[0], grad.shape()[1], kept.p);
            let (rows, columns, coefficients) = adjoint(&self.program, &kept, &into_vec(grad)?);
            let length = coefficients.len();
            Ok([
                Some(TensorData::new(rows, [n, p])),
                Some(TensorData::new(columns, [m, p])),
                Some(TensorData::new(coefficients, [length])),
            ])
        })
    }
}

impl HostOp<2> for Gram {
    fn forward(&self, [rows, coefficients]: [TensorData; 2]) -> Result<(TensorData, Saved)> {
        let (n, p) = (rows.shape()[0], rows.shape()[1]);
        with_real!(rows.dtype(), T => {
            let kept =
                Kept::<T> { rows: into_vec(rows)?, columns: None, coefficients: into_vec(coefficients)?, p };
            Ok((TensorData::new(evaluate(&self.program, &kept), [n, n]), Arc::new(kept) as Saved))
        })
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 2]) -> Result<[Option<TensorData>; 2]> {
        with_real!(grad.dtype(), T => {
            let kept = recall::<T>(saved)?;
            let (n, p) = (grad.shape()[0], kept.p);
            let (mut rows, columns, coefficients) = adjoint(&self.program, &kept, &into_vec(grad)?);
            rows.iter_mut().zip(&columns).for_each(|(a, b)| *a += *b);
            let length = coefficients.len();
            Ok([Some(TensorData::new(rows, [n, p])), Some(TensorData::new(coefficients, [length]))])
        })
    }
}

fn recall<T: Elementary>(saved: Saved) -> Result<Arc<Kept<T>>> {
    saved.downcast::<Kept<T>>().map_err(|_| Error::Device("the gradient came in another dtype than the value".into()))
}

fn transposed<T: Copy + Send + Sync>(matrix: &[T], rows: usize, columns: usize) -> Vec<T> {
    (0..columns).flat_map(|c| (0..rows).map(move |r| matrix[r * columns + c])).collect()
}

impl<T: Elementary> Kept<T> {
    fn columns(&self) -> (Vec<T>, usize) {
        let source = self.columns.as_ref().unwrap_or(&self.rows);
        let m = source.len() / self.p;
        (transposed(source, m, self.p), m)
    }

    fn block<'a>(&'a self, columns: &'a [T], m: usize, row: usize, first: usize) -> Block<'a, T> {
        Block {
            row: &self.rows[row * self.p..][..self.p],
            columns,
            m,
            first,
            len: WIDTH.min(m - first),
            coefficients: &self.coefficients,
            own: self.columns.is_none().then_some(row),
        }
    }
}

/// Rows a thread takes at once; the columns' features are read again for each row, from cache.
fn rows_per_task(n: usize) -> usize {
    n.div_ceil(rayon::current_num_threads()).max(1)
}

fn evaluate<T: Elementary>(program: &Program, kept: &Kept<T>) -> Vec<T> {
    let (columns, m) = kept.columns();
    let n = kept.rows.len() / kept.p;
    let mut out = vec![T::of(0.0); n * m];
    let per_task = n.div_ceil(4 * rayon::current_num_threads()).max(1);
    out.par_chunks_mut(per_task * m).enumerate().for_each(|(task, chunk)| {
        let mut scratch = program.scratch();
        for (i, row) in chunk.chunks_mut(m).enumerate() {
            for first in (0..m).step_by(WIDTH) {
                let block = kept.block(&columns, m, task * per_task + i, first);
                program.forward(&block, &mut scratch, &mut row[first..first + block.len]);
            }
        }
    });
    out
}

fn adjoint<T: Elementary>(program: &Program, kept: &Kept<T>, grad: &[T]) -> (Vec<T>, Vec<T>, Vec<T>) {
    let (columns, m) = kept.columns();
    let p = kept.p;
    let mut rows = vec![T::of(0.0); kept.rows.len()];
    let per_task = rows_per_task(rows.len() / p);
    let sums: Vec<Sums<T>> = rows
        .par_chunks_mut(per_task * p)
        .enumerate()
        .map(|(task, chunk)| {
            let mut scratch = program.scratch();
            let mut sums = Sums {
                row: vec![T::of(0.0); p],
                columns: vec![T::of(0.0); p * m],
                coefficients: vec![0.0; kept.coefficients.len()],
            };
            for (i, out) in chunk.chunks_mut(p).enumerate() {
                let index = task * per_task + i;
                sums.row.fill(T::of(0.0));
                for first in (0..m).step_by(WIDTH) {
                    let block = kept.block(&columns, m, index, first);
                    let grad = &grad[index * m + first..][..block.len];
                    program.adjoint(&block, grad, &mut scratch, &mut sums);
                }
                out.copy_from_slice(&sums.row);
            }
            sums
        })
        .collect();
    let mut total = vec![T::of(0.0); p * m];
    let mut coefficients = vec![0.0; kept.coefficients.len()];
    for part in &sums {
        total.iter_mut().zip(&part.columns).for_each(|(t, v)| *t += *v);
        coefficients.iter_mut().zip(&part.coefficients).for_each(|(t, v)| *t += *v);
    }
    (rows, transposed(&total, p, m), coefficients.into_iter().map(T::of).collect())
}
