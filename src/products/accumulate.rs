//! What computation-aware objectives need of K and block-sparse S, accumulated over chunks of rows in one pass:
//! Sᵀ K S, (K S)ᵀ(K S) and (K S)ᵀ y.
//!
//! Where (K S)ᵀ fits the budget, each pair of rows is visited once and the adjoint finds it again; else only a chunk of
//! K S exists at a time and the adjoint makes each once more. K S is in the precision of the data, the sums over it in f64.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use super::blocks::{BlockSparse, Segments, owners};
use super::lanes::{Lanes, Number, Work};
use super::matvec::{coefficients, features, recall};
use super::program::Program;
use super::schedule::Schedule;
use super::sparse;
use super::sparse_gram::{self, SparseGram};
use super::strips::{Part, Strip};
use super::sweep::Sweep;
use super::tile::{Groups, Panels, panel};
use crate::error::Result;
use crate::kernels::form::Lowered;
use crate::linalg::dense::{product, transpose, view, view_mut};
use crate::linalg::host::{HostOp, Saved, apply4};
use crate::linalg::real::{Real, dot, into_vec, with_real};

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

/// The inputs as they came, the results without the kernel's factor, and (K S)ᵀ if it fits.
struct Kept<T> {
    x: Vec<T>,
    p: usize,
    coefficients: Vec<T>,
    s: Vec<T>,
    y: Vec<T>,
    results: Vec<f64>,
    whole: Mutex<Option<Vec<Part<T>>>>,
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
                whole: Mutex::default(),
            };
            let (results, whole) = T::vectorised(Forward { op: self, kept: &kept });
            (kept.results, kept.whole) = (results, Mutex::new(whole));
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

    /// Whether (K S)ᵀ fits the budget, and with it another of its parts.
    fn fits<L: Lanes>(&self, n: usize) -> bool {
        let part = Schedule::most_columns(n.div_ceil(panel::<L>())) * panel::<L>();
        sparse_gram::bytes::<L>(n + part, self.blocks()) <= self.budget
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
    /// (K S)ᵀ whole, in parts.
    fn gram<'a, L: Lanes<Element = T>>(&'a self, op: &'a Accumulate) -> SparseGram<'a, L> {
        SparseGram::new(&op.program, &self.coefficients, &self.x, self.p, &self.s, &op.offsets)
    }

    /// All rows against the rows of a chunk.
    fn sweep<'a, L: Lanes<Element = T>>(&'a self, program: &'a Program, rows: &Range<usize>) -> Sweep<'a, L> {
        Sweep {
            program,
            coefficients: &self.coefficients,
            rows: Groups::pack(&self.x, self.p),
            columns: Panels::pack(&self.x[rows.start * self.p..rows.end * self.p], self.p),
            symmetric: false,
            own: Some(rows.start),
        }
    }

    /// The chunks of rows, one after another.
    fn chunks<L: Lanes<Element = T>>(&self, op: &Accumulate) -> impl Iterator<Item = Range<usize>> {
        let (n, chunk) = (self.y.len(), op.chunk::<L>(self.y.len()));
        (0..n).step_by(chunk).map(move |start| start..(start + chunk).min(n))
    }
}

/// (K S)ᵀ for the rows of a chunk.
fn part<L: Lanes>(sweep: &Sweep<L>, segments: &Segments<L::Element>, i: usize, rows: Range<usize>) -> Part<L::Element> {
    let (values, stride) = (sparse::forward(sweep, segments, i, rows.len()), sparse::stride::<L>(rows.len()));
    Part { rows, stride, values }
}

struct Forward<'a, T> {
    op: &'a Accumulate,
    kept: &'a Kept<T>,
}

impl<T: Number> Work<T> for Forward<'_, T> {
    type Output = (Vec<f64>, Option<Vec<Part<T>>>);

    fn run<L: Lanes<Element = T>>(self) -> Self::Output {
        let Self { op, kept } = self;
        let i = op.blocks();
        let mut results = vec![0.0; 2 * i * i + i];
        let whole = op.fits::<L>(kept.y.len()).then(|| kept.gram::<L>(op).forward());
        match &whole {
            Some(parts) => self.absorb(parts, &mut results),
            None => {
                let segments = Segments::new(&kept.s, &op.offsets);
                for rows in kept.chunks::<L>(op) {
                    self.absorb(&[part(&kept.sweep::<L>(&op.program, &rows), &segments, i, rows)], &mut results);
                }
            }
        }
        transpose::mirror(view_mut(&mut results[i * i..2 * i * i], i));
        (results, whole)
    }
}

impl<T: Number> Forward<'_, T> {
    /// Adds what parts contribute, their strips shared among as many threads as the budget has room for sums.
    fn absorb(&self, parts: &[Part<T>], results: &mut [f64]) {
        let strips: Vec<_> = parts.iter().flat_map(Part::strips).collect();
        let room = self.op.budget / size_of_val(results);
        let tasks = rayon::current_num_threads().min(room).max(1);
        let sums = strips.par_chunks(strips.len().div_ceil(tasks).max(1)).map(|strips| {
            let mut sums = vec![0.0; results.len()];
            strips.iter().for_each(|strip| self.add(strip, &mut sums));
            sums
        });
        for sums in sums.collect::<Vec<_>>() {
            results.iter_mut().zip(sums).for_each(|(result, sum)| *result += sum);
        }
    }

    /// Adds a strip's contribution; of (K S)ᵀ(K S), the lower triangle.
    fn add(&self, strip: &Strip<&[T]>, sums: &mut [f64]) {
        let (i, kept, Range { start, end }) = (self.op.blocks(), self.kept, strip.rows.clone());
        let (sks, rest) = sums.split_at_mut(i * i);
        let (ksks, ksy) = rest.split_at_mut(i * i);
        let (s, y) = (&kept.s[start..end], &kept.y[start..end]);
        let clip = |row: usize| row.clamp(start, end) - start;
        let blocks = self.op.offsets.windows(2).map(|w| clip(w[0])..clip(w[1])).enumerate();
        let blocks: Vec<_> = blocks.filter(|(_, rows)| !rows.is_empty()).collect();
        // Row a of (Sᵀ K S)ᵀ, which is symmetric, and entry a of (K S)ᵀ y.
        for ((sks, ksy), ks) in sks.chunks_exact_mut(i).zip(ksy).zip(&strip.columns) {
            *ksy += dot(y, ks);
            for (b, rows) in &blocks {
                sks[*b] += dot(&s[rows.clone()], &ks[rows.clone()]);
            }
        }
        // Multiplied in f64: the objective takes differences of this product that rounding in f32 would drown.
        let ks_t = strip.wide();
        let ks_t = view(&ks_t, end - start);
        product::add_lower(view_mut(ksks, i), ks_t, ks_t.transpose(), 1.0);
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
        let Self { op, kept, grad } = self;
        let (p, n) = (kept.p, kept.y.len());
        let cotangents = Cotangents::new(op, kept, grad);
        let zeros = |length: usize| vec![T::of(0.0); length];
        let mut total =
            Total { x: zeros(n * p), coefficients: vec![0.0; kept.coefficients.len()], s: zeros(n), y: zeros(n) };
        if op.fits::<L>(n) {
            let gram = kept.gram::<L>(op);
            let saved = kept.whole.lock().unwrap_or_else(PoisonError::into_inner).take();
            let mut parts = saved.filter(|parts| gram.fits(parts)).unwrap_or_else(|| gram.forward());
            cotangents.replace(&mut parts, &mut total);
            let (rows, coefficients) = gram.adjoint(&parts);
            total.add_rows(&rows, p);
            total.coefficients = coefficients;
            return total;
        }
        let segments = Segments::new(&kept.s, &op.offsets);
        for rows in kept.chunks::<L>(op) {
            let sweep = kept.sweep::<L>(&op.program, &rows);
            let mut ks = part(&sweep, &segments, op.blocks(), rows);
            cotangents.replace(std::slice::from_mut(&mut ks), &mut total);
            let pulled = sparse::adjoint(&sweep, &segments, &ks.values, n, ks.rows.len());
            total.add_rows(&pulled.rows, p);
            total.x[ks.rows.start * p..].iter_mut().zip(&pulled.columns).for_each(|(x, g)| *x += *g);
            total.coefficients.iter_mut().zip(&pulled.coefficients).for_each(|(t, v)| *t += v);
        }
        total
    }
}

impl<T: Number> Total<T> {
    /// Adds gradients in the features and in S, side by side `[n, p + 1]`.
    fn add_rows(&mut self, rows: &[T], p: usize) {
        for ((x, s), row) in self.x.chunks_exact_mut(p).zip(&mut self.s).zip(rows.chunks_exact(p + 1)) {
            x.iter_mut().zip(row).for_each(|(x, g)| *x += *g);
            *s += row[p];
        }
    }
}

/// From cotangents of the results to those of M = (K S)ᵀ: with Ā, B̄, c̄ those of Sᵀ K S, (K S)ᵀ(K S) and (K S)ᵀ y and v the
/// kernel's factor, M̄ = v Āᵀ Sᵀ + v² (B̄ + B̄ᵀ) M + v c̄ yᵀ, a difference of large terms: in f64 until it is whole.
struct Cotangents<'a, T> {
    op: &'a Accumulate,
    kept: &'a Kept<T>,
    /// v Ā.
    sks: Vec<f64>,
    /// v² (B̄ + B̄ᵀ).
    ksks: Vec<f64>,
    /// v c̄.
    ksy: Vec<f64>,
    owners: Vec<usize>,
}

impl<'a, T: Number> Cotangents<'a, T> {
    fn new(op: &'a Accumulate, kept: &'a Kept<T>, grad: &[f64]) -> Self {
        let i = op.blocks();
        let factor = op.program.factor(&kept.coefficients).f64();
        let times = |values: &[f64]| values.iter().map(|v| v * factor).collect();
        let (in_sks, rest) = grad.split_at(i * i);
        let (in_ksks, in_ksy) = rest.split_at(i * i);
        let both = (0..i * i).map(|e| factor * factor * (in_ksks[e] + in_ksks[e % i * i + e / i]));
        let owners = owners(&op.offsets);
        Self { op, kept, sks: times(in_sks), ksks: both.collect(), ksy: times(in_ksy), owners }
    }

    /// Puts M̄ in the place of parts of M; adds to `total` what S on the left and y receive directly.
    fn replace(&self, parts: &mut [Part<T>], total: &mut Total<T>) {
        let strips: Vec<_> = parts.iter_mut().flat_map(Part::strips_mut).collect();
        let direct = strips.into_par_iter().map(|strip| (strip.rows.start, self.of(strip)));
        for (start, [in_s, in_y]) in direct.collect::<Vec<_>>() {
            total.s[start..].iter_mut().zip(in_s).for_each(|(s, g)| *s += T::of(g));
            total.y[start..].iter_mut().zip(in_y).for_each(|(y, g)| *y += T::of(g));
        }
    }

    /// Puts M̄ in the place of a strip of M; returns the gradients in its rows of S, on the left, and of y.
    fn of(&self, mut strip: Strip<&mut [T]>) -> [Vec<f64>; 2] {
        let (i, width, rows) = (self.op.blocks(), strip.rows.len(), strip.rows.clone());
        let (ks_t, mut grad) = (strip.wide(), vec![0.0; i * width]);
        product::set(view_mut(&mut grad, width), view(&self.ksks, i), view(&ks_t, width), 1.0);
        let (s, y, owners) = (&self.kept.s[rows.clone()], &self.kept.y[rows.clone()], &self.owners[rows]);
        let (mut in_s, mut in_y) = (vec![0.0; width], vec![0.0; width]);
        let columns = strip.columns.iter_mut().zip(grad.chunks_exact(width)).zip(ks_t.chunks_exact(width));
        for (a, ((out, grad), ks)) in columns.enumerate() {
            let (of_sks, of_y) = (&self.sks[a * i..(a + 1) * i], self.ksy[a]);
            for r in 0..width {
                let of_s = of_sks[owners[r]];
                out[r] = T::of(grad[r] + of_s * s[r].f64() + of_y * y[r].f64());
                in_s[r] += of_s * ks[r];
                in_y[r] += of_y * ks[r];
            }
        }
        [in_s, in_y]
    }
}
