//! K V without K: tiles of K are computed, multiplied and forgotten.

use std::sync::MutexGuard;

use crate::products::engine::lanes::{Lanes, Number, Work};
use crate::products::engine::program::{Program, Scratch};
use crate::products::engine::schedule::Schedule;
use crate::products::engine::sums::{ColumnSums, RowSums};
use crate::products::engine::sweep::{At, Sweep, Visitor, flush, scale};
use crate::products::engine::tile::{Few, GROUP, Groups, PANEL, Panels, Wide, add_to_columns, add_to_rows, panel};

/// The factors of a product K(x1, x2) V `[n, t]`.
#[derive(Clone, Copy)]
pub struct Product<'a, T> {
    /// The kernel.
    pub program: &'a Program,
    /// Its coefficients.
    pub coefficients: &'a [T],
    /// Features of x1 `[n, p]`.
    pub x1: &'a [T],
    /// Features of x2 `[m, p]`; None means x1, with white noise.
    pub x2: Option<&'a [T]>,
    /// Number of features.
    pub p: usize,
    /// V `[m, t]`.
    pub v: &'a [T],
    /// Number of right-hand sides.
    pub t: usize,
}

/// Computes a product.
pub struct Multiply<'a, T> {
    /// What to multiply.
    pub of: Product<'a, T>,
    /// Whether to leave out the program's factor.
    pub unscaled: bool,
}

impl<T: Number> Work<T> for Multiply<'_, T> {
    type Output = Vec<T>;

    fn run<L: Lanes<Element = T>>(self) -> Vec<T> {
        let Self { of: Product { program, coefficients, x1, x2, p, v, t }, unscaled } = self;
        let n = x1.len() / p;
        let wide = n >= 2 * rayon::current_num_threads() * panel::<L>();
        let (sweep, schedule) = match x2 {
            None => {
                let sweep = Sweep::<L>::gram(program, coefficients, x1, p);
                let schedule = sweep.triangle();
                (sweep, schedule)
            }
            Some(x2) if wide => {
                let sweep = Sweep::cross(program, coefficients, x2, x1, p);
                let schedule = Schedule::by_columns(sweep.rows.len(), sweep.columns.len());
                (sweep, schedule)
            }
            Some(x2) => {
                let sweep = Sweep::cross(program, coefficients, x1, x2, p);
                let schedule = Schedule::by_rows(sweep.rows.len(), sweep.columns.len());
                (sweep, schedule)
            }
        };
        // V is on one side of the tiles, the result on the other.
        let left = (sweep.symmetric || wide).then(|| Groups::pack(v, t));
        let right = (sweep.symmetric || !wide).then(|| Panels::<L>::pack(v, t));
        let rows = RowSums::new(&schedule.rows, if right.is_some() { t } else { 0 });
        let columns = ColumnSums::<L>::new(&schedule.columns, if left.is_some() { t } else { 0 });
        schedule.run(|r, c| {
            L::enter(
                #[inline(always)]
                || {
                    let (groups, panels) = (schedule.rows[r].clone(), schedule.columns[c].clone());
                    let mut task = Task {
                        sweep: &sweep,
                        left: left.as_ref().map_or(&[], |g| &g.data[groups.start * t..]),
                        right: right.as_ref().map_or(&[], |p| &p.data[panels.start * t..]),
                        t,
                        scratch: program.scratch(false),
                        sums: vec![[L::zero(); GROUP]; t],
                        columns: vec![[L::zero(); PANEL]; if left.is_some() { t * panels.len() } else { 0 }],
                        rows: rows.block(r),
                    };
                    sweep.visit(groups, panels, &mut task);
                    columns.add(c, &task.columns);
                },
            );
        });
        let mut out = vec![T::of(0.0); n * t];
        if right.is_some() {
            rows.add_into(&mut out);
        }
        if left.is_some() {
            columns.add_into(&mut out);
        }
        if !unscaled {
            scale(&mut out, program.factor(coefficients));
        }
        out
    }
}

struct Task<'a, L: Lanes> {
    sweep: &'a Sweep<'a, L>,
    left: &'a [Few<L::Element>],
    right: &'a [Wide<L>],
    t: usize,
    scratch: Scratch<L>,
    sums: Vec<Few<L>>,
    columns: Vec<Wide<L>>,
    rows: MutexGuard<'a, Vec<Few<L::Element>>>,
}

impl<L: Lanes> Visitor<L> for Task<'_, L> {
    #[inline(always)]
    fn tile(&mut self, at: &At<L>) {
        let k = self.sweep.program.evaluate(&at.pairs, self.sweep.coefficients, &mut self.scratch);
        if !self.left.is_empty() {
            let left = &self.left[at.group * self.t..][..self.t];
            add_to_columns(k, left, &mut self.columns[at.panel * self.t..][..self.t]);
        }
        if !self.right.is_empty() && (at.mirrored || !self.sweep.symmetric) {
            add_to_rows(k, &self.right[at.panel * self.t..][..self.t], &mut self.sums);
        }
    }

    #[inline(always)]
    fn end_of_group(&mut self, group: usize) {
        if !self.right.is_empty() {
            flush(&mut self.sums, &mut self.rows, group);
        }
    }
}
