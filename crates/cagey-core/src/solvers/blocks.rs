//! Column-wise arithmetic on row-major blocks `[n, t]`. Each column is a separate vector.

use super::LinearOperator;
use crate::error::{Error, Result};

/// The number of columns of a block of `n` rows.
pub fn columns(what: &str, block: &[f64], n: usize) -> Result<usize> {
    match block.len().checked_rem(n) {
        Some(0) => Ok(block.len() / n),
        _ => Err(Error::shape(what, format!("{n} rows"), format!("{} entries", block.len()))),
    }
}

/// The product of a matrix with a block, checked: a bad kernel is an error here, not a NaN residual later.
pub fn apply(a: &dyn LinearOperator, v: &[f64]) -> Result<Vec<f64>> {
    let product = a.apply(v)?;
    if product.len() != v.len() {
        return Err(Error::shape("a matrix product", format!("{} entries", v.len()), product.len().to_string()));
    }
    if product.iter().all(|x| x.is_finite()) {
        return Ok(product);
    }
    Err(Error::NotFinite(format!("a product with the matrix of order {}", a.order())))
}

/// The inner products of the columns of two blocks of `t` columns.
pub fn dots(a: &[f64], b: &[f64], t: usize) -> Vec<f64> {
    let mut sums = vec![0.0; t];
    for (a, b) in a.chunks_exact(t.max(1)).zip(b.chunks_exact(t.max(1))) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums
}

/// The Euclidean norms of the columns.
pub fn norms(a: &[f64], t: usize) -> Vec<f64> {
    dots(a, a, t).into_iter().map(f64::sqrt).collect()
}

/// `y ← y + x diag(factors)`.
pub fn add_scaled(y: &mut [f64], factors: &[f64], x: &[f64]) {
    let t = factors.len().max(1);
    for (y, x) in y.chunks_exact_mut(t).zip(x.chunks_exact(t)) {
        for ((y, x), factor) in y.iter_mut().zip(x).zip(factors) {
            *y += factor * x;
        }
    }
}

/// `y ← x + y diag(factors)`.
pub fn scale_add(y: &mut [f64], factors: &[f64], x: &[f64]) {
    let t = factors.len().max(1);
    for (y, x) in y.chunks_exact_mut(t).zip(x.chunks_exact(t)) {
        for ((y, x), factor) in y.iter_mut().zip(x).zip(factors) {
            *y = x + factor * *y;
        }
    }
}

/// `y ← diag(factors) y`: scales rows.
pub fn scale_rows(y: &mut [f64], factors: &[f64]) {
    let t = y.len() / factors.len().max(1);
    for (row, factor) in y.chunks_exact_mut(t.max(1)).zip(factors) {
        row.iter_mut().for_each(|y| *y *= factor);
    }
}

/// `y ← diag(rows) y diag(columns)`.
pub fn scale(y: &mut [f64], rows: &[f64], columns: &[f64]) {
    for (y, row) in y.chunks_exact_mut(columns.len().max(1)).zip(rows) {
        y.iter_mut().zip(columns).for_each(|(y, column)| *y *= row * column);
    }
}

/// The given columns of a block of `t` columns.
pub fn gather(block: &[f64], t: usize, columns: &[usize]) -> Vec<f64> {
    block.chunks_exact(t.max(1)).flat_map(|row| columns.iter().map(|&c| row[c])).collect()
}

/// Adds the columns `from` of one block to the columns `to` of another of `t` columns.
pub fn scatter_add(block: &mut [f64], t: usize, to: &[usize], source: &[f64], width: usize, from: &[usize]) {
    for (row, source) in block.chunks_exact_mut(t.max(1)).zip(source.chunks_exact(width.max(1))) {
        for (&to, &from) in to.iter().zip(from) {
            row[to] += source[from];
        }
    }
}

/// The transpose of a row-major matrix with `cols` columns.
pub fn transposed(a: &[f64], cols: usize) -> Vec<f64> {
    let rows = a.len() / cols.max(1);
    let mut out = vec![0.0; rows * cols];
    if rows > 0 {
        let columns = out.chunks_exact_mut(rows).enumerate();
        columns.for_each(|(j, out)| out.iter_mut().zip(a[j..].iter().step_by(cols)).for_each(|(to, from)| *to = *from));
    }
    out
}
