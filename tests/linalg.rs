//! The dense operations against textbook formulas, reconstructions, each other, and finite differences.

use std::f64::consts::TAU;

use burn::tensor::{DType, Device, Tensor, TensorData};
use cagey::Error;
use cagey::linalg::{cholesky, jitter, mvn_nll};

/// The devices under test.
fn devices() -> Vec<Device> {
    vec![
        Device::flex(),
        #[cfg(feature = "ndarray")]
        Device::ndarray(),
    ]
}

/// Deterministic numbers in (-1, 1).
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// `G Gᵀ / n + I`.
fn positive_definite(n: usize, seed: u64) -> Vec<f64> {
    let g = numbers(n * n, seed);
    let mut k = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..n {
            k[i * n + j] = (0..n).map(|l| g[i * n + l] * g[j * n + l]).sum::<f64>() / n as f64;
        }
        k[i * n + i] += 1.0;
    }
    k
}

fn tensor<const D: usize>(values: &[f64], shape: [usize; D], device: &Device, dtype: DType) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape).convert_dtype(dtype), (device, dtype))
}

fn values<const D: usize>(t: Tensor<D>) -> Vec<f64> {
    t.into_data().convert_dtype(DType::F64).try_into_vec().unwrap()
}

#[track_caller]
fn close(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    let scale = want.iter().fold(1.0f64, |m, x| m.max(x.abs()));
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= tolerance * scale, "entry {i}: got {g}, want {w}");
    }
}

/// A symmetric matrix from any: its mean with its transpose, so that a finite difference in one entry stays symmetric.
fn symmetric(k: Tensor<2>) -> Tensor<2> {
    (k.clone() + k.transpose()) * 0.5
}

/// Compares the gradient of a scalar function of one matrix or vector with central differences, in f64.
#[track_caller]
fn check_gradient<const D: usize>(f: impl Fn(Tensor<D>) -> Tensor<1>, at: &[f64], shape: [usize; D]) {
    for device in devices() {
        let tracked = tensor(at, shape, &device.clone().autodiff(), DType::F64).require_grad();
        let gradients = f(tracked.clone()).backward();
        let got = values(tracked.grad(&gradients).unwrap());
        let h = 1e-5;
        let want: Vec<f64> = (0..at.len())
            .map(|i| {
                let shifted = |by: f64| {
                    let mut x = at.to_vec();
                    x[i] += by;
                    values(f(tensor(&x, shape, &device, DType::F64)))[0]
                };
                (shifted(h) - shifted(-h)) / (2.0 * h)
            })
            .collect();
        close(&got, &want, 1e-7);
    }
}

/// A weighted sum of all entries, so that every entry of a gradient is seen.
fn weighted<const D: usize>(t: Tensor<D>) -> Tensor<1> {
    let shape = t.dims();
    let weights = tensor(&numbers(shape.iter().product(), 99), shape, &t.device(), t.dtype());
    (t * weights).sum()
}

/// Textbook Cholesky–Banachiewicz.
fn textbook_cholesky(k: &[f64], n: usize) -> Vec<f64> {
    let mut l = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let s = k[i * n + j] - (0..j).map(|p| l[i * n + p] * l[j * n + p]).sum::<f64>();
            l[i * n + j] = if i == j { s.sqrt() } else { s / l[j * n + j] };
        }
    }
    l
}

/// `A⁻¹ b` by Gaussian elimination, independent of any factor.
fn textbook_solve(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    for k in 0..n {
        for i in k + 1..n {
            let f = a[i * n + k] / a[k * n + k];
            for j in k..n {
                a[i * n + j] -= f * a[k * n + j];
            }
            b[i] -= f * b[k];
        }
    }
    for i in (0..n).rev() {
        b[i] = (b[i] - (i + 1..n).map(|j| a[i * n + j] * b[j]).sum::<f64>()) / a[i * n + i];
    }
    b
}

fn add_diagonal(k: &[f64], noise: &[f64]) -> Vec<f64> {
    let n = noise.len();
    let mut k = k.to_vec();
    for i in 0..n {
        k[i * n + i] += noise[i];
    }
    k
}

#[test]
fn cholesky_matches_the_textbook_across_tile_boundaries() {
    for device in devices() {
        for n in [1, 2, 3, 63, 64, 65, 127, 128, 129, 200, 333] {
            let k = positive_definite(n, n as u64);
            let want = textbook_cholesky(&k, n);
            let got = values(cholesky(tensor(&k, [n, n], &device, DType::F64), "K").unwrap());
            close(&got, &want, 1e-13);
            let single = values(cholesky(tensor(&k, [n, n], &device, DType::F32), "K").unwrap());
            close(&single, &want, 2e-6);
        }
    }
}

#[test]
fn cholesky_keeps_the_dtype_and_a_zero_upper_triangle() {
    for dtype in [DType::F32, DType::F64] {
        let n = 130;
        let l = cholesky(tensor(&positive_definite(n, 1), [n, n], &Device::flex(), dtype), "K").unwrap();
        assert_eq!(l.dtype(), dtype);
        let l = values(l);
        assert!((0..n).all(|i| (i + 1..n).all(|j| l[i * n + j] == 0.0)));
    }
}

#[test]
fn cholesky_gradient_matches_finite_differences() {
    for n in [1, 3, 7] {
        let k = positive_definite(n, 5);
        check_gradient(|k| weighted(cholesky(symmetric(k), "K").unwrap()), &k, [n, n]);
    }
}

#[test]
fn cholesky_gradient_is_symmetric_across_tiles() {
    let n = 150;
    let device = Device::flex().autodiff();
    let k = tensor(&positive_definite(n, 3), [n, n], &device, DType::F64).require_grad();
    let gradients = weighted(cholesky(k.clone(), "K").unwrap()).backward();
    let g = values(k.grad(&gradients).unwrap());
    for i in 0..n {
        for j in 0..n {
            assert_eq!(g[i * n + j], g[j * n + i]);
        }
    }
}

#[test]
fn mvn_nll_matches_the_dense_formula() {
    for device in devices() {
        for n in [1, 5, 64, 130, 257] {
            let (k, r) = (positive_definite(n, 2), numbers(n, 3));
            let noise: Vec<f64> = numbers(n, 4).iter().map(|x| 0.1 + x.abs()).collect();
            let a = add_diagonal(&k, &noise);
            let l = textbook_cholesky(&a, n);
            let quadratic: f64 = textbook_solve(&a, &r, n).iter().zip(&r).map(|(x, y)| x * y).sum();
            let log_det: f64 = (0..n).map(|i| 2.0 * l[i * n + i].ln()).sum();
            let want = 0.5 * (quadratic + log_det + n as f64 * TAU.ln());
            for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 2e-6)] {
                let got = mvn_nll(
                    tensor(&k, [n, n], &device, dtype),
                    tensor(&noise, [n], &device, dtype),
                    tensor(&r, [n], &device, dtype),
                )
                .unwrap();
                assert_eq!(got.dtype(), dtype);
                close(&values(got), &[want], tolerance);
            }
        }
    }
}

#[test]
fn mvn_nll_gradients_match_finite_differences() {
    let n = 6;
    let (k, r, noise) = (positive_definite(n, 7), numbers(n, 8), vec![0.3; n]);
    let fixed = |v: &[f64], like: &Tensor<1>| tensor(v, [n], &like.device(), DType::F64);
    check_gradient(
        |k| {
            let (noise, r) = (tensor(&noise, [n], &k.device(), DType::F64), tensor(&r, [n], &k.device(), DType::F64));
            mvn_nll(symmetric(k), noise, r).unwrap()
        },
        &k,
        [n, n],
    );
    check_gradient(
        |noise| mvn_nll(tensor(&k, [n, n], &noise.device(), DType::F64), noise.clone(), fixed(&r, &noise)).unwrap(),
        &noise,
        [n],
    );
    check_gradient(|r| mvn_nll(tensor(&k, [n, n], &r.device(), DType::F64), fixed(&noise, &r), r).unwrap(), &r, [n]);
}

#[test]
fn mvn_nll_gradient_matches_the_inverse_at_size() {
    let n = 300;
    let (k, r, noise) = (positive_definite(n, 11), numbers(n, 12), vec![0.5; n]);
    let a = add_diagonal(&k, &noise);
    let device = Device::flex().autodiff();
    for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 1e-5)] {
        let k = tensor(&k, [n, n], &device, dtype).require_grad();
        let noise = tensor(&noise, [n], &device, dtype).require_grad();
        let r_tensor = tensor(&r, [n], &device, dtype).require_grad();
        let loss = mvn_nll(k.clone(), noise.clone(), r_tensor.clone()).unwrap() * 3.0;
        let gradients = loss.backward();
        let alpha = textbook_solve(&a, &r, n);
        close(
            &values(r_tensor.grad(&gradients).unwrap()),
            &alpha.iter().map(|x| 3.0 * x).collect::<Vec<_>>(),
            tolerance,
        );
        let got = values(k.grad(&gradients).unwrap());
        let diagonal = values(noise.grad(&gradients).unwrap());
        for j in [0, 1, 63, 64, 150, 299] {
            let mut unit = vec![0.0; n];
            unit[j] = 1.0;
            let column = textbook_solve(&a, &unit, n);
            let want: Vec<f64> = (0..n).map(|i| 1.5 * (column[i] - alpha[i] * alpha[j])).collect();
            close(&(0..n).map(|i| got[i * n + j]).collect::<Vec<_>>(), &want, tolerance);
            assert_eq!(diagonal[j], got[j * n + j]);
        }
    }
}

/// A squared-exponential kernel of points of which every second one repeats the first.
fn duplicates(n: usize, noise: f64) -> Vec<f64> {
    let x: Vec<f64> = (0..n).map(|i| (i / 2) as f64 * 0.01).collect();
    let mut k = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..n {
            k[i * n + j] = (-0.5 * (x[i] - x[j]).powi(2)).exp();
        }
        k[i * n + i] += noise;
    }
    k
}

#[test]
fn jitter_is_used_only_where_needed_and_reported() {
    let n = 150;
    for dtype in [DType::F32, DType::F64] {
        let device = Device::flex();
        let (l, jitter) =
            jitter::watch(|| cholesky(tensor(&positive_definite(n, 1), [n, n], &device, dtype), "K").unwrap());
        assert_eq!(jitter, 0.0);
        assert!(values(l).iter().all(|x| x.is_finite()));
        let k = duplicates(n, 0.0);
        let (l, jitter) = jitter::watch(|| cholesky(tensor(&k, [n, n], &device, dtype), "K").unwrap());
        assert!((1e-10..=1e-4).contains(&jitter), "{jitter}");
        let l = values(l);
        let mut rebuilt = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                rebuilt[i * n + j] = (0..n).map(|p| l[i * n + p] * l[j * n + p]).sum();
            }
        }
        close(&rebuilt, &k, jitter * 1.1 + if dtype == DType::F32 { 1e-5 } else { 1e-12 });
    }
}

#[test]
fn tiny_noise_on_duplicate_rows_is_finite() {
    let n = 200;
    for dtype in [DType::F32, DType::F64] {
        let device = Device::flex().autodiff();
        let k = tensor(&duplicates(n, 0.0), [n, n], &device, dtype).require_grad();
        let noise = tensor(&vec![1e-8; n], [n], &device, dtype);
        let loss = mvn_nll(k.clone(), noise, tensor(&numbers(n, 1), [n], &device, dtype)).unwrap();
        let gradients = loss.backward();
        assert!(values(loss)[0].is_finite());
        assert!(values(k.grad(&gradients).unwrap()).iter().all(|x| x.is_finite()));
    }
}

#[test]
fn a_hopeless_matrix_is_named() {
    let n = 70;
    let mut k = positive_definite(n, 1);
    k[66 * n + 66] = -1.0;
    for (dtype, name) in [(DType::F32, "f32"), (DType::F64, "f64")] {
        match cholesky(tensor(&k, [n, n], &Device::flex(), dtype), "K_uu").unwrap_err() {
            Error::NotPositiveDefinite { matrix, size, dtype, pivot, jitter, finite } => {
                assert_eq!((matrix.as_str(), size, dtype, pivot, jitter, finite), ("K_uu", n, name, 66, 1e-4, true));
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_non_finite_matrix_is_named() {
    let n = 70;
    for bad in [f64::NAN, f64::INFINITY] {
        for (i, j) in [(0, 0), (69, 69), (68, 3)] {
            let mut k = positive_definite(n, 1);
            k[i * n + j] = bad;
            k[j * n + i] = bad;
            let error = cholesky(tensor(&k, [n, n], &Device::flex(), DType::F64), "K_uu").unwrap_err();
            assert!(matches!(&error, Error::NotPositiveDefinite { finite: false, .. }), "{error}");
        }
    }
}

#[test]
fn shapes_are_checked() {
    let device = Device::flex();
    let error = cholesky(tensor(&numbers(6, 1), [2, 3], &device, DType::F64), "K").unwrap_err();
    assert_eq!(error.to_string(), "K: expected a square matrix, got [2, 3]");
    let k = tensor(&positive_definite(3, 1), [3, 3], &device, DType::F64);
    let error = mvn_nll(k, tensor(&[1.0; 3], [3], &device, DType::F64), tensor(&[1.0; 2], [2], &device, DType::F64));
    assert_eq!(error.unwrap_err().to_string(), "r: expected [3], got [2]");
}
