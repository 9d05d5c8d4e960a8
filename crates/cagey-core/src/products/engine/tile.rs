//! Tiles: small blocks of the covariance matrix that stay in the nearest cache, and their use in products.
//!
//! A tile has [`GROUP`] rows, whose numbers are broadcast, and [`PANEL`] vectors of columns, one number per lane. So
//! sums over rows need no horizontal step; sums over columns keep one vector per row until a whole block is done.

use crate::linalg::real::Real;
use crate::products::engine::lanes::{Lanes, Number};

/// Rows of a tile.
pub const GROUP: usize = 8;
/// Vectors of columns of a tile.
pub const PANEL: usize = 16;

/// One number for each row of a tile.
pub type Few<T> = [T; GROUP];
/// One number for each column of a tile.
pub type Wide<L> = [L; PANEL];
/// One number for each pair.
pub type Tile<L> = [Wide<L>; GROUP];

/// Columns of a tile.
pub const fn panel<L: Lanes>() -> usize {
    PANEL * L::N
}

/// A tile of zeros.
#[inline(always)]
pub fn zeros<L: Lanes>() -> Tile<L> {
    [[L::zero(); PANEL]; GROUP]
}

/// Rows of a matrix in groups, for broadcasting: `data[g * width + c][q]` is column c of row `GROUP g + q`; zero after
/// the last row.
#[derive(Debug, Clone)]
pub struct Groups<T> {
    /// Columns of the matrix.
    pub width: usize,
    /// The numbers.
    pub data: Vec<Few<T>>,
}

/// Rows of a matrix as lanes: `data[p * width + c]` holds column c of `panel` consecutive rows; zero after the last
/// row.
#[derive(Debug, Clone)]
pub struct Panels<L> {
    /// Columns of the matrix.
    pub width: usize,
    /// The numbers.
    pub data: Vec<Wide<L>>,
}

impl<T: Number> Groups<T> {
    /// Packs a row-major matrix `[n, width]`.
    pub fn pack(matrix: &[T], width: usize) -> Self {
        let n = matrix.len() / width.max(1);
        let mut data = vec![[T::of(0.0); GROUP]; n.div_ceil(GROUP) * width];
        for (row, values) in matrix.chunks_exact(width.max(1)).enumerate() {
            let group = &mut data[row / GROUP * width..][..width];
            group.iter_mut().zip(values).for_each(|(few, &v)| few[row % GROUP] = v);
        }
        Self { width, data }
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.data.len() / self.width.max(1)
    }

    /// The numbers of a group `[width]`.
    #[inline(always)]
    pub fn at(&self, group: usize) -> &[Few<T>] {
        &self.data[group * self.width..][..self.width]
    }
}

impl<L: Lanes> Panels<L> {
    /// Packs a row-major matrix `[n, width]`.
    pub fn pack(matrix: &[L::Element], width: usize) -> Self {
        let n = matrix.len() / width.max(1);
        let size = panel::<L>();
        let mut data = Vec::with_capacity(n.div_ceil(size) * width);
        let mut column = vec![L::Element::of(0.0); size];
        for rows in matrix.chunks(size * width.max(1)) {
            for c in 0..width {
                column.fill(L::Element::of(0.0));
                column.iter_mut().zip(rows[c..].iter().step_by(width)).for_each(|(lane, &v)| *lane = v);
                data.push(wide(&column));
            }
        }
        Self { width, data }
    }

    /// Number of panels.
    pub fn len(&self) -> usize {
        self.data.len() / self.width.max(1)
    }

    /// The numbers of a panel `[width]`.
    #[inline(always)]
    pub fn at(&self, panel: usize) -> &[Wide<L>] {
        &self.data[panel * self.width..][..self.width]
    }
}

/// The numbers of one column of a panel, as vectors.
#[inline(always)]
pub fn wide<L: Lanes>(column: &[L::Element]) -> Wide<L> {
    std::array::from_fn(
        #[inline(always)]
        |c| L::load(&column[c * L::N..]),
    )
}

/// One column of a panel, as numbers.
pub fn narrow<L: Lanes>(wide: &Wide<L>, out: &mut [L::Element]) {
    wide.iter().zip(out.chunks_exact_mut(L::N)).for_each(|(v, chunk)| v.store(chunk));
}

/// out `[width, panel]` += leftᵀ `[width, group]` · tile: sums over the rows.
#[inline(always)]
pub fn add_to_columns<L: Lanes>(tile: &Tile<L>, left: &[Few<L::Element>], out: &mut [Wide<L>]) {
    // Several right-hand sides at once, so that each vector of the tile is loaded once for all of them.
    let mut outs = out.chunks_exact_mut(4);
    let mut lefts = left.chunks_exact(4);
    for (out, left) in (&mut outs).zip(&mut lefts) {
        columns_of::<L, 4>(tile, left, out);
    }
    for (out, left) in outs.into_remainder().chunks_exact_mut(1).zip(lefts.remainder().chunks_exact(1)) {
        columns_of::<L, 1>(tile, left, out);
    }
}

#[inline(always)]
fn columns_of<L: Lanes, const S: usize>(tile: &Tile<L>, left: &[Few<L::Element>], out: &mut [Wide<L>]) {
    for c in (0..PANEL).step_by(2) {
        let mut sums = [[L::zero(); 2]; S];
        for q in 0..GROUP {
            for (sum, left) in sums.iter_mut().zip(left) {
                let factor = L::splat(left[q]);
                for v in 0..2 {
                    sum[v] = tile[q][c + v].mul_add(factor, sum[v]);
                }
            }
        }
        for (sum, out) in sums.iter().zip(out.iter_mut()) {
            for v in 0..2 {
                out[c + v] = out[c + v].add(sum[v]);
            }
        }
    }
}

/// sums `[width, group]` += tile · rightᵀ `[panel, width]`: sums over the columns, lane by lane.
#[inline(always)]
pub fn add_to_rows<L: Lanes>(tile: &Tile<L>, right: &[Wide<L>], sums: &mut [Few<L>]) {
    for (right, sums) in right.iter().zip(sums) {
        let mut partial = *sums;
        for c in 0..PANEL {
            for q in 0..GROUP {
                partial[q] = tile[q][c].mul_add(right[c], partial[q]);
            }
        }
        *sums = partial;
    }
}

/// out = leftᵀ `[group, width]` · right `[width, panel]`.
#[inline(always)]
pub fn outer<L: Lanes>(left: &[Few<L::Element>], right: &[Wide<L>], out: &mut Tile<L>) {
    for c in 0..PANEL {
        for (row, sum) in out.iter_mut().zip(outer_vector(left, right, c)) {
            row[c] = sum;
        }
    }
}

/// The vectors of [`outer`] at one position of the panel.
#[inline(always)]
pub fn outer_vector<L: Lanes>(left: &[Few<L::Element>], right: &[Wide<L>], vector: usize) -> Few<L> {
    let mut sums = [L::zero(); GROUP];
    for (left, right) in left.iter().zip(right) {
        for q in 0..GROUP {
            sums[q] = right[vector].mul_add(L::splat(left[q]), sums[q]);
        }
    }
    sums
}

/// Multiplies all numbers by a factor.
#[inline(always)]
pub fn scale<L: Lanes>(tile: &mut Tile<L>, factor: L::Element) {
    let factor = L::splat(factor);
    tile.iter_mut().flatten().for_each(
        #[inline(always)]
        |v| *v = v.mul(factor),
    );
}

/// Σ a b over a tile.
#[inline(always)]
pub fn dot<L: Lanes>(a: &Tile<L>, b: &Tile<L>) -> f64 {
    let mut sums = [L::zero(); GROUP];
    for c in 0..PANEL {
        for q in 0..GROUP {
            sums[q] = a[q][c].mul_add(b[q][c], sums[q]);
        }
    }
    sums.iter().map(|s| s.sum().f64()).sum()
}
