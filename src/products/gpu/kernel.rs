//! The kernels: entries of the covariance, its product with a matrix, and the adjoint of both.
//!
//! The latter two give each unit one row of the result and walk over the columns in tiles that the units of a cube load
//! together. Columns may be split over cubes to occupy a device that has more units than there are rows; the partial
//! results are added afterwards.

use burn::cubecl;
use burn::cubecl::ir::ElemType;
use burn::cubecl::prelude::*;

use super::traced::{slopes, value};
use crate::kernels::form::Metric;
use crate::kernels::profile::Profile;

/// Columns in a tile, and units in a cube, of the kernels that sum.
pub const TILE: usize = 64;

/// Right-hand sides that a unit multiplies at once.
pub const WIDTH: usize = 8;

/// What a kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Plan {
    /// How features are compared.
    pub metric: Metric,
    /// The function of the comparison.
    pub profile: Profile,
    /// Number of features.
    pub p: usize,
}

/// Where a unit's cotangents come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Weights {
    /// `left` holds one per entry of the covariance.
    Given,
    /// They are inner products of rows of `left` and `right`.
    InnerProducts,
}

#[cube]
fn compare<F: Float>(a: F, b: F, #[comptime] metric: Metric) -> F {
    if comptime!(metric == Metric::SquaredDistance) { (a - b) * (a - b) } else { a * b }
}

/// One entry a unit of v · k(s(rows_i, columns_j); a) `[n, m]`, with `coefficients` (a, v).
#[cube(launch, address_type = "dynamic")]
pub fn entries<F: Float>(
    rows: &Tensor<F>,
    columns: &Tensor<F>,
    coefficients: &Tensor<F>,
    out: &mut Tensor<F>,
    #[comptime] plan: Plan,
    #[define(F)] _dtype: ElemType,
) {
    let j = ABSOLUTE_POS_X as usize;
    let i = ABSOLUTE_POS_Y as usize;
    if i >= out.shape(0) || j >= out.shape(1) {
        terminate!();
    }
    let mut s = F::new(0.0);
    for k in 0..plan.p {
        let a = rows[i * rows.stride(0) + k * rows.stride(1)];
        let b = columns[j * columns.stride(0) + k * columns.stride(1)];
        s += compare::<F>(a, b, plan.metric);
    }
    let covariance = value::<F>(s, coefficients[0], plan.profile);
    let at = i * out.shape(1) + j;
    out[at] = coefficients[1] * covariance;
}

/// The product with `right [m, t]`, `[splits, n, t]`: a row and [`WIDTH`] columns of the result a unit.
#[cube(launch, address_type = "dynamic")]
pub fn product<F: Float>(
    rows: &Tensor<F>,
    columns: &Tensor<F>,
    right: &Tensor<F>,
    coefficients: &Tensor<F>,
    out: &mut Tensor<F>,
    #[comptime] plan: Plan,
    #[define(F)] _dtype: ElemType,
) {
    let i = ABSOLUTE_POS_X as usize;
    let unit = UNIT_POS_X as usize;
    let chunk = CUBE_POS_Y as usize * WIDTH;
    let row = load_row::<F>(rows, i, plan.p);
    let mut features = Shared::<[F]>::new_slice(comptime!(TILE * plan.p));
    let mut values = Shared::<[F]>::new_slice(comptime!(TILE * WIDTH));
    let mut sums = Array::<F>::new(WIDTH);
    let m = columns.shape(0);
    let span = m.div_ceil(CUBE_COUNT_Z as usize);
    let begin = CUBE_POS_Z as usize * span;
    let end = min(begin + span, m);
    let mut first = begin;
    while first < end {
        let j = first + unit;
        if j < end {
            for k in 0..plan.p {
                features[unit * plan.p + k] = columns[j * columns.stride(0) + k * columns.stride(1)];
            }
        }
        #[unroll]
        for w in 0..WIDTH {
            values[unit * WIDTH + w] = entry_or_zero::<F>(right, j, chunk + w, end);
        }
        sync_cube();
        // From zero within the tile, then tile by tile: sums of sums keep more digits.
        let mut partial = Array::<F>::new(WIDTH);
        #[unroll]
        for w in 0..WIDTH {
            partial[w] = F::new(0.0);
        }
        for c in 0..min(TILE, end - first) {
            let mut s = F::new(0.0);
            #[unroll]
            for k in 0..plan.p {
                s += compare::<F>(row[k], features[c * plan.p + k], plan.metric);
            }
            let covariance = value::<F>(s, coefficients[0], plan.profile);
            #[unroll]
            for w in 0..WIDTH {
                partial[w] += covariance * values[c * WIDTH + w];
            }
        }
        #[unroll]
        for w in 0..WIDTH {
            sums[w] += partial[w];
        }
        sync_cube();
        first += TILE;
    }
    if i < out.shape(1) {
        #[unroll]
        for w in 0..WIDTH {
            if chunk + w < out.shape(2) {
                let at = (CUBE_POS_Z as usize * out.shape(1) + i) * out.shape(2) + chunk + w;
                out[at] = coefficients[1] * sums[w];
            }
        }
    }
}

/// The gradient in each row's features, and its share of those in a and v, `[parts, n, p + 2]`, given the cotangents of
/// the entries: see [`Weights`].
#[cube(launch, address_type = "dynamic")]
pub fn pull<F: Float>(
    rows: &Tensor<F>,
    columns: &Tensor<F>,
    left: &Tensor<F>,
    right: &Tensor<F>,
    coefficients: &Tensor<F>,
    out: &mut Tensor<F>,
    #[comptime] plan: Plan,
    #[comptime] weights: Weights,
    #[define(F)] _dtype: ElemType,
) {
    let i = ABSOLUTE_POS_X as usize;
    let unit = UNIT_POS_X as usize;
    let chunk = CUBE_POS_Y as usize * WIDTH;
    let n = out.shape(1);
    let row = load_row::<F>(rows, i, plan.p);
    let mut features = Shared::<[F]>::new_slice(comptime!(TILE * plan.p));
    let mut values = Shared::<[F]>::new_slice(comptime!(TILE * WIDTH));
    let mut own = Array::<F>::new(WIDTH);
    if comptime!(weights == Weights::InnerProducts) {
        #[unroll]
        for w in 0..WIDTH {
            own[w] = entry_or_zero::<F>(left, i, chunk + w, n);
        }
    }
    let mut sums = Array::<F>::new(comptime!(plan.p + 2));
    let m = columns.shape(0);
    let span = m.div_ceil(CUBE_COUNT_Z as usize);
    let begin = CUBE_POS_Z as usize * span;
    let end = min(begin + span, m);
    let mut first = begin;
    while first < end {
        let j = first + unit;
        if j < end {
            for k in 0..plan.p {
                features[unit * plan.p + k] = columns[j * columns.stride(0) + k * columns.stride(1)];
            }
        }
        if comptime!(weights == Weights::InnerProducts) {
            #[unroll]
            for w in 0..WIDTH {
                values[unit * WIDTH + w] = entry_or_zero::<F>(right, j, chunk + w, end);
            }
        }
        sync_cube();
        let mut partial = Array::<F>::new(comptime!(plan.p + 2));
        #[unroll]
        for k in 0..comptime!(plan.p + 2) {
            partial[k] = F::new(0.0);
        }
        for c in 0..min(TILE, end - first) {
            let mut weight = F::new(0.0);
            if comptime!(weights == Weights::InnerProducts) {
                #[unroll]
                for w in 0..WIDTH {
                    weight += own[w] * values[c * WIDTH + w];
                }
            } else {
                weight = entry_or_zero::<F>(left, i, first + c, n);
            }
            let mut s = F::new(0.0);
            #[unroll]
            for k in 0..plan.p {
                s += compare::<F>(row[k], features[c * plan.p + k], plan.metric);
            }
            let (covariance, in_s, in_a) = slopes::<F>(s, coefficients[0], plan.profile);
            #[unroll]
            for k in 0..plan.p {
                let other = features[c * plan.p + k];
                if comptime!(plan.metric == Metric::SquaredDistance) {
                    partial[k] += weight * in_s * (row[k] - other);
                } else {
                    partial[k] += weight * in_s * other;
                }
            }
            partial[plan.p] += weight * in_a;
            partial[plan.p + 1] += weight * covariance;
        }
        #[unroll]
        for k in 0..comptime!(plan.p + 2) {
            sums[k] += partial[k];
        }
        sync_cube();
        first += TILE;
    }
    if i < n {
        let part = CUBE_POS_Y as usize * CUBE_COUNT_Z as usize + CUBE_POS_Z as usize;
        let at = (part * n + i) * comptime!(plan.p + 2);
        let factor = if comptime!(plan.metric == Metric::SquaredDistance) { F::new(2.0) } else { F::new(1.0) };
        #[unroll]
        for k in 0..plan.p {
            out[at + k] = factor * coefficients[1] * sums[k];
        }
        out[at + plan.p] = coefficients[1] * sums[plan.p];
        out[at + plan.p + 1] = sums[plan.p + 1];
    }
}

#[cube]
fn load_row<F: Float>(rows: &Tensor<F>, i: usize, #[comptime] p: usize) -> Array<F> {
    let mut row = Array::<F>::new(p);
    #[unroll]
    for k in 0..p {
        row[k] = entry_or_zero::<F>(rows, i, k, rows.shape(0));
    }
    row
}

/// matrix_ij, or 0 from row `end` on and beyond the last column.
#[cube]
fn entry_or_zero<F: Float>(matrix: &Tensor<F>, i: usize, j: usize, end: usize) -> F {
    let mut entry = F::new(0.0);
    if i < end && j < matrix.shape(1) {
        entry = matrix[i * matrix.stride(0) + j * matrix.stride(1)];
    }
    entry
}
