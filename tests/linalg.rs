//! Dense operations compared with textbook formulas, reconstructions, each other, and finite differences.

use std::f64::consts::TAU;
use std::sync::Arc;

use burn::tensor::{DType, Device, Tensor, TensorData};
use cagey::Error;
use cagey::device::Compute;
use cagey::linalg::dense::{congruence, product, solve, view, view_mut};
use cagey::linalg::host::{HostOp, Vjp, apply1};
use cagey::linalg::real::Real;
use cagey::linalg::{
    Factor, Projected, cholesky, cholesky_solve, eigh, jitter, logdet_from_cholesky, loo_means, loo_nll, marginals,
    mvn_nll, solve_lower, solve_lower_transposed, unpack_lower, whiten,
};
use cagey::params::{Parameter, Unit};
use cagey::scope::Scope;
use faer::{MatMut, MatRef};

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

/// The mean of a matrix and its transpose, so that a finite difference in one entry stays symmetric.
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

/// A weighted sum of all entries, so that every entry of the gradient counts.
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

#[test]
fn loo_means_are_those_of_refits() {
    let (n, columns) = (7, 3);
    let (k, r, noise) = (positive_definite(n, 21), numbers(n * columns, 22), vec![0.4; n]);
    let device = Device::flex();
    let (of_k, of_r) = (tensor(&k, [n, n], &device, DType::F64), tensor(&r, [n, columns], &device, DType::F64));
    let got = values(loo_means(of_k, tensor(&noise, [n], &device, DType::F64), of_r).unwrap());
    let a = add_diagonal(&k, &noise);
    for i in 0..n {
        let rest: Vec<usize> = (0..n).filter(|j| *j != i).collect();
        let inner: Vec<f64> = rest.iter().flat_map(|p| rest.iter().map(|q| a[p * n + q]).collect::<Vec<_>>()).collect();
        for c in 0..columns {
            let own: Vec<f64> = rest.iter().map(|p| r[p * columns + c]).collect();
            let weights = textbook_solve(&inner, &own, n - 1);
            let mean: f64 = rest.iter().zip(&weights).map(|(p, weight)| k[i * n + p] * weight).sum();
            close(&[got[i * columns + c]], &[mean], 1e-12);
        }
    }
}

#[test]
fn loo_means_gradients_match_finite_differences() {
    let (n, columns) = (6, 2);
    let (k, r, noise) = (positive_definite(n, 23), numbers(n * columns, 24), vec![0.3; n]);
    let of = |k: Tensor<2>, noise: Tensor<1>, r: Tensor<2>| weighted(loo_means(k, noise, r).unwrap());
    let fixed = |device: &Device| {
        (
            tensor(&k, [n, n], device, DType::F64),
            tensor(&noise, [n], device, DType::F64),
            tensor(&r, [n, columns], device, DType::F64),
        )
    };
    check_gradient(|k: Tensor<2>| of(symmetric(k.clone()), fixed(&k.device()).1, fixed(&k.device()).2), &k, [n, n]);
    check_gradient(
        |noise: Tensor<1>| of(fixed(&noise.device()).0, noise.clone(), fixed(&noise.device()).2),
        &noise,
        [n],
    );
    check_gradient(|r: Tensor<2>| of(fixed(&r.device()).0, fixed(&r.device()).1, r), &r, [n, columns]);
}

/// A squared-exponential kernel of points; every second point repeats the first.
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

/// A well-conditioned lower factor; the numbers in its strict upper triangle must not matter.
fn lower_with_noise_above(n: usize, seed: u64) -> Vec<f64> {
    let mut l = textbook_cholesky(&positive_definite(n, seed), n);
    for (x, y) in l.iter_mut().zip(numbers(n * n, seed + 1)) {
        if *x == 0.0 {
            *x = y;
        }
    }
    l
}

fn lower_part(l: &[f64], n: usize) -> Vec<f64> {
    (0..n * n).map(|i| if i % n <= i / n { l[i] } else { 0.0 }).collect()
}

fn transposed(a: &[f64], rows: usize, cols: usize) -> Vec<f64> {
    (0..rows * cols).map(|i| a[(i % rows) * cols + i / rows]).collect()
}

/// The product A B of `[m, k]` and `[k, n]`.
fn product(a: &[f64], b: &[f64], m: usize, k: usize, n: usize) -> Vec<f64> {
    (0..m * n).map(|i| (0..k).map(|l| a[i / n * k + l] * b[l * n + i % n]).sum()).collect()
}

/// Central differences of a function of two tensors, with respect to each.
#[track_caller]
fn check_both<const A: usize, const B: usize>(
    f: impl Fn(Tensor<A>, Tensor<B>) -> Tensor<1>,
    (a, a_shape): (&[f64], [usize; A]),
    (b, b_shape): (&[f64], [usize; B]),
) {
    check_gradient(
        |x| {
            let other = tensor(b, b_shape, &x.device(), DType::F64);
            f(x, other)
        },
        a,
        a_shape,
    );
    check_gradient(
        |x| {
            let other = tensor(a, a_shape, &x.device(), DType::F64);
            f(other, x)
        },
        b,
        b_shape,
    );
}

type Solve = fn(Tensor<2>, Tensor<2>) -> cagey::Result<Tensor<2>>;

/// The solves, and whether they use the transpose.
const SOLVES: [(Solve, bool); 2] = [(solve_lower, false), (solve_lower_transposed, true)];

#[test]
fn triangular_solves_satisfy_their_equations() {
    for device in devices() {
        for (n, t) in [(1, 1), (5, 3), (64, 1), (65, 70), (130, 33), (200, 200)] {
            let l = lower_with_noise_above(n, 3);
            let clean = lower_part(&l, n);
            for (solve, transpose) in SOLVES {
                let matrix = if transpose { transposed(&clean, n, n) } else { clean.clone() };
                let (shape, b) = ([n, t], numbers(n * t, 4));
                for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 1e-5)] {
                    let x = solve(tensor(&l, [n, n], &device, dtype), tensor(&b, shape, &device, dtype)).unwrap();
                    assert_eq!((x.dims(), x.dtype()), (shape, dtype));
                    let x = values(x);
                    close(&product(&matrix, &x, n, n, t), &b, tolerance);
                }
            }
        }
    }
}

#[test]
fn triangular_solve_gradients_match_finite_differences() {
    let (n, t) = (5, 3);
    for (solve, _) in SOLVES {
        check_both(
            |l, b| weighted(solve(l, b).unwrap()),
            (&lower_with_noise_above(n, 5), [n, n]),
            (&numbers(n * t, 6), [n, t]),
        );
    }
}

#[test]
fn a_singular_triangle_is_named() {
    let mut l = lower_with_noise_above(3, 1);
    l[4] = 0.0;
    let device = Device::flex();
    let (l, b) = (tensor(&l, [3, 3], &device, DType::F64), tensor(&numbers(6, 1), [3, 2], &device, DType::F64));
    let error = solve_lower(l.clone(), b.clone()).unwrap_err().to_string();
    assert!(error.starts_with("L⁻¹: the diagonal entry 1 is 0, so the inverse is not finite"), "{error}");
    assert!(matches!(cholesky_solve(l.clone(), b), Err(Error::NotFinite(_))));
    assert!(matches!(logdet_from_cholesky(l), Err(Error::NotFinite(_))));
}

#[test]
fn cholesky_solve_satisfies_its_equation_and_gradient() {
    for device in devices() {
        for (n, t) in [(1, 2), (70, 5), (129, 64)] {
            let l = lower_with_noise_above(n, 9);
            let clean = lower_part(&l, n);
            let a = product(&clean, &transposed(&clean, n, n), n, n, n);
            let b = numbers(n * t, 10);
            let l = tensor(&l, [n, n], &device, DType::F64);
            let x = values(cholesky_solve(l, tensor(&b, [n, t], &device, DType::F64)).unwrap());
            close(&product(&a, &x, n, n, t), &b, 1e-12);
        }
    }
    check_both(
        |l, b| weighted(cholesky_solve(l, b).unwrap()),
        (&lower_with_noise_above(5, 11), [5, 5]),
        (&numbers(15, 12), [5, 3]),
    );
}

#[test]
fn log_determinant_gradient_matches_finite_differences() {
    let l = lower_with_noise_above(6, 13);
    check_gradient(|l| logdet_from_cholesky(l).unwrap(), &l, [6, 6]);
    let want: f64 = (0..6).map(|i| 2.0 * l[i * 7].ln()).sum();
    close(&values(logdet_from_cholesky(tensor(&l, [6, 6], &Device::flex(), DType::F64)).unwrap()), &[want], 1e-14);
}

fn identity(n: usize, like: &Tensor<2>) -> Tensor<2> {
    let entries: Vec<f64> = (0..n * n).map(|i| f64::from(u8::from(i / n == i % n))).collect();
    tensor(&entries, [n, n], &like.device(), like.dtype())
}

#[test]
fn many_right_hand_sides_of_a_small_system_keep_their_gradient() {
    let device = Device::flex().autodiff();
    for n in [10, 40, 100] {
        let t = 9000;
        let b = tensor(&numbers(n * t, 70), [n, t], &device, DType::F64);
        let gradient = |f: &dyn Fn(Tensor<2>) -> Tensor<1>| {
            let k = tensor(&positive_definite(n, 71), [n, n], &device, DType::F64).require_grad();
            let gradients = f(k.clone()).backward();
            values(k.grad(&gradients).unwrap())
        };
        let triangular = gradient(&|k| {
            let z = solve_lower(cholesky(k, "K").unwrap(), b.clone()).unwrap();
            (z.clone() * z).sum()
        });
        let solved = gradient(&|k| (cholesky_solve(cholesky(k, "K").unwrap(), b.clone()).unwrap() * b.clone()).sum());
        close(&solved, &triangular, 1e-12);
    }
}

/// The graph of primitive operations that `mvn_nll` fuses.
fn mvn_from_parts(k: Tensor<2>, noise: Tensor<1>, r: Tensor<1>) -> Tensor<1> {
    let n = r.dims()[0];
    let eye = identity(n, &k);
    let l = cholesky(k + eye * noise.unsqueeze_dim::<2>(1), "K").unwrap();
    let z = solve_lower(l.clone(), r.reshape([n, 1])).unwrap();
    ((z.clone() * z).sum() + logdet_from_cholesky(l).unwrap() + n as f64 * TAU.ln()) * 0.5
}

/// The leave-one-out probability from the full inverse, eqs 5.10–5.12 of Rasmussen & Williams.
fn loo_from_parts(k: Tensor<2>, noise: Tensor<1>, r: Tensor<1>) -> Tensor<1> {
    let n = r.dims()[0];
    let eye = identity(n, &k);
    let l = cholesky(k + eye.clone() * noise.unsqueeze_dim::<2>(1), "K").unwrap();
    let a = cholesky_solve(l, eye.clone()).unwrap();
    let diagonal = (a.clone() * eye).sum_dim(1);
    let alpha = a.matmul(r.reshape([n, 1]));
    let variance = diagonal.clone().recip();
    let residual = alpha * variance.clone();
    ((variance.clone() * TAU).log() + residual.clone() * residual / variance).sum() * 0.5
}

#[test]
fn fused_objectives_match_their_graphs() {
    type Objective = fn(Tensor<2>, Tensor<1>, Tensor<1>) -> Tensor<1>;
    let pairs: [(Objective, Objective); 2] =
        [(|k, s, r| mvn_nll(k, s, r).unwrap(), mvn_from_parts), (|k, s, r| loo_nll(k, s, r).unwrap(), loo_from_parts)];
    for device in devices() {
        let device = device.autodiff();
        for n in [1, 10, 140] {
            let noise: Vec<f64> = numbers(n, 16).iter().map(|x| 0.2 + x.abs()).collect();
            for (fused, graph) in pairs {
                let [got, want] = [fused, graph].map(|f| {
                    let k = tensor(&positive_definite(n, 17), [n, n], &device, DType::F64).require_grad();
                    let noise = tensor(&noise, [n], &device, DType::F64).require_grad();
                    let r = tensor(&numbers(n, 18), [n], &device, DType::F64).require_grad();
                    let loss = f(k.clone(), noise.clone(), r.clone());
                    let gradients = loss.backward();
                    [
                        values(loss),
                        values(k.grad(&gradients).unwrap()),
                        values(noise.grad(&gradients).unwrap()),
                        values(r.grad(&gradients).unwrap()),
                    ]
                });
                for (got, want) in got.iter().zip(&want) {
                    close(got, want, 1e-12);
                }
            }
        }
    }
}

#[test]
fn loo_nll_is_the_sum_of_the_left_out_densities() {
    let n = 7;
    let (k, r, noise) = (positive_definite(n, 19), numbers(n, 20), vec![0.4; n]);
    let a = add_diagonal(&k, &noise);
    let want: f64 = (0..n)
        .map(|i| {
            let rest: Vec<usize> = (0..n).filter(|&j| j != i).collect();
            let inner: Vec<f64> =
                rest.iter().flat_map(|&p| rest.iter().map(move |&q| (p, q))).map(|(p, q)| a[p * n + q]).collect();
            let cross: Vec<f64> = rest.iter().map(|&p| a[p * n + i]).collect();
            let weights = textbook_solve(&inner, &cross, n - 1);
            let mean: f64 = weights.iter().zip(&rest).map(|(w, &p)| w * r[p]).sum();
            let variance = a[i * n + i] - weights.iter().zip(&cross).map(|(w, c)| w * c).sum::<f64>();
            0.5 * ((TAU * variance).ln() + (r[i] - mean).powi(2) / variance)
        })
        .sum();
    for (dtype, tolerance) in [(DType::F64, 1e-13), (DType::F32, 2e-6)] {
        let device = Device::flex();
        let got = loo_nll(
            tensor(&k, [n, n], &device, dtype),
            tensor(&noise, [n], &device, dtype),
            tensor(&r, [n], &device, dtype),
        );
        close(&values(got.unwrap()), &[want], tolerance);
    }
}

#[test]
fn loo_nll_gradients_match_finite_differences() {
    let n = 6;
    let (k, r, noise) = (positive_definite(n, 21), numbers(n, 22), vec![0.3; n]);
    check_both(
        |k, r| loo_nll(symmetric(k), tensor(&noise, [n], &r.device(), DType::F64), r).unwrap(),
        (&k, [n, n]),
        (&r, [n]),
    );
    check_both(
        |noise, r| loo_nll(tensor(&k, [n, n], &r.device(), DType::F64), noise, r).unwrap(),
        (&noise, [n]),
        (&r, [n]),
    );
}

#[test]
fn eigh_rebuilds_its_matrix() {
    for device in devices() {
        for n in [1, 4, 65, 150] {
            let k = positive_definite(n, 23);
            for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 1e-5)] {
                let (lambda, v) = eigh(tensor(&k, [n, n], &device, dtype), "K").unwrap();
                let (lambda, v) = (values(lambda), values(v));
                assert!(lambda.windows(2).all(|w| w[0] <= w[1]));
                let scaled: Vec<f64> = (0..n * n).map(|i| v[i] * lambda[i % n]).collect();
                close(&product(&scaled, &transposed(&v, n, n), n, n, n), &k, tolerance);
                let identity: Vec<f64> = (0..n * n).map(|i| f64::from(u8::from(i / n == i % n))).collect();
                close(&product(&transposed(&v, n, n), &v, n, n, n), &identity, tolerance);
            }
        }
    }
}

#[test]
fn eigh_gradients_match_finite_differences() {
    let n = 5;
    let k = positive_definite(n, 24);
    check_gradient(|k| weighted(eigh(symmetric(k), "K").unwrap().0), &k, [n, n]);
    check_gradient(|k| weighted(eigh(symmetric(k), "K").unwrap().1), &k, [n, n]);
}

#[test]
fn eigh_of_a_degenerate_matrix_has_a_finite_gradient() {
    let n = 4;
    let mut k = vec![0.0; n * n];
    for i in 0..n {
        k[i * n + i] = if i < 3 { 2.0 } else { 5.0 };
    }
    let device = Device::flex().autodiff();
    let tracked = tensor(&k, [n, n], &device, DType::F64).require_grad();
    let (lambda, v) = eigh(tracked.clone(), "K").unwrap();
    let root = v.clone() * lambda.sqrt().unsqueeze_dim::<2>(0);
    let loss = root.matmul(v.transpose()).sum();
    let gradients = loss.backward();
    let got = values(tracked.grad(&gradients).unwrap());
    // The derivative of Σ √K between the unit vectors i and j is 1/(√λᵢ + √λⱼ); the zero gap drops it for i ≠ j < 3.
    for i in 0..n {
        let root = k[i * n + i].sqrt();
        assert!((got[i * n + i] - 0.5 / root).abs() < 1e-12);
    }
    assert!((got[3] - 1.0 / (2f64.sqrt() + 5f64.sqrt())).abs() < 1e-12);
    assert!(got.iter().all(|x| x.is_finite()));
    let mut bad = k;
    bad[5] = f64::NAN;
    assert!(matches!(eigh(tensor(&bad, [n, n], &Device::flex(), DType::F64), "K"), Err(Error::NotFinite(_))));
}

#[test]
fn batches_equal_their_members() {
    let (count, h, t) = (5, 9, 4);
    let matrices: Vec<f64> = (0..count as u64).flat_map(|i| positive_definite(h, 30 + i)).collect();
    let b = numbers(count * h * t, 31);
    for device in devices() {
        for dtype in [DType::F32, DType::F64] {
            let batch = cholesky(tensor(&matrices, [count, h, h], &device, dtype), "K").unwrap();
            let l = values(batch.clone());
            let right = tensor(&b, [count, h, t], &device, dtype);
            let solved = values(solve_lower(batch.clone(), right.clone()).unwrap());
            let both = values(cholesky_solve(batch, right).unwrap());
            for i in 0..count {
                let k = tensor(&matrices[i * h * h..][..h * h], [h, h], &device, dtype);
                let b = tensor(&b[i * h * t..][..h * t], [h, t], &device, dtype);
                let one = cholesky(k, "K").unwrap();
                assert_eq!(&l[i * h * h..][..h * h], values(one.clone()));
                assert_eq!(&solved[i * h * t..][..h * t], values(solve_lower(one.clone(), b.clone()).unwrap()));
                assert_eq!(&both[i * h * t..][..h * t], values(cholesky_solve(one, b).unwrap()));
            }
        }
    }
}

#[test]
fn batch_gradients_match_finite_differences() {
    let (count, h, t) = (3, 4, 2);
    let matrices: Vec<f64> = (0..count as u64).flat_map(|i| positive_definite(h, 40 + i)).collect();
    let factors: Vec<f64> = (0..count as u64).flat_map(|i| lower_with_noise_above(h, 50 + i)).collect();
    let b = numbers(count * h * t, 41);
    check_gradient(
        |k: Tensor<3>| weighted(cholesky((k.clone() + k.swap_dims(1, 2)) * 0.5, "K").unwrap()),
        &matrices,
        [count, h, h],
    );
    for solve in [solve_lower, solve_lower_transposed, cholesky_solve] {
        check_both(|l, b| weighted(solve(l, b).unwrap()), (&factors, [count, h, h]), (&b, [count, h, t]));
    }
}

#[test]
fn only_the_failing_members_of_a_batch_get_jitter() {
    let h = 40;
    let (good, poor) = (positive_definite(h, 1), duplicates(h, 0.0));
    let batch = [good.clone(), poor, good.clone()].concat();
    let device = Device::flex();
    let (l, jitter) = jitter::watch(|| cholesky(tensor(&batch, [3, h, h], &device, DType::F64), "K").unwrap());
    assert!(jitter > 0.0);
    let l = values(l);
    let want = values(cholesky(tensor(&good, [h, h], &device, DType::F64), "K").unwrap());
    assert_eq!(&l[..h * h], &want[..]);
    assert_eq!(&l[2 * h * h..], &want[..]);
    assert!(l.iter().all(|x| x.is_finite()));
    let hopeless: Vec<f64> = [good.clone(), good.iter().map(|x| -x).collect()].concat();
    let error = cholesky(tensor(&hopeless, [2, h, h], &device, DType::F64), "K").unwrap_err();
    assert!(error.to_string().starts_with("K[1] [40, 40] (f64) is not positive definite"), "{error}");
}

fn check_factor<T: cagey::linalg::real::Real>(tolerance: f64) {
    let n = 140;
    let k = positive_definite(n, 60);
    let of = |v: &[f64]| v.iter().map(|&x| T::of(x)).collect::<Vec<T>>();
    let wide = |v: &[T]| v.iter().map(|x| x.f64()).collect::<Vec<f64>>();
    let factor = Factor::new(of(&k), "K").unwrap();
    assert_eq!((factor.order(), factor.jitter()), (n, 0.0));
    let b = numbers(n * 3, 61);
    let mut x = of(&b);
    factor.solve(&mut x).unwrap();
    close(&product(&k, &wide(&x), n, n, 3), &b, tolerance);
    let l = textbook_cholesky(&k, n);
    close(&wide(&factor.clone().lower()), &l, tolerance);
    close(&[factor.log_det()], &[(0..n).map(|i| 2.0 * l[i * n + i].ln()).sum()], tolerance);
    let inverse = wide(&factor.clone().inverse());
    let identity: Vec<f64> = (0..n * n).map(|i| f64::from(u8::from(i / n == i % n))).collect();
    close(&product(&k, &inverse, n, n, n), &identity, tolerance);
    let diagonal: Vec<f64> = inverse.iter().step_by(n + 1).copied().collect();
    close(&wide(&factor.inverse_diagonal()), &diagonal, tolerance);

    let part = |rows: std::ops::Range<usize>, cols: std::ops::Range<usize>| -> Vec<T> {
        rows.flat_map(|i| cols.clone().map(move |j| (i, j))).map(|(i, j)| T::of(k[i * n + j])).collect()
    };
    let mut grown = Factor::new(part(0..50, 0..50), "K").unwrap();
    grown.append_rows(part(50..51, 0..50), part(50..51, 50..51), "K").unwrap();
    let mut steps = grown.clone();
    grown.append_rows(part(51..n, 0..51), part(51..n, 51..n), "K").unwrap();
    close(&wide(&grown.lower()), &l, tolerance);

    // A few rows at a time; the last of them have not joined the square yet.
    for (from, to) in (51..n).step_by(7).map(|from| (from, (from + 7).min(n))) {
        steps.append_rows(part(from..to, 0..from), part(from..to, from..to), "K").unwrap();
    }
    for cols in [1, 3] {
        let mut x = of(&b[..n * cols]);
        steps.solve(&mut x).unwrap();
        close(&product(&k, &wide(&x), n, n, cols), &b[..n * cols], tolerance);
    }
    close(&[steps.log_det()], &[factor.log_det()], tolerance);
    close(&wide(&steps.inverse_diagonal()), &diagonal, tolerance);
    let packed = Factor::from_packed(&steps.packed(), n).unwrap();
    assert_eq!(wide(&packed.lower()), wide(&steps.lower()));
}

#[test]
fn the_factor_solves_inverts_and_grows() {
    check_factor::<f64>(1e-12);
    check_factor::<f32>(1e-5);
}

#[test]
fn the_factor_rejects_what_does_not_fit() {
    assert!(matches!(Factor::new(vec![1.0; 5], "K"), Err(Error::Shape { .. })));
    let mut factor = Factor::new(positive_definite(4, 1), "K").unwrap();
    assert!(matches!(factor.solve(&mut [1.0; 6]), Err(Error::Shape { .. })));
    assert!(matches!(factor.append_rows(vec![0.0; 3], vec![1.0], "K"), Err(Error::Shape { .. })));
    let before = factor.clone().lower();
    assert!(matches!(factor.append_rows(vec![0.0; 4], vec![-1.0], "S"), Err(Error::NotPositiveDefinite { .. })));
    assert_eq!(factor.clone().lower(), before);
    let packed = factor.packed();
    assert!(Factor::from_packed(&packed, 5).is_err());
    assert!(Factor::from_packed(&packed.iter().map(|x| -x).collect::<Vec<_>>(), 4).is_err());
}

#[test]
fn a_repeated_row_is_appended_with_jitter() {
    let k = positive_definite(4, 1);
    let mut factor = Factor::new(k.clone(), "K").unwrap();
    factor.append_rows(k[4..8].to_vec(), vec![k[5]], "K").unwrap();
    assert!(factor.lower().iter().all(|x| x.is_finite()));
}

#[test]
fn the_inverse_of_an_ill_conditioned_matrix_is_as_good_as_its_condition_allows() {
    let n = 200;
    for noise in [1e-2, 1e-5, 1e-8] {
        let k = duplicates(n, noise);
        let inverse = Factor::new(k.clone(), "K").unwrap().inverse();
        let residual = product(&k, &inverse, n, n, n);
        let largest = (0..n * n).map(|i| (residual[i] - f64::from(u8::from(i / n == i % n))).abs()).fold(0.0, f64::max);
        // ‖K‖ ‖K⁻¹‖ ε, with room for the error growth of a sum of n terms.
        assert!(largest < n as f64 / noise * f64::EPSILON * n as f64, "noise {noise}: {largest:e}");
    }
}

fn check_congruence<T: Real>(tolerance: f64) {
    for n in [1, 5, 64, 65, 130, 200, 300] {
        let lower = Factor::new(positive_definite(n, 1), "K").unwrap().lower();
        let symmetric: Vec<f64> = positive_definite(n, 2).iter().zip(numbers(n * n, 3)).map(|(k, _)| k - 0.3).collect();
        let inverse = {
            let mut inverse = vec![0.0; n * n];
            inverse.iter_mut().step_by(n + 1).for_each(|d| *d = 1.0);
            solve::lower(view(&lower, n), view_mut(&mut inverse, n));
            inverse
        };
        let transposed: Vec<f64> = (0..n * n).map(|e| inverse[e % n * n + e / n]).collect();
        let narrow = |values: &[f64]| values.iter().map(|x| T::of(*x)).collect::<Vec<T>>();
        // The part above the diagonal is not read.
        let mut input = narrow(&symmetric);
        (0..n).for_each(|i| input[i * n + i + 1..(i + 1) * n].fill(T::of(f64::NAN)));
        let l = narrow(&lower);
        let run = |by: for<'a, 'b> fn(MatRef<'a, T>, MatMut<'b, T>)| {
            let mut out = input.clone();
            by(view(&l, n), view_mut(&mut out, n));
            out.iter().map(|x| x.f64()).collect::<Vec<f64>>()
        };
        let want = product(&product(&inverse, &symmetric, n, n, n), &transposed, n, n, n);
        close(&run(congruence::whiten::<T>), &want, tolerance);
        let want = product(&product(&transposed, &symmetric, n, n, n), &inverse, n, n, n);
        close(&run(congruence::whiten_transposed::<T>), &want, tolerance);
    }
}

#[test]
fn congruences_are_two_solves() {
    check_congruence::<f64>(1e-11);
    check_congruence::<f32>(1e-3);
}

/// K_ZZ and K_ZX of a smooth kernel on a line, and an arbitrary q with its packed root.
fn inducing(m: usize, b: usize) -> [Vec<f64>; 4] {
    let k = |x: f64, z: f64| (-0.5 * (x - z) * (x - z)).exp();
    let z = |i: usize| 0.9 * i as f64;
    let gram = (0..m * m).map(|e| k(z(e / m), z(e % m)) + if e / m == e % m { 1e-3 } else { 0.0 }).collect();
    let cross = (0..m * b).map(|e| k(z(e / b), 0.33 * (e % b) as f64)).collect();
    let root = (0..m).flat_map(|i| (0..=i).map(move |j| if i == j { 0.8 } else { 0.1 / (1 + i - j) as f64 }));
    [gram, cross, numbers(m, 5), root.collect()]
}

#[test]
fn marginals_of_whitened_covariances_have_the_gradients_of_finite_differences() {
    let (m, b) = (6, 7);
    let inputs = inducing(m, b);
    let with = |place: usize, value: Tensor<1>, device: &Device| {
        let vector = |k: usize| match k == place {
            true => value.clone(),
            false => tensor(&inputs[k], [inputs[k].len()], device, DType::F64),
        };
        let (gram, cross) = (symmetric(vector(0).reshape([m, m])), vector(1).reshape([m, b]));
        let a = whiten(gram, cross, "K").unwrap();
        let found = marginals(a, vector(2), unpack_lower(vector(3)).unwrap(), false).unwrap();
        weighted(found.shift) + weighted(found.change) + found.divergence * 0.7
    };
    for (place, input) in inputs.iter().enumerate() {
        let f = |value: Tensor<1>| {
            let device = value.device();
            with(place, value, &device)
        };
        check_gradient(f, input, [input.len()]);
    }
}

#[test]
fn marginals_of_a_diagonal_root_are_those_of_its_matrix() {
    let (m, b) = (6, 7);
    let [gram, cross, mean, _] = inducing(m, b);
    let diagonal: Vec<f64> = numbers(m, 8).iter().map(|x| 1.0 + 0.3 * x).collect();
    let full: Vec<f64> = (0..m * m).map(|e| if e / m == e % m { diagonal[e / m] } else { 0.0 }).collect();
    for device in devices() {
        let matrix = |values: &[f64], shape| tensor(values, shape, &device, DType::F64);
        let a = whiten(matrix(&gram, [m, m]), matrix(&cross, [m, b]), "K").unwrap();
        let mean = tensor(&mean, [m], &device, DType::F64);
        let all = |found: Projected| values(Tensor::cat(vec![found.shift, found.change, found.divergence], 0));
        let narrow = tensor(&diagonal, [m], &device, DType::F64);
        let want = all(marginals(a.clone(), mean.clone(), matrix(&full, [m, m]), false).unwrap());
        for (single, tolerance) in [(false, 1e-12), (true, 1e-5)] {
            close(&all(marginals(a.clone(), mean.clone(), narrow.clone(), single).unwrap()), &want, tolerance);
            close(&all(marginals(a.clone(), mean.clone(), matrix(&full, [m, m]), single).unwrap()), &want, tolerance);
        }
    }
}

#[test]
fn products_with_transposed_factors() {
    let (m, n, k) = (131, 150, 4500);
    let (a, b, c) = (numbers(k * m, 1), numbers(k * n, 2), numbers(m * n, 3));
    let mut got = c.clone();
    product::add(view_mut(&mut got, n), view(&a, m).transpose(), view(&b, n), -0.5);
    let entry = |e: usize| c[e] - 0.5 * (0..k).map(|l| a[l * m + e / n] * b[l * n + e % n]).sum::<f64>();
    let off = (0..m * n).map(|e| (got[e] - entry(e)).abs()).fold(0.0, f64::max);
    assert!(off < 1e-10, "{off}");
}

/// The identity, whose adjoint always fails.
struct Failing;

impl HostOp<1> for Failing {
    fn forward(self: Arc<Self>, [input]: [TensorData; 1]) -> cagey::Result<(TensorData, Vjp<1>)> {
        let vjp = |_grad, _needs: [bool; 1]| Err(Error::Data("this adjoint has its reasons".into()));
        Ok((input, Box::new(vjp)))
    }
}

#[derive(Debug)]
struct Numbers {
    numbers: Parameter,
}

cagey::parameters!(Numbers { "numbers": numbers });

#[test]
fn the_error_of_an_adjoint_is_that_of_the_gradient() {
    let numbers = Numbers { numbers: Parameter::real("numbers", Unit::None, &[1.0, 2.0]) };
    let gradient = |fails: bool| {
        let scope = Scope::training(Compute::default()).unwrap();
        let value: Tensor<1> = scope.value(&numbers.numbers);
        let value = if fails { apply1(Failing, value).unwrap() } else { value };
        scope.gradient((value.clone() * value).sum(), &numbers)
    };
    let said = gradient(true).unwrap_err().to_string();
    assert_eq!(said, "this adjoint has its reasons");
    assert_eq!(gradient(false).unwrap().1, [2.0, 4.0]);
}
