//! The fused operations on tensors that stay on a GPU. The kernels compute forward and adjoint; nothing of the
//! covariance's size is kept between the two.

use std::sync::Arc;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Cube, DispatchTensor, TensorMetadata};
use burn::tensor::Tensor;

use super::launch::{Cotangents, Matrix};
use crate::error::Result;
use crate::linalg::host::{Saved, recall};
use crate::linalg::on_device::{DeviceOp, primitive, tensor};
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
    if in_columns {
        let pulled = matrix_of(matrix.transposed().pull(program, cotangents(true)?));
        columns = Some(features(&pulled));
    }
    Ok([rows, coefficients, columns])
}

/// Features, coefficients and V as given.
struct Kept {
    matrix: Matrix,
    right: CubeTensor,
}

impl Matvec {
    fn on_gpu(&self, matrix: Matrix, right: DispatchTensor) -> Result<(DispatchTensor, Saved)> {
        let kept = Kept { matrix, right: primitive(right)? };
        let product = kept.matrix.times(&self.program, kept.right.clone());
        Ok((tensor(product), Arc::new(kept)))
    }

    fn gradients_on_gpu(
        &self,
        saved: Saved,
        grad: DispatchTensor,
        needs: [bool; 3],
        in_v: bool,
    ) -> Result<(Three, Option<DispatchTensor>)> {
        let (Kept { matrix, right }, grad) = (&*recall::<Kept>(saved)?, primitive(grad)?);
        let cotangents = |transposed: bool| {
            let (left, right) = match (&matrix.columns, transposed) {
                (None, _) => {
                    let join = |a: &CubeTensor, b: &CubeTensor| {
                        primitive(Tensor::cat(vec![matrix_of(a.clone()), matrix_of(b.clone())], 1).into_dispatch())
                    };
                    (join(&grad, right)?, join(right, &grad)?)
                }
                (_, false) => (grad.clone(), right.clone()),
                (_, true) => (right.clone(), grad.clone()),
            };
            Ok(Cotangents::InnerProducts { left, right })
        };
        let gradients = pulled(matrix, &self.program, cotangents, needs)?;
        let in_v = in_v.then(|| tensor(matrix.transposed().times(&self.program, grad.clone())));
        Ok((gradients, in_v))
    }
}

impl DeviceOp<3> for Matvec {
    fn is_algebra(&self) -> bool {
        false
    }

    fn forward(&self, [x, coefficients, v]: [DispatchTensor; 3]) -> Result<(DispatchTensor, Saved)> {
        self.on_gpu(matrix(x, None, coefficients)?, v)
    }

    fn adjoint(&self, saved: Saved, grad: DispatchTensor, [x, coefficients, v]: [bool; 3]) -> Result<Three> {
        let ([x, coefficients, _], v) = self.gradients_on_gpu(saved, grad, [x, coefficients, false], v)?;
        Ok([x, coefficients, v])
    }
}

impl DeviceOp<4> for Matvec {
    fn is_algebra(&self) -> bool {
        false
    }

    fn forward(&self, [x1, coefficients, v, x2]: [DispatchTensor; 4]) -> Result<(DispatchTensor, Saved)> {
        self.on_gpu(matrix(x1, Some(x2), coefficients)?, v)
    }

    fn adjoint(
        &self,
        saved: Saved,
        grad: DispatchTensor,
        [x1, coefficients, v, x2]: [bool; 4],
    ) -> Result<[Option<DispatchTensor>; 4]> {
        let ([x1, coefficients, x2], v) = self.gradients_on_gpu(saved, grad, [x1, coefficients, x2], v)?;
        Ok([x1, coefficients, v, x2])
    }
}

impl Dense {
    fn on_gpu(&self, matrix: Matrix) -> (DispatchTensor, Saved) {
        (tensor(matrix.entries(&self.program)), Arc::new(matrix))
    }

    fn gradients_on_gpu(&self, saved: Saved, grad: DispatchTensor, needs: [bool; 3]) -> Result<Three> {
        let (matrix, grad): (_, Tensor<2>) = (recall::<Matrix>(saved)?, Tensor::from_dispatch(grad));
        let cotangents = |transposed: bool| {
            let given = match (&matrix.columns, transposed) {
                (None, _) => grad.clone() + grad.clone().transpose(),
                (_, false) => grad.clone(),
                (_, true) => grad.clone().transpose(),
            };
            Ok(Cotangents::Given(primitive(given.into_dispatch())?))
        };
        pulled(&matrix, &self.program, cotangents, needs)
    }
}

impl DeviceOp<2> for Dense {
    fn is_algebra(&self) -> bool {
        false
    }

    fn forward(&self, [x, coefficients]: [DispatchTensor; 2]) -> Result<(DispatchTensor, Saved)> {
        Ok(self.on_gpu(matrix(x, None, coefficients)?))
    }

    fn adjoint(
        &self,
        saved: Saved,
        grad: DispatchTensor,
        [x, coefficients]: [bool; 2],
    ) -> Result<[Option<DispatchTensor>; 2]> {
        let [x, coefficients, _] = self.gradients_on_gpu(saved, grad, [x, coefficients, false])?;
        Ok([x, coefficients])
    }
}

impl DeviceOp<3> for Dense {
    fn is_algebra(&self) -> bool {
        false
    }

    fn forward(&self, [x1, coefficients, x2]: [DispatchTensor; 3]) -> Result<(DispatchTensor, Saved)> {
        Ok(self.on_gpu(matrix(x1, Some(x2), coefficients)?))
    }

    fn adjoint(&self, saved: Saved, grad: DispatchTensor, needs: [bool; 3]) -> Result<Three> {
        self.gradients_on_gpu(saved, grad, needs)
    }
}
