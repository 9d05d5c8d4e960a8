//! Parts of (K S)ᵀ, and their strips: few enough rows of K to be multiplied by one thread.

use std::ops::Range;

use crate::linalg::real::Real;

/// (K S)ᵀ for some rows of K, or its cotangent.
#[derive(Debug)]
pub struct Part<T> {
    /// Those rows.
    pub rows: Range<usize>,
    /// Columns of the matrix: the rows and zeros behind the last one.
    pub stride: usize,
    /// The matrix `[i, stride]`, row-major.
    pub values: Vec<T>,
}

/// Rows of a strip.
const WIDTH: usize = 512;

/// Some rows of K S: of each of its columns the piece that lies in them.
pub struct Strip<P> {
    /// Those rows.
    pub rows: Range<usize>,
    /// A piece of each column.
    pub columns: Vec<P>,
}

/// The strips of some rows, from the pieces of each column.
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

    /// The part in strips that may be changed.
    pub fn strips_mut(&mut self) -> Vec<Strip<&mut [T]>> {
        let count = self.rows.len();
        let columns = self.values.chunks_exact_mut(self.stride);
        cut(&self.rows, columns.map(|column| column[..count].chunks_mut(WIDTH)))
    }
}
