//! Products with block-sparse matrices on tensors that stay on a GPU.

use std::sync::Arc;

use burn::backend::cubecl::dtype_to_storage_type;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, DispatchTensor, TensorMetadata};
use burn::cubecl::{CubeCount, CubeDim};
use burn::tensor::{Tensor, TensorData};

use super::block_kernel::{self, Of};
use super::kernel::TILE;
use super::launch::{Grid, Matrix, address, cubes, total};
use super::operations::matrix;
use crate::device::transfers::upload;
use crate::error::Result;
use crate::linalg::on_device::{DeviceOp, DeviceVjp, empty, primitive, shaped, tensor};
use crate::products::engine::program::Program;
use crate::products::operations::actions::Actions;

type CubeTensor = FloatTensor<Cube>;

/// The inputs of a product with a block-sparse S.
struct Kept {
    /// Its columns are given even if they are its rows.
    matrix: Matrix,
    /// Whether rows and columns are one input.
    symmetric: bool,
    /// The number of the first row among the columns, if the rows are some of those.
    own: Option<usize>,
    /// S `[m, 1]`.
    s: CubeTensor,
    /// The boundaries of its blocks `[i + 1]`.
    bounds: CubeTensor,
}

impl Kept {
    fn product(&self, program: &Program) -> CubeTensor {
        let (n, i) = (self.matrix.rows.shape()[0], self.bounds.shape()[0] - 1);
        let columns = self.matrix.columns();
        let mut plan = self.matrix.plan(program, 1);
        plan.same = self.own.is_some();
        let out = empty(&self.matrix.rows, [i, n]);
        block_kernel::product::launch(
            &out.client,
            CubeCount::Static(cubes(n, TILE), i as u32, 1),
            CubeDim::new_1d(TILE as u32),
            address([&self.matrix.rows, &columns, &out]),
            self.matrix.rows.clone().into_tensor_arg(),
            columns.into_tensor_arg(),
            self.s.clone().into_tensor_arg(),
            self.bounds.clone().into_tensor_arg(),
            self.matrix.coefficients.clone().into_tensor_arg(),
            out.clone().into_tensor_arg(),
            self.own.unwrap_or_default(),
            plan,
            dtype_to_storage_type(out.dtype),
        );
        out
    }

    /// The gradients of some rows, side by side; see [`block_kernel::pull`].
    fn pull(&self, program: &Program, grad: &CubeTensor, of: Of) -> Tensor<2> {
        let mut plan = self.matrix.plan(program, 1);
        plan.same = self.own.is_some();
        let (rows, others) = match of {
            Of::Columns => (self.matrix.columns(), self.matrix.rows.clone()),
            _ => (self.matrix.rows.clone(), self.matrix.columns()),
        };
        let (n, m) = (rows.shape()[0], others.shape()[0]);
        let grid = Grid::new([n, m, 1], 1);
        let out = empty(&rows, [grid.splits as usize, n, plan.p + plan.coefficients + 1]);
        block_kernel::pull::launch(
            &out.client,
            grid.count(),
            CubeDim::new_1d(TILE as u32),
            address([&rows, &others, grad, &out]),
            rows.into_tensor_arg(),
            others.into_tensor_arg(),
            grad.clone().into_tensor_arg(),
            self.s.clone().into_tensor_arg(),
            self.bounds.clone().into_tensor_arg(),
            self.matrix.coefficients.clone().into_tensor_arg(),
            out.clone().into_tensor_arg(),
            self.own.unwrap_or_default(),
            plan,
            of,
            dtype_to_storage_type(out.dtype),
        );
        Tensor::from_dispatch(tensor(total(out)))
    }
}

impl DeviceOp<4> for Actions {
    const ALGEBRA: bool = false;

    fn forward(
        self: Arc<Self>,
        [x1, coefficients, s, x2]: [DispatchTensor; 4],
    ) -> Result<(DispatchTensor, DeviceVjp<4>)> {
        let bounds: Vec<f64> = self.offsets.iter().map(|&bound| bound as f64).collect();
        let symmetric = self.own.is_some() && x1.shape()[0] == x2.shape()[0];
        let m = s.shape().num_elements();
        let matrix = matrix(x1, Some(x2), coefficients)?;
        let place: Tensor<2> = Tensor::from_dispatch(tensor(matrix.rows.clone()));
        let bounds: Tensor<1> = upload(TensorData::new(bounds, [self.offsets.len()]), &place.device(), place.dtype());
        let (s, bounds) = (primitive(shaped(s, &[m, 1]))?, primitive(bounds.into_dispatch())?);
        let kept = Kept { matrix, symmetric, own: self.own, s, bounds };
        let product = kept.product(&self.program);
        Ok((tensor(product), Box::new(move |grad, needs| self.gradients_on_gpu(&kept, &primitive(grad)?, needs))))
    }
}

impl Actions {
    /// For one input as rows and columns, all of its gradient is that of the rows, and the columns get zeros.
    fn gradients_on_gpu(
        &self,
        kept: &Kept,
        grad: &CubeTensor,
        [x1, coefficients, s, x2]: [bool; 4],
    ) -> Result<[Option<DispatchTensor>; 4]> {
        let (p, c) = (kept.matrix.rows.shape()[1], kept.matrix.coefficients.shape()[0]);
        let features = |pulled: &Tensor<2>| pulled.clone().narrow(1, 0, p).into_dispatch();
        let in_s = |pulled: &Tensor<2>| {
            let n = pulled.dims()[0];
            pulled.clone().narrow(1, p + c, 1).reshape([n]).into_dispatch()
        };
        let totals = |pulled: &Tensor<2>| pulled.clone().narrow(1, p, c).sum_dim(0).reshape([c]);
        if kept.symmetric {
            let pulled = kept.pull(&self.program, grad, Of::Both);
            // Each pair of rows occurred twice.
            let coefficients = coefficients.then(|| (totals(&pulled) * 0.5).into_dispatch());
            let rest = x2.then(|| pulled.clone().narrow(1, 0, p).zeros_like().into_dispatch());
            return Ok([x1.then(|| features(&pulled)), coefficients, s.then(|| in_s(&pulled)), rest]);
        }
        let columns = (x2 || s).then(|| kept.pull(&self.program, grad, Of::Columns));
        let rows = (x1 || (coefficients && columns.is_none())).then(|| kept.pull(&self.program, grad, Of::Rows));
        let in_coefficients = if coefficients { columns.as_ref().or(rows.as_ref()).map(totals) } else { None };
        Ok([
            rows.as_ref().filter(|_| x1).map(features),
            in_coefficients.map(Tensor::into_dispatch),
            columns.as_ref().filter(|_| s).map(in_s),
            columns.as_ref().filter(|_| x2).map(features),
        ])
    }
}
