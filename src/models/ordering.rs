//! The order of rows, which decides which rows share a block.

use serde::{Deserialize, Serialize};

use super::Observations;
use crate::arithmetic::ends;
use crate::error::{Error, Result};
use crate::products::BlockSparse;

/// How rows are ordered before they are cut into blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum RowOrder {
    /// The order of the data.
    Data,
    /// By the leaves of a k-d tree: the rows of a block are near each other.
    #[default]
    Tree,
}

impl RowOrder {
    /// The rows of observations in this order, for `blocks` blocks. Distances use the inputs without scaling.
    ///
    /// # Errors
    /// As [`kd_tree`].
    pub fn rows(self, data: &Observations, blocks: usize) -> Result<Vec<usize>> {
        match self {
            Self::Data => Ok((0..data.n()).collect()),
            Self::Tree => kd_tree(&data.x, data.d, &vec![1.0; data.d], blocks),
        }
    }
}

/// The rows of `x` (row-major `[n, d]`), leaf by leaf of a k-d tree. The leaves are the blocks of
/// [`BlockSparse::even`]: they cover all rows, and their sizes differ by at most one. O(n d log leaves).
///
/// Each node is cut at half of its blocks, along the input with the largest range there in lengthscales.
///
/// # Errors
/// [`Error::Shape`] when lengths disagree, [`Error::Usage`] unless 1 ≤ leaves ≤ n and lengthscales are positive.
pub fn kd_tree(x: &[f64], d: usize, lengthscales: &[f64], leaves: usize) -> Result<Vec<usize>> {
    if d == 0 || lengthscales.len() != d || !x.len().is_multiple_of(d) {
        let got = format!("{} and {} values", x.len(), lengthscales.len());
        return Err(Error::shape("inputs and lengthscales", format!("rows of {d} and {d}"), got));
    }
    let n = x.len() / d;
    if leaves == 0 || leaves > n {
        return Err(Error::Usage(format!("{leaves} blocks of {n} rows: need between 1 and the number of rows")));
    }
    if let Some(scale) = lengthscales.iter().find(|scale| !(**scale > 0.0 && scale.is_finite())) {
        return Err(Error::Usage(format!("lengthscale {scale} of a k-d tree: it must be positive")));
    }
    let mut rows: Vec<usize> = (0..n).collect();
    Tree { x, d, lengthscales, offsets: &BlockSparse::even(n, leaves) }.sort(&mut rows, 0, leaves);
    Ok(rows)
}

struct Tree<'a> {
    x: &'a [f64],
    d: usize,
    lengthscales: &'a [f64],
    offsets: &'a [usize],
}

impl Tree<'_> {
    /// Orders the rows of leaves `first..last`.
    fn sort(&self, rows: &mut [usize], first: usize, last: usize) {
        if last - first < 2 {
            return;
        }
        let middle = first + (last - first) / 2;
        let cut = self.offsets[middle] - self.offsets[first];
        let column = self.widest(rows);
        let at = |row: usize| self.x[row * self.d + column];
        // Ties are broken by row, so the order is the same on every machine.
        rows.select_nth_unstable_by(cut, |&a, &b| at(a).total_cmp(&at(b)).then(a.cmp(&b)));
        let (left, right) = rows.split_at_mut(cut);
        self.sort(left, first, middle);
        self.sort(right, middle, last);
    }

    /// The input with the largest range over the rows in lengthscales.
    fn widest(&self, rows: &[usize]) -> usize {
        let extent = |c: usize| {
            let (low, high) = ends(rows.iter().map(|&row| self.x[row * self.d + c]));
            (high - low) / self.lengthscales[c]
        };
        (0..self.d).map(|c| (c, extent(c))).fold((0, 0.0), |m, e| if e.1 > m.1 { e } else { m }).0
    }
}
