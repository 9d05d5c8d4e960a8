//! K S for block-sparse S on the rows of K itself. Each pair of rows is visited once: half the work of
//! [`sparse`](crate::products::drivers::sparse), if (K S)ᵀ fits in memory whole.
//!
//! A tile above the diagonal also stands for its transpose. With rows i of block a and columns j of block b it adds
//! K_ij s_i to (K S)_ja and K_ij s_j to (K S)_ib; its cotangent is W_ij = ḡ_ja s_i + ḡ_ib s_j for cotangents ḡ of K S.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use rayon::prelude::*;

use crate::linalg::real::Real;
use crate::products::blocks::{Segments, owners};
use crate::products::engine::lanes::Lanes;
use crate::products::engine::program::{Program, Scratch};
use crate::products::engine::reverse::{Besides, Seed, Wanted, reverse};
use crate::products::engine::schedule::Schedule;
use crate::products::engine::strips::RowsTimesS;
use crate::products::engine::sums::{lock, unlocked};
use crate::products::engine::sweep::{At, Sweep, Visitor};
use crate::products::engine::tile::{GROUP, PANEL, Wide, add_to_columns, narrow, outer_vector, panel, wide};
use crate::threads;

/// Block-sparse S, and K as a symmetric sweep.
pub struct SparseGram<'a, L: Lanes> {
    sweep: Sweep<'a, L>,
    schedule: Schedule,
    /// S for the rows of tiles.
    below: Segments<L::Element>,
    /// S for the columns of tiles.
    above: LaneSegments<L>,
    n: usize,
    i: usize,
}

/// The non-zeros of S, for each vector of the panels.
struct LaneSegments<L> {
    /// The first segment of each vector.
    starts: Vec<usize>,
    segments: Vec<LaneSegment<L>>,
}

/// A block's numbers within a vector.
struct LaneSegment<L> {
    block: usize,
    /// The numbers; zero outside the block.
    values: L,
    /// 1 within the block, else 0.
    mask: L,
}

impl<L: Lanes> LaneSegments<L> {
    fn new(values: &[L::Element], offsets: &[usize]) -> Self {
        let owners = owners(offsets);
        let (zero, one) = (L::Element::of(0.0), L::Element::of(1.0));
        let vectors = values.len().div_ceil(panel::<L>()) * PANEL;
        let mut all = Self { starts: Vec::with_capacity(vectors + 1), segments: Vec::new() };
        for (values, owners) in values.chunks(L::N).zip(owners.chunks(L::N)) {
            all.starts.push(all.segments.len());
            let mut at = 0;
            for run in owners.chunk_by(|a, b| a == b) {
                let end = at + run.len();
                let (mut numbers, mut mask) = (vec![zero; L::N], vec![zero; L::N]);
                numbers[at..end].copy_from_slice(&values[at..end]);
                mask[at..end].fill(one);
                let (values, mask) = (L::load(&numbers), L::load(&mask));
                all.segments.push(LaneSegment { block: run[0], values, mask });
                at = end;
            }
        }
        all.starts.resize(vectors + 1, all.segments.len());
        all
    }

    /// The segments of a panel's vector.
    #[inline(always)]
    fn of(&self, panel: usize, vector: usize) -> &[LaneSegment<L>] {
        let at = panel * PANEL + vector;
        &self.segments[self.starts[at]..self.starts[at + 1]]
    }
}

/// Bytes of (K S)ᵀ, with the padding that its parts may have.
pub fn bytes<L: Lanes>(n: usize, i: usize) -> usize {
    n.div_ceil(panel::<L>()) * panel::<L>() * i * size_of::<L::Element>()
}

impl<'a, L: Lanes> SparseGram<'a, L> {
    /// The pairs of an input with features `x [n, p]`, and S with the non-zeros `s [n]`.
    pub fn new(
        program: &'a Program,
        coefficients: &'a [L::Element],
        x: &[L::Element],
        p: usize,
        s: &[L::Element],
        offsets: &[usize],
    ) -> Self {
        let sweep = Sweep::gram(program, coefficients, x, p);
        let schedule = sweep.triangle();
        let (below, above) = (Segments::new(s, offsets), LaneSegments::new(s, offsets));
        Self { sweep, schedule, below, above, n: s.len(), i: offsets.len() - 1 }
    }

    /// (K S)ᵀ in parts, without the program's factor.
    pub fn forward(&self) -> Vec<RowsTimesS<L::Element>> {
        // All threads zero the parts, but one thread allocates them: memory that one thread allocates and another frees
        // is not reused.
        let parts: Vec<_> = self.schedule.columns.iter().map(|panels| self.room(panels)).collect();
        let parts = threads::map(parts.into_par_iter(), |mut part| {
            part.values.resize(self.i * part.stride, L::Element::of(0.0));
            Mutex::new(part)
        });
        self.schedule.run(|r, c| {
            L::enter(
                #[inline(always)]
                || {
                    let (groups, panels) = (self.schedule.rows[r].clone(), self.schedule.columns[c].clone());
                    let mut task = GramForward {
                        gram: self,
                        scratch: self.sweep.program.scratch(false),
                        first: (groups.start, panels.start),
                        above: lock(&parts[c]),
                        below: (r != c).then(|| lock(&parts[r])),
                    };
                    self.sweep.visit(groups, panels, &mut task);
                },
            );
        });
        let mut parts: Vec<_> = parts.into_iter().map(unlocked).collect();
        for part in &mut parts {
            let (stride, count) = (part.stride, part.rows.len());
            part.values.chunks_exact_mut(stride).for_each(|row| row[count..].fill(L::Element::of(0.0)));
        }
        parts
    }

    /// Whether the parts are cut as [`forward`](Self::forward) cuts them; the cut depends on the number of threads.
    pub fn fits(&self, parts: &[RowsTimesS<L::Element>]) -> bool {
        let columns = &self.schedule.columns;
        parts.len() == columns.len() && parts.iter().zip(columns).all(|(part, panels)| part.rows == self.rows(panels))
    }

    fn rows(&self, panels: &Range<usize>) -> Range<usize> {
        panels.start * panel::<L>()..(panels.end * panel::<L>()).min(self.n)
    }

    /// A part with room for its numbers, but without numbers.
    fn room(&self, panels: &Range<usize>) -> RowsTimesS<L::Element> {
        let stride = panels.len() * panel::<L>();
        RowsTimesS { rows: self.rows(panels), stride, functions: 1, values: Vec::with_capacity(self.i * stride) }
    }

    /// The adjoint of [`forward`](Self::forward), given the cotangents part by part, without the program's factor.
    /// Returns the gradients in the features followed by that in S's non-zeros, `[n, p + 1]`, and those in the
    /// coefficients.
    pub fn adjoint(&self, cotangents: &[RowsTimesS<L::Element>]) -> (Vec<L::Element>, Vec<f64>) {
        let (p, schedule) = (self.sweep.rows.width, &self.schedule);
        let wanted = Wanted { rows: 1, columns: 1, factor: false };
        let found = reverse(
            &self.sweep,
            schedule,
            wanted,
            #[inline(always)]
            |r, c| GramAdjoint {
                gram: self,
                first: (schedule.rows[r].start, schedule.columns[c].start),
                above: &cotangents[c],
                below: &cotangents[r],
                rights: Vec::new(),
            },
        );
        let mut out = vec![L::Element::of(0.0); self.n * (p + 1)];
        found.rows.add_into(&mut out);
        found.columns.add_into(&mut out);
        (out, found.coefficients)
    }
}

struct GramForward<'a, L: Lanes> {
    gram: &'a SparseGram<'a, L>,
    scratch: Scratch<L>,
    /// The first group and the first panel.
    first: (usize, usize),
    /// The part of the columns.
    above: MutexGuard<'a, RowsTimesS<L::Element>>,
    /// The part of the rows, unless it is the same part.
    below: Option<MutexGuard<'a, RowsTimesS<L::Element>>>,
}

/// Adds the lanes of a group's sums to its place in a row of a part.
#[inline(always)]
fn add_group<L: Lanes>(part: &mut RowsTimesS<L::Element>, row: usize, group: usize, sums: [L; GROUP]) {
    let start = row * part.stride + group * GROUP;
    part.values[start..][..GROUP].iter_mut().zip(sums).for_each(|(out, sum)| *out += sum.sum());
}

impl<L: Lanes> Visitor<L> for GramForward<'_, L> {
    #[inline(always)]
    fn tile(&mut self, at: &At<L>) {
        let gram = self.gram;
        let k = gram.sweep.program.evaluate(&at.pairs, gram.sweep.coefficients, &mut self.scratch);
        for s in gram.below.of(self.first.0 + at.group) {
            let start = gram.below.blocks[s] * self.above.stride + at.panel * panel::<L>();
            let out = &mut self.above.values[start..][..panel::<L>()];
            let mut sums = wide::<L>(out);
            add_to_columns(k, gram.below.values(s..s + 1), std::slice::from_mut(&mut sums));
            narrow(&sums, out);
        }
        if at.mirrored {
            let out = self.below.as_mut().unwrap_or(&mut self.above);
            let own = self.first.1 + at.panel;
            let (mut block, mut sums) = (gram.above.of(own, 0)[0].block, [L::zero(); GROUP]);
            for c in 0..PANEL {
                for s in gram.above.of(own, c) {
                    if s.block != block {
                        add_group(out, block, at.group, sums);
                        (block, sums) = (s.block, [L::zero(); GROUP]);
                    }
                    for (sum, row) in sums.iter_mut().zip(k) {
                        *sum = row[c].mul_add(s.values, *sum);
                    }
                }
            }
            add_group(out, block, at.group, sums);
        }
    }

    #[inline(always)]
    fn end_of_group(&mut self, _group: usize) {}
}

struct GramAdjoint<'a, L: Lanes> {
    gram: &'a SparseGram<'a, L>,
    /// The first group and the first panel.
    first: (usize, usize),
    /// Cotangents of the columns.
    above: &'a RowsTimesS<L::Element>,
    /// Cotangents of the rows.
    below: &'a RowsTimesS<L::Element>,
    rights: Vec<Wide<L>>,
}

impl<L: Lanes> Seed<L> for GramAdjoint<'_, L> {
    #[inline(always)]
    fn seed(&mut self, at: &At<L>, scratch: &mut Scratch<L>, besides: Besides<L>) {
        let gram = self.gram;
        let segments = gram.below.of(self.first.0 + at.group);
        let (own_panel, row) = (self.first.1 + at.panel, at.group * GROUP);
        self.rights.clear();
        for &block in &gram.below.blocks[segments.clone()] {
            let start = block * self.above.stride + at.panel * panel::<L>();
            self.rights.push(wide(&self.above.values[start..][..panel::<L>()]));
        }
        let (k, out) = gram.sweep.program.root(scratch);
        gram.below.add_to_rows(segments.clone(), k, &self.rights, besides.rows);
        for c in 0..PANEL {
            let mut weights = outer_vector(gram.below.values(segments.clone()), &self.rights, c);
            if at.mirrored {
                for s in gram.above.of(own_panel, c) {
                    let cotangents = &self.below.values[s.block * self.below.stride + row..][..GROUP];
                    let mut sum = L::zero();
                    for q in 0..GROUP {
                        let cotangent = L::splat(cotangents[q]);
                        sum = k[q][c].mul_add(cotangent, sum);
                        weights[q] = s.values.mul_add(cotangent, weights[q]);
                    }
                    besides.columns[0][c] = sum.mul_add(s.mask, besides.columns[0][c]);
                }
            }
            for (row, weight) in out.iter_mut().zip(weights) {
                row[c] = weight;
            }
        }
    }
}
