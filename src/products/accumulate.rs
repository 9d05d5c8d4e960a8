//! What computation-aware objectives need of K and block-sparse S, accumulated over chunks of rows in one pass:
//! Sᵀ K S, (K S)ᵀ(K S) and (K S)ᵀ y.
//!
//! Only a chunk of K S exists at a time; the adjoint makes each again, unless one chunk is all. Products within a chunk are
//! in the precision of the data, sums over chunks in f64.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{BlockStructure, matmul as triangular_matmul};
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;

use super::blocks::{BlockSparse, Segments, owners};
use super::lanes::{Lanes, Number, Work};
use super::matvec::{coefficients, features, recall};
use super::program::Program;
use super::sparse;
use super::sweep::Sweep;
use super::tile::{Groups, Panels, panel};
use crate::error::Result;
use crate::kernels::form::Lowered;
use crate::linalg::host::{HostOp, Saved, apply4};
use crate::linalg::real::{Real, into_vec, with_real};

/// Sᵀ K S, (K S)ᵀ(K S) and (K S)ᵀ y one after another, in f64, with chunks that fit `budget` bytes.
pub fn packed(lowered: &Lowered, blocks: &BlockSparse, y: &Tensor<1>, budget: usize) -> Result<Tensor<1>> {
    let op = Accumulate { program: Program::new(lowered), offsets: blocks.offsets().to_vec(), budget };
    apply4(op, features(lowered), coefficients(lowered), blocks.values().clone(), y.clone())
}

#[derive(Debug)]
struct Accumulate {
    program: Program,
    offsets: Vec<usize>,
    budget: usize,
}

/// The inputs as they came, the results without the kernel's factor, and (K S)ᵀ if it was one chunk.
struct Kept<T> {
    x: Vec<T>,
    p: usize,
    coefficients: Vec<T>,
    s: Vec<T>,
    y: Vec<T>,
    results: Vec<f64>,
    whole: Option<Vec<T>>,
}

impl HostOp<4> for Accumulate {
    fn forward(&self, [x, coefficients, s, y]: [TensorData; 4]) -> Result<(TensorData, Saved)> {
        with_real!(x.dtype(), T => {
            let p = x.shape()[1];
            let mut kept = Kept::<T> {
                x: into_vec(x)?,
                p,
                coefficients: into_vec(coefficients)?,
                s: into_vec(s)?,
                y: into_vec(y)?,
                results: Vec::new(),
                whole: None,
            };
            (kept.results, kept.whole) = T::vectorised(Forward { op: self, kept: &kept });
            let factor = self.program.factor(&kept.coefficients).f64();
            let (i, length) = (self.blocks(), kept.results.len());
            let squared = i * i..2 * i * i;
            let power = |at: usize| if squared.contains(&at) { factor * factor } else { factor };
            let scaled: Vec<f64> = kept.results.iter().enumerate().map(|(at, v)| v * power(at)).collect();
            Ok((TensorData::new(scaled, [length]), Arc::new(kept) as Saved))
        })
    }

    fn adjoint(&self, saved: Saved, grad: TensorData, _needs: [bool; 4]) -> Result<[Option<TensorData>; 4]> {
        let grad = into_vec::<f64>(grad)?;
        match saved.downcast::<Kept<f64>>() {
            Ok(kept) => self.gradients(&kept, &grad),
            Err(saved) => self.gradients(&*recall::<Kept<f32>>(saved)?, &grad),
        }
    }
}

impl Accumulate {
    fn blocks(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Rows in a chunk: four matrices `[i, chunk]` fit the budget (K S, its cotangent, and each once more on its way).
    fn chunk<L: Lanes>(&self, n: usize) -> usize {
        let bytes = 4 * self.blocks() * panel::<L>() * size_of::<L::Element>();
        let most = (self.budget / bytes).max(1) * panel::<L>();
        // Chunks of about the same size, in whole panels.
        let count = n.div_ceil(most).max(1);
        n.div_ceil(count).div_ceil(panel::<L>()) * panel::<L>()
    }

    fn gradients<T: Number>(&self, kept: &Kept<T>, grad: &[f64]) -> Result<[Option<TensorData>; 4]> {
        let mut total = T::vectorised(Adjoint { op: self, kept, grad });
        let (i, factor) = (self.blocks(), self.program.factor(&kept.coefficients).f64());
        let along = |range: std::ops::Range<usize>| {
            grad[range.clone()].iter().zip(&kept.results[range]).map(|(a, b)| a * b).sum::<f64>()
        };
        let in_factor = along(0..i * i) + 2.0 * factor * along(i * i..2 * i * i) + along(2 * i * i..grad.len());
        self.program.pull_factor(in_factor, &mut total.coefficients);
        let (n, p, length) = (kept.y.len(), kept.p, total.coefficients.len());
        let coefficients: Vec<T> = total.coefficients.into_iter().map(T::of).collect();
        Ok([
            Some(TensorData::new(total.x, [n, p])),
            Some(TensorData::new(coefficients, [length])),
            Some(TensorData::new(total.s, [n])),
            Some(TensorData::new(total.y, [n])),
        ])
    }
}

impl<T: Number> Kept<T> {
    /// All rows against the rows of a chunk.
    fn sweep<'a, L: Lanes<Element = T>>(&'a self, program: &'a Program, start: usize, count: usize) -> Sweep<'a, L> {
        Sweep {
            program,
            coefficients: &self.coefficients,
            rows: Groups::pack(&self.x, self.p),
            columns: Panels::pack(&self.x[start * self.p..][..count * self.p], self.p),
            symmetric: false,
            own: Some(start),
        }
    }
}

/// The parts of the blocks that lie in rows `start..start + count`: the block and its rows within the chunk.
fn overlaps(offsets: &[usize], start: usize, count: usize) -> Vec<(usize, std::ops::Range<usize>)> {
    let clip = |row: usize| row.clamp(start, start + count) - start;
    let parts = offsets.windows(2).enumerate().map(|(a, w)| (a, clip(w[0])..clip(w[1])));
    parts.filter(|(_, range)| !range.is_empty()).collect()
}

/// Σ a b over the entries of a in f64, in a few independent sums.
fn dot<T: Number>(a: &[T], b: &[T]) -> f64 {
    let b = &b[..a.len()];
    let mut sums = [0.0; 8];
    let (left, right) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a.f64() * b.f64()).sum();
    for (a, b) in left.zip(right) {
        (0..8).for_each(|l| sums[l] += a[l].f64() * b[l].f64());
    }
    sums.iter().sum::<f64>() + rest
}

struct Forward<'a, T> {
    op: &'a Accumulate,
    kept: &'a Kept<T>,
}

impl<T: Number> Work<T> for Forward<'_, T> {
    type Output = (Vec<f64>, Option<Vec<T>>);

    fn run<L: Lanes<Element = T>>(self) -> Self::Output {
        let (kept, i, n) = (self.kept, self.op.blocks(), self.kept.y.len());
        let segments = Segments::new(&kept.s, &self.op.offsets);
        let mut results = vec![0.0; 2 * i * i + i];
        let (sks, rest) = results.split_at_mut(i * i);
        let (ksks, ksy) = rest.split_at_mut(i * i);
        let mut product = vec![T::of(0.0); i * i];
        let chunk = self.op.chunk::<L>(n);
        let mut whole = None;
        for start in (0..n).step_by(chunk) {
            let count = chunk.min(n - start);
            let sweep = kept.sweep::<L>(&self.op.program, start, count);
            let ks = sparse::forward(&sweep, &segments, i, count);
            let stride = sparse::stride::<L>(count);
            let overlaps = overlaps(&self.op.offsets, start, count);
            // Row a of (Sᵀ K S)ᵀ, which is symmetric, and entry a of (K S)ᵀ y.
            sks.par_chunks_mut(i).zip(ksy.par_iter_mut()).zip(ks.par_chunks(stride)).for_each(|((sks, ksy), ks)| {
                *ksy += dot(&ks[..count], &kept.y[start..]);
                for (b, range) in &overlaps {
                    sks[*b] += dot(&ks[range.clone()], &kept.s[start + range.start..]);
                }
            });
            let ks_t = MatRef::from_row_major_slice(&ks, i, stride);
            triangular_matmul(
                MatMut::from_row_major_slice_mut(&mut product, i, i),
                BlockStructure::TriangularLower,
                Accum::Replace,
                ks_t,
                BlockStructure::Rectangular,
                ks_t.transpose(),
                BlockStructure::Rectangular,
                T::of(1.0),
                Par::rayon(0),
            );
            for a in 0..i {
                (0..=a).for_each(|b| ksks[a * i + b] += product[a * i + b].f64());
            }
            if chunk >= n {
                whole = Some(ks);
            }
        }
        for a in 0..i {
            (0..a).for_each(|b| ksks[b * i + a] = ksks[a * i + b]);
        }
        (results, whole)
    }
}

struct Adjoint<'a, T> {
    op: &'a Accumulate,
    kept: &'a Kept<T>,
    grad: &'a [f64],
}

/// Gradients, all but the factor's.
struct Total<T> {
    x: Vec<T>,
    coefficients: Vec<f64>,
    s: Vec<T>,
    y: Vec<T>,
}

impl<T: Number> Work<T> for Adjoint<'_, T> {
    type Output = Total<T>;

    fn run<L: Lanes<Element = T>>(self) -> Total<T> {
        let (kept, p, i, n) = (self.kept, self.kept.p, self.op.blocks(), self.kept.y.len());
        let factor = self.op.program.factor(&kept.coefficients).f64();
        let rounded = |values: &[f64], by: f64| values.iter().map(|v| T::of(v * by)).collect::<Vec<_>>();
        // With M = (K S)ᵀ: M̄ = v Āᵀ Sᵀ + v² (B̄ + B̄ᵀ) M + v c̄ yᵀ.
        let (in_sks, rest) = self.grad.split_at(i * i);
        let (in_ksks, in_ksy) = rest.split_at(i * i);
        let (in_sks, in_ksy) = (rounded(in_sks, factor), rounded(in_ksy, factor));
        let in_ksks: Vec<f64> = (0..i * i).map(|e| in_ksks[e] + in_ksks[e % i * i + e / i]).collect();
        let in_ksks = rounded(&in_ksks, factor * factor);
        let segments = Segments::new(&kept.s, &self.op.offsets);
        let owners = owners(&self.op.offsets);
        let zeros = |length: usize| vec![T::of(0.0); length];
        let mut total =
            Total { x: zeros(n * p), coefficients: vec![0.0; kept.coefficients.len()], s: zeros(n), y: zeros(n) };
        let chunk = self.op.chunk::<L>(n);
        for start in (0..n).step_by(chunk) {
            let count = chunk.min(n - start);
            let sweep = kept.sweep::<L>(&self.op.program, start, count);
            let stride = sparse::stride::<L>(count);
            let again;
            let ks = match &kept.whole {
                Some(ks) => ks,
                None => {
                    again = sparse::forward(&sweep, &segments, i, count);
                    &again
                }
            };
            let mut grad = zeros(i * stride);
            matmul(
                MatMut::from_row_major_slice_mut(&mut grad, i, stride),
                Accum::Replace,
                MatRef::from_row_major_slice(&in_ksks, i, i),
                MatRef::from_row_major_slice(ks, i, stride),
                T::of(1.0),
                Par::rayon(0),
            );
            let overlaps = overlaps(&self.op.offsets, start, count);
            grad.par_chunks_mut(stride).enumerate().for_each(|(a, grad)| {
                for (b, range) in &overlaps {
                    let from_sks = in_sks[a * i + b];
                    let rows = start + range.start..start + range.end;
                    let parts = grad[range.clone()].iter_mut().zip(&kept.s[rows.clone()]).zip(&kept.y[rows]);
                    parts.for_each(|((g, &s), &y)| *g += from_sks * s + in_ksy[a] * y);
                }
            });
            // What S on the left and y receive directly, a row of M after another.
            let (s, y) = (&mut total.s[start..][..count], &mut total.y[start..][..count]);
            let per_task = count.div_ceil(rayon::current_num_threads()).max(1);
            s.par_chunks_mut(per_task).zip(y.par_chunks_mut(per_task)).enumerate().for_each(|(task, (s, y))| {
                let first = task * per_task;
                for (a, ks) in ks.chunks_exact(stride).enumerate() {
                    let ks = &ks[first..][..s.len()];
                    let owners = &owners[start + first..];
                    for (((s, y), &ks), &b) in s.iter_mut().zip(y.iter_mut()).zip(ks).zip(owners) {
                        *s += in_sks[a * i + b] * ks;
                        *y += in_ksy[a] * ks;
                    }
                }
            });
            let part = sparse::adjoint(&sweep, &segments, &grad, n, count);
            for ((x, s), row) in total.x.chunks_exact_mut(p).zip(&mut total.s).zip(part.rows.chunks_exact(p + 1)) {
                x.iter_mut().zip(row).for_each(|(x, g)| *x += *g);
                *s += row[p];
            }
            total.x[start * p..].iter_mut().zip(&part.columns).for_each(|(x, g)| *x += *g);
            total.coefficients.iter_mut().zip(&part.coefficients).for_each(|(t, v)| *t += v);
        }
        total
    }
}
