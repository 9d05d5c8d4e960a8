//! Visits the tiles of a covariance matrix, block by block.

use std::borrow::Cow;
use std::ops::Range;

use crate::products::engine::lanes::{Lanes, Number};
use crate::products::engine::program::Program;
use crate::products::engine::schedule::Schedule;
use crate::products::engine::term::Pairs;
use crate::products::engine::tile::{Few, GROUP, Groups, Panels, panel};

/// A lowered kernel with its numbers: rows against columns.
#[derive(Debug)]
pub struct Sweep<'a, L: Lanes> {
    /// The kernel.
    pub program: &'a Program,
    /// Its coefficients.
    pub coefficients: &'a [L::Element],
    /// The rows' features.
    pub rows: Groups<L::Element>,
    /// The columns' features.
    pub columns: Cow<'a, Panels<L>>,
    /// Whether rows and columns are one input, so that each pair is visited once.
    pub symmetric: bool,
    /// The first column's index among the rows, if both are from one input: white noise is where they coincide.
    pub own: Option<usize>,
}

/// A tile during a visit.
#[derive(Debug, Clone, Copy)]
pub struct At<'a, L: Lanes> {
    /// Its group, counted within the block.
    pub group: usize,
    /// Its panel, counted within the block.
    pub panel: usize,
    /// Its features.
    pub pairs: Pairs<'a, L>,
    /// Whether the tile also stands for its transpose.
    pub mirrored: bool,
}

/// What to do with the tiles of a block.
pub trait Visitor<L: Lanes> {
    /// Handles a tile.
    fn tile(&mut self, at: &At<L>);
    /// Called when a group (counted within the block) has met all its columns.
    fn end_of_group(&mut self, group: usize);
}

impl<'a, L: Lanes> Sweep<'a, L> {
    /// The pairs of two inputs `[n, p]`, `[m, p]`.
    pub fn cross(
        program: &'a Program,
        coefficients: &'a [L::Element],
        rows: &[L::Element],
        columns: &[L::Element],
        p: usize,
    ) -> Self {
        let (rows, columns) = (Groups::pack(rows, p), Cow::Owned(Panels::pack(columns, p)));
        Self { program, coefficients, rows, columns, symmetric: false, own: None }
    }

    /// The pairs of an input `[n, p]` with itself.
    pub fn gram(program: &'a Program, coefficients: &'a [L::Element], rows: &[L::Element], p: usize) -> Self {
        Self { symmetric: true, own: Some(0), ..Self::cross(program, coefficients, rows, rows, p) }
    }

    /// The number of groups in a panel.
    pub const fn ratio() -> usize {
        panel::<L>() / GROUP
    }

    /// The schedule of a symmetric sweep.
    pub fn triangle(&self) -> Schedule {
        Schedule::triangle(self.columns.len(), Self::ratio(), self.rows.len())
    }

    /// Visits the tiles of a block; for a symmetric matrix, only those on and above the diagonal.
    #[inline(always)]
    pub fn visit(&self, groups: Range<usize>, panels: Range<usize>, visitor: &mut impl Visitor<L>) {
        for group in groups.clone() {
            let home = group / Self::ratio();
            let first = if self.symmetric { panels.start.max(home) } else { panels.start };
            for panel in first..panels.end {
                let column = panel * crate::products::engine::tile::panel::<L>();
                let pairs = Pairs::Outer {
                    rows: self.rows.at(group),
                    columns: self.columns.at(panel),
                    diagonal: self.own.map(|own| (group * GROUP) as isize - (own + column) as isize),
                };
                let mirrored = self.symmetric && panel > home;
                visitor.tile(&At { group: group - groups.start, panel: panel - panels.start, pairs, mirrored });
            }
            visitor.end_of_group(group - groups.start);
        }
    }
}

/// Adds the lanes of a group's sums `[width]` to its place in the block's sums, and resets them to zero.
#[inline(always)]
pub fn flush<L: Lanes>(sums: &mut [Few<L>], block: &mut [Few<L::Element>], group: usize) {
    let width = sums.len();
    for (total, sums) in block[group * width..].iter_mut().zip(sums) {
        let part = sums.map(L::sum);
        (0..GROUP).for_each(|q| total[q] += part[q]);
        *sums = [L::zero(); GROUP];
    }
}

/// Multiplies all numbers by a factor.
pub fn scale<T: Number>(values: &mut [T], factor: T) {
    if factor != T::of(1.0) {
        values.iter_mut().for_each(|v| *v *= factor);
    }
}
