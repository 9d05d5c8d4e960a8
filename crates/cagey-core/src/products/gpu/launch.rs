//! Launches the kernels on tensors of burn's CubeCL backend.

use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, TensorMetadata};
use burn::cubecl::ir::AddressType;
use burn::cubecl::{CubeCount, CubeDim};
use burn::tensor::Shape;

use super::kernel::{self, Plan, TILE, WIDEST, Weights};
use crate::linalg::on_device::empty;
use crate::products::engine::program::Program;

type CubeTensor = FloatTensor<Cube>;

/// A covariance matrix that is not stored. All tensors have one dtype.
#[derive(Debug, Clone)]
pub struct Matrix {
    /// Features of the rows `[n, p]`.
    pub rows: CubeTensor,
    /// Features of the columns `[m, p]`; None means the rows once more.
    pub columns: Option<CubeTensor>,
    /// Variances and shapes.
    pub coefficients: CubeTensor,
}

/// Cotangents of the entries of a matrix `[n, m]`.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Cotangents {
    /// Given as a matrix.
    Given(CubeTensor),
    /// `left [n, t]` times the transpose of `right [m, t]`.
    InnerProducts { left: CubeTensor, right: CubeTensor },
}

impl Matrix {
    pub(super) fn columns(&self) -> CubeTensor {
        self.columns.as_ref().unwrap_or(&self.rows).clone()
    }

    /// The matrix with rows and columns exchanged.
    pub fn transposed(&self) -> Self {
        match &self.columns {
            None => self.clone(),
            Some(columns) => {
                let (rows, columns) = (columns.clone(), Some(self.rows.clone()));
                Self { rows, columns, coefficients: self.coefficients.clone() }
            }
        }
    }

    pub(super) fn plan(&self, program: &Program, right_hand_sides: usize) -> Plan {
        Plan {
            program: program.clone(),
            p: self.rows.shape()[1],
            coefficients: self.coefficients.shape()[0],
            same: self.columns.is_none(),
            width: right_hand_sides.next_power_of_two().min(WIDEST),
        }
    }

    /// The matrix itself `[n, m]`.
    pub fn entries(&self, program: &Program) -> CubeTensor {
        const CUBE: (u32, u32) = (32, 8);
        let columns = self.columns();
        let (n, m) = (self.rows.shape()[0], columns.shape()[0]);
        let out = empty(&self.rows, [n, m]);
        let count = CubeCount::Static(cubes(m, CUBE.0 as usize), cubes(n, CUBE.1 as usize), 1);
        kernel::entries::launch(
            &out.client,
            count,
            CubeDim::new_2d(CUBE.0, CUBE.1),
            out.required_address_type(),
            self.rows.clone().into_tensor_arg(),
            columns.into_tensor_arg(),
            self.coefficients.clone().into_tensor_arg(),
            out.clone().into_tensor_arg(),
            self.plan(program, 1),
            dtype_to_storage_type(out.dtype),
        );
        out
    }

    /// Its product with `right [m, t]`: `[n, t]`.
    pub fn times(&self, program: &Program, right: CubeTensor) -> CubeTensor {
        let columns = self.columns();
        let (n, m, t) = (self.rows.shape()[0], columns.shape()[0], right.shape()[1]);
        let plan = self.plan(program, t);
        let grid = Grid::new([n, m, t], plan.width);
        let out = empty(&self.rows, [grid.splits as usize, n, t]);
        kernel::product::launch(
            &out.client,
            grid.count(),
            CubeDim::new_1d(TILE as u32),
            address([&self.rows, &columns, &right, &out]),
            self.rows.clone().into_tensor_arg(),
            columns.into_tensor_arg(),
            right.into_tensor_arg(),
            self.coefficients.clone().into_tensor_arg(),
            out.clone().into_tensor_arg(),
            plan,
            dtype_to_storage_type(out.dtype),
        );
        total(out)
    }

    /// The gradient in the rows' features, and each row's share of the gradient in the coefficients, `[n, p + c]`. If
    /// rows and columns are one input, the gradient in its features needs symmetric cotangents.
    pub fn pull(&self, program: &Program, cotangents: Cotangents) -> CubeTensor {
        let (weights, left, right) = match cotangents {
            Cotangents::Given(given) => (Weights::Given, given.clone(), given),
            Cotangents::InnerProducts { left, right } => (Weights::InnerProducts, left, right),
        };
        let columns = self.columns();
        let t = if weights == Weights::Given { 1 } else { right.shape()[1] };
        let (n, m) = (self.rows.shape()[0], columns.shape()[0]);
        let plan = self.plan(program, t);
        let grid = Grid::new([n, m, t], plan.width);
        let out = empty(&self.rows, [(grid.chunks * grid.splits) as usize, n, plan.p + plan.coefficients]);
        kernel::pull::launch(
            &out.client,
            grid.count(),
            CubeDim::new_1d(TILE as u32),
            address([&self.rows, &columns, &left, &right, &out]),
            self.rows.clone().into_tensor_arg(),
            columns.into_tensor_arg(),
            left.into_tensor_arg(),
            right.into_tensor_arg(),
            self.coefficients.clone().into_tensor_arg(),
            out.clone().into_tensor_arg(),
            plan,
            weights,
            dtype_to_storage_type(out.dtype),
        );
        total(out)
    }
}

/// The addresses that a kernel needs for the largest of these tensors.
pub(super) fn address<const N: usize>(tensors: [&CubeTensor; N]) -> AddressType {
    tensors.map(|tensor| tensor.required_address_type()).into_iter().max().unwrap_or_default()
}

/// The sum over the first axis of `[parts, n, t]`: `[n, t]`.
pub(super) fn total(parts: CubeTensor) -> CubeTensor {
    let [count, n, t] = [0, 1, 2].map(|axis| parts.shape()[axis]);
    let sum = if count == 1 { parts } else { Cube::float_sum_dim(parts, 0) };
    Cube::float_reshape(sum, Shape::from([n, t]))
}

pub(super) fn cubes(size: usize, width: usize) -> u32 {
    size.div_ceil(width) as u32
}

/// The distribution of the summing kernels over cubes.
pub(super) struct Grid {
    blocks: u32,
    chunks: u32,
    pub(super) splits: u32,
}

impl Grid {
    /// Enough units for a large GPU.
    const UNITS: usize = 1 << 16;
    /// The fewest columns for which a further split is worth its cost.
    const FEWEST: usize = 4 * TILE;
    /// The most columns of a unit: after 65,535 turns of its loops, Mesa's software Vulkan ends them without a word.
    const MOST: usize = 60_000;

    pub(super) fn new([n, m, t]: [usize; 3], width: usize) -> Self {
        let (blocks, chunks) = (cubes(n, TILE), cubes(t, width));
        let wanted = cubes(Self::UNITS / TILE, (blocks * chunks) as usize).min(cubes(m, Self::FEWEST));
        let splits = wanted.max(cubes(m, Self::MOST));
        Self { blocks, chunks, splits }
    }

    pub(super) fn count(&self) -> CubeCount {
        CubeCount::Static(self.blocks, self.chunks, self.splits)
    }
}
