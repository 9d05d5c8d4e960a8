//! Launching the kernels on tensors of burn's CubeCL backend.

use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Cube, TensorMetadata};
use burn::cubecl::{CubeCount, CubeDim};
use burn::tensor::Shape;

use super::kernel::{self, Plan, TILE, WIDTH, Weights};

type CubeTensor = FloatTensor<Cube>;

/// Backends with the kernels. All tensors are matrices of one dtype; `coefficients [2]` are (a, v).
pub trait Kernels: Backend {
    /// v · k(rows_i, columns_j) `[n, m]`.
    fn entries(
        rows: FloatTensor<Self>,
        columns: FloatTensor<Self>,
        coefficients: FloatTensor<Self>,
        plan: Plan,
    ) -> FloatTensor<Self>;

    /// The product of the former with `right [m, t]`: `[n, t]`.
    fn product(
        rows: FloatTensor<Self>,
        columns: FloatTensor<Self>,
        right: FloatTensor<Self>,
        coefficients: FloatTensor<Self>,
        plan: Plan,
    ) -> FloatTensor<Self>;

    /// Given cotangents of the entries, the gradient in `rows` and each row's share of the gradients in a and v
    /// `[n, p + 2]`. The cotangents are `left [n, m]` or, where there is a `right [m, t]`, `left [n, t]` times its
    /// transpose.
    fn pull(
        rows: FloatTensor<Self>,
        columns: FloatTensor<Self>,
        left: FloatTensor<Self>,
        right: Option<FloatTensor<Self>>,
        coefficients: FloatTensor<Self>,
        plan: Plan,
    ) -> FloatTensor<Self>;
}

impl Kernels for Cube {
    fn entries(rows: CubeTensor, columns: CubeTensor, coefficients: CubeTensor, plan: Plan) -> CubeTensor {
        const CUBE: (u32, u32) = (32, 8);
        let (n, m) = (rows.shape()[0], columns.shape()[0]);
        let out = empty(&rows, [n, m]);
        let count = CubeCount::Static(cubes(m, CUBE.0 as usize), cubes(n, CUBE.1 as usize), 1);
        kernel::entries::launch(
            &out.client,
            count,
            CubeDim::new_2d(CUBE.0, CUBE.1),
            out.required_address_type(),
            rows.into_tensor_arg(),
            columns.into_tensor_arg(),
            coefficients.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            plan,
            dtype_to_storage_type(out.dtype),
        );
        out
    }

    fn product(
        rows: CubeTensor,
        columns: CubeTensor,
        right: CubeTensor,
        coefficients: CubeTensor,
        plan: Plan,
    ) -> CubeTensor {
        let (n, m, t) = (rows.shape()[0], columns.shape()[0], right.shape()[1]);
        let grid = Grid::new(n, m, t);
        let out = empty(&rows, [grid.splits as usize, n, t]);
        let address = [&rows, &columns, &right, &out].map(|t| t.required_address_type()).into_iter().max();
        kernel::product::launch(
            &out.client,
            grid.count(),
            CubeDim::new_1d(TILE as u32),
            address.unwrap_or_default(),
            rows.into_tensor_arg(),
            columns.into_tensor_arg(),
            right.into_tensor_arg(),
            coefficients.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            plan,
            dtype_to_storage_type(out.dtype),
        );
        total(out)
    }

    fn pull(
        rows: CubeTensor,
        columns: CubeTensor,
        left: CubeTensor,
        right: Option<CubeTensor>,
        coefficients: CubeTensor,
        plan: Plan,
    ) -> CubeTensor {
        let (n, m) = (rows.shape()[0], columns.shape()[0]);
        let grid = Grid::new(n, m, right.as_ref().map_or(1, |right| right.shape()[1]));
        let weights = if right.is_some() { Weights::InnerProducts } else { Weights::Given };
        let right = right.unwrap_or_else(|| left.clone());
        let out = empty(&rows, [(grid.chunks * grid.splits) as usize, n, plan.p + 2]);
        let address = [&rows, &columns, &left, &right, &out].map(|t| t.required_address_type()).into_iter().max();
        kernel::pull::launch(
            &out.client,
            grid.count(),
            CubeDim::new_1d(TILE as u32),
            address.unwrap_or_default(),
            rows.into_tensor_arg(),
            columns.into_tensor_arg(),
            left.into_tensor_arg(),
            right.into_tensor_arg(),
            coefficients.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            plan,
            weights,
            dtype_to_storage_type(out.dtype),
        );
        total(out)
    }
}

fn empty<const D: usize>(like: &CubeTensor, shape: [usize; D]) -> CubeTensor {
    let (client, shape) = (like.client.clone(), Shape::from(shape));
    let buffer = client.empty(shape.num_elements() * like.dtype.size());
    CubeTensor::new_contiguous(client, like.device.clone(), shape, buffer, like.dtype)
}

/// The sum over the first axis of `[parts, n, t]`: `[n, t]`.
fn total(parts: CubeTensor) -> CubeTensor {
    let [count, n, t] = [0, 1, 2].map(|axis| parts.shape()[axis]);
    let sum = if count == 1 { parts } else { Cube::float_sum_dim(parts, 0) };
    Cube::float_reshape(sum, Shape::from([n, t]))
}

fn cubes(size: usize, width: usize) -> u32 {
    size.div_ceil(width) as u32
}

/// How the kernels that sum are spread over cubes.
struct Grid {
    blocks: u32,
    chunks: u32,
    splits: u32,
}

impl Grid {
    /// Enough units for a large GPU.
    const UNITS: usize = 1 << 16;
    /// Columns below which a further split costs more than it brings.
    const FEWEST: usize = 4 * TILE;

    fn new(n: usize, m: usize, t: usize) -> Self {
        let (blocks, chunks) = (cubes(n, TILE), cubes(t, WIDTH));
        let splits = cubes(Self::UNITS / TILE, (blocks * chunks) as usize).min(cubes(m, Self::FEWEST));
        Self { blocks, chunks, splits }
    }

    fn count(&self) -> CubeCount {
        CubeCount::Static(self.blocks, self.chunks, self.splits)
    }
}
