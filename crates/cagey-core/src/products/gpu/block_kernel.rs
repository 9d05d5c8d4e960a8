//! The kernels of products with block-sparse matrices: S has one number s_j in each row, in the column b(j) of its
//! block, so each pair of rows costs one more multiplication.

use burn::cubecl;
use burn::cubecl::ir::ElemType;
use burn::cubecl::prelude::*;

use super::kernel::{Plan, TILE, add_all, entry_or_zero, factor, is_same, load, load_all, stage, staged, write, zeros};
use super::traced::{add_slopes, add_slopes_and_value, covariance};

/// (K(rows, columns) S)ᵀ `[i, n]`. A cube computes a block's column for some rows. `first_row` is the number of the
/// first row among the columns.
#[cube(launch, address_type = "dynamic")]
pub fn product<F: Float>(
    rows: &Tensor<F>,
    columns: &Tensor<F>,
    s: &Tensor<F>,
    bounds: &Tensor<F>,
    coefficients: &Tensor<F>,
    out: &mut Tensor<F>,
    first_row: usize,
    #[comptime] plan: Plan,
    #[define(F)] _dtype: ElemType,
) {
    let i = ABSOLUTE_POS_X as usize;
    let block = CUBE_POS_Y as usize;
    let p = comptime!(plan.p);
    let row = load::<F>(rows, i, 0, p);
    let numbers = load_all::<F>(coefficients, comptime!(plan.coefficients));
    let mut features = Shared::<[F]>::new_slice(comptime!(TILE * plan.p));
    let mut values = Shared::<[F]>::new_slice(TILE);
    let mut first = usize::cast_from(bounds[block]);
    let end = usize::cast_from(bounds[block + 1]);
    let mut sum = F::new(0.0);
    while first < end {
        let j = first + UNIT_POS_X as usize;
        stage::<F>(columns, j, 0, end, &mut features, p);
        stage::<F>(s, j, 0, end, &mut values, 1usize);
        sync_cube();
        // From zero within the tile: sums of sums are more accurate.
        let mut partial = F::new(0.0);
        for c in 0..min(TILE, end - first) {
            let column = staged::<F>(&features, c, p);
            let same = is_same::<F>(first_row + i, first + c, comptime!(plan.same));
            partial += values[c] * covariance::<F>(&row, &column, same, &numbers, comptime!(plan.program.clone()));
        }
        sum += partial;
        sync_cube();
        first += TILE;
    }
    let n = out.shape(1);
    if i < n {
        out[block * n + i] = factor::<F>(&numbers, comptime!(plan.program.outer())) * sum;
    }
}

/// The rows for which [`pull`] computes gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Of {
    /// Those of K: row i has cotangents `grad[b(j), i] s_j`.
    Rows,
    /// Its columns: column j has cotangents `grad[b(j), i] s_j`.
    Columns,
    /// The rows of a symmetric K: row i has the sum of both.
    Both,
}

/// For each row `u`: the gradient in its features, its share of the gradient in the coefficients, and the gradient in
/// s_u (0 for [`Of::Rows`]): `[parts, n, p + c + 1]`. It walks over `others`, the columns of K or its rows. `grad` is
/// `[i, rows of K]`; `first_row` is the number of the first row of K among its columns.
#[cube(launch, address_type = "dynamic")]
pub fn pull<F: Float>(
    rows: &Tensor<F>,
    others: &Tensor<F>,
    grad: &Tensor<F>,
    s: &Tensor<F>,
    bounds: &Tensor<F>,
    coefficients: &Tensor<F>,
    out: &mut Tensor<F>,
    first_row: usize,
    #[comptime] plan: Plan,
    #[comptime] of: Of,
    #[define(F)] _dtype: ElemType,
) {
    let u = ABSOLUTE_POS_X as usize;
    let p = comptime!(plan.p);
    let count = comptime!(plan.p + plan.coefficients + 1);
    let n = out.shape(1);
    let row = load::<F>(rows, u, 0, p);
    let numbers = load_all::<F>(coefficients, comptime!(plan.coefficients));
    let mut features = Shared::<[F]>::new_slice(comptime!(TILE * plan.p));
    let mut values = Shared::<[F]>::new_slice(TILE);
    let mut blocks = Shared::<[u32]>::new_slice(TILE);
    let mut own = F::new(0.0);
    let mut own_block = 0usize.runtime();
    if comptime!(of != Of::Rows) {
        own = entry_or_zero::<F>(s, u, 0, n);
        own_block = block_of::<F>(bounds, u);
    }
    let mut sums = zeros::<F>(count);
    let m = others.shape(0);
    let span = m.div_ceil(CUBE_COUNT_Z as usize);
    let mut first = CUBE_POS_Z as usize * span;
    let end = min(first + span, m);
    while first < end {
        let j = first + UNIT_POS_X as usize;
        stage::<F>(others, j, 0, end, &mut features, p);
        if comptime!(of != Of::Columns) {
            stage::<F>(s, j, 0, end, &mut values, 1usize);
            blocks[UNIT_POS_X as usize] = block_of::<F>(bounds, j) as u32;
        }
        sync_cube();
        let mut partial = zeros::<F>(count);
        for c in 0..min(TILE, end - first) {
            let column = staged::<F>(&features, c, p);
            let (mut place, mut other) = (first_row + u, first + c);
            if comptime!(of == Of::Columns) {
                place = u;
                other = first_row + first + c;
            }
            let same = is_same::<F>(place, other, comptime!(plan.same));
            let mut weight = F::new(0.0);
            if comptime!(of != Of::Columns) {
                weight = values[c] * entry_or_zero::<F>(grad, blocks[c] as usize, u, grad.shape(0));
            }
            if comptime!(of != Of::Rows) {
                let along = entry_or_zero::<F>(grad, own_block, first + c, grad.shape(0));
                weight += own * along;
                let program = comptime!(plan.program.clone());
                add_slopes_and_value::<F>(&row, &column, same, &numbers, weight, along, &mut partial, program);
            } else {
                let program = comptime!(plan.program.clone());
                add_slopes::<F>(&row, &column, same, &numbers, weight, &mut partial, program);
            }
        }
        add_all::<F>(&mut sums, &partial, count);
        sync_cube();
        first += TILE;
    }
    if u < n {
        write::<F>(&sums, &numbers, (CUBE_POS_Z as usize * n + u) * count, out, count, plan);
    }
}

/// The block of a row, given the boundaries of all blocks; the last one for rows beyond them.
#[cube]
fn block_of<F: Float>(bounds: &Tensor<F>, row: usize) -> usize {
    let at = F::cast_from(row);
    let mut low = 0usize.runtime();
    let mut high = bounds.shape(0) - 1;
    while high - low > 1 {
        let middle = (low + high) / 2;
        if bounds[middle] <= at {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}
