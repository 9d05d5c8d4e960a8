//! Sums along the columns of a row-major matrix.

use rayon::prelude::*;

use super::{product, view, view_mut};
use crate::linalg::real::{Real, vectorised};
use crate::threads;

/// Columns of a matrix that one thread sums.
const COLUMNS: usize = 256;

/// Σ_i weights_i matrix_ij for a row-major matrix.
pub fn combine(matrix: &[f64], weights: &[f64]) -> Vec<f64> {
    let columns = matrix.len() / weights.len();
    let mut sums = vec![0.0; columns];
    threads::for_each(sums.par_chunks_mut(COLUMNS).enumerate(), |(block, sums)| {
        vectorised(|| {
            for (row, weight) in matrix.chunks(columns).zip(weights) {
                sums.iter_mut().zip(&row[block * COLUMNS..]).for_each(|(sum, value)| *sum += weight * value);
            }
        });
    });
    sums
}

/// Σ_i matrix_ij² for a row-major matrix.
pub fn column_squares<T: Real>(matrix: &[T], columns: usize) -> Vec<f64> {
    let mut sums = vec![0.0; columns];
    threads::for_each(sums.par_chunks_mut(COLUMNS).enumerate(), |(block, sums)| {
        vectorised(|| {
            for row in matrix.chunks(columns) {
                let row = &row[block * COLUMNS..];
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value.f64() * value.f64());
            }
        });
    });
    sums
}

/// matrix −= AᵀA for row-major A `[n, size]`, one block of rows of A at a time.
pub fn subtract_gram(matrix: &mut [f64], a: &[f64], size: usize) {
    let a = view(a, size);
    product::add(view_mut(matrix, size), a.transpose(), a, -1.0);
}
