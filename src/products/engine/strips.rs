//! Parts of (K S)ᵀ, and their strips: few enough rows of K that one thread multiplies them.

use std::ops::Range;

use crate::linalg::real::Real;

/// (K S)ᵀ for some rows of K, or its cotangent.
#[derive(Debug)]
pub struct Part<T> {
    /// These rows.
    pub rows: Range<usize>,
    /// Columns of the matrix: the rows, and zeros after the last one.
    pub stride: usize,
    /// The matrix `[i, stride]`, row-major.
    pub values: Vec<T>,
}

/// Rows of a strip.
const WIDTH: usize = 512;

/// Some rows of K S: for each column, the piece within these rows.
pub struct Strip<P> {
    /// These rows.
    pub rows: Range<usize>,
    /// One piece of each column.
    pub columns: Vec<P>,
}

/// Cuts some rows into strips, given the pieces of each column.
fn cut<P>(rows: &Range<usize>, columns: impl Iterator<Item = impl Iterator<Item = P>>) -> Vec<Strip<P>> {
    let starts = rows.clone().step_by(WIDTH);
    let mut strips: Vec<_> =
        starts.map(|start| Strip { rows: start..(start + WIDTH).min(rows.end), columns: Vec::new() }).collect();
    for pieces in columns {
        strips.iter_mut().zip(pieces).for_each(|(strip, piece)| strip.columns.push(piece));
    }
    strips
}

impl<P> Strip<P> {
    /// (K S)ᵀ for these rows `[i, rows]`, in any precision.
    pub fn copied<T: Real, W: Real>(&self) -> Vec<W>
    where
        P: AsRef<[T]>,
    {
        let mut all = Vec::with_capacity(self.columns.len() * self.rows.len());
        self.columns.iter().for_each(|piece| all.extend(piece.as_ref().iter().map(|v| W::of(v.f64()))));
        all
    }
}

impl<T> Part<T> {
    /// The part in strips.
    pub fn strips(&self) -> Vec<Strip<&[T]>> {
        cut(&self.rows, self.values.chunks_exact(self.stride).map(|column| column[..self.rows.len()].chunks(WIDTH)))
    }

    /// The part in mutable strips.
    pub fn strips_mut(&mut self) -> Vec<Strip<&mut [T]>> {
        let count = self.rows.len();
        let columns = self.values.chunks_exact_mut(self.stride);
        cut(&self.rows, columns.map(|column| column[..count].chunks_mut(WIDTH)))
    }
}
