//! The kernels of dense algebra: factorise a tile, solve with a tile, subtract a product, copy a triangle.
//!
//! The first three work in place on parts of one buffer, given by a [`Place`]. Every matrix may be one of a batch.

use burn::cubecl;
use burn::cubecl::ir::ElemType;
use burn::cubecl::prelude::*;

/// Order of the tiles that are factorised and solved with, and depth of the chunks of a product.
pub const TILE: usize = 32;

/// Units of a cube of every kernel.
pub const UNITS: usize = 256;

/// The distance of rows in shared memory: one more than the length of a tile's row, so that columns are in different
/// banks.
const ROW: usize = TILE + 1;

/// The number of a tile's columns on which units work at the same time.
const GROUPS: usize = UNITS / TILE;

/// The mark of a failed factorisation on the diagonal, where a factor has positive numbers.
pub const FAILED: f32 = -1.0;

/// A matrix within a buffer: entry (i, j) of member b of a batch is at `start + i down + j across + b batch`.
#[derive(Debug, CubeType, CubeLaunch, Clone, Copy)]
pub struct Place {
    /// The position of entry (0, 0) of the first member.
    pub start: usize,
    /// The distance of rows.
    pub down: usize,
    /// The distance of columns.
    pub across: usize,
    /// The distance of members of a batch.
    pub batch: usize,
}

#[cube]
impl Place {
    fn at(&self, i: usize, j: usize) -> usize {
        self.start + i * self.down + j * self.across + CUBE_POS_Z as usize * self.batch
    }
}

/// Replaces the lower triangle of a tile of order at most [`TILE`] by that of its Cholesky factor; one cube per tile.
/// Where a pivot is not positive and finite, the diagonal gets [`FAILED`].
#[cube(launch, address_type = "dynamic")]
pub fn factor_tile<F: Float>(target: &mut Tensor<F>, place: Place, order: usize, #[define(F)] _dtype: ElemType) {
    let mut tile = Shared::<[F]>::new_slice(comptime!(TILE * ROW));
    let (row, group) = (UNIT_POS_X as usize % TILE, UNIT_POS_X as usize / TILE);
    let mut j = group;
    while j < order {
        if row < order && j <= row {
            tile[j * ROW + row] = target[place.at(row, j)];
        }
        j += GROUPS;
    }
    for k in 0..order {
        sync_cube();
        let pivot = tile[k * ROW + k];
        let mut root = F::new(1.0);
        let mut kept = F::new(FAILED);
        if pivot > F::new(0.0) && pivot < F::max_value() {
            root = pivot.sqrt();
            kept = root;
        }
        sync_cube();
        if group == 0 {
            if row == k {
                tile[k * ROW + k] = kept;
            } else if row > k && row < order {
                tile[k * ROW + row] /= root;
            }
        }
        sync_cube();
        let mut j = k + 1 + group;
        while j < order {
            if row >= j && row < order {
                let change = tile[k * ROW + row] * tile[k * ROW + j];
                tile[j * ROW + row] -= change;
            }
            j += GROUPS;
        }
    }
    sync_cube();
    let mut j = group;
    while j < order {
        if row < order && j <= row {
            target[place.at(row, j)] = tile[j * ROW + row];
        }
        j += GROUPS;
    }
}

/// The buffer that holds the left matrix of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Left {
    /// The buffer that the kernel writes to.
    Target,
    /// The other buffer.
    Other,
}

/// Replaces `count` vectors of at most [`TILE`] numbers, the columns of `x`, by their solutions with the triangular
/// tile `l`: with L, or with Lᵀ if `backward`. Each unit has one vector, in registers.
#[cube(launch, address_type = "dynamic")]
pub fn solve_tile<F: Float>(
    target: &mut Tensor<F>,
    other: &Tensor<F>,
    x: Place,
    l: Place,
    order: usize,
    count: usize,
    #[comptime] left: Left,
    #[comptime] backward: bool,
    #[define(F)] _dtype: ElemType,
) {
    // In the order of the substitution; backward, rows and columns are reversed.
    let mut tile = Shared::<[F]>::new_slice(comptime!(TILE * TILE));
    let mut at = UNIT_POS_X as usize;
    while at < TILE * TILE {
        let (i, j) = (at / TILE, at % TILE);
        let mut entry = F::new(0.0);
        if i == j {
            entry = F::new(1.0);
        }
        if i < order && j <= i {
            let mut place = l.at(i, j);
            if comptime!(backward) {
                place = l.at(order - 1 - j, order - 1 - i);
            }
            if comptime!(left == Left::Target) {
                entry = target[place];
            } else {
                entry = other[place];
            }
        }
        tile[at] = entry;
        at += UNITS;
    }
    sync_cube();
    let vector = ABSOLUTE_POS_X as usize;
    if vector < count {
        let mut solution = Array::<F>::new(TILE);
        #[unroll]
        for i in 0..TILE {
            let mut sum = F::new(0.0);
            if i < order {
                sum = target[x.at(substituted(i, order, backward), vector)];
            }
            #[unroll]
            for j in 0..i {
                sum -= tile[i * TILE + j] * solution[j];
            }
            solution[i] = sum / tile[i * TILE + i];
        }
        #[unroll]
        for i in 0..TILE {
            if i < order {
                target[x.at(substituted(i, order, backward), vector)] = solution[i];
            }
        }
    }
}

/// The row that is number `i` in the order of a substitution.
#[cube]
fn substituted(#[comptime] i: usize, order: usize, #[comptime] backward: bool) -> usize {
    let mut row = i.runtime();
    if comptime!(backward) {
        row = order - 1 - i;
    }
    row
}

/// How a product is split and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cut {
    /// The rows and columns of the result for each unit; a cube has 16 times as many.
    pub side: usize,
    /// Where A is.
    pub left: Left,
    /// The product to compute.
    pub of: Product,
}

/// The layout of the factors of a product, and the part of it that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Product {
    /// Whether numbers that are adjacent in memory are adjacent along the rows of A.
    pub a_along_rows: bool,
    /// Whether they are adjacent along the columns of B.
    pub b_along_columns: bool,
    /// Whether only entries on and below the diagonal are wanted.
    pub lower: bool,
}

/// The number of units along each side of a cube's part of a product.
pub const ACROSS: usize = 16;

/// The depth of A and B that is in shared memory at once.
const DEPTH: usize = 16;

/// `C −= A B` for C `[rows, columns]` and A `[rows, depth]`; B is in the buffer of C.
#[cube(launch, address_type = "dynamic")]
pub fn subtract_product<F: Float>(
    target: &mut Tensor<F>,
    other: &Tensor<F>,
    c: Place,
    a: Place,
    b: Place,
    rows: usize,
    columns: usize,
    depth: usize,
    #[comptime] cut: Cut,
    #[define(F)] _dtype: ElemType,
) {
    let side = comptime!(cut.side);
    let width = comptime!(ACROSS * cut.side);
    let stride = comptime!(ACROSS * cut.side + 1);
    let (first_row, first_column) = (CUBE_POS_Y as usize * width, CUBE_POS_X as usize * width);
    if comptime!(cut.of.lower) && first_column >= first_row + width {
        terminate!();
    }
    let mut of_a = Shared::<[F]>::new_slice(comptime!(DEPTH * (ACROSS * cut.side + 1)));
    let mut of_b = Shared::<[F]>::new_slice(comptime!(DEPTH * (ACROSS * cut.side + 1)));
    let unit = UNIT_POS_X as usize;
    let (across, down) = (unit % ACROSS, unit / ACROSS);
    let mut sums = Array::<F>::new(comptime!(cut.side * cut.side));
    #[unroll]
    for s in 0..comptime!(cut.side * cut.side) {
        sums[s] = F::new(0.0);
    }
    let mut first = 0usize.runtime();
    while first < depth {
        #[unroll]
        for part in 0..side {
            let at = part * UNITS + unit;
            let mut i = at / DEPTH;
            let mut k = at % DEPTH;
            if comptime!(!cut.of.a_along_rows) {
                i = at % width;
                k = at / width;
            }
            let mut entry = F::new(0.0);
            if first_row + i < rows && first + k < depth {
                let place = a.at(first_row + i, first + k);
                if comptime!(cut.left == Left::Target) {
                    entry = target[place];
                } else {
                    entry = other[place];
                }
            }
            of_a[k * stride + i] = entry;
            let mut j = at % width;
            let mut k = at / width;
            if comptime!(cut.of.b_along_columns) {
                j = at / DEPTH;
                k = at % DEPTH;
            }
            let mut entry = F::new(0.0);
            if first_column + j < columns && first + k < depth {
                entry = target[b.at(first + k, first_column + j)];
            }
            of_b[k * stride + j] = entry;
        }
        sync_cube();
        for k in 0..DEPTH {
            let mut row = Array::<F>::new(side);
            let mut column = Array::<F>::new(side);
            #[unroll]
            for s in 0..side {
                row[s] = of_a[k * stride + down + s * ACROSS];
                column[s] = of_b[k * stride + across + s * ACROSS];
            }
            #[unroll]
            for r in 0..side {
                #[unroll]
                for s in 0..side {
                    sums[r * side + s] += row[r] * column[s];
                }
            }
        }
        sync_cube();
        first += DEPTH;
    }
    #[unroll]
    for r in 0..side {
        #[unroll]
        for s in 0..side {
            let i = first_row + down + r * ACROSS;
            let j = first_column + across + s * ACROSS;
            let mut wanted = i < rows && j < columns;
            if comptime!(cut.of.lower) {
                wanted = wanted && j <= i;
            }
            if wanted {
                target[c.at(i, j)] -= sums[r * side + s];
            }
        }
    }
}

/// The part of a matrix to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Copied {
    /// All of it.
    Whole,
    /// The lower triangle with the diagonal; zeros above.
    Lower,
    /// The symmetric matrix with this lower triangle.
    Mirrored,
}

/// Copies a part of every matrix of a batch `[b, n, t]`, with `shift [b, n]` added to the diagonal.
#[cube(launch, address_type = "dynamic")]
pub fn copy<F: Float>(
    from: &Tensor<F>,
    shift: &Tensor<F>,
    to: &mut Tensor<F>,
    #[comptime] part: Copied,
    #[comptime] shifted: bool,
    #[define(F)] _dtype: ElemType,
) {
    let (j, i, b) = (ABSOLUTE_POS_X as usize, ABSOLUTE_POS_Y as usize, ABSOLUTE_POS_Z as usize);
    if i >= to.shape(1) || j >= to.shape(2) {
        terminate!();
    }
    let (mut row, mut column) = (i, j);
    if comptime!(part == Copied::Mirrored) && j > i {
        row = j;
        column = i;
    }
    let mut entry = F::new(0.0);
    if comptime!(part != Copied::Lower) || j <= i {
        entry = from[b * from.stride(0) + row * from.stride(1) + column * from.stride(2)];
    }
    if comptime!(shifted) && i == j {
        entry += shift[b * shift.stride(0) + i * shift.stride(1)];
    }
    let at = (b * to.shape(1) + i) * to.shape(2) + j;
    to[at] = entry;
}

/// Unpacks rows up to the diagonal, stored one after another, into a lower triangular matrix `[n, n]`; packs them if
/// `back`.
#[cube(launch, address_type = "dynamic")]
pub fn unpack<F: Float>(from: &Tensor<F>, to: &mut Tensor<F>, #[comptime] back: bool, #[define(F)] _dtype: ElemType) {
    let (j, i) = (ABSOLUTE_POS_X as usize, ABSOLUTE_POS_Y as usize);
    let packed = i * (i + 1) / 2 + j;
    if comptime!(back) {
        if i < from.shape(0) && j <= i {
            to[packed] = from[i * from.stride(0) + j * from.stride(1)];
        }
    } else if i < to.shape(0) && j < to.shape(1) {
        let mut entry = F::new(0.0);
        if j <= i {
            entry = from[packed * from.stride(0)];
        }
        let at = i * to.shape(1) + j;
        to[at] = entry;
    }
}
