//! Natural-gradient steps in the memory of a GPU; see [`natural`](super::natural).

use burn::tensor::{Tensor, TensorData};

use super::natural::LatentSlopes;
use crate::device::algebra;
use crate::device::transfers::upload;
use crate::error::Result;
use crate::linalg::gpu::{cholesky, cholesky_solve, from_diagonal, inverse_of_factor, pack, unpack};
use crate::models::variational::Variational;
use crate::scope::{Scope, to_f64};

/// Whether the device factorises matrices of order `m` itself.
pub fn factorises(scope: &Scope, m: usize) -> bool {
    let kind = scope.compute().kind;
    !kind.is_cpu() && (kind.has_f64(scope.device()) || algebra().stays_on_device(m))
}

fn up(scope: &Scope, values: Vec<f64>) -> Tensor<1> {
    let count = values.len();
    upload(TensorData::new(values, [count]), scope.device(), scope.wide())
}

/// The sums over rows that a step needs: 2A diag(v̄)Aᵀ `[m, m]`, then A m̄ `[m]`, for A `[m, b]`.
pub fn sums(scope: &Scope, a: &Tensor<2>, (in_mean, in_variance): LatentSlopes) -> Tensor<1> {
    let [m, _] = a.dims();
    let [in_mean, in_variance] = [in_mean, in_variance].map(|slopes| up(scope, slopes));
    let scaled = a.clone() * (in_variance * 2.0).unsqueeze_dim(0);
    let data = scaled.matmul(a.clone().transpose()).reshape([m * m]);
    let pushed = a.clone().matmul(in_mean.unsqueeze_dim(1)).reshape([m]);
    Tensor::cat(vec![data, pushed], 0)
}

/// The mean and the packed lower root of q after a step of length `rate` with these sums.
///
/// With rows and columns in reverse order, the factor of the precision is the inverse of the root. So there is one
/// factorisation, and no covariance whose rounding in f32 would matter.
pub fn moved(scope: &Scope, sums: &Tensor<1>, q: &Variational, rate: f64) -> Result<(Vec<f64>, Vec<f64>)> {
    let m = q.mean.len();
    let mean: Tensor<3> = up(scope, q.mean.internal()).reshape([1, m, 1]);
    let inverse = inverse_of_factor(&unpack(&up(scope, q.root.internal()), m)?.unsqueeze())?;
    let old = inverse.clone().transpose().matmul(inverse);
    let data: Tensor<3> = sums.clone().narrow(0, 0, m * m).reshape([1, m, m]);
    let pushed: Tensor<3> = sums.clone().narrow(0, m * m, m).reshape([1, m, 1]);
    let next = old.clone().matmul(mean.clone()) * (1.0 - rate) + (data.clone().matmul(mean) - pushed) * rate;
    let eye = from_diagonal(&Tensor::ones([1, m], (scope.device(), scope.wide())))?;
    let precision = old * (1.0 - rate) + (data + eye) * rate;
    let reversed = cholesky(&precision.flip([1, 2]), None, "the precision of q(u)")?;
    let next = cholesky_solve(&reversed, &next.flip([1]))?.flip([1]);
    let root = inverse_of_factor(&reversed)?.transpose().flip([1, 2]);
    let packed = pack(&root.reshape([m, m]))?;
    let mut numbers = to_f64(Tensor::cat(vec![next.reshape([m]), packed], 0))?;
    let root = numbers.split_off(m);
    Ok((numbers, root))
}
