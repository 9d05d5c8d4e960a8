//! The reverse sweep: computes every tile of K and of its slopes once more, for all gradients that go through K.
//!
//! Operations differ in the cotangents of K that they provide, and in what else K multiplies meanwhile. The resulting
//! sums, the schedule's blocks and the adjoint of a tile are the same for all.

use std::sync::MutexGuard;

use crate::products::engine::lanes::Lanes;
use crate::products::engine::program::{Pulled, Scratch};
use crate::products::engine::schedule::Schedule;
use crate::products::engine::sums::{ColumnSums, RowSums};
use crate::products::engine::sweep::{At, Sweep, Visitor, flush};
use crate::products::engine::tile::{Few, GROUP, PANEL, Wide};

/// What an operation contributes to the tiles of a block.
pub trait Seed<L: Lanes> {
    /// Fills the cotangent of a tile, and adds what the operation sums up besides gradients in features.
    /// [`root`](crate::products::engine::program::Program::root) gives the tile's covariances and the cotangent in
    /// `scratch`.
    fn seed(&mut self, at: &At<L>, scratch: &mut Scratch<L>, besides: Besides<L>);
}

/// The sums of an operation besides gradients in features, for the group and the panel of a tile.
pub struct Besides<'a, L: Lanes> {
    /// For the rows.
    pub rows: &'a mut [Few<L>],
    /// For the columns.
    pub columns: &'a mut [Wide<L>],
}

/// The sums that an operation wants.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Number of sums for each row, besides the gradient in its features.
    pub rows: usize,
    /// Number of sums for each column, likewise.
    pub columns: usize,
    /// Whether the gradient in the kernel's factor is wanted.
    pub factor: bool,
}

/// Gradients in the features, followed by the sums that the operation wanted; without the program's factor.
pub struct Reversed<L: Lanes> {
    /// `[p + wanted]` for each row.
    pub rows: RowSums<L::Element>,
    /// `[p + wanted]` for each column.
    pub columns: ColumnSums<L>,
    /// The gradient in the coefficients except the factor.
    pub coefficients: Vec<f64>,
    /// The gradient in the factor, if wanted.
    pub factor: f64,
}

/// Visits all tiles; `seeds` makes the operation's contribution to a pair of blocks.
pub fn reverse<L: Lanes, S: Seed<L>>(
    sweep: &Sweep<L>,
    schedule: &Schedule,
    wanted: Wanted,
    seeds: impl Fn(usize, usize) -> S + Sync,
) -> Reversed<L> {
    let p = sweep.rows.width;
    let [row_width, column_width] = [p + wanted.rows, p + wanted.columns];
    let rows = RowSums::new(&schedule.rows, row_width);
    let columns = ColumnSums::<L>::new(&schedule.columns, column_width);
    let parts = schedule.run(|r, c| {
        L::enter(
            #[inline(always)]
            || {
                let (groups, panels) = (schedule.rows[r].clone(), schedule.columns[c].clone());
                let mut task = Task {
                    sweep,
                    seed: seeds(r, c),
                    scratch: sweep.program.scratch(true),
                    sums: vec![[L::zero(); GROUP]; row_width],
                    columns: vec![[L::zero(); PANEL]; column_width * panels.len()],
                    column_width,
                    rows: rows.block(r),
                    coefficients: vec![0.0; sweep.coefficients.len()],
                    along: wanted.factor && sweep.program.has_factor(),
                    factor: 0.0,
                };
                sweep.visit(groups, panels, &mut task);
                columns.add(c, &task.columns);
                (task.coefficients, task.factor)
            },
        )
    });
    let (mut coefficients, mut factor) = (vec![0.0; sweep.coefficients.len()], 0.0);
    for (part, along) in parts {
        coefficients.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        factor += along;
    }
    Reversed { rows, columns, coefficients, factor }
}

struct Task<'a, L: Lanes, S> {
    sweep: &'a Sweep<'a, L>,
    seed: S,
    scratch: Scratch<L>,
    sums: Vec<Few<L>>,
    columns: Vec<Wide<L>>,
    column_width: usize,
    rows: MutexGuard<'a, Vec<Few<L::Element>>>,
    coefficients: Vec<f64>,
    along: bool,
    factor: f64,
}

impl<L: Lanes, S: Seed<L>> Visitor<L> for Task<'_, L, S> {
    #[inline(always)]
    fn tile(&mut self, at: &At<L>) {
        let (program, p) = (self.sweep.program, self.sweep.rows.width);
        let width = self.column_width;
        let (columns, beside_columns) = self.columns[at.panel * width..][..width].split_at_mut(p);
        let (rows, beside_rows) = self.sums.split_at_mut(p);
        program.linearise(&at.pairs, self.sweep.coefficients, &mut self.scratch);
        self.seed.seed(at, &mut self.scratch, Besides { rows: beside_rows, columns: beside_columns });
        if self.along {
            self.factor += program.along(&self.scratch);
        }
        let mut to = Pulled { columns, rows, coefficients: &mut self.coefficients };
        program.pull(&at.pairs, self.sweep.coefficients, &mut self.scratch, &mut to);
    }

    #[inline(always)]
    fn end_of_group(&mut self, group: usize) {
        flush(&mut self.sums, &mut self.rows, group);
    }
}
