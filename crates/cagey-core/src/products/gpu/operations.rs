//! The fused operations on tensors that stay on a GPU. The kernels compute forward and adjoint; nothing of the
//! covariance's size is kept between the two.

use std::sync::Arc;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, DispatchTensor, TensorMetadata};
use burn::tensor::Tensor;

use super::launch::{Cotangents, Matrix};
use crate::error::Result;
use crate::linalg::on_device::{DeviceOp, DeviceVjp, primitive, tensor};
use crate::products::engine::program::Program;
use crate::products::operations::dense::Dense;
use crate::products::operations::matvec::Matvec;

type CubeTensor = FloatTensor<Cube>;

pub fn matrix(rows: DispatchTensor, columns: Option<DispatchTensor>, coefficients: DispatchTensor) -> Result<Matrix> {
    let columns = columns.map(primitive).transpose()?;
    Ok(Matrix { rows: primitive(rows)?, columns, coefficients: primitive(coefficients)? })
}

fn matrix_of(primitive: CubeTensor) -> Tensor<2> {
    Tensor::from_dispatch(tensor(primitive))
}

/// Gradients in rows, coefficients and columns.
type Three = [Option<DispatchTensor>; 3];

/// The gradients that are needed. `cotangents(false)` gives the cotangents of the entries, `cotangents(true)` those of
/// the transpose. For one input with itself, the former must be the sum of both.
fn pulled(
    matrix: &Matrix,
    program: &Program,
    cotangents: impl Fn(bool) -> Result<Cotangents>,
    [in_rows, in_coefficients, in_columns]: [bool; 3],
) -> Result<Three> {
    let p = matrix.rows.shape()[1];
    let features = |pulled: &Tensor<2>| pulled.clone().narrow(1, 0, p).into_dispatch();
    let [mut rows, mut coefficients, mut columns] = [None, None, None];
    if in_rows || in_coefficients {
        let pulled = matrix_of(matrix.pull(program, cotangents(false)?));
        let count = pulled.dims()[1] - p;
        rows = in_rows.then(|| features(&pulled));
        // Each pair of rows of one input occurred twice.
        let share = if matrix.columns.is_none() { 0.5 } else { 1.0 };
        let totals = || pulled.narrow(1, p, count).sum_dim(0).reshape([count]) * share;
        coefficients = in_coefficients.then(|| totals().into_dispatch());
    }
    if in_columns && matrix.columns.is_some() {
        let pulled = matrix_of(matrix.transposed().pull(program, cotangents(true)?));
        columns = Some(features(&pulled));
    }
    Ok([rows, coefficients, columns])
}

impl DeviceOp<4> for Matvec {
    const ALGEBRA: bool = false;

    fn forward(
        self: Arc<Self>,
        [x1, coefficients, right, x2]: [DispatchTensor; 4],
    ) -> Result<(DispatchTensor, DeviceVjp<4>)> {
        let matrix = matrix(x1, (!self.same).then_some(x2), coefficients)?;
        let right = primitive(right)?;
        let product = matrix.times(&self.program, right.clone());
        let vjp = move |grad, [in_rows, in_coefficients, in_v, in_columns]: [bool; 4]| {
            let grad = primitive(grad)?;
            let cotangents = |transposed: bool| {
                let (left, right) = match (&matrix.columns, transposed) {
                    (None, _) => {
                        let join = |a: &CubeTensor, b: &CubeTensor| {
                            primitive(Tensor::cat(vec![matrix_of(a.clone()), matrix_of(b.clone())], 1).into_dispatch())
                        };
                        (join(&grad, &right)?, join(&right, &grad)?)
                    }
                    (_, false) => (grad.clone(), right.clone()),
                    (_, true) => (right.clone(), grad.clone()),
                };
                Ok(Cotangents::InnerProducts { left, right })
            };
            let needs = [in_rows, in_coefficients, in_columns];
            let [rows, coefficients, columns] = pulled(&matrix, &self.program, cotangents, needs)?;
            let v = in_v.then(|| tensor(matrix.transposed().times(&self.program, grad.clone())));
            Ok([rows, coefficients, v, columns])
        };
        Ok((tensor(product), Box::new(vjp)))
    }
}

impl DeviceOp<3> for Dense {
    const ALGEBRA: bool = false;

    fn forward(self: Arc<Self>, [x1, coefficients, x2]: [DispatchTensor; 3]) -> Result<(DispatchTensor, DeviceVjp<3>)> {
        let matrix = matrix(x1, (!self.same).then_some(x2), coefficients)?;
        let value = tensor(matrix.entries(&self.program));
        let vjp = move |grad, needs: [bool; 3]| {
            let grad: Tensor<2> = Tensor::from_dispatch(grad);
            let cotangents = |transposed: bool| {
                let given = match (&matrix.columns, transposed) {
                    (None, _) => grad.clone() + grad.clone().transpose(),
                    (_, false) => grad.clone(),
                    (_, true) => grad.clone().transpose(),
                };
                Ok(Cotangents::Given(primitive(given.into_dispatch())?))
            };
            pulled(&matrix, &self.program, cotangents, needs)
        };
        Ok((value, Box::new(vjp)))
    }
}
