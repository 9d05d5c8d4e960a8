//! (K S)ᵀ for block-sparse S on the rows of K itself, and its adjoint.
//!
//! If (K S)ᵀ fits the budget, it is computed whole, and the adjoint uses the kept result. Otherwise only one chunk of
//! rows exists at a time, and it is computed again at each use. (K S)ᵀ is in the precision of the data and without the
//! kernel's factor.
//!
//! S can have different numbers in the same blocks for each of L functions that share K. (K S)ᵀ then has one row for
//! each block and function. For one function a whole result visits each pair of rows once. For several it visits each
//! pair twice, chunk by chunk: covariances are then a small part of the work, and products with vectors of rows are
//! faster.

use std::borrow::Cow;
use std::ops::Range;

use rayon::prelude::*;

use crate::kernels::form::Lowered;
use crate::linalg::dense::{transpose, view, view_mut};
use crate::linalg::real::dot;
use crate::products::blocks::{BlockSparse, Segments};
use crate::products::drivers::sparse;
use crate::products::drivers::sparse_gram::{self, SparseGram};
use crate::products::engine::lanes::{Lanes, Number};
use crate::products::engine::program::Program;
use crate::products::engine::schedule::Schedule;
use crate::products::engine::strips::{RowsTimesS, Strip};
use crate::products::engine::sweep::Sweep;
use crate::products::engine::tile::{Groups, Panels, panel};
use crate::threads::{self, GRAIN};

/// The numbers that K and S consist of.
pub struct Inputs<T> {
    /// Features of the rows `[n, p]`.
    pub x: Vec<T>,
    pub p: usize,
    pub coefficients: Vec<T>,
    /// The non-zeros of S `[L n]`.
    pub s: Vec<T>,
}

/// The structure of K and S without their numbers, and the memory budget.
#[derive(Debug)]
pub struct Frame {
    pub program: Program,
    /// Boundaries of the blocks of S.
    pub offsets: Vec<usize>,
    /// Number of functions L with their own numbers in these blocks.
    pub functions: usize,
    /// Bytes.
    pub budget: usize,
}

impl Frame {
    /// The frame for a lowered kernel and the block-sparse S of some functions with the same blocks.
    pub fn new(lowered: &Lowered, blocks: &[BlockSparse], budget: usize) -> Self {
        let offsets = blocks.first().map_or(&[0][..], BlockSparse::offsets).to_vec();
        Self { program: Program::new(lowered), offsets, functions: blocks.len(), budget }
    }

    /// Number of rows n.
    pub fn rows(&self) -> usize {
        self.offsets.last().copied().unwrap_or_default()
    }

    /// Columns of S.
    pub fn blocks(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The columns of S with non-zeros in some rows, and where these are among the rows.
    pub fn within(&self, rows: &Range<usize>) -> Vec<(usize, Range<usize>)> {
        let clip = |row: usize| row.clamp(rows.start, rows.end) - rows.start;
        let blocks = self.offsets.windows(2).map(|w| clip(w[0])..clip(w[1])).enumerate();
        blocks.filter(|(_, rows)| !rows.is_empty()).collect()
    }

    /// (K S)ᵀ of inputs.
    pub fn of<'a, T: Number>(&'a self, inputs: &'a Inputs<T>) -> Projections<'a, T> {
        Projections { frame: self, inputs }
    }
}

/// (K S)ᵀ of inputs.
pub struct Projections<'a, T> {
    frame: &'a Frame,
    inputs: &'a Inputs<T>,
}

/// Gradients in the inputs.
pub struct Total<T> {
    pub x: Vec<T>,
    pub coefficients: Vec<f64>,
    pub s: Vec<T>,
}

impl<'a, T: Number> Projections<'a, T> {
    /// Columns of S.
    pub fn blocks(&self) -> usize {
        self.frame.blocks()
    }

    /// Rows of (K S)ᵀ.
    fn height(&self) -> usize {
        self.blocks() * self.frame.functions
    }

    /// Whether all of it, and another of its parts, fits the budget.
    fn fits<L: Lanes>(&self) -> bool {
        let n = self.frame.rows();
        let part = Schedule::most_columns(n.div_ceil(panel::<L>())) * panel::<L>();
        sparse_gram::bytes::<L>(n + part, self.height()) <= self.frame.budget
    }

    /// Consecutive chunks of rows, of about the same size and in whole panels. Four matrices `[i L, chunk]` fit the
    /// budget (a part, its cotangent, and a temporary copy of each).
    fn chunks<L: Lanes>(&self) -> impl Iterator<Item = Range<usize>> + use<L, T> {
        let n = self.frame.rows();
        let bytes = 4 * self.height() * panel::<L>() * size_of::<L::Element>();
        let most = (self.frame.budget / bytes).max(1) * panel::<L>();
        let chunk = n.div_ceil(n.div_ceil(most).max(1)).div_ceil(panel::<L>()) * panel::<L>();
        (0..n).step_by(chunk).map(move |start| start..(start + chunk).min(n))
    }

    fn gram<L: Lanes<Element = T>>(&self) -> SparseGram<'a, L> {
        let Inputs { x, p, coefficients, s } = self.inputs;
        SparseGram::new(&self.frame.program, coefficients, x, *p, s, &self.frame.offsets)
    }

    /// All rows against the rows of a chunk.
    fn sweep<L: Lanes<Element = T>>(&self, rows: &Range<usize>) -> Sweep<'a, L> {
        let Inputs { x, p, coefficients, .. } = self.inputs;
        Sweep {
            program: &self.frame.program,
            coefficients,
            rows: Groups::pack(x, *p),
            columns: Cow::Owned(Panels::pack(&x[rows.start * p..rows.end * p], *p)),
            symmetric: false,
            own: Some(rows.start),
        }
    }

    /// All of it in parts, if it fits.
    pub fn whole<L: Lanes<Element = T>>(&self) -> Option<Vec<RowsTimesS<T>>> {
        self.fits::<L>().then(|| match self.frame.functions {
            1 => self.gram::<L>().forward(),
            _ => self.parts::<L>().collect(),
        })
    }

    /// All of it, one chunk after another.
    fn parts<L: Lanes<Element = T>>(&self) -> impl Iterator<Item = RowsTimesS<T>> {
        let segments = self.segments();
        self.chunks::<L>().map(move |rows| self.part(&self.sweep::<L>(&rows), &segments, rows))
    }

    fn segments(&self) -> Segments<T> {
        Segments::new(&self.inputs.s, &self.frame.offsets)
    }

    /// Calls `see` with all parts: those in `whole`, or one chunk after another, computed on the fly.
    pub fn visit<L: Lanes<Element = T>>(
        &self,
        whole: Option<&mut Vec<RowsTimesS<T>>>,
        mut see: impl FnMut(&mut [RowsTimesS<T>]),
    ) {
        if let Some(parts) = whole {
            return see(parts);
        }
        self.parts::<L>().for_each(|part| see(&mut [part]));
    }

    fn part<L: Lanes<Element = T>>(
        &self,
        sweep: &Sweep<L>,
        segments: &Segments<T>,
        rows: Range<usize>,
    ) -> RowsTimesS<T> {
        let values = sparse::forward(sweep, segments, self.blocks(), rows.len());
        RowsTimesS { stride: sparse::stride::<L>(rows.len()), rows, functions: self.frame.functions, values }
    }

    /// Adds up over `strips`, on as many threads as the budget has room for sums.
    pub fn sum<S: Send>(&self, mut strips: Vec<S>, sums: &mut [f64], add: impl Fn(&mut S, &mut [f64]) + Sync) {
        let tasks = rayon::current_num_threads().min(self.frame.budget / size_of_val(sums)).max(1);
        let size = strips.len().div_ceil(tasks).max(1);
        let parts = threads::map(strips.par_chunks_mut(size), |strips| {
            let mut part = vec![0.0; sums.len()];
            strips.iter_mut().for_each(|strip| add(strip, &mut part));
            part
        });
        for part in parts {
            sums.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
    }

    /// `factor` times Sᵀ K S `[i, i]`, from the parts in `whole`, or from parts computed on the fly.
    pub fn square<L: Lanes<Element = T>>(&self, whole: Option<&mut Vec<RowsTimesS<T>>>, factor: f64) -> Vec<f64> {
        let i = self.blocks();
        let mut sks = vec![0.0; i * i];
        self.visit::<L>(whole, |parts| {
            let strips = parts.iter().flat_map(RowsTimesS::strips).collect();
            self.sum(strips, &mut sks, |strip, sums| self.add_square(strip, sums));
        });
        // Both halves are equal up to rounding.
        let half = 0.5 * factor;
        let mut square = vec![0.0; i * i];
        transpose::transpose_into(view_mut(&mut square, i), view(&sks, i));
        threads::for_each(
            square.par_chunks_exact_mut(i).zip(sks.par_chunks_exact(i)).with_min_len(GRAIN / i + 1),
            |(row, sks)| row.iter_mut().zip(sks).for_each(|(v, other)| *v = half * (*v + other)),
        );
        square
    }

    /// Adds a strip's contribution to (Sᵀ K S)ᵀ, which is symmetric.
    fn add_square<P: AsRef<[T]>>(&self, strip: &Strip<P>, sks: &mut [f64]) {
        let blocks = self.frame.within(&strip.rows);
        let columns = strip.columns.chunks_exact(self.frame.functions);
        for (sks, columns) in sks.chunks_exact_mut(self.blocks()).zip(columns) {
            for (ks, s) in columns.iter().zip(self.inputs.s.chunks_exact(self.frame.rows())) {
                let s = &s[strip.rows.clone()];
                for (b, rows) in &blocks {
                    sks[*b] += dot(&s[rows.clone()], &ks.as_ref()[rows.clone()]);
                }
            }
        }
    }

    /// The gradients. `replace` overwrites parts by their cotangents: either the `saved` parts that
    /// [`whole`](Self::whole) made, or parts that are computed again; its second argument says which.
    pub fn adjoint<L: Lanes<Element = T>>(
        &self,
        saved: Option<Vec<RowsTimesS<T>>>,
        mut replace: impl FnMut(&mut [RowsTimesS<T>], Origin),
    ) -> Total<T> {
        let (n, Inputs { p, coefficients, s, .. }) = (self.frame.rows(), self.inputs);
        let zeros = |length: usize| vec![T::of(0.0); length];
        let mut total = Total { x: zeros(n * p), coefficients: vec![0.0; coefficients.len()], s: zeros(s.len()) };
        let one = self.frame.functions == 1;
        if one && self.fits::<L>() {
            let gram = self.gram::<L>();
            let (mut parts, origin) = match saved.filter(|parts| gram.fits(parts)) {
                Some(parts) => (parts, Origin::Saved),
                None => (gram.forward(), Origin::Anew),
            };
            replace(&mut parts, origin);
            let (rows, coefficients) = gram.adjoint(&parts);
            total.add_rows(&rows, *p);
            total.coefficients = coefficients;
            return total;
        }
        let segments = self.segments();
        let mut saved = saved.filter(|_| !one).into_iter().flatten();
        for rows in self.chunks::<L>() {
            let sweep = self.sweep::<L>(&rows);
            let (mut part, origin) = match saved.next().filter(|part| part.rows == rows) {
                Some(part) => (part, Origin::Saved),
                None => (self.part(&sweep, &segments, rows), Origin::Anew),
            };
            replace(std::slice::from_mut(&mut part), origin);
            let pulled = sparse::adjoint(&sweep, &segments, &part.values, n, part.rows.len());
            total.add_rows(&pulled.rows, *p);
            total.x[part.rows.start * p..].iter_mut().zip(&pulled.columns).for_each(|(x, g)| *x += *g);
            total.coefficients.iter_mut().zip(&pulled.coefficients).for_each(|(t, v)| *t += v);
        }
        total
    }
}

/// Where the parts that an adjoint sees come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Kept since the forward pass, with the changes that it made.
    Saved,
    /// Computed again.
    Anew,
}

impl<T: Number> Total<T> {
    /// Adds gradients in the features and in S, side by side `[n, p + L]`.
    fn add_rows(&mut self, rows: &[T], p: usize) {
        let n = self.x.len() / p;
        for (r, (x, row)) in self.x.chunks_exact_mut(p).zip(rows.chunks_exact(rows.len() / n)).enumerate() {
            let (in_x, in_s) = row.split_at(p);
            x.iter_mut().zip(in_x).for_each(|(x, g)| *x += *g);
            self.s[r..].iter_mut().step_by(n).zip(in_s).for_each(|(s, g)| *s += *g);
        }
    }
}
