//! Checks of a kernel.

use burn::tensor::{Tensor, TensorData};

use super::{Faults, compute, differences, irregular};
use crate::device::Precision;
use crate::error::Result;
use crate::kernels::Kernel;
use crate::linalg::Factor;
use crate::params::Parameters;
use crate::scope::{Scope, scalar, to_f64};

const ROWS: usize = 6;
const OTHERS: usize = 4;

/// Checks a kernel of `d` input columns at its present parameters: k(a, b) is `[n, m]` in the scope's type, the
/// transpose of k(b, a), equal in f32 and f64; `diag` and `gram` agree with it; covariances are finite, also of rows
/// that coincide, and positive semi-definite; gradients in free parameters and in rows equal central differences.
///
/// # Errors
/// [`Error::Usage`](crate::Error::Usage) with the faults.
pub fn kernel(kernel: &Kernel, d: usize) -> Result<()> {
    let mut faults = Faults::new(format!("the kernel `{kernel}` of {d} columns"));
    let scope = Scope::new(compute(Precision::F64))?;
    let mut a = irregular(ROWS * d, 1.0);
    // Two rows coincide.
    let (first, second) = a.split_at_mut(d);
    second[..d].copy_from_slice(first);
    let b = irregular(OTHERS * d, 2.0);
    shapes(&mut faults, kernel, &scope, [&a, &b], d);
    // Wrong shapes make all else meaningless.
    if faults.found.is_empty() {
        definite(&mut faults, kernel, &scope, &a, d);
        in_parameters(&mut faults, kernel, [&a, &b], d);
        in_rows(&mut faults, kernel, [&a, &b], d);
        single(&mut faults, kernel, [&a, &b], d);
    }
    faults.result()
}

fn shapes(faults: &mut Faults, kernel: &Kernel, scope: &Scope, [a, b]: [&[f64]; 2], d: usize) {
    let (a, b) = (scope.rows(a, d), scope.rows(b, d));
    let matrix = |x: &Tensor<2>, y: &Tensor<2>| to_f64(kernel.cross(scope, x, y)?);
    let both = faults.both(("k(a, b)", matrix(&a, &b)), ("k(b, a)", matrix(&b, &a)));
    let Some((ab, ba)) = both else { return };
    faults.require(ab.iter().all(|value| value.is_finite()), "k(a, b) has values that are not finite");
    let turned: Vec<f64> = (0..ROWS * OTHERS).map(|e| ba[e % OTHERS * ROWS + e / OTHERS]).collect();
    faults.close("k(a, b) is not the transpose of k(b, a)", &ab, &turned, 1e-12);
    if let Some(single) = faults.value("k of one row", matrix(&a.clone().narrow(0, 0, 1), &b)) {
        faults.close("k(a, b) depends on the other rows", &ab[..OTHERS], &single, 1e-12);
    }
    let (gram, diag) = (kernel.gram(scope, &a).and_then(to_f64), kernel.diag(scope, &a).and_then(to_f64));
    let Some((gram, diag)) = faults.both(("gram", gram), ("diag", diag)) else { return };
    let diagonal: Vec<f64> = gram.iter().step_by(ROWS + 1).copied().collect();
    faults.close("diag is not the diagonal of the Gram matrix", &diag, &diagonal, 1e-12);
    if let Some(cross) = faults.value("k(a, a)", matrix(&a, &a)) {
        // White noise is on the diagonal of the Gram matrix only.
        let off = |all: &[f64]| (0..ROWS * ROWS).filter(|e| e % (ROWS + 1) != 0).map(|e| all[e]).collect::<Vec<_>>();
        faults.close("the Gram matrix is not k(a, a)", &off(&gram), &off(&cross), 1e-12);
    }
}

fn definite(faults: &mut Faults, kernel: &Kernel, scope: &Scope, a: &[f64], d: usize) {
    let Some(mut gram) = faults.value("gram", kernel.gram(scope, &scope.rows(a, d)).and_then(to_f64)) else { return };
    let mean = gram.iter().step_by(ROWS + 1).sum::<f64>() / ROWS as f64;
    gram.iter_mut().step_by(ROWS + 1).for_each(|value| *value += 1e-8 * mean);
    let fault = "covariances are not positive semi-definite";
    faults.require(mean >= 0.0 && Factor::new(gram, "the Gram matrix").is_ok_and(|f| f.jitter() == 0.0), fault);
}

/// An irregular linear function of all covariances.
fn probe(kernel: &Kernel, scope: &Scope, a: &Tensor<2>, b: &Tensor<2>) -> Result<Tensor<1>> {
    let (n, m) = (a.dims()[0], b.dims()[0]);
    let [cross, gram] = [(m, 3.0), (n, 4.0)].map(|(m, seed)| scope.matrix(&irregular(n * m, seed), n, m));
    let diag = scope.vector(&irregular(n, 5.0));
    let total = (kernel.cross(scope, a, b)? * cross).sum() + (kernel.gram(scope, a)? * gram).sum();
    Ok(total + (kernel.diag(scope, a)? * diag).sum())
}

fn in_parameters(faults: &mut Faults, kernel: &Kernel, [a, b]: [&[f64]; 2], d: usize) {
    let value = |kernel: &Kernel, scope: &Scope| probe(kernel, scope, &scope.rows(a, d), &scope.rows(b, d));
    let gradient = || {
        let scope = Scope::training(compute(Precision::F64))?;
        Ok(scope.gradient(value(kernel, &scope)?, kernel)?.1)
    };
    let start = kernel.free_raw();
    if start.is_empty() {
        return;
    }
    let Some(gradient) = faults.value("the gradient in its parameters", gradient()) else { return };
    let numeric = differences(&start, &(0..start.len()).collect::<Vec<_>>(), |raw| {
        let mut moved = kernel.clone();
        moved.set_free_raw(raw)?;
        scalar(value(&moved, &Scope::new(compute(Precision::F64))?)?)
    });
    let Some(numeric) = faults.value("the value at other parameters", numeric) else { return };
    let mut at = 0;
    for (path, parameter) in kernel.parameters().into_iter().filter(|(_, p)| !p.fixed) {
        let range = at..at + parameter.freedom();
        at = range.end;
        faults.close(&format!("the gradient in {path}"), &gradient[range.clone()], &numeric[range], 1e-6);
    }
}

fn in_rows(faults: &mut Faults, kernel: &Kernel, [a, b]: [&[f64]; 2], d: usize) {
    let gradient = |x: &[f64], probe: &dyn Fn(&Scope, &Tensor<2>) -> Result<Tensor<1>>| {
        let device = compute(Precision::F64).device()?.autodiff();
        let data = TensorData::new(x.to_vec(), [x.len() / d, d]);
        let x = Tensor::<2>::from_data(data, (&device, burn::tensor::DType::F64)).require_grad();
        let scope = Scope::beside(compute(Precision::F64), &x)?;
        let value = probe(&scope, &x)?;
        // A kernel may not depend on its rows.
        let slopes = if value.is_tracked() { x.grad(&value.backward()) } else { None };
        slopes.map_or_else(|| Ok(vec![0.0; a.len()]), to_f64)
    };
    let other = |scope: &Scope, x: &Tensor<2>| probe(kernel, scope, x, &scope.rows(b, d));
    // Where rows coincide, a kernel may have a kink; its gradient is finite all the same.
    if let Some(slopes) = faults.value("the gradient in its rows", gradient(a, &other)) {
        faults.require(slopes.iter().all(|slope| slope.is_finite()), "its gradient is not finite where rows coincide");
    }
    let apart = irregular(a.len(), 6.0);
    let numeric = differences(&apart, &(0..a.len()).collect::<Vec<_>>(), |x| {
        let scope = Scope::new(compute(Precision::F64))?;
        scalar(other(&scope, &scope.rows(x, d))?)
    });
    let found = ("the gradient in its rows", gradient(&apart, &other));
    if let Some((got, want)) = faults.both(found, ("k at other rows", numeric)) {
        faults.close("the gradient in its rows", &got, &want, 1e-6);
    }
}

fn single(faults: &mut Faults, kernel: &Kernel, [a, b]: [&[f64]; 2], d: usize) {
    let [coarse, fine] = [Precision::F32, Precision::F64].map(|precision| {
        let scope = Scope::new(compute(precision))?;
        to_f64(kernel.cross(&scope, &scope.rows(a, d), &scope.rows(b, d))?)
    });
    if let Some((coarse, fine)) = faults.both(("k(a, b) in f32", coarse), ("k(a, b)", fine)) {
        faults.close("k(a, b) in f32 differs from f64", &coarse, &fine, 1e-3);
    }
}
