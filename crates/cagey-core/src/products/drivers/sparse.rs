//! K S for block-sparse S without K. Rows are lanes, so that each block's column is a sum without horizontal steps, and
//! no block is padded. Works on a chunk of rows x1 at a time, with transposed results `[i L, chunk]`: for each block,
//! one row for each of the L functions that S has numbers for.

use std::sync::MutexGuard;

use crate::linalg::real::Real;
use crate::products::blocks::Segments;
use crate::products::engine::lanes::Lanes;
use crate::products::engine::program::{Program, Scratch};
use crate::products::engine::reverse::{Besides, Seed, Wanted, reverse};
use crate::products::engine::schedule::Schedule;
use crate::products::engine::sums::ColumnSums;
use crate::products::engine::sweep::{At, Sweep, Visitor};
use crate::products::engine::tile::{Wide, add_to_columns, outer, panel, wide};

/// The length of a chunk with its padding: the stride of a transposed result's rows.
pub fn stride<L: Lanes>(rows: usize) -> usize {
    rows.div_ceil(panel::<L>()) * panel::<L>()
}

/// (K S)ᵀ `[i L, stride]` for the rows that are the sweep's columns, without the program's factor. The first `count`
/// columns are real, the others zero.
pub fn forward<L: Lanes>(sweep: &Sweep<L>, segments: &Segments<L::Element>, i: usize, count: usize) -> Vec<L::Element> {
    let schedule = Schedule::by_columns(sweep.rows.len(), sweep.columns.len());
    let width = i * segments.functions;
    let sums = ColumnSums::<L>::new(&schedule.columns, width);
    schedule.run(|r, c| {
        L::enter(
            #[inline(always)]
            || {
                let mut task = SparseForward {
                    sweep,
                    segments,
                    width,
                    scratch: sweep.program.scratch(false),
                    columns: sums.block(c),
                };
                sweep.visit(schedule.rows[r].clone(), schedule.columns[c].clone(), &mut task);
            },
        );
    });
    let stride = stride::<L>(count);
    let mut out = sums.into_transposed(stride);
    out.chunks_exact_mut(stride).for_each(|row| row[count..].fill(L::Element::of(0.0)));
    out
}

struct SparseForward<'a, L: Lanes> {
    sweep: &'a Sweep<'a, L>,
    segments: &'a Segments<L::Element>,
    /// Rows of the result.
    width: usize,
    scratch: Scratch<L>,
    columns: MutexGuard<'a, Vec<Wide<L>>>,
}

impl<L: Lanes> Visitor<L> for SparseForward<'_, L> {
    #[inline(always)]
    fn tile(&mut self, at: &At<L>) {
        let k = self.sweep.program.evaluate(&at.pairs, self.sweep.coefficients, &mut self.scratch);
        for s in self.segments.of(at.group) {
            let (first, functions) = (at.panel * self.width, self.segments.functions);
            let out = &mut self.columns[first + self.segments.blocks[s] * functions..][..functions];
            add_to_columns(k, self.segments.values(s..s + 1), out);
        }
    }

    #[inline(always)]
    fn end_of_group(&mut self, _group: usize) {}
}

/// Gradients of a chunk, without the program's factor.
pub struct Gradients<T> {
    /// In the features of the sweep's rows `[m, p]`, followed by the gradients in S's non-zeros: `[m, p + L]`.
    pub rows: Vec<T>,
    /// In the features of the sweep's columns `[chunk, p]`.
    pub columns: Vec<T>,
    /// In the coefficients.
    pub coefficients: Vec<f64>,
}

/// The adjoint of [`forward`], given the cotangents `grad [i L, stride]`, zero in the padding.
pub fn adjoint<L: Lanes>(
    sweep: &Sweep<L>,
    segments: &Segments<L::Element>,
    grad: &[L::Element],
    m: usize,
    count: usize,
) -> Gradients<L::Element> {
    let p = sweep.rows.width;
    let schedule = Schedule::latin(sweep.rows.len(), sweep.columns.len());
    let wanted = Wanted { rows: segments.functions, ..Wanted::default() };
    let found = reverse(
        sweep,
        &schedule,
        wanted,
        #[inline(always)]
        |r, c| SparseAdjoint {
            program: sweep.program,
            segments,
            grad: &grad[schedule.columns[c].start * panel::<L>()..],
            stride: stride::<L>(count),
            first: schedule.rows[r].start,
            rights: Vec::new(),
        },
    );
    let mut out = Gradients {
        rows: vec![L::Element::of(0.0); m * (p + segments.functions)],
        columns: vec![L::Element::of(0.0); count * p],
        coefficients: found.coefficients,
    };
    found.rows.add_into(&mut out.rows);
    found.columns.add_into(&mut out.columns);
    out
}

struct SparseAdjoint<'a, L: Lanes> {
    program: &'a Program,
    segments: &'a Segments<L::Element>,
    /// Starts at the block's first column.
    grad: &'a [L::Element],
    stride: usize,
    /// The block's first group.
    first: usize,
    rights: Vec<Wide<L>>,
}

impl<L: Lanes> Seed<L> for SparseAdjoint<'_, L> {
    #[inline(always)]
    fn seed(&mut self, at: &At<L>, scratch: &mut Scratch<L>, besides: Besides<L>) {
        let (segments, functions) = (self.segments.of(self.first + at.group), self.segments.functions);
        self.rights.clear();
        for &block in &self.segments.blocks[segments.clone()] {
            let rows = self.grad[block * functions * self.stride..].chunks(self.stride).take(functions);
            self.rights.extend(rows.map(|row| wide(&row[at.panel * panel::<L>()..][..panel::<L>()])));
        }
        let (k, cotangent) = self.program.root(scratch);
        self.segments.add_to_rows(segments.clone(), k, &self.rights, besides.rows);
        outer(self.segments.values(segments), &self.rights, cotangent);
    }
}
