//! Dense algebra in the memory of a GPU: factorisation, triangular solves and the inverse, blocked, for one matrix or a
//! batch `[b, n, n]`.
//!
//! One cube factorises a tile of order 32. Then the panel below it is solved for, and the columns to its right
//! are updated: first within a block of 128 columns, then the rest at once, so that most of the arithmetic is a
//! product of some depth. Everything happens in place in one buffer, with about n/10 launches to factorise.

mod kernel;
mod launch;
mod operations;

use burn::tensor::{DType, Slice, Tensor, TensorData};

use crate::device::transfers;
use crate::error::{Error, Result};
use crate::linalg::jitter;
use kernel::{Copied, TILE};
use launch::{Matrix, Solve};

/// The number of columns after which all columns to their right are updated.
const BLOCK: usize = 4 * TILE;

/// The lower factors of symmetric matrices `[b, n, n]` with `noise [b, n]` added to their diagonals; zeros above the
/// diagonals. By the policy of [`jitter`], only matrices that failed get jitter. `name` appears in the error.
///
/// Reads back one number per matrix, to know whether it succeeded.
///
/// # Errors
/// [`Error::NotPositiveDefinite`].
pub fn cholesky(k: &Tensor<3>, noise: Option<&Tensor<2>>, name: &str) -> Result<Tensor<3>> {
    let [count, n, _] = k.dims();
    let mut factor = attempt(k, noise)?;
    let mut failed = failures(&factor)?;
    if failed.iter().all(Option::is_none) {
        return Ok(factor);
    }
    let device = k.device();
    let diagonals =
        numbers(diagonal(k) + noise.cloned().unwrap_or_else(|| Tensor::zeros([1, 1], (&device, k.dtype()))))?;
    let scales: Vec<f64> = diagonals.chunks_exact(n).map(|d| d.iter().sum::<f64>() / n as f64).collect();
    let mut jitters = vec![0.0; count];
    for exponent in jitter::exponents(k.dtype() == DType::F32) {
        for (b, _) in failed.iter().enumerate().filter(|(_, pivot)| pivot.is_some()) {
            if !scales[b].is_finite() {
                return Err(not_definite(name, n, k.dtype(), failed[b], 0.0, false));
            }
            jitters[b] = 10f64.powi(exponent);
        }
        let shifts: Vec<f64> = jitters.iter().zip(&scales).flat_map(|(j, s)| std::iter::repeat_n(j * s, n)).collect();
        let shifts = TensorData::new(shifts, [count, n]);
        let shifts: Tensor<2> = transfers::upload(shifts.convert_dtype(k.dtype()), &device, k.dtype());
        let shifts = noise.map_or(shifts.clone(), |noise| noise.clone() + shifts);
        factor = attempt(k, Some(&shifts))?;
        failed = failures(&factor)?;
        if failed.iter().all(Option::is_none) {
            jitters.into_iter().for_each(jitter::record);
            return Ok(factor);
        }
    }
    let (b, pivot) = failed.into_iter().enumerate().find(|(_, pivot)| pivot.is_some()).unwrap_or_default();
    let name = if count == 1 { name.to_string() } else { format!("{name}[{b}]") };
    Err(not_definite(&name, n, k.dtype(), pivot, 10f64.powi(jitter::LARGEST), true))
}

fn not_definite(name: &str, size: usize, dtype: DType, pivot: Option<usize>, jitter: f64, finite: bool) -> Error {
    let dtype = if dtype == DType::F64 { "f64" } else { "f32" };
    Error::NotPositiveDefinite { matrix: name.into(), size, dtype, pivot: pivot.unwrap_or_default(), jitter, finite }
}

/// One factorisation, without a check of the outcome.
fn attempt(k: &Tensor<3>, noise: Option<&Tensor<2>>) -> Result<Tensor<3>> {
    let factor = Matrix::copied(k, noise, Copied::Lower)?;
    let n = factor.rows;
    for block in (0..n).step_by(BLOCK) {
        let end = (block + BLOCK).min(n);
        for k in (block..end).step_by(TILE) {
            let next = (k + TILE).min(n);
            factor.factor_tile(k..next);
            factor.solve_panel(k..next);
            factor.update(next..end, k..next);
        }
        factor.update(end..n, block..end);
    }
    factor.into_tensor()
}

/// The first invalid pivot of each matrix, if any.
fn failures(factor: &Tensor<3>) -> Result<Vec<Option<usize>>> {
    let diagonals = diagonal(factor);
    let smallest = numbers(diagonals.clone().min_dim(1))?;
    if smallest.iter().all(|&d| d > 0.0) {
        return Ok(vec![None; smallest.len()]);
    }
    let n = factor.dims()[1];
    Ok(numbers(diagonals)?.chunks_exact(n).map(|d| d.iter().position(|&d| d.is_nan() || d <= 0.0)).collect())
}

fn numbers(tensor: Tensor<2>) -> Result<Vec<f64>> {
    crate::scope::to_f64(tensor)
}

/// The diagonals `[b, n]` of matrices `[b, n, n]`.
pub fn diagonal(matrices: &Tensor<3>) -> Tensor<2> {
    let [count, n, _] = matrices.dims();
    let flat = matrices.clone().reshape([count, n * n]);
    flat.slice([Slice::full(), Slice::new(0, None, n as isize + 1)])
}

/// Matrices `[b, n, n]` with these diagonals `[b, n]`, zero elsewhere.
pub fn from_diagonal(diagonals: &Tensor<2>) -> Result<Tensor<3>> {
    let ([count, n], options) = (diagonals.dims(), (&diagonals.device(), diagonals.dtype()));
    Matrix::copied(&Tensor::zeros([count, n, n], options), Some(diagonals), Copied::Lower)?.into_tensor()
}

/// `L⁻¹ B`, or `L⁻ᵀ B` if `transposed`, for lower triangular L `[b, n, n]` and B `[b, n, t]`.
pub fn solve(l: &Tensor<3>, b: &Tensor<3>, transposed: bool) -> Result<Tensor<3>> {
    let x = Matrix::copied(b, None, Copied::Whole)?;
    let columns = x.columns;
    let solve = Solve { l: Matrix::of(l)?, x, transposed };
    let n = solve.l.rows;
    let mut blocks: Vec<usize> = (0..n).step_by(BLOCK).collect();
    if transposed {
        blocks.reverse();
    }
    for block in blocks {
        let end = (block + BLOCK).min(n);
        let mut tiles: Vec<usize> = (block..end).step_by(TILE).collect();
        if transposed {
            tiles.reverse();
        }
        for k in tiles {
            let tile = k..(k + TILE).min(n);
            solve.tile(tile.clone(), columns);
            solve.subtract(if transposed { block..k } else { tile.end..end }, tile, columns);
        }
        solve.subtract(if transposed { 0..block } else { end..n }, block..end, columns);
    }
    solve.x.into_tensor()
}

/// `L⁻¹ [b, n, n]`, at a third of the cost of a solve with as many right-hand sides.
pub fn inverse_of_factor(l: &Tensor<3>) -> Result<Tensor<3>> {
    let [count, n, _] = l.dims();
    let ones = Tensor::ones([count, n], (&l.device(), l.dtype()));
    let solve = Solve { l: Matrix::of(l)?, x: Matrix::of(&from_diagonal(&ones)?)?, transposed: false };
    for block in (0..n).step_by(BLOCK) {
        let end = (block + BLOCK).min(n);
        for k in (block..end).step_by(TILE) {
            let tile = k..(k + TILE).min(n);
            solve.tile(tile.clone(), tile.end);
            solve.subtract(tile.end..end, tile.clone(), tile.end);
        }
        solve.subtract(end..n, block..end, end);
    }
    solve.x.into_tensor()
}

/// `(L Lᵀ)⁻¹ [b, n, n]`.
pub fn inverse(l: &Tensor<3>) -> Result<Tensor<3>> {
    let root = inverse_of_factor(l)?;
    Ok(root.clone().transpose().matmul(root))
}

/// `(L Lᵀ)⁻¹ B`.
pub fn cholesky_solve(l: &Tensor<3>, b: &Tensor<3>) -> Result<Tensor<3>> {
    solve(l, &solve(l, b, false)?, true)
}

/// `log|L Lᵀ| [b, 1]`.
pub fn log_det(l: &Tensor<3>) -> Tensor<2> {
    diagonal(l).log().sum_dim(1) * 2.0
}

/// The lower triangles; zeros above.
pub fn lower(matrices: &Tensor<3>) -> Result<Tensor<3>> {
    Matrix::copied(matrices, None, Copied::Lower)?.into_tensor()
}

/// `½ L⁻ᵀ (P + Pᵀ) L⁻¹`, where the lower triangle of P, with its diagonal doubled, is that of `p`. If `p` is `Lᵀ L̄`,
/// this is the adjoint of a factorisation (Murray 2016, eq. 10).
pub fn congruence(l: &Tensor<3>, p: &Tensor<3>) -> Result<Tensor<3>> {
    let symmetric = Matrix::copied(p, None, Copied::Mirrored)?.into_tensor()?;
    let half = solve(l, &symmetric, true)?;
    Ok(solve(l, &half.transpose(), true)? * 0.5)
}

/// The lower triangular matrix `[m, m]` of packed rows `[m(m + 1)/2]`.
pub fn unpack(packed: &Tensor<1>, m: usize) -> Result<Tensor<2>> {
    launch::unpack(packed.clone().into_dispatch(), [m, m].into(), m, false).map(Tensor::from_dispatch)
}

/// The rows up to the diagonal of a matrix `[m, m]`, one after another.
pub fn pack(full: &Tensor<2>) -> Result<Tensor<1>> {
    let m = full.dims()[0];
    launch::unpack(full.clone().into_dispatch(), [m * (m + 1) / 2].into(), m, true).map(Tensor::from_dispatch)
}
