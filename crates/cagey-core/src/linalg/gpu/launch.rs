//! Launches the kernels on matrices of burn's CubeCL backend.

use std::ops::Range;

use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, DispatchTensor, TensorMetadata};
use burn::cubecl::{CubeCount, CubeDim};
use burn::tensor::{Shape, Tensor};

use super::kernel::{self, ACROSS, Copied, Cut, Left, PlaceLaunch, Product, TILE, UNITS};
use crate::error::Result;
use crate::linalg::on_device::{empty, primitive, tensor};

type CubeTensor = FloatTensor<Cube>;

/// A batch of row-major matrices in their own buffer.
pub struct Matrix {
    buffer: CubeTensor,
    count: usize,
    pub rows: usize,
    pub columns: usize,
}

/// The position of an entry of a matrix in its buffer, and the direction of reading.
#[derive(Clone, Copy)]
struct Corner {
    row: usize,
    column: usize,
    transposed: bool,
}

fn divided(size: usize, by: usize) -> u32 {
    size.div_ceil(by) as u32
}

impl Matrix {
    /// The matrices of a contiguous tensor `[b, n, t]`, for reading; for writing only if nobody else holds the tensor.
    pub fn of(matrices: &Tensor<3>) -> Result<Self> {
        let [count, rows, columns] = matrices.dims();
        let buffer = primitive(matrices.clone().into_dispatch())?;
        let buffer = if buffer.is_contiguous() { buffer } else { copy(buffer, None, Copied::Whole) };
        Ok(Self { buffer, count, rows, columns })
    }

    /// A copy of a part of the matrices of a tensor `[b, n, t]`, with `shift [b, n]` added to the diagonals.
    pub fn copied(matrices: &Tensor<3>, shift: Option<&Tensor<2>>, part: Copied) -> Result<Self> {
        let [count, rows, columns] = matrices.dims();
        let shift = shift.map(|shift| primitive(shift.clone().into_dispatch())).transpose()?;
        let buffer = copy(primitive(matrices.clone().into_dispatch())?, shift, part);
        Ok(Self { buffer, count, rows, columns })
    }

    /// The tensor `[b, n, t]`.
    pub fn into_tensor(self) -> Result<Tensor<3>> {
        Ok(Tensor::from_dispatch(tensor(self.buffer)))
    }

    fn place(&self, at: Corner) -> PlaceLaunch {
        let start = at.row * self.columns + at.column;
        let (down, across) = if at.transposed { (1, self.columns) } else { (self.columns, 1) };
        PlaceLaunch::new(start, down, across, self.rows * self.columns)
    }

    /// Factorises the diagonal tile with these rows.
    pub fn factor_tile(&self, tile: Range<usize>) {
        kernel::factor_tile::launch(
            &self.buffer.client,
            CubeCount::Static(1, 1, self.count as u32),
            CubeDim::new_1d(UNITS as u32),
            self.buffer.required_address_type(),
            self.buffer.clone().into_tensor_arg(),
            self.place(Corner { row: tile.start, column: tile.start, transposed: false }),
            tile.len(),
            dtype_to_storage_type(self.buffer.dtype),
        );
    }

    /// Computes the rows of the factor below a factorised diagonal tile: `L₂₁ = A₂₁ L₁₁⁻ᵀ`.
    pub fn solve_panel(&self, tile: Range<usize>) {
        let x = Corner { row: tile.end, column: tile.start, transposed: true };
        let l = Corner { row: tile.start, column: tile.start, transposed: false };
        solve_tile(self, self.place(x), self, self.place(l), tile.len(), self.rows - tile.end, Side::Forward);
    }

    /// Updates the lower triangle in these columns, in all rows from the first of them on: subtracts the product of the
    /// factor's columns `depth` with their transpose.
    pub fn update(&self, columns: Range<usize>, depth: Range<usize>) {
        let corner = |row, column, transposed| Corner { row, column, transposed };
        let c = self.place(corner(columns.start, columns.start, false));
        let a = self.place(corner(columns.start, depth.start, false));
        let b = self.place(corner(columns.start, depth.start, true));
        let size = [self.rows - columns.start, columns.len(), depth.len()];
        let shape = Product { a_along_rows: true, b_along_columns: true, lower: true };
        subtract_product(self, self, [c, a, b], size, shape);
    }
}

/// A triangular solve in progress: X holds solutions, and right-hand sides where there are no solutions yet.
pub struct Solve {
    pub l: Matrix,
    pub x: Matrix,
    pub transposed: bool,
}

/// The direction of a substitution.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Forward,
    Backward,
}

impl Solve {
    /// Solves with the diagonal tile with these rows, for the first `columns` right-hand sides.
    pub fn tile(&self, tile: Range<usize>, columns: usize) {
        let x = self.x.place(Corner { row: tile.start, column: 0, transposed: false });
        let l = self.l.place(Corner { row: tile.start, column: tile.start, transposed: false });
        let side = if self.transposed { Side::Backward } else { Side::Forward };
        solve_tile(&self.x, x, &self.l, l, tile.len(), columns, side);
    }

    /// Subtracts the contribution of the solutions in rows `known` from right-hand sides.
    pub fn subtract(&self, rows: Range<usize>, known: Range<usize>, columns: usize) {
        let corner = |row, column, transposed| Corner { row, column, transposed };
        let c = self.x.place(corner(rows.start, 0, false));
        let b = self.x.place(corner(known.start, 0, false));
        let a = match self.transposed {
            true => corner(known.start, rows.start, true),
            false => corner(rows.start, known.start, false),
        };
        let shape = Product { a_along_rows: !self.transposed, b_along_columns: false, lower: false };
        subtract_product(&self.x, &self.l, [c, self.l.place(a), b], [rows.len(), columns, known.len()], shape);
    }
}

fn solve_tile(target: &Matrix, x: PlaceLaunch, other: &Matrix, l: PlaceLaunch, order: usize, count: usize, side: Side) {
    if count == 0 {
        return;
    }
    kernel::solve_tile::launch(
        &target.buffer.client,
        CubeCount::Static(divided(count, UNITS), 1, target.count as u32),
        CubeDim::new_1d(UNITS as u32),
        target.buffer.required_address_type().max(other.buffer.required_address_type()),
        target.buffer.clone().into_tensor_arg(),
        beside(target, other).into_tensor_arg(),
        x,
        l,
        order,
        count,
        left(target, other),
        side == Side::Backward,
        dtype_to_storage_type(target.buffer.dtype),
    );
}

/// The buffer that holds the left matrix of a kernel.
fn left(target: &Matrix, other: &Matrix) -> Left {
    if std::ptr::eq(target, other) { Left::Target } else { Left::Other }
}

/// The other buffer of a kernel; a device does not accept one buffer twice if it is written to.
fn beside(target: &Matrix, other: &Matrix) -> CubeTensor {
    match left(target, other) {
        Left::Target => empty(&target.buffer, [1]),
        Left::Other => other.buffer.clone(),
    }
}

/// The size of a product from which on each unit has 8 × 8 entries. For smaller ones, that would leave most of a large
/// GPU idle.
const MANY: usize = 1 << 21;

fn subtract_product(target: &Matrix, other: &Matrix, places: [PlaceLaunch; 3], size: [usize; 3], of: Product) {
    let [rows, columns, depth] = size;
    if rows == 0 || columns == 0 {
        return;
    }
    let side = if rows * columns >= MANY { 8 } else { 4 };
    let [c, a, b] = places;
    kernel::subtract_product::launch(
        &target.buffer.client,
        CubeCount::Static(divided(columns, ACROSS * side), divided(rows, ACROSS * side), target.count as u32),
        CubeDim::new_1d(UNITS as u32),
        target.buffer.required_address_type().max(other.buffer.required_address_type()),
        target.buffer.clone().into_tensor_arg(),
        beside(target, other).into_tensor_arg(),
        c,
        a,
        b,
        rows,
        columns,
        depth,
        Cut { side, left: left(target, other), of },
        dtype_to_storage_type(target.buffer.dtype),
    );
}

fn copy(from: CubeTensor, shift: Option<CubeTensor>, part: Copied) -> CubeTensor {
    const CUBE: (usize, usize) = (TILE, UNITS / TILE);
    let to = empty(&from, from.shape());
    let [count, rows, columns] = [0, 1, 2].map(|axis| from.shape()[axis]);
    let shifted = shift.is_some();
    let shift = shift.unwrap_or_else(|| empty(&from, [1, 1]));
    kernel::copy::launch(
        &to.client,
        CubeCount::Static(divided(columns, CUBE.0), divided(rows, CUBE.1), count as u32),
        CubeDim::new_2d(CUBE.0 as u32, CUBE.1 as u32),
        to.required_address_type().max(from.required_address_type()),
        from.into_tensor_arg(),
        shift.into_tensor_arg(),
        to.clone().into_tensor_arg(),
        part,
        shifted,
        dtype_to_storage_type(to.dtype),
    );
    to
}

/// Unpacks rows into a matrix of order `m`, or packs them if `back`; the result has `shape`.
pub fn unpack(from: DispatchTensor, shape: Shape, m: usize, back: bool) -> Result<DispatchTensor> {
    const CUBE: (usize, usize) = (TILE, UNITS / TILE);
    let from = primitive(from)?;
    let to = empty(&from, shape);
    kernel::unpack::launch(
        &to.client,
        CubeCount::Static(divided(m, CUBE.0), divided(m, CUBE.1), 1),
        CubeDim::new_2d(CUBE.0 as u32, CUBE.1 as u32),
        to.required_address_type().max(from.required_address_type()),
        from.into_tensor_arg(),
        to.clone().into_tensor_arg(),
        back,
        dtype_to_storage_type(to.dtype),
    );
    Ok(tensor(to))
}
