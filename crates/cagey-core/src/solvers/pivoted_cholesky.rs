//! Partial Cholesky factorisation with diagonal pivoting, by columns.

use crate::error::{Error, Result};

/// A symmetric positive semi-definite matrix, given by its diagonal and single columns.
pub trait Columns {
    /// The diagonal `[n]`.
    ///
    /// # Errors
    /// What its computation reports.
    fn diagonal(&self) -> Result<Vec<f64>>;

    /// Column `j`, `[n]`.
    ///
    /// # Errors
    /// What its computation reports.
    fn column(&self, j: usize) -> Result<Vec<f64>>;

    /// The relative rounding error of the entries. Smaller pivots are meaningless.
    fn rounding(&self) -> f64 {
        f64::EPSILON
    }
}

/// `A ≈ L Lᵀ` of rank `r`, exact in the rows and columns of the pivots.
#[derive(Debug, Clone, PartialEq)]
pub struct PivotedCholesky {
    /// `L`, row-major `[n, r]`. Its rows in the order of `pivots` are lower triangular.
    pub lower: Vec<f64>,
    /// The pivots `[r]`, in the order in which they were chosen.
    pub pivots: Vec<usize>,
    /// The diagonal of `A − L Lᵀ`, `[n]`: never negative, zero at pivots.
    pub remaining: Vec<f64>,
}

impl PivotedCholesky {
    /// The rank reached.
    pub fn rank(&self) -> usize {
        self.pivots.len()
    }

    /// `tr(A − L Lᵀ)`, which bounds every norm of the error.
    pub fn trace(&self) -> f64 {
        self.remaining.iter().sum()
    }
}

/// Takes the largest remaining diagonal entry as pivot (Harbrecht, Peters and Schneider 2012, algorithm 1). Stops when
/// the rank is `rank`, when the remaining trace is at most `tolerance`, or when only rounding errors remain. `O(n r²)`
/// plus `r` columns of the matrix.
///
/// # Errors
/// [`Error::NotFinite`] when the diagonal or a column is not finite, [`Error::NotPositiveDefinite`] when a diagonal
/// entry is negative.
pub fn pivoted_cholesky(matrix: &(impl Columns + ?Sized), rank: usize, tolerance: f64) -> Result<PivotedCholesky> {
    let mut remaining = matrix.diagonal()?;
    let n = remaining.len();
    if let Some(i) = remaining.iter().position(|d| !d.is_finite()) {
        return Err(Error::NotFinite(format!("diagonal entry {i} of a covariance matrix of order {n}")));
    }
    if let Some(pivot) = remaining.iter().position(|d| *d < 0.0) {
        let matrix = "K (by its diagonal)".into();
        return Err(Error::NotPositiveDefinite { matrix, size: n, dtype: "f64", pivot, jitter: 0.0, finite: true });
    }
    let smallest = 4.0 * (n as f64).sqrt() * matrix.rounding() * remaining.iter().fold(0.0, |m: f64, d| m.max(*d));
    let mut factors: Vec<Vec<f64>> = Vec::new();
    let mut pivots = Vec::new();
    while pivots.len() < rank.min(n) && remaining.iter().sum::<f64>() > tolerance {
        let start = (0, f64::NEG_INFINITY);
        let (pivot, largest) =
            remaining.iter().copied().enumerate().fold(start, |m, (i, d)| if d > m.1 { (i, d) } else { m });
        if largest <= smallest {
            break;
        }
        let mut column = matrix.column(pivot)?;
        if let Some(i) = column.iter().position(|x| !x.is_finite()) {
            return Err(Error::NotFinite(format!("entry {i} of column {pivot} of a covariance matrix of order {n}")));
        }
        for factor in &factors {
            let share = factor[pivot];
            column.iter_mut().zip(factor).for_each(|(c, l)| *c -= share * l);
        }
        let root = largest.sqrt();
        column.iter_mut().for_each(|c| *c /= root);
        // These are zero in exact arithmetic: removes what rounding leaves at earlier pivots.
        pivots.iter().for_each(|&p: &usize| column[p] = 0.0);
        column[pivot] = root;
        remaining.iter_mut().zip(&column).for_each(|(d, l)| *d = (*d - l * l).max(0.0));
        remaining[pivot] = 0.0;
        pivots.push(pivot);
        factors.push(column);
    }
    let lower = (0..n).flat_map(|i| factors.iter().map(move |factor| factor[i])).collect();
    Ok(PivotedCholesky { lower, pivots, remaining })
}
