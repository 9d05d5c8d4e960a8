//! The kernels: entries of the covariance, its product with a matrix, and the adjoint of both.
//!
//! In the latter two, each unit computes one row of the result and walks over the columns in tiles, which the units of
//! a cube load together. Columns may be split over cubes, to occupy a device that has more units than there are rows;
//! the partial results are added afterwards.

use burn::cubecl;
use burn::cubecl::ir::ElemType;
use burn::cubecl::prelude::*;

use super::traced::{add_slopes, covariance};
use crate::products::engine::program::Program;

/// The columns of a tile, and the units of a cube, in the kernels that sum.
pub const TILE: usize = 64;

/// The most right-hand sides that a unit multiplies at once.
pub const WIDEST: usize = 16;

/// The constants for which a kernel is compiled.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The computation on the features of two rows.
    pub program: Program,
    /// Number of features.
    pub p: usize,
    /// Number of coefficients.
    pub coefficients: usize,
    /// Whether rows and columns are from the same input.
    pub same: bool,
    /// Right-hand sides that a unit multiplies at once.
    pub width: usize,
}

impl Plan {
    /// Whether sum `k` of [`pull`] is the gradient in the program's factor.
    fn is_outer(&self, k: usize) -> bool {
        self.program.outer().is_some_and(|outer| self.p + outer == k)
    }
}

/// The source of a unit's cotangents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Weights {
    /// `left` holds one per entry of the covariance.
    Given,
    /// Inner products of rows of `left` and `right`.
    InnerProducts,
}

/// K(rows, columns) `[n, m]`; each unit computes one entry.
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
    let row = load::<F>(rows, i, 0, comptime!(plan.p));
    let column = load::<F>(columns, j, 0, comptime!(plan.p));
    let numbers = load_all::<F>(coefficients, comptime!(plan.coefficients));
    let same = is_same::<F>(i, j, comptime!(plan.same));
    let value = covariance::<F>(&row, &column, same, &numbers, comptime!(plan.program.clone()));
    let at = i * out.shape(1) + j;
    out[at] = factor::<F>(&numbers, comptime!(plan.program.outer())) * value;
}

/// The product with `right [m, t]`, `[splits, n, t]`; each unit computes `width` columns of one row of the result.
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
    let p = comptime!(plan.p);
    let width = comptime!(plan.width);
    let chunk = CUBE_POS_Y as usize * width;
    let row = load::<F>(rows, i, 0, p);
    let numbers = load_all::<F>(coefficients, comptime!(plan.coefficients));
    let mut features = Shared::<[F]>::new_slice(comptime!(TILE * plan.p));
    let mut values = Shared::<[F]>::new_slice(comptime!(TILE * plan.width));
    let mut sums = zeros::<F>(width);
    let m = columns.shape(0);
    let span = m.div_ceil(CUBE_COUNT_Z as usize);
    let begin = CUBE_POS_Z as usize * span;
    let end = min(begin + span, m);
    let mut first = begin;
    while first < end {
        let j = first + UNIT_POS_X as usize;
        stage::<F>(columns, j, 0, end, &mut features, p);
        stage::<F>(right, j, chunk, end, &mut values, width);
        sync_cube();
        // From zero within the tile, then tile by tile: sums of sums are more accurate.
        let mut partial = zeros::<F>(width);
        for c in 0..min(TILE, end - first) {
            let column = staged::<F>(&features, c, p);
            let same = is_same::<F>(i, first + c, comptime!(plan.same));
            let value = covariance::<F>(&row, &column, same, &numbers, comptime!(plan.program.clone()));
            #[unroll]
            for w in 0..width {
                partial[w] += value * values[c * width + w];
            }
        }
        add_all::<F>(&mut sums, &partial, width);
        sync_cube();
        first += TILE;
    }
    if i < out.shape(1) {
        let scale = factor::<F>(&numbers, comptime!(plan.program.outer()));
        #[unroll]
        for w in 0..width {
            if chunk + w < out.shape(2) {
                let at = (CUBE_POS_Z as usize * out.shape(1) + i) * out.shape(2) + chunk + w;
                out[at] = scale * sums[w];
            }
        }
    }
}

/// The gradient in each row's features and the row's share of the gradient in the coefficients, `[parts, n, p + c]`,
/// given the cotangents of the entries: see [`Weights`].
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
    let p = comptime!(plan.p);
    let width = comptime!(plan.width);
    let count = comptime!(plan.p + plan.coefficients);
    let chunk = CUBE_POS_Y as usize * width;
    let n = out.shape(1);
    let row = load::<F>(rows, i, 0, p);
    let numbers = load_all::<F>(coefficients, comptime!(plan.coefficients));
    let mut features = Shared::<[F]>::new_slice(comptime!(TILE * plan.p));
    let mut values = Shared::<[F]>::new_slice(comptime!(TILE * plan.width));
    let own = load::<F>(left, i, chunk, width);
    let mut sums = zeros::<F>(count);
    let m = columns.shape(0);
    let span = m.div_ceil(CUBE_COUNT_Z as usize);
    let begin = CUBE_POS_Z as usize * span;
    let end = min(begin + span, m);
    let mut first = begin;
    while first < end {
        let j = first + UNIT_POS_X as usize;
        stage::<F>(columns, j, 0, end, &mut features, p);
        if comptime!(weights == Weights::InnerProducts) {
            stage::<F>(right, j, chunk, end, &mut values, width);
        }
        sync_cube();
        let mut partial = zeros::<F>(count);
        for c in 0..min(TILE, end - first) {
            let mut weight = F::new(0.0);
            if comptime!(weights == Weights::InnerProducts) {
                #[unroll]
                for w in 0..width {
                    weight += own[w] * values[c * width + w];
                }
            } else {
                weight = entry_or_zero::<F>(left, i, first + c, n);
            }
            let column = staged::<F>(&features, c, p);
            let same = is_same::<F>(i, first + c, comptime!(plan.same));
            let program = comptime!(plan.program.clone());
            add_slopes::<F>(&row, &column, same, &numbers, weight, &mut partial, program);
        }
        add_all::<F>(&mut sums, &partial, count);
        sync_cube();
        first += TILE;
    }
    if i < n {
        let part = CUBE_POS_Y as usize * CUBE_COUNT_Z as usize + CUBE_POS_Z as usize;
        write::<F>(&sums, &numbers, (part * n + i) * count, out, count, plan);
    }
}

/// Writes the gradients of a row, multiplied by the program's factor. That in the factor itself does not contain it.
#[cube]
pub fn write<F: Float>(
    sums: &Array<F>,
    numbers: &Array<F>,
    at: usize,
    out: &mut Tensor<F>,
    #[comptime] count: usize,
    #[comptime] plan: Plan,
) {
    let scale = factor::<F>(numbers, comptime!(plan.program.outer()));
    #[unroll]
    for k in 0..count {
        if comptime!(plan.is_outer(k)) {
            out[at + k] = sums[k];
        } else {
            out[at + k] = scale * sums[k];
        }
    }
}

/// The coefficient that a program leaves to its caller; 1 if there is none.
#[cube]
pub fn factor<F: Float>(coefficients: &Array<F>, #[comptime] outer: Option<usize>) -> F {
    let mut factor = F::new(1.0);
    if comptime!(outer.is_some()) {
        factor = coefficients[comptime!(outer.unwrap_or_default())];
    }
    factor
}

/// 1 if row and column are the same row of the same input, else 0.
#[cube]
pub fn is_same<F: Float>(i: usize, j: usize, #[comptime] possible: bool) -> F {
    let mut same = F::new(0.0);
    if comptime!(possible) && i == j {
        same = F::new(1.0);
    }
    same
}

#[cube]
pub fn zeros<F: Float>(#[comptime] count: usize) -> Array<F> {
    let mut array = Array::<F>::new(count);
    #[unroll]
    for k in 0..count {
        array[k] = F::new(0.0);
    }
    array
}

/// Adds the numbers of an array to those of another.
#[cube]
pub fn add_all<F: Float>(to: &mut Array<F>, part: &Array<F>, #[comptime] count: usize) {
    #[unroll]
    for k in 0..count {
        to[k] += part[k];
    }
}

/// Columns `first..first + count` of row `i` of a matrix; zeros beyond its last row and column.
#[cube]
pub fn load<F: Float>(matrix: &Tensor<F>, i: usize, first: usize, #[comptime] count: usize) -> Array<F> {
    let mut row = Array::<F>::new(count);
    #[unroll]
    for k in 0..count {
        row[k] = entry_or_zero::<F>(matrix, i, first + k, matrix.shape(0));
    }
    row
}

/// The same columns into the place of this unit in the memory that the units of a cube share; zeros from row `end` on.
#[cube]
pub fn stage<F: Float>(
    matrix: &Tensor<F>,
    i: usize,
    first: usize,
    end: usize,
    shared: &mut Shared<[F]>,
    #[comptime] count: usize,
) {
    #[unroll]
    for k in 0..count {
        shared[UNIT_POS_X as usize * count + k] = entry_or_zero::<F>(matrix, i, first + k, end);
    }
}

/// The numbers that unit `unit` shares.
#[cube]
pub fn staged<F: Float>(shared: &Shared<[F]>, unit: usize, #[comptime] count: usize) -> Array<F> {
    let mut row = Array::<F>::new(count);
    #[unroll]
    for k in 0..count {
        row[k] = shared[unit * count + k];
    }
    row
}

#[cube]
pub fn load_all<F: Float>(vector: &Tensor<F>, #[comptime] count: usize) -> Array<F> {
    let mut all = Array::<F>::new(count);
    #[unroll]
    for k in 0..count {
        all[k] = vector[k * vector.stride(0)];
    }
    all
}

/// matrix_ij; 0 from row `end` on, and beyond the last column.
#[cube]
pub fn entry_or_zero<F: Float>(matrix: &Tensor<F>, i: usize, j: usize, end: usize) -> F {
    let mut entry = F::new(0.0);
    if i < end && j < matrix.shape(1) {
        entry = matrix[i * matrix.stride(0) + j * matrix.stride(1)];
    }
    entry
}
