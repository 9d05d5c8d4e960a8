//! Sums of the tasks of a schedule: one matrix `[n, width]`, block by block, in the layout that the tiles produce.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::linalg::real::Real;
use crate::products::engine::lanes::{Lanes, Number};
use crate::products::engine::tile::{Few, GROUP, PANEL, Wide, narrow, panel};

/// Sums for the rows of tiles.
#[derive(Debug)]
pub struct RowSums<T> {
    width: usize,
    blocks: Vec<Mutex<Vec<Few<T>>>>,
}

/// Sums for the columns of tiles.
#[derive(Debug)]
pub struct ColumnSums<L> {
    width: usize,
    blocks: Vec<Mutex<Vec<Wide<L>>>>,
}

/// What a lock holds, also after a panic elsewhere: a block's part of a result, which no other task of the round uses.
pub fn lock<T>(block: &Mutex<T>) -> MutexGuard<'_, T> {
    block.lock().unwrap_or_else(PoisonError::into_inner)
}

/// That part, once all tasks are done.
pub fn unlocked<T>(block: Mutex<T>) -> T {
    block.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Number> RowSums<T> {
    /// Zeros for blocks of groups.
    pub fn new(blocks: &[Range<usize>], width: usize) -> Self {
        let zeros = |r: &Range<usize>| Mutex::new(vec![[T::of(0.0); GROUP]; r.len() * width]);
        Self { width, blocks: blocks.iter().map(zeros).collect() }
    }

    /// The sums of a block; no other task of the round uses it.
    pub fn block(&self, block: usize) -> MutexGuard<'_, Vec<Few<T>>> {
        lock(&self.blocks[block])
    }

    /// Adds everything to a row-major matrix `[n, width]`.
    pub fn add_into(self, matrix: &mut [T]) {
        let width = self.width;
        let groups = self.blocks.into_iter().flat_map(unlocked).collect::<Vec<_>>();
        for (row, out) in matrix.chunks_exact_mut(width.max(1)).enumerate() {
            let group = &groups[row / GROUP * width..][..width];
            out.iter_mut().zip(group).for_each(|(o, few)| *o += few[row % GROUP]);
        }
    }
}

impl<L: Lanes> ColumnSums<L> {
    /// Zeros for blocks of panels.
    pub fn new(blocks: &[Range<usize>], width: usize) -> Self {
        let zeros = |r: &Range<usize>| Mutex::new(vec![[L::zero(); PANEL]; r.len() * width]);
        Self { width, blocks: blocks.iter().map(zeros).collect() }
    }

    /// The sums of a block; no other task of the round uses it.
    pub fn block(&self, block: usize) -> MutexGuard<'_, Vec<Wide<L>>> {
        lock(&self.blocks[block])
    }

    /// Adds a task's own sums to those of a block: from zero within the task, then task by task, since sums of sums are
    /// more accurate.
    #[inline(always)]
    pub fn add(&self, block: usize, own: &[Wide<L>]) {
        self.block(block).iter_mut().flatten().zip(own.iter().flatten()).for_each(
            #[inline(always)]
            |(total, part)| *total = total.add(*part),
        );
    }

    /// The transposed matrix `[width, stride]`, with the numbers of a panel side by side. Frees each block as soon as
    /// it is read.
    pub fn into_transposed(self, stride: usize) -> Vec<L::Element> {
        let mut out = vec![L::Element::of(0.0); self.width * stride];
        let mut first = 0;
        for block in self.blocks {
            for sums in unlocked(block).chunks_exact(self.width) {
                for (wide, row) in sums.iter().zip(out.chunks_exact_mut(stride)) {
                    narrow(wide, &mut row[first..first + panel::<L>()]);
                }
                first += panel::<L>();
            }
        }
        out
    }

    /// Adds everything to a row-major matrix `[n, width]`.
    pub fn add_into(self, matrix: &mut [L::Element]) {
        let width = self.width;
        let mut lanes = vec![L::Element::of(0.0); panel::<L>()];
        let mut rest = matrix;
        for block in self.blocks {
            for sums in unlocked(block).chunks_exact(width.max(1)) {
                let count = panel::<L>().min(rest.len() / width);
                let (rows, later) = rest.split_at_mut(count * width);
                for (c, wide) in sums.iter().enumerate() {
                    narrow(wide, &mut lanes);
                    rows[c..].iter_mut().step_by(width).zip(&lanes).for_each(|(o, v)| *o += *v);
                }
                rest = later;
            }
        }
    }
}
