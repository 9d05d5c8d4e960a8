//! Dense algebra on a GPU compared with the CPU in double precision, with gradients.

use burn::tensor::{DType, Device, Tensor, TensorData};
use cagey::device::{Algebra, DeviceKind, Precision, Transfers, set_algebra};
use cagey::linalg;

use crate::common::assert_close;
use crate::{alone, computes, noise};

/// Orders near the sizes of the kernels' tiles and blocks.
const ORDERS: [usize; 7] = [1, 5, 32, 33, 129, 300, 513];

/// Symmetric positive definite matrices with condition numbers of some hundreds.
fn matrices(seed: u64, count: usize, n: usize) -> Vec<f64> {
    let mut all = Vec::with_capacity(count * n * n);
    for b in 0..count {
        let a = noise(seed + b as u64, n * n);
        for i in 0..n {
            for j in 0..n {
                let inner: f64 = (0..n).map(|k| a[i * n + k] * a[j * n + k]).sum();
                all.push(12.0 * inner / n as f64 + if i == j { 0.2 } else { 0.0 });
            }
        }
    }
    all
}

/// A value and its gradients in the inputs, as numbers, weighted at random so that no gradient is special.
type Outcome = Vec<Vec<f64>>;

fn run<const D: usize>(
    device: &Device,
    dtype: DType,
    inputs: &[(Vec<f64>, Vec<usize>)],
    f: impl Fn(&[Tensor<D>]) -> Tensor<D>,
) -> Outcome {
    let device = device.clone().autodiff();
    let leaves: Vec<Tensor<D>> = inputs
        .iter()
        .map(|(values, shape)| {
            let data = TensorData::new(values.clone(), shape.clone());
            Tensor::from_data(data.convert_dtype(dtype), (&device, dtype)).require_grad()
        })
        .collect();
    let value = f(&leaves);
    let weights = noise(99, value.shape().num_elements());
    let weights = TensorData::new(weights, value.shape()).convert_dtype(dtype);
    let gradients = (value.clone() * Tensor::from_data(weights, (&device, dtype))).sum().backward();
    let numbers = |tensor: Tensor<D>| tensor.into_data().convert::<f64>().try_into_vec::<f64>().unwrap();
    let mut all = vec![numbers(value)];
    all.extend(leaves.iter().map(|leaf| numbers(Tensor::from_inner(leaf.grad(&gradients).unwrap()))));
    all
}

/// Compares both outcomes of an operation, and checks what was transferred.
fn check<const D: usize>(what: &str, inputs: &[(Vec<f64>, Vec<usize>)], f: impl Fn(&[Tensor<D>]) -> Tensor<D>) {
    set_algebra(Algebra::Device);
    let want = run(&DeviceKind::Flex.device().unwrap(), DType::F64, inputs, &f);
    for compute in computes().into_iter().filter(|compute| !compute.kind.is_cpu()) {
        let (device, dtype) = (compute.device().unwrap(), compute.precision.dtype());
        let got = run(&device, dtype, inputs, &f);
        let name = format!("{} {}: {what}", compute.kind.name(), compute.precision.name());
        let tolerance = if compute.precision == Precision::F64 { 1e-9 } else { 3e-4 };
        for (part, (got, want)) in got.iter().zip(&want).enumerate() {
            let scale = want.iter().fold(1e-30, |m: f64, x| m.max(x.abs()));
            let scaled = |values: &[f64]| values.iter().map(|x| x / scale).collect::<Vec<_>>();
            assert_close(&format!("{name}, part {part}"), &scaled(got), &scaled(want), tolerance);
        }
    }
}

#[test]
fn factorisations_and_solves_agree() {
    for n in ORDERS {
        let k = (matrices(1, 1, n), vec![n, n]);
        check::<2>(&format!("cholesky of {n}"), std::slice::from_ref(&k), |x| {
            linalg::cholesky(x[0].clone(), "K").unwrap()
        });
        for t in [1, 7] {
            let b = (noise(2, n * t), vec![n, t]);
            let inputs = [k.clone(), b];
            let l = |x: &[Tensor<2>]| linalg::cholesky(x[0].clone(), "K").unwrap();
            check(&format!("solve {n} x {t}"), &inputs, |x| linalg::solve_lower(l(x), x[1].clone()).unwrap());
            check(&format!("transposed solve {n} x {t}"), &inputs, |x| {
                linalg::solve_lower_transposed(l(x), x[1].clone()).unwrap()
            });
            check(&format!("full solve {n} x {t}"), &inputs, |x| linalg::cholesky_solve(l(x), x[1].clone()).unwrap());
            check(&format!("whiten {n} x {t}"), &inputs, |x| linalg::whiten(x[0].clone(), x[1].clone(), "K").unwrap());
        }
    }
}

#[test]
fn batches_agree() {
    let (count, n, t) = (5, 37, 3);
    let inputs = [(matrices(7, count, n), vec![count, n, n]), (noise(8, count * n * t), vec![count, n, t])];
    check::<3>("batch", &inputs, |x| {
        let l = linalg::cholesky(x[0].clone(), "K").unwrap();
        linalg::solve_lower_transposed(l.clone(), linalg::solve_lower(l, x[1].clone()).unwrap()).unwrap()
    });
}

/// Each density and bound of matrices; vectors are packed into matrices of one column.
#[test]
fn densities_and_bounds_agree() {
    for n in [4, 33, 200] {
        let column = |seed, shift: f64| (noise(seed, n).iter().map(|x| x + shift).collect::<Vec<_>>(), vec![n, 1]);
        let inputs = [(matrices(3, 1, n), vec![n, n]), column(4, 0.7), column(5, 0.0)];
        let flat = |x: &Tensor<2>| x.clone().reshape([n]);
        check::<2>(&format!("normal density of {n}"), &inputs, |x| {
            linalg::mvn_nll(x[0].clone(), flat(&x[1]), flat(&x[2])).unwrap().reshape([1, 1])
        });
        check::<2>(&format!("leaving one of {n} out"), &inputs, |x| {
            linalg::loo_nll(x[0].clone(), flat(&x[1]), flat(&x[2])).unwrap().reshape([1, 1])
        });
        check::<2>(&format!("collapsed bound of {n}"), &inputs[..2], |x| {
            linalg::collapsed(x[0].clone(), flat(&x[1])).unwrap().reshape([1, 1])
        });
        check::<2>(&format!("log-determinant of {n}"), &inputs[..1], |x| {
            let l = linalg::cholesky(x[0].clone(), "K").unwrap();
            linalg::logdet_from_cholesky(l).unwrap().reshape([1, 1])
        });
        let packed = [(noise(6, n * (n + 1) / 2), vec![n * (n + 1) / 2, 1])];
        check::<2>(&format!("triangle of {n}"), &packed, |x| {
            linalg::unpack_lower(x[0].clone().reshape([n * (n + 1) / 2])).unwrap()
        });
        let a = (noise(9, n * 11), vec![n, 11]);
        let root = (noise(10, n * (n + 1) / 2).iter().map(|x| x + 0.6).collect::<Vec<_>>(), packed[0].1.clone());
        check::<2>(&format!("marginals of {n}"), &[a, column(11, 0.0), root], |x| {
            let root = linalg::unpack_lower(x[2].clone().reshape([n * (n + 1) / 2])).unwrap();
            let found = linalg::marginals(x[0].clone(), flat(&x[1]), root, false).unwrap();
            Tensor::cat(vec![found.shift, found.change, found.divergence], 0).reshape([23, 1])
        });
    }
}

/// A matrix that is singular up to rounding gets the same jitter as on the CPU. A matrix with a negative eigenvalue
/// gets an error that names it.
#[test]
fn what_is_not_positive_definite_is_told() {
    set_algebra(Algebra::Device);
    let n = 40;
    for compute in computes().into_iter().filter(|compute| !compute.kind.is_cpu()) {
        let (device, dtype) = (compute.device().unwrap(), compute.precision.dtype());
        let matrix = |values: Vec<f64>| {
            Tensor::<2>::from_data(TensorData::new(values, [n, n]).convert_dtype(dtype), (&device, dtype))
        };
        let ones = matrix(vec![1.0; n * n]);
        let (factor, jitter) = linalg::jitter::watch(|| linalg::cholesky(ones, "K").unwrap());
        assert!(jitter > 0.0 && jitter <= 1e-4, "{jitter}");
        let l = factor.into_data().convert::<f64>().try_into_vec::<f64>().unwrap();
        assert!((l[n] - 1.0).abs() < 1e-2 && l[1] == 0.0, "{:?}", &l[..3]);
        let mut negative = matrices(1, 1, n);
        negative[n * n - 1] = -1.0;
        let error = linalg::cholesky(matrix(negative), "K_ZZ").unwrap_err().to_string();
        assert!(error.contains("K_ZZ") && error.contains("positive definite"), "{error}");
        let mut infinite = matrices(1, 1, n);
        infinite[0] = f64::NAN;
        assert!(linalg::cholesky(matrix(infinite), "K").is_err());
    }
}

/// A step of an exact GP's evidence transfers a few numbers, not its matrix.
#[test]
fn densities_move_no_matrices() {
    if !alone() {
        return;
    }
    set_algebra(Algebra::Device);
    let n = 200;
    for compute in computes().into_iter().filter(|compute| !compute.kind.is_cpu()) {
        let (device, dtype) = (compute.device().unwrap().autodiff(), compute.precision.dtype());
        let tensor = |values: Vec<f64>| {
            let count = values.len();
            Tensor::<1>::from_data(TensorData::new(values, [count]).convert_dtype(dtype), (&device, dtype))
        };
        let k = tensor(matrices(3, 1, n)).reshape([n, n]).require_grad();
        let before = Transfers::so_far();
        let value = linalg::mvn_nll(k, tensor(vec![0.3; n]), tensor(noise(5, n))).unwrap();
        let _ = value.backward();
        let moved = Transfers::so_far() - before;
        assert!(moved.up + moved.down <= 64, "{moved:?}");
    }
}
