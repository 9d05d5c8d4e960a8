//! The operations of [`linalg`](crate::linalg) on tensors of a GPU; the formulas are in the files of the host
//! operations.

use std::f64::consts::TAU;
use std::sync::Arc;

use burn::backend::{DispatchTensor, TensorMetadata};
use burn::tensor::{DType, Tensor};

use super::{
    cholesky, cholesky_solve, congruence, diagonal, from_diagonal, inverse, log_det, lower, pack, solve, unpack,
};
use crate::error::Result;
use crate::linalg::cholesky::Cholesky;
use crate::linalg::collapsed::Bound;
use crate::linalg::jitter::check_rounding;
use crate::linalg::loo::LooNll;
use crate::linalg::lower::{Unpack, order};
use crate::linalg::mvn::MvnNll;
use crate::linalg::on_device::{DeviceOp, DeviceVjp, batch, shaped};
use crate::linalg::solve::{CholeskySolve, LogDet};
use crate::linalg::triangular::Solve;
use crate::scope::to_f64;

/// A vector `[n]` as a batch of one column, `[1, n, 1]`.
fn column(vector: DispatchTensor) -> Tensor<3> {
    let n = vector.shape().num_elements();
    Tensor::from_dispatch(shaped(vector, &[1, n, 1]))
}

/// A batch of one number, as the tensor `[1]`.
fn number(value: Tensor<3>) -> DispatchTensor {
    value.reshape([1]).into_dispatch()
}

/// The numbers in another shape.
fn like(tensor: Tensor<3>, shape: &[usize]) -> DispatchTensor {
    shaped(tensor.into_dispatch(), shape)
}

fn shape_of(tensor: &DispatchTensor) -> Vec<usize> {
    tensor.shape().to_vec()
}

/// The sum of all entries `[1, 1, 1]`.
fn sum(tensor: Tensor<3>) -> Tensor<3> {
    tensor.sum().reshape([1, 1, 1])
}

impl DeviceOp<1> for Cholesky {
    fn forward(self: Arc<Self>, [k]: [DispatchTensor; 1]) -> Result<(DispatchTensor, DeviceVjp<1>)> {
        let shape = shape_of(&k);
        let l = cholesky(&batch(k, &self.name)?, None, &self.name)?;
        let output = like(l.clone(), &shape);
        let vjp = move |grad, _needs: [bool; 1]| {
            // The part of L̄ above the diagonal does not affect Lᵀ L̄ on and below the diagonal.
            let product = l.clone().transpose().matmul(batch(grad, "gradient of L")?);
            Ok([Some(like(congruence(&l, &product)?, &shape))])
        };
        Ok((output, Box::new(vjp)))
    }
}

impl DeviceOp<2> for Solve {
    fn forward(self: Arc<Self>, [l, b]: [DispatchTensor; 2]) -> Result<(DispatchTensor, DeviceVjp<2>)> {
        let shape = shape_of(&b);
        let (l, b) = (batch(l, "L")?, batch(b, "B")?);
        let x = solve(&l, &b, self.transposed)?;
        let output = like(x.clone(), &shape);
        let vjp = move |grad, needs: [bool; 2]| {
            let b = solve(&l, &batch(grad, "gradient of X")?, !self.transposed)?;
            let (left, right) = if self.transposed { (&x, &b) } else { (&b, &x) };
            let in_l = needs[0].then(|| lower(&(-left.clone().matmul(right.clone().transpose())))).transpose()?;
            Ok([in_l.map(|l| like(l, &square_shape(&shape))), Some(like(b, &shape))])
        };
        Ok((output, Box::new(vjp)))
    }
}

/// The shape of the factors, given that of right-hand sides `[.., n, t]`.
fn square_shape(of_solutions: &[usize]) -> Vec<usize> {
    let mut shape = of_solutions.to_vec();
    if let [.., n, t] = shape.as_mut_slice() {
        *t = *n;
    }
    shape
}

impl DeviceOp<2> for CholeskySolve {
    fn forward(self: Arc<Self>, [l, b]: [DispatchTensor; 2]) -> Result<(DispatchTensor, DeviceVjp<2>)> {
        let shape = shape_of(&b);
        let (l, b) = (batch(l, "L")?, batch(b, "B")?);
        let x = cholesky_solve(&l, &b)?;
        let output = like(x.clone(), &shape);
        let vjp = move |grad, needs: [bool; 2]| {
            let b = cholesky_solve(&l, &batch(grad, "gradient of X")?)?;
            let in_l = needs[0].then(|| {
                let half = b.clone().matmul(x.clone().transpose());
                lower(&(-(half.clone() + half.transpose()).matmul(l.clone())))
            });
            Ok([in_l.transpose()?.map(|l| like(l, &square_shape(&shape))), Some(like(b, &shape))])
        };
        Ok((output, Box::new(vjp)))
    }
}

impl DeviceOp<1> for LogDet {
    const ALGEBRA: bool = false;

    fn forward(self: Arc<Self>, [l]: [DispatchTensor; 1]) -> Result<(DispatchTensor, DeviceVjp<1>)> {
        let l = batch(l, "L")?;
        let diagonal: Tensor<3> = diagonal(&l).unsqueeze_dim(2);
        let vjp = move |grad, _needs: [bool; 1]| {
            let n = diagonal.dims()[1];
            let slope = (diagonal.recip() * column(grad) * 2.0).squeeze_dim(2);
            Ok([Some(like(from_diagonal(&slope)?, &[n, n]))])
        };
        Ok((log_det(&l).reshape([1]).into_dispatch(), Box::new(vjp)))
    }
}

impl DeviceOp<1> for Unpack {
    const ALGEBRA: bool = false;

    fn forward(self: Arc<Self>, [packed]: [DispatchTensor; 1]) -> Result<(DispatchTensor, DeviceVjp<1>)> {
        let m = order(packed.shape().num_elements())?;
        let vjp = |grad, _needs: [bool; 1]| Ok([Some(pack(&Tensor::from_dispatch(grad))?.into_dispatch())]);
        Ok((unpack(&Tensor::from_dispatch(packed), m)?.into_dispatch(), Box::new(vjp)))
    }
}

/// The factor of `K + diag(noise)`, `[1, n, n]`, and α `[1, n, 1]`.
fn posterior(k: DispatchTensor, noise: DispatchTensor, r: &Tensor<3>) -> Result<(Tensor<3>, Tensor<3>)> {
    let (k, noise) = (batch(k, "K")?, column(noise));
    let n = k.dims()[1];
    if k.dtype() == DType::F64 {
        let of_noise = noise.clone().min().reshape([1]);
        let mean = diagonal(&k).mean().reshape([1]);
        if let [least, mean] = to_f64(Tensor::cat(vec![of_noise, mean], 0))?[..] {
            check_rounding(n, mean, least);
        }
    }
    let l = cholesky(&k, Some(&noise.squeeze_dim(2)), "K + σ²I")?;
    let alpha = cholesky_solve(&l, r)?;
    Ok((l, alpha))
}

/// What an adjoint gives for a covariance matrix `[n, n]` and for noise on its diagonal `[n]`, if `needs` has either.
fn with_diagonal(needs: [bool; 2], full: impl FnOnce() -> Result<Tensor<3>>) -> Result<[Option<DispatchTensor>; 2]> {
    if needs == [false; 2] {
        return Ok([None, None]);
    }
    let full = full()?;
    let n = full.dims()[1];
    let noise = needs[1].then(|| shaped(diagonal(&full).into_dispatch(), &[n]));
    Ok([needs[0].then(|| like(full, &[n, n])), noise])
}

impl DeviceOp<3> for MvnNll {
    fn forward(self: Arc<Self>, [k, noise, r]: [DispatchTensor; 3]) -> Result<(DispatchTensor, DeviceVjp<3>)> {
        let r = column(r);
        let (l, alpha) = posterior(k, noise, &r)?;
        let n = r.dims()[1];
        let value = (sum(r * alpha.clone()) + log_det(&l).unsqueeze_dim(2) + n as f64 * TAU.ln()) * 0.5;
        let vjp = move |grad, needs: [bool; 3]| {
            let grad = column(grad);
            let [k, noise] = with_diagonal([needs[0], needs[1]], || {
                let outer = alpha.clone().matmul(alpha.clone().transpose());
                Ok((inverse(&l)? - outer) * (grad.clone() * 0.5))
            })?;
            Ok([k, noise, Some(like(alpha * grad, &[n]))])
        };
        Ok((number(value), Box::new(vjp)))
    }
}

impl DeviceOp<3> for LooNll {
    fn forward(self: Arc<Self>, [k, noise, r]: [DispatchTensor; 3]) -> Result<(DispatchTensor, DeviceVjp<3>)> {
        let (l, alpha) = posterior(k, noise, &column(r))?;
        let a = inverse(&l)?;
        let d: Tensor<3> = diagonal(&a).unsqueeze_dim(2);
        let terms = alpha.clone().powi_scalar(2) / d.clone() - d.clone().log() + TAU.ln();
        let vjp = move |grad, needs: [bool; 3]| {
            let (n, grad) = (alpha.dims()[1], column(grad));
            let v = alpha.clone() / d.clone() * grad.clone();
            let av = a.clone().matmul(v);
            let [k, noise] = with_diagonal([needs[0], needs[1]], || {
                let weights = ((alpha.clone().powi_scalar(2) / d.clone() + 1.0) / d * 0.5).transpose();
                let first = (a.clone() * weights).matmul(a) * grad;
                let outer = av.clone().matmul(alpha.transpose());
                Ok(first - (outer.clone() + outer.transpose()) * 0.5)
            })?;
            Ok([k, noise, Some(like(av, &[n]))])
        };
        Ok((number(sum(terms) * 0.5), Box::new(vjp)))
    }
}

impl DeviceOp<2> for Bound {
    fn forward(self: Arc<Self>, [q, b]: [DispatchTensor; 2]) -> Result<(DispatchTensor, DeviceVjp<2>)> {
        let (q, b) = (batch(q, "Q")?, column(b));
        let m = q.dims()[1];
        let ones = Tensor::ones([1, m], (&q.device(), q.dtype()));
        let l = cholesky(&q, Some(&ones), "I + L⁻¹K_ZX Σ⁻¹K_XZ L⁻ᵀ")?;
        let mean = cholesky_solve(&l, &b)?;
        let trace = diagonal(&q).sum().reshape([1, 1, 1]);
        let value = (log_det(&l).unsqueeze_dim(2) - sum(b * mean.clone()) - trace) * 0.5;
        let vjp = move |grad, _needs: [bool; 2]| {
            let grad = column(grad);
            let eye = from_diagonal(&Tensor::ones([1, m], (&mean.device(), mean.dtype())))?;
            let outer = mean.clone().matmul(mean.clone().transpose());
            let in_q = (inverse(&l)? + outer - eye) * (grad.clone() * 0.5);
            Ok([Some(like(in_q, &[m, m])), Some(like(-mean * grad, &[m]))])
        };
        Ok((number(value), Box::new(vjp)))
    }
}
