//! Parts of (K S)ᵀ, and their strips: few enough rows of K that one thread multiplies them.

use std::ops::Range;

use crate::linalg::real::Real;

/// (K S)ᵀ for some rows of K, or its cotangent.
#[derive(Debug)]
pub struct RowsTimesS<T> {
    /// These rows.
    pub rows: Range<usize>,
    /// Columns of the matrix: the rows, and zeros after the last one.
    pub stride: usize,
    /// Number of functions L that S has different numbers for.
    pub functions: usize,
    /// The matrix `[i L, stride]`, row-major.
    pub values: Vec<T>,
}

/// Rows of a strip, of all functions together.
const WIDTH: usize = 512;

/// Rows of a strip for several functions are a multiple of this.
const STEP: usize = 16;

/// Some rows of K S: for each column, the piece within these rows.
pub struct Strip<P> {
    /// These rows.
    pub rows: Range<usize>,
    /// One piece of each column.
    pub columns: Vec<P>,
}

/// Cuts some rows into strips of a width, given the pieces of each column.
fn cut<P>(rows: &Range<usize>, width: usize, columns: impl Iterator<Item = impl Iterator<Item = P>>) -> Vec<Strip<P>> {
    let starts = rows.clone().step_by(width);
    let mut strips: Vec<_> =
        starts.map(|start| Strip { rows: start..(start + width).min(rows.end), columns: Vec::new() }).collect();
    for pieces in columns {
        strips.iter_mut().zip(pieces).for_each(|(strip, piece)| strip.columns.push(piece));
    }
    strips
}

impl<P> Strip<P> {
    /// (K S)ᵀ for these rows `[i L, rows]`, in any precision.
    pub fn copied<T: Real, W: Real>(&self) -> Vec<W>
    where
        P: AsRef<[T]>,
    {
        let mut all = Vec::with_capacity(self.columns.len() * self.rows.len());
        self.columns.iter().for_each(|piece| all.extend(piece.as_ref().iter().map(|v| W::of(v.f64()))));
        all
    }

    /// The same in f64, with the kernel's factor.
    pub fn scaled<T: Real>(&self, factor: f64) -> Vec<f64>
    where
        P: AsRef<[T]>,
    {
        let mut all: Vec<f64> = self.copied();
        all.iter_mut().for_each(|value| *value *= factor);
        all
    }
}

impl<T> RowsTimesS<T> {
    /// Rows of a strip. The strips of several functions are as large as those of one.
    fn width(&self) -> usize {
        WIDTH.div_ceil(self.functions).next_multiple_of(STEP)
    }

    /// The part in strips.
    pub fn strips(&self) -> Vec<Strip<&[T]>> {
        self.strips_of(self.width())
    }

    /// The part in strips of as many rows for several functions as for one. Reading long pieces of columns is faster;
    /// one thread's strip is larger than its cache.
    pub fn long_strips(&self) -> Vec<Strip<&[T]>> {
        self.strips_of(WIDTH)
    }

    fn strips_of(&self, width: usize) -> Vec<Strip<&[T]>> {
        let columns = self.values.chunks_exact(self.stride);
        cut(&self.rows, width, columns.map(|column| column[..self.rows.len()].chunks(width)))
    }

    /// The part in mutable strips.
    pub fn strips_mut(&mut self) -> Vec<Strip<&mut [T]>> {
        let (count, width) = (self.rows.len(), self.width());
        let columns = self.values.chunks_exact_mut(self.stride);
        cut(&self.rows, width, columns.map(|column| column[..count].chunks_mut(width)))
    }
}
