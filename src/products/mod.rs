//! Products with covariance matrices, and the matrices themselves, faster than the tensor graph that defines them.

mod dense;
mod program;
mod scalar;

use burn::tensor::Tensor;

use crate::error::Result;
use crate::kernels::Kernel;
use crate::scope::Scope;

/// k(x1, x2) `[n, m]`: one fused operation with an analytic adjoint on the CPU, the tensor graph elsewhere.
///
/// # Errors
/// Whatever a user's kernel form reports.
pub fn cross(kernel: &Kernel, scope: &Scope, x1: &Tensor<2>, x2: &Tensor<2>) -> Result<Tensor<2>> {
    if !scope.compute().kind.is_cpu() {
        return kernel.cross(scope, x1, x2);
    }
    match (kernel.lower(scope, x1), kernel.lower(scope, x2)) {
        (Some(a), Some(b)) => dense::cross(&a, &b),
        _ => by_parts(kernel, |k| cross(k, scope, x1, x2), || kernel.cross(scope, x1, x2)),
    }
}

/// k(x, x) `[n, n]`, white noise on the diagonal included; fused as [`cross`].
///
/// # Errors
/// As [`cross`].
pub fn gram(kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Tensor<2>> {
    if !scope.compute().kind.is_cpu() {
        return kernel.gram(scope, x);
    }
    match kernel.lower(scope, x) {
        Some(lowered) => dense::gram(&lowered),
        None => by_parts(kernel, |k| gram(k, scope, x), || kernel.gram(scope, x)),
    }
}

/// A kernel with a leaf that cannot be lowered: its other summands and factors still can.
fn by_parts(
    kernel: &Kernel,
    part: impl Fn(&Kernel) -> Result<Tensor<2>>,
    whole: impl Fn() -> Result<Tensor<2>>,
) -> Result<Tensor<2>> {
    let (parts, join): (_, fn(Tensor<2>, Tensor<2>) -> Tensor<2>) = match kernel {
        Kernel::Sum(parts) => (parts, |a, b| a + b),
        Kernel::Product(parts) => (parts, |a, b| a * b),
        _ => return whole(),
    };
    let mut matrices = parts.iter().map(part);
    let Some(first) = matrices.next() else { return whole() };
    matrices.try_fold(first?, |sum, next| Ok(join(sum, next?)))
}
