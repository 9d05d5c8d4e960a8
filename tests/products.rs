//! Covariance products, with gradients: compares fused ones, tiled graphs and dense algebra.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::tensor::{DType, Int, Tensor, TensorData};
use cagey::Result;
use cagey::device::{Compute, DeviceKind, Precision};
use cagey::kernels::form::Form;
use cagey::kernels::{Kernel, linear, stationary};
use cagey::linalg::{Factor, Projected, cholesky, cholesky_solve, logdet_from_cholesky, solve_lower, unpack_lower};
use cagey::params::{Parameter, Parameters};
use cagey::products::lanes::{Instructions, limit};
use cagey::products::{self, BlockSparse, Covariance, Explained, Neighbours, tiled};
use cagey::scope::{Scope, to_f64};
use common::assert_close;
use proptest::prelude::*;

const KERNELS: &[&str] = &[
    "rbf(lengthscale=ard, variance=1.3)",
    "matern12(variance=0.7)",
    "matern32(lengthscale=ard)",
    "matern52()",
    "rq(alpha=0.8, variance=1.4)",
    "periodic(period=1.7)",
    "periodic_norm(period=2.5, lengthscale=1.2)",
    "cosine_norm(period=4.0)",
    "cosine_sum(lengthscale=3.0)",
    "linear(variance=ard)",
    "polynomial(power=3, offset=0.5)",
    "spectral_mixture(components=2)",
    "matern32(variance=0.5) + 0.3 * linear()",
    "rbf() * periodic(dims=[0], period=0.9) + white(variance=0.2)",
    "(matern52(dims=[1]) + constant(0.4)) * rq(dims=[0, 2]) + white(variance=0.1)",
];

fn compute(precision: Precision) -> Compute {
    Compute { kind: DeviceKind::Flex, precision }
}

/// Numbers that look random, in about ±1.5.
fn noise(seed: usize, len: usize) -> Vec<f64> {
    (0..len).map(|i| 1.5 * ((i * 7919 + seed * 104_729 + 13) as f64 * 0.618_033_988_7).sin()).collect()
}

/// A kernel defined only by a tensor graph: 1/(1 + ‖x − z‖²). It records the most pairs that were asked for at once.
#[derive(Debug, Default)]
struct Cauchy {
    most: AtomicUsize,
}

impl Form for Cauchy {
    fn name(&self) -> &str {
        "cauchy"
    }
    fn parameters(&self, _d: usize) -> Vec<Parameter> {
        vec![Parameter::positive("lengthscale", cagey::params::Unit::Length, &[0.8])]
    }
    fn cross(&self, p: &[Tensor<1>], x1: Tensor<2>, x2: Tensor<2>) -> Result<Tensor<2>> {
        self.most.fetch_max(x1.dims()[0] * x2.dims()[0], Ordering::Relaxed);
        let squares = |x: Tensor<2>| (x.clone() * x).sum_dim(1);
        let (a, b) = (x1 / p[0].clone().unsqueeze::<2>(), x2 / p[0].clone().unsqueeze::<2>());
        let distance = squares(a.clone()) + squares(b.clone()).transpose() - a.matmul(b.transpose()) * 2.0;
        Ok((distance + 1.0).recip())
    }
    fn diag(&self, _p: &[Tensor<1>], x: Tensor<2>) -> Result<Tensor<1>> {
        Ok((x.narrow(1, 0, 1) * 0.0 + 1.0).squeeze_dim(1))
    }
}

/// A value and its gradients in the inputs and in every parameter.
struct Outcome {
    value: Vec<f64>,
    gradients: Vec<(String, Vec<f64>)>,
}

impl Outcome {
    fn assert_near(&self, other: &Self, what: &str, tolerance: f64) {
        assert_close(what, &self.value, &other.value, tolerance);
        // Gradients that vanish by symmetry are compared at the scale of the others.
        let scale = other.gradients.iter().flat_map(|(_, g)| g).fold(0.0f64, |m, v| m.max(v.abs()));
        assert_eq!(self.gradients.len(), other.gradients.len(), "{what}");
        for ((name, got), (same, want)) in self.gradients.iter().zip(&other.gradients) {
            assert_eq!((name, got.len()), (same, want.len()), "{what}");
            for (i, (g, w)) in got.iter().zip(want).enumerate() {
                assert!((g - w).abs() <= tolerance * scale, "{what}: d/d{name}[{i}]: got {g}, want {w}");
            }
        }
    }
}

/// Runs `f` on tracked inputs and differentiates a weighted sum of the result.
fn outcome(
    kernel: &Kernel,
    precision: Precision,
    inputs: &[(&str, Vec<f64>, [usize; 2])],
    budget: usize,
    f: impl Fn(&Scope, &[Tensor<2>]) -> Tensor<1>,
) -> Outcome {
    let scope = Scope::training(compute(precision)).unwrap().with_budget(budget);
    let tensors: Vec<Tensor<2>> =
        inputs.iter().map(|(_, values, [n, d])| scope.matrix(values, *n, *d).require_grad()).collect();
    let value = f(&scope, &tensors);
    let dtype = value.dtype();
    let length = value.dims()[0];
    let weights = scope.vector(&noise(91, length)).cast(dtype);
    let gradients = (value.clone() * weights).sum().backward();
    let zeros = |len: usize| vec![0.0; len];
    let in_inputs = inputs.iter().zip(&tensors).map(|((name, values, _), tensor)| {
        (name.to_string(), tensor.grad(&gradients).map_or_else(|| zeros(values.len()), |g| to_f64(g).unwrap()))
    });
    let in_parameters = kernel.parameters().into_iter().map(|(path, parameter)| {
        let leaf = scope.wide_value(parameter);
        (path, leaf.grad(&gradients).map_or_else(|| zeros(parameter.len()), |g| to_f64(g).unwrap()))
    });
    Outcome { value: to_f64(value).unwrap(), gradients: in_inputs.chain(in_parameters).collect() }
}

fn flatten(tensor: Tensor<2>) -> Tensor<1> {
    let length = tensor.dims()[0] * tensor.dims()[1];
    tensor.reshape([length])
}

fn blocks(s: &Tensor<2>, offsets: &[usize]) -> BlockSparse {
    BlockSparse::new(s.clone().squeeze_dim(1), offsets.to_vec()).unwrap()
}

/// S as a matrix.
fn spread(s: &Tensor<2>, offsets: &[usize]) -> Tensor<2> {
    let i = offsets.len() - 1;
    let mut mask = vec![0.0; s.dims()[0] * i];
    for (a, w) in offsets.windows(2).enumerate() {
        (w[0]..w[1]).for_each(|row| mask[row * i + a] = 1.0);
    }
    let mask = burn::tensor::TensorData::new(mask, [s.dims()[0], i]);
    s.clone() * Tensor::<2>::from_data(mask, (&s.device(), s.dtype()))
}

const BUDGET: usize = 1 << 20;

/// A budget that makes several tiles, but not thousands.
fn tiles(n: usize, m: usize) -> usize {
    3000.max(n * m * 40)
}

/// K(x1, x2) V in three ways: fused, tiled and dense.
fn check_kv(kernel: &Kernel, precision: Precision, [n, m, d, t]: [usize; 4], tolerance: f64) {
    let what = format!("K V, {kernel}, n = {n}, m = {m}, t = {t}, {}", precision.name());
    let inputs = [("x1", noise(1, n * d), [n, d]), ("x2", noise(2, m * d), [m, d]), ("v", noise(3, m * t), [m, t])];
    let run = |budget: usize, f: &dyn Fn(&Scope, &[Tensor<2>]) -> Result<Tensor<2>>| {
        outcome(kernel, precision, &inputs, budget, |scope, x| flatten(f(scope, x).unwrap()))
    };
    let dense = run(BUDGET, &|s, x| Ok(kernel.cross(s, &x[0], &x[1])?.matmul(x[2].clone())));
    run(BUDGET, &|s, x| products::Cross::new(kernel, s, &x[0], &x[1]).times(&x[2]))
        .assert_near(&dense, &what, tolerance);
    run(tiles(n, m), &|s, x| tiled::kv(kernel, s, &x[0], &x[1], &x[2])).assert_near(
        &dense,
        &format!("tiled {what}"),
        tolerance,
    );
    // Without a gradient in V, another code path computes it.
    let dense = run(BUDGET, &|s, x| Ok(kernel.cross(s, &x[0], &x[1])?.matmul(x[2].clone().detach())));
    run(BUDGET, &|s, x| products::Cross::new(kernel, s, &x[0], &x[1]).times(&x[2].clone().detach())).assert_near(
        &dense,
        &format!("V fixed, {what}"),
        tolerance,
    );
}

fn check_kv_gram(kernel: &Kernel, precision: Precision, [n, d, t]: [usize; 3], tolerance: f64) {
    let what = format!("K(x, x) V, {kernel}, n = {n}, t = {t}, {}", precision.name());
    let inputs = [("x", noise(1, n * d), [n, d]), ("v", noise(3, n * t), [n, t])];
    let run = |budget: usize, f: &dyn Fn(&Scope, &[Tensor<2>]) -> Result<Tensor<2>>| {
        outcome(kernel, precision, &inputs, budget, |scope, x| flatten(f(scope, x).unwrap()))
    };
    let dense = run(BUDGET, &|s, x| Ok(kernel.gram(s, &x[0])?.matmul(x[1].clone())));
    run(BUDGET, &|s, x| Covariance::new(kernel, s, &x[0]).times(&x[1])).assert_near(&dense, &what, tolerance);
    run(tiles(n, n), &|s, x| tiled::kv_gram(kernel, s, &x[0], &x[1])).assert_near(
        &dense,
        &format!("tiled {what}"),
        tolerance,
    );
    let dense = run(BUDGET, &|s, x| Ok(kernel.gram(s, &x[0])?.matmul(x[1].clone().detach())));
    run(BUDGET, &|s, x| Covariance::new(kernel, s, &x[0]).times(&x[1].clone().detach())).assert_near(
        &dense,
        &format!("V fixed, {what}"),
        tolerance,
    );
}

fn check_k_s(kernel: &Kernel, precision: Precision, [n, m, d, i]: [usize; 4], tolerance: f64) {
    let what = format!("K S, {kernel}, n = {n}, m = {m}, i = {i}, {}", precision.name());
    let inputs = [("x1", noise(1, n * d), [n, d]), ("x2", noise(2, m * d), [m, d]), ("s", noise(3, m), [m, 1])];
    let offsets = BlockSparse::even(m, i);
    let run = |budget: usize, f: &dyn Fn(&Scope, &[Tensor<2>]) -> Result<Tensor<2>>| {
        outcome(kernel, precision, &inputs, budget, |scope, x| flatten(f(scope, x).unwrap()))
    };
    let dense = run(BUDGET, &|s, x| Ok(kernel.cross(s, &x[0], &x[1])?.matmul(spread(&x[2], &offsets))));
    let fused =
        run(BUDGET, &|s, x| products::Cross::new(kernel, s, &x[0], &x[1]).times_blocks(&blocks(&x[2], &offsets)));
    fused.assert_near(&dense, &what, tolerance);
    let graph = run(tiles(n, m), &|s, x| tiled::k_s(kernel, s, &x[0], &x[1], &blocks(&x[2], &offsets)));
    graph.assert_near(&dense, &format!("tiled {what}"), tolerance);
}

fn check_projected(kernel: &Kernel, precision: Precision, [n, d, i]: [usize; 3], budget: usize, tolerance: f64) {
    let what = format!("Sᵀ K S, {kernel}, n = {n}, i = {i}, {}, budget {budget}", precision.name());
    let inputs = [("x", noise(1, n * d), [n, d]), ("s", noise(3, n), [n, 1])];
    let offsets = BlockSparse::even(n, i);
    let dense = outcome(kernel, precision, &inputs, BUDGET, |scope, x| {
        let (k, s) = (kernel.gram(scope, &x[0]).unwrap().cast(DType::F64), spread(&x[1], &offsets).cast(DType::F64));
        flatten(s.clone().transpose().matmul(k.matmul(s)))
    });
    type Run = fn(&Kernel, &Scope, &Tensor<2>, &BlockSparse) -> Result<Tensor<2>>;
    let fused: Run = |kernel, scope, x, blocks| Covariance::new(kernel, scope, x).projected(blocks);
    for (name, f) in [("fused", fused), ("tiled", tiled::projected)] {
        let got = outcome(kernel, precision, &inputs, budget, |scope, x| {
            let square = f(kernel, scope, &x[0], &blocks(&x[1], &offsets)).unwrap();
            assert_eq!(square.dtype(), DType::F64);
            flatten(square)
        });
        got.assert_near(&dense, &format!("{name} {what}"), tolerance);
    }
}

fn check_explained(kernel: &Kernel, precision: Precision, [n, d, i]: [usize; 3], budget: usize, tolerance: f64) {
    let what = format!("explained, {kernel}, n = {n}, i = {i}, {}, budget {budget}", precision.name());
    let offsets = BlockSparse::even(n, i);
    let spread_of = |value: &f64| 3.0 + value;
    let inputs = [
        ("x", noise(1, n * d), [n, d]),
        ("s", noise(3, n), [n, 1]),
        ("t", noise(4, n), [n, 1]),
        ("spread", noise(5, n).iter().map(spread_of).collect(), [n, 1]),
    ];
    let wide = |x: Tensor<2>| x.cast(DType::F64);
    // From the definitions: G, M, K S, S and C = SᵀΩS.
    let system = |kernel: &Kernel, scope: &Scope, x: &[Tensor<2>]| {
        let (k, s) = (wide(kernel.gram(scope, &x[0]).unwrap()), wide(spread(&x[1], &offsets)));
        let ks = k.matmul(s.clone());
        let gram = s.clone().transpose().matmul(ks.clone());
        let noise = s.clone().transpose().matmul(s.clone() * wide(x[3].clone()));
        let lower = cholesky(gram.clone() + noise.clone(), "M").unwrap();
        (gram, lower, ks, s, noise)
    };
    let solved = |lower: &Tensor<2>, b: Tensor<2>| cholesky_solve(lower.clone(), b).unwrap();
    let dense = outcome(kernel, precision, &inputs, BUDGET, |scope, x| {
        let (gram, lower, ks, s, noise) = system(kernel, scope, x);
        let v = solved(&lower, s.transpose().matmul(wide(x[2].clone())));
        let variance = (ks.clone() * solved(&lower, ks.clone().transpose()).transpose()).sum_dim(1);
        let trace = (solved(&lower, noise.clone()) * Tensor::<2>::eye(i, &noise.device()).cast(DType::F64)).sum();
        let log_dets =
            logdet_from_cholesky(lower).unwrap() - logdet_from_cholesky(cholesky(noise, "C").unwrap()).unwrap();
        let divergence = (v.clone() * gram.matmul(v.clone())).sum() + trace + log_dets - i as f64;
        Tensor::cat(vec![divergence, flatten(ks.matmul(v)), flatten(variance)], 0)
    });
    type Run = fn(&Kernel, &Scope, &Tensor<2>, &BlockSparse, [&Tensor<1>; 2]) -> Result<Explained>;
    let runs: [(&str, Run); 3] = [
        ("fused", |kernel, scope, x, blocks, noisy| Covariance::new(kernel, scope, x).explained(blocks, noisy, None)),
        ("prepared", |kernel, scope, x, blocks, noisy| {
            let covariance = Covariance::new(kernel, scope, x);
            covariance.explained(blocks, noisy, covariance.prepared(std::slice::from_ref(blocks))?)
        }),
        ("tiled", tiled::explained),
    ];
    for (name, run) in runs {
        let told = outcome(kernel, precision, &inputs, budget, |scope, x| {
            let [t, spread] = [2, 3].map(|place| flatten(wide(x[place].clone())));
            let told = run(kernel, scope, &x[0], &blocks(&x[1], &offsets), [&t, &spread]).unwrap();
            Tensor::cat(vec![told.divergence, flatten(told.mean), flatten(told.variance)], 0)
        });
        told.assert_near(&dense, &format!("{name} {what}"), tolerance);
    }
    // Prepared products by themselves.
    let scope = Scope::new(compute(precision)).unwrap().with_budget(budget);
    let x: Vec<Tensor<2>> = inputs.iter().map(|(_, values, [n, d])| scope.matrix(values, *n, *d)).collect();
    let (gram, lower, ks, ..) = system(kernel, &scope, &x);
    let prepared = Covariance::new(kernel, &scope, &x[0]).prepared(&[blocks(&x[1], &offsets)]).unwrap().unwrap();
    let weights = noise(6, i);
    let times = to_f64(ks.clone().matmul(scope.matrix_in(&weights, i, 1, DType::F64))).unwrap();
    let factor = Factor::from_lower(to_f64(lower.clone()).unwrap()).unwrap();
    assert_close(&what, prepared.gram(), &to_f64(gram).unwrap(), tolerance);
    assert_close(&what, &prepared.times(&weights), &times, tolerance);
    let variance = (ks.clone() * solved(&lower, ks.transpose()).transpose()).sum_dim(1);
    let rows = prepared.rows(&factor, &weights);
    assert_close(&what, &rows[..n], &times, tolerance);
    assert_close(&what, &rows[n..], &to_f64(variance).unwrap(), tolerance);
}

/// Functions that share K, with different numbers in the same blocks, against dense matrices of all of them.
fn check_explained_together(
    kernel: &Kernel,
    precision: Precision,
    [n, i, latents]: [usize; 3],
    budget: usize,
    tolerance: f64,
) {
    let what = format!("together, n = {n}, i = {i}, {latents} functions, {}, budget {budget}", precision.name());
    let offsets = BlockSparse::even(n, i);
    let all = latents * n;
    let inputs = [
        ("x", noise(1, n * 2), [n, 2]),
        ("s", noise(3, all), [all, 1]),
        ("t", noise(4, all), [all, 1]),
        ("spread", noise(5, all).iter().map(|value| 3.0 + value).collect(), [all, 1]),
    ];
    let wide = |x: Tensor<2>| x.cast(DType::F64);
    let own = |x: &Tensor<2>, l: usize| x.clone().narrow(0, l * n, n);
    let stacked = |of: &dyn Fn(usize) -> Tensor<2>| Tensor::cat((0..latents).map(of).collect::<Vec<_>>(), 0);
    let dense = outcome(kernel, precision, &inputs, BUDGET, |scope, x| {
        let k = wide(kernel.gram(scope, &x[0]).unwrap());
        let s = stacked(&|l| wide(spread(&own(&x[1], l), &offsets)));
        let ks = stacked(&|l| k.clone().matmul(own(&s, l)));
        let gram = s.clone().transpose().matmul(ks.clone());
        let noise = s.clone().transpose().matmul(s.clone() * wide(x[3].clone()));
        let lower = cholesky(gram.clone() + noise.clone(), "M").unwrap();
        let solved = |b: Tensor<2>| cholesky_solve(lower.clone(), b).unwrap();
        let v = solved(s.transpose().matmul(wide(x[2].clone())));
        let z = solved(ks.clone().transpose()).transpose();
        let pair = |e: usize| (own(&ks, e / latents) * own(&z, e % latents)).sum_dim(1);
        let variance = Tensor::cat((0..latents * latents).map(pair).collect(), 0);
        let trace = (solved(noise.clone()) * Tensor::<2>::eye(i, &noise.device()).cast(DType::F64)).sum();
        let log_dets =
            logdet_from_cholesky(lower.clone()).unwrap() - logdet_from_cholesky(cholesky(noise, "C").unwrap()).unwrap();
        let divergence = (v.clone() * gram.matmul(v.clone())).sum() + trace + log_dets - i as f64;
        Tensor::cat(vec![divergence, flatten(ks.matmul(v)), flatten(variance)], 0)
    });
    for prepare in [false, true] {
        let told = outcome(kernel, precision, &inputs, budget, |scope, x| {
            let [t, spread] = [2, 3].map(|place| flatten(wide(x[place].clone())));
            let blocks: Vec<_> = (0..latents).map(|l| blocks(&own(&x[1], l), &offsets)).collect();
            let covariance = Covariance::new(kernel, scope, &x[0]);
            let prepared = if prepare { covariance.prepared(&blocks).unwrap() } else { None };
            let told = covariance.explained_together(&blocks, [&t, &spread], prepared).unwrap().unwrap();
            Tensor::cat(vec![told.divergence, flatten(told.mean), flatten(told.variance)], 0)
        });
        told.assert_near(&dense, &what, tolerance);
    }
    // Prepared products by themselves.
    let scope = Scope::new(compute(precision)).unwrap().with_budget(budget);
    let x: Vec<Tensor<2>> = inputs.iter().map(|(_, values, [n, d])| scope.matrix(values, *n, *d)).collect();
    let blocks: Vec<_> = (0..latents).map(|l| blocks(&own(&x[1], l), &offsets)).collect();
    let prepared = Covariance::new(kernel, &scope, &x[0]).prepared(&blocks).unwrap().unwrap();
    let k = wide(kernel.gram(&scope, &x[0]).unwrap());
    let ks = stacked(&|l| k.clone().matmul(wide(spread(&own(&x[1], l), &offsets))));
    let weights = noise(6, i);
    let times = to_f64(ks.clone().matmul(scope.matrix_in(&weights, i, 1, DType::F64))).unwrap();
    assert_close(&what, &prepared.times(&weights), &times, tolerance);
    let identity = (0..i * i).map(|e| f64::from(u8::from(e % (i + 1) == 0))).collect();
    let squares = |e: usize| (own(&ks, e / latents) * own(&ks, e % latents)).sum_dim(1);
    let squares = to_f64(Tensor::cat((0..latents * latents).map(squares).collect(), 0)).unwrap();
    let rows = prepared.rows(&Factor::from_lower(identity).unwrap(), &weights);
    assert_close(&what, &rows[..all], &times, tolerance);
    assert_close(&what, &rows[all..], &squares, tolerance);
}

#[test]
fn functions_that_share_a_kernel() {
    let kernel = Kernel::parse("0.7 * matern32(lengthscale=ard, variance=0.6) + white(variance=0.3)", 2).unwrap();
    for (precision, tolerance) in [F64, F32] {
        // The budgets have room for a few rows, for one chunk of several, and for all.
        for (shape, budget) in
            [([40, 4, 3], 3000), ([700, 5, 2], 1 << 15), ([700, 5, 3], 1 << 26), ([9, 9, 10], 1 << 20)]
        {
            check_explained_together(&kernel, precision, shape, budget, tolerance);
        }
    }
}

const F64: (Precision, f64) = (Precision::F64, 1e-11);
const F32: (Precision, f64) = (Precision::F32, 2e-4);

#[test]
fn products_of_every_kernel() {
    for text in KERNELS {
        let kernel = Kernel::parse(text, 3).unwrap();
        for (precision, tolerance) in [F64, F32] {
            check_kv(&kernel, precision, [13, 37, 3, 2], tolerance);
            check_kv_gram(&kernel, precision, [41, 3, 2], tolerance);
            check_k_s(&kernel, precision, [19, 37, 3, 5], tolerance);
            check_projected(&kernel, precision, [29, 3, 4], 3000, tolerance);
            check_explained(&kernel, precision, [29, 3, 4], 3000, tolerance);
        }
    }
}

#[test]
fn products_of_ragged_sizes() {
    let kernel = Kernel::parse("matern32(lengthscale=ard, variance=0.6) + white(variance=0.3)", 2).unwrap();
    for (n, m, t) in [(1, 1, 1), (1, 300, 3), (300, 1, 1), (8, 256, 1), (257, 255, 5), (1100, 600, 1), (600, 1100, 2)] {
        check_kv(&kernel, F64.0, [n, m, 2, t], F64.1);
    }
    for (n, t) in [(1, 1), (7, 4), (256, 1), (513, 9), (1300, 1)] {
        check_kv_gram(&kernel, F64.0, [n, 2, t], F64.1);
        check_kv_gram(&kernel, F32.0, [n, 2, t], F32.1);
    }
    for (n, m, i) in [(1, 1, 1), (5, 300, 300), (300, 5, 1), (300, 301, 7), (2, 64, 8)] {
        check_k_s(&kernel, F64.0, [n, m, 2, i], F64.1);
    }
    for (n, i) in [(1, 1), (5, 5), (70, 1), (70, 70), (600, 11)] {
        check_projected(&kernel, F64.0, [n, 2, i], 1 << 14, F64.1);
        check_projected(&kernel, F64.0, [n, 2, i], 1 << 26, F64.1);
        check_explained(&kernel, F64.0, [n, 2, i], 1 << 14, F64.1);
        check_explained(&kernel, F64.0, [n, 2, i], 1 << 26, F64.1);
    }
}

#[test]
fn products_with_every_instruction_set() {
    let kernel = Kernel::parse("matern52() * periodic_norm(period=2.0) + rq() + cosine_sum()", 3).unwrap();
    for instructions in [Instructions::Portable, Instructions::Avx2, Instructions::Avx512] {
        limit(instructions);
        for (precision, tolerance) in [F64, F32] {
            check_kv(&kernel, precision, [150, 90, 3, 2], tolerance);
            check_kv_gram(&kernel, precision, [150, 3, 1], tolerance);
            check_projected(&kernel, precision, [150, 3, 6], 1 << 20, tolerance);
            check_explained(&kernel, precision, [150, 3, 6], 1 << 20, tolerance);
        }
        // The same instructions give the same digits; no other test changes them.
        let run = || {
            let inputs = [("x", noise(1, 2700), [900, 3]), ("v", noise(2, 900), [900, 1])];
            outcome(&kernel, Precision::F32, &inputs, BUDGET, |scope, x| {
                flatten(Covariance::new(&kernel, scope, &x[0]).times(&x[1]).unwrap())
            })
        };
        let (a, b) = (run(), run());
        assert_eq!(a.value, b.value);
        assert_eq!(a.gradients, b.gradients);
    }
}

#[test]
fn distances_beyond_the_numbers_are_the_limit() {
    // Points so far apart that squares overflow, in units of the lengthscale.
    let far = |precision: Precision| if precision == Precision::F32 { 1e30 } else { 1e200 };
    let decaying = [("rbf", 0.0), ("matern12", 0.0), ("matern32", 0.0), ("matern52", 0.0), ("rq(alpha=2)", 0.0)];
    for (text, limit) in decaying {
        let kernel = Kernel::parse(text, 2).unwrap();
        for (precision, _) in [F64, F32] {
            let x1 = vec![far(precision), 1.0, 0.3, 0.2, -far(precision), 0.5];
            let inputs = [("x1", x1, [3, 2]), ("x2", vec![0.1, -0.4, 0.3, 0.2], [2, 2]), ("v", vec![1.0; 2], [2, 1])];
            let fused = outcome(&kernel, precision, &inputs, BUDGET, |scope, x| {
                flatten(products::Cross::new(&kernel, scope, &x[0], &x[1]).times(&x[2]).unwrap())
            });
            let graph = outcome(&kernel, precision, &inputs, BUDGET, |scope, x| {
                flatten(kernel.cross(scope, &x[0], &x[1]).unwrap().matmul(x[2].clone()))
            });
            for (path, result) in [("fused", fused), ("graph", graph)] {
                for row in [0, 2] {
                    let got = result.value[row];
                    assert!((got - limit).abs() < 1e-12, "{text} {precision:?} {path}: row {row} is {got}");
                }
                assert!((0.5..2.0).contains(&result.value[1]), "{text} {path}: {:?}", result.value);
                for (name, gradient) in &result.gradients {
                    assert!(
                        gradient.iter().all(|g| g.abs() < 10.0),
                        "{text} {precision:?} {path} {name}: {gradient:?}"
                    );
                }
            }
        }
    }
    // Waves have no limit at infinity, but also no value beyond their range.
    for text in ["periodic_norm(period=2.5)", "cosine_norm(period=4.0)"] {
        let kernel = Kernel::parse(text, 1).unwrap();
        for (precision, _) in [F64, F32] {
            let inputs = [("x1", vec![far(precision)], [1, 1]), ("x2", vec![0.1], [1, 1]), ("v", vec![1.0], [1, 1])];
            let got = outcome(&kernel, precision, &inputs, BUDGET, |scope, x| {
                flatten(products::Cross::new(&kernel, scope, &x[0], &x[1]).times(&x[2]).unwrap())
            });
            assert!(got.value[0].abs() <= 1.0 + 1e-6, "{text} {precision:?}: {:?}", got.value);
        }
    }
}

#[test]
fn products_of_a_users_form() {
    let form: Arc<dyn Form> = Arc::<Cauchy>::default();
    let kernel = Kernel::leaf(form, 2) + Kernel::leaf(stationary::rbf(), 2);
    check_kv(&kernel, F64.0, [23, 31, 2, 3], F64.1);
    check_kv_gram(&kernel, F64.0, [31, 2, 1], F64.1);
    check_k_s(&kernel, F64.0, [23, 31, 2, 4], F64.1);
    check_projected(&kernel, F64.0, [31, 2, 4], 4000, F64.1);
}

#[test]
fn tiles_stay_within_the_budget() {
    for budget in [10_000, 1_000_000] {
        let form = Arc::<Cauchy>::default();
        let kernel = Kernel::leaf(form.clone(), 2);
        let (n, m) = (150, 210);
        let inputs = [("x1", noise(1, n * 2), [n, 2]), ("x2", noise(2, m * 2), [m, 2]), ("v", noise(3, m), [m, 1])];
        outcome(&kernel, Precision::F64, &inputs, budget, |scope, x| {
            flatten(products::Cross::new(&kernel, scope, &x[0], &x[1]).times(&x[2]).unwrap())
        });
        // The graph of a tile holds at least its covariances, their derivatives and the values between.
        let bytes = form.most.load(Ordering::Relaxed) * 8;
        assert!(bytes > 0 && 8 * bytes <= budget, "{bytes} bytes a matrix with a budget of {budget}");
    }
}

#[test]
fn diagonals_hold_white_noise() {
    let kernel = Kernel::parse("rbf() + white(variance=0.5)", 2).unwrap();
    let scope = Scope::new(compute(Precision::F64)).unwrap();
    let x = scope.matrix(&noise(5, 60), 30, 2);
    let diagonal = to_f64(Covariance::new(&kernel, &scope, &x).diagonal().unwrap()).unwrap();
    assert_close("diagonal", &diagonal, &[1.5; 30], 1e-14);
}

#[test]
fn accuracy_of_single_entries() {
    // One row against many, so that nothing averages out: each output is one covariance.
    for (precision, tolerance) in [(Precision::F32, 3e-6), (Precision::F64, 1e-14)] {
        for text in ["rbf()", "matern12()", "matern32()", "matern52()", "rq(alpha=2.0)"] {
            let kernel = Kernel::parse(text, 1).unwrap();
            let scope = Scope::new(compute(precision)).unwrap();
            let n = 2000;
            let x = scope.matrix(&(0..n).map(|i| (i * i) as f64 / 4e6 * 6.0).collect::<Vec<_>>(), n, 1);
            let (origin, one) = (scope.matrix(&[0.0], 1, 1), scope.matrix(&[1.0], 1, 1));
            let got = to_f64(products::Cross::new(&kernel, &scope, &x, &origin).times(&one).unwrap()).unwrap();
            let exact = Scope::new(compute(Precision::F64)).unwrap();
            let x = exact.matrix(&to_f64(x).unwrap(), n, 1);
            let want = to_f64(kernel.cross(&exact, &x, &exact.matrix(&[0.0], 1, 1)).unwrap()).unwrap();
            for (i, (g, w)) in got.iter().zip(&want).enumerate() {
                assert!((g - w).abs() <= tolerance * w.abs(), "{text} {}: entry {i}: {g}, want {w}", precision.name());
            }
        }
    }
}

#[test]
fn shapes_that_do_not_match_are_errors() {
    let kernel = Kernel::parse("rbf()", 1).unwrap();
    let scope = Scope::new(compute(Precision::F64)).unwrap();
    let (x, v) = (scope.matrix(&noise(1, 5), 5, 1), scope.matrix(&noise(1, 4), 4, 1));
    let message = Covariance::new(&kernel, &scope, &x).times(&v).unwrap_err().to_string();
    assert!(message.contains("5 rows") && message.contains('4'), "{message}");
    for offsets in [vec![0, 3], vec![0, 2, 2, 5], vec![1, 5], vec![5]] {
        assert!(BlockSparse::new(scope.vector(&noise(1, 5)), offsets).is_err());
    }
    assert_eq!(BlockSparse::even(10, 4), vec![0, 2, 5, 7, 10]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The gradient of a product agrees with finite differences.
    #[test]
    fn gradients_match_finite_differences(index in 0..KERNELS.len(), n in 2..12usize, seed in 0..1000usize) {
        let kernel = Kernel::parse(KERNELS[index], 3).unwrap();
        let (x, v, weights) = (noise(seed, n * 3), noise(seed + 1, n), noise(seed + 2, n));
        let loss = |x: &[f64], track: bool| {
            let scope = if track { Scope::training } else { Scope::new };
            let scope = scope(compute(Precision::F64)).unwrap();
            let x = scope.matrix(x, n, 3);
            let x = if track { x.require_grad() } else { x };
            let product = Covariance::new(&kernel, &scope, &x).times(&scope.matrix(&v, n, 1)).unwrap();
            let total = (product * scope.matrix(&weights, n, 1)).sum();
            let gradient = track.then(|| to_f64(x.grad(&total.backward()).unwrap()).unwrap());
            (to_f64(total).unwrap()[0], gradient)
        };
        let gradient = loss(&x, true).1.unwrap();
        for at in 0..x.len().min(6) {
            let moved = |by: f64| { let mut x = x.clone(); x[at] += by; loss(&x, false).0 };
            let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            prop_assert!((slope - gradient[at]).abs() < 1e-5 * (1.0 + slope.abs()), "{} {}", slope, gradient[at]);
        }
    }
}

/// q(v) for `m` inducing values: a mean and the packed rows of a root.
fn variational(m: usize) -> [Vec<f64>; 2] {
    let root = (0..m).flat_map(|i| (0..=i).map(move |j| if i == j { 0.8 } else { 0.1 / (1 + i - j) as f64 }));
    [noise(5, m), root.collect()]
}

fn side_by_side(p: Projected) -> Tensor<1> {
    Tensor::cat(vec![p.shift, p.change, p.divergence], 0).cast(DType::F64)
}

/// The marginals by a graph of dense algebra.
fn whitened_by_graph(
    kernel: &Kernel,
    scope: &Scope,
    z: &Tensor<2>,
    x: &Tensor<2>,
    q: [Tensor<1>; 2],
) -> Result<Tensor<1>> {
    let [mean, root] = q;
    let m = mean.dims()[0];
    let lower = cholesky(kernel.gram(scope, z)?, "K_ZZ")?;
    let a = solve_lower(lower, kernel.cross(scope, z, x)?)?;
    let (root, diagonal) = if root.dims()[0] == m {
        (Tensor::<2>::eye(m, scope.device()).cast(root.dtype()) * root.clone().unsqueeze::<2>(), root)
    } else {
        let full = unpack_lower(root)?;
        let eye = Tensor::<2>::eye(m, scope.device()).cast(full.dtype());
        (full.clone(), (full * eye).sum_dim(1).squeeze_dim(1))
    };
    let columns = |a: Tensor<2>| (a.clone() * a).sum_dim(0).squeeze_dim::<1>(0);
    let shift = a.clone().transpose().matmul(mean.clone().unsqueeze_dim(1)).squeeze_dim::<1>(1);
    let change = columns(root.clone().transpose().matmul(a.clone())) - columns(a);
    let divergence =
        ((mean.clone() * mean).sum() + (root.clone() * root).sum() - m as f64) * 0.5 - diagonal.log().sum();
    Ok(Tensor::cat(vec![shift, change, divergence], 0))
}

#[test]
fn whitened_marginals_of_every_kernel() {
    let (m, b, d) = (9, 13, 3);
    let [mean, root] = variational(m);
    // Functions of a norm are covariances only on a line; with white noise the Gram matrices of the others are positive
    // definite.
    for text in KERNELS.iter().filter(|text| !text.contains("_norm")) {
        let kernel = Kernel::parse(&format!("{text} + white(variance=0.3)"), d).unwrap();
        for root in [root.clone(), noise(8, m).iter().map(|x| 1.0 + 0.3 * x).collect()] {
            let (what, length) = (format!("marginals, {kernel}, root of {}", root.len()), root.len());
            let inputs = [
                ("z", noise(1, m * d), [m, d]),
                ("x", noise(2, b * d), [b, d]),
                ("mean", mean.clone(), [1, m]),
                ("root", root, [1, length]),
            ];
            let q = |x: &[Tensor<2>]| [2, 3].map(|i: usize| x[i].clone().squeeze_dim::<1>(0));
            let run = |precision| {
                outcome(&kernel, precision, &inputs, BUDGET, |scope, x| {
                    let [mean, root] = q(x);
                    side_by_side(products::Cross::new(&kernel, scope, &x[0], &x[1]).whitened(mean, root).unwrap())
                })
            };
            let graph = outcome(&kernel, Precision::F64, &inputs, BUDGET, |scope, x| {
                whitened_by_graph(&kernel, scope, &x[0], &x[1], q(x)).unwrap()
            });
            run(Precision::F64).assert_near(&graph, &what, 1e-10);
            run(Precision::F32).assert_near(&graph, &format!("{what} in f32"), 1e-3);
        }
    }
}

#[test]
fn whitened_marginals_of_a_users_form() {
    let (m, b) = (6, 11);
    let form: Arc<dyn Form> = Arc::<Cauchy>::default();
    let kernel = Kernel::leaf(form, 2) + Kernel::leaf(linear::white(), 2);
    let [mean, root] = variational(m);
    let length = root.len();
    let inputs = [
        ("z", noise(1, m * 2), [m, 2]),
        ("x", noise(2, b * 2), [b, 2]),
        ("mean", mean, [1, m]),
        ("root", root, [1, length]),
    ];
    let q = |x: &[Tensor<2>]| [2, 3].map(|i: usize| x[i].clone().squeeze_dim::<1>(0));
    let got = outcome(&kernel, Precision::F64, &inputs, BUDGET, |scope, x| {
        let [mean, root] = q(x);
        side_by_side(products::Cross::new(&kernel, scope, &x[0], &x[1]).whitened(mean, root).unwrap())
    });
    let want = outcome(&kernel, Precision::F64, &inputs, BUDGET, |scope, x| {
        whitened_by_graph(&kernel, scope, &x[0], &x[1], q(x)).unwrap()
    });
    got.assert_near(&want, "marginals of a user's form", 1e-10);
}

/// Distant inducing inputs allow f32, close ones fall back on f64: errors stay small compared with the prior variance,
/// 1.
#[test]
fn whitened_marginals_in_single_precision_stay_accurate() {
    let (m, b) = (40, 60);
    let [mean, root] = variational(m);
    let length = root.len();
    // Multiples of powers of two, so that both precisions see the same inputs.
    for spacing in [2.0, 1.0, 0.5, 0.25, 0.125, 0.015_625] {
        for nugget in [1e-2, 1e-3, 1e-4, 1e-6] {
            let kernel = Kernel::parse(&format!("rbf() + white(variance={nugget})"), 1).unwrap();
            let inputs = [
                ("z", (0..m).map(|i| spacing * i as f64).collect(), [m, 1]),
                ("x", (0..b).map(|i| 0.375 * spacing * i as f64).collect(), [b, 1]),
                ("mean", mean.clone(), [1, m]),
                ("root", root.clone(), [1, length]),
            ];
            let run = |precision| {
                outcome(&kernel, precision, &inputs, BUDGET, |scope, x| {
                    let [mean, root] = [2, 3].map(|i: usize| x[i].clone().squeeze_dim::<1>(0));
                    side_by_side(products::Cross::new(&kernel, scope, &x[0], &x[1]).whitened(mean, root).unwrap())
                })
            };
            let (fast, slow) = (run(Precision::F32), run(Precision::F64));
            assert_close("marginals in f32", &fast.value, &slow.value, 1e-4);
            // The inverse of a nearly singular K gives the rounding errors of its cotangent a large weight.
            let tolerance = if nugget >= 1e-4 { 1e-3 } else { 1e-1 };
            for ((name, fast), (_, slow)) in fast.gradients.iter().zip(&slow.gradients) {
                let size = slow.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
                let error = fast.iter().zip(slow).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(error <= tolerance * size, "{name}, spacing {spacing}, nugget {nugget}: {error:e} of {size:e}");
            }
        }
    }
}

#[test]
fn whitened_marginals_name_what_does_not_fit() {
    let kernel = Kernel::parse("rbf()", 1).unwrap();
    let scope = Scope::new(compute(Precision::F64)).unwrap();
    let (z, x) = (scope.matrix(&[0.0, 1.0], 2, 1), scope.matrix(&[0.5], 1, 1));
    let run = |mean: &[f64], root: &[f64]| {
        products::Cross::new(&kernel, &scope, &z, &x)
            .whitened(scope.vector(mean), scope.vector(root))
            .unwrap_err()
            .to_string()
    };
    assert!(run(&[0.0; 3], &[1.0; 3]).contains('q'));
    assert!(run(&[0.0; 2], &[1.0; 4]).contains("triangle or diagonal of order 2"));
}

/// For each of `rows` rows, a list of `each` different places below `of`, not in order.
fn lists(rows: usize, of: usize, each: usize) -> Arc<Neighbours> {
    let step = (2..).find(|step| !of.is_multiple_of(*step)).unwrap_or(1);
    let index = |row: usize, k: usize| ((row * 3 + k * step) % of) as u32;
    Arc::new(Neighbours { indices: (0..rows).flat_map(|row| (0..each).map(move |k| index(row, k))).collect(), each })
}

/// The noise of inducing values, as a share of their variance.
const NUGGET: f64 = 0.02;

/// The marginals of rows with neighbours, by a graph of dense algebra, for q with mean `m` and covariance `s [u, u]`.
fn local_by_graph(
    kernel: &Kernel,
    scope: &Scope,
    x: &[Tensor<2>; 2],
    m: &Tensor<1>,
    s: &Tensor<2>,
    of: &Neighbours,
) -> Tensor<1> {
    let (rows, h) = (x[0].dims()[0], of.each);
    let eye = Tensor::<2>::eye(h, scope.device()).cast(m.dtype());
    let log_det = |lower: Tensor<2>| (lower * eye.clone()).sum_dim(1).log().sum() * 2.0;
    let (mut shifts, mut changes, mut divergences) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..rows {
        let places: Vec<i32> = of.of(row).iter().map(|&j| j as i32).collect();
        let places = Tensor::<1, Int>::from_data(TensorData::new(places, [h]), scope.device());
        let z = x[1].clone().select(0, places.clone());
        let m = m.clone().select(0, places.clone()).reshape([h, 1]);
        let s = s.clone().select(0, places.clone()).select(1, places);
        let gram = kernel.gram(scope, &z).unwrap() * (eye.clone() * NUGGET + 1.0);
        let lower = cholesky(gram, "K").unwrap();
        let a = solve_lower(lower.clone(), kernel.cross(scope, &z, &x[0].clone().narrow(0, row, 1)).unwrap()).unwrap();
        let inverse = solve_lower(lower.clone(), eye.clone()).unwrap();
        let weights = inverse.clone().transpose().matmul(a.clone());
        let (shift, solved) = (weights.clone() * m.clone(), inverse.clone().matmul(m));
        let change = (weights.clone() * s.clone().matmul(weights)).sum() - (a.clone() * a).sum();
        let trace = (inverse.clone().matmul(s.clone()) * inverse).sum() - h as f64;
        let logs = log_det(lower) - log_det(cholesky(s, "S").unwrap());
        shifts.push(shift.sum());
        changes.push(change);
        divergences.push((trace + (solved.clone() * solved).sum() + logs) * 0.5);
    }
    Tensor::cat([shifts, changes, divergences].concat(), 0)
}

#[test]
fn local_marginals_of_every_kernel() {
    let (u, d) = (23, 3);
    let kernels = KERNELS.iter().filter(|text| !text.contains("_norm")).map(|text| (*text, 9, 4));
    // Enough pairs for several tiles for each thread.
    for (text, b, h) in kernels.chain([("rq(alpha=0.7, lengthscale=ard)", 150, 11), ("rbf() + linear()", 5, 1)]) {
        let kernel = Kernel::parse(&format!("{text} + white(variance=0.3)"), d).unwrap();
        let neighbours = lists(b, u, h);
        for (what, count) in [("full", u), ("diagonal", 1)] {
            let inputs = [
                ("x", noise(2, b * d), [b, d]),
                ("z", noise(1, u * d), [u, d]),
                ("mean", noise(5, u), [1, u]),
                ("root", noise(8, count * u), [count, u]),
            ];
            // S, and the form of it that the product takes.
            let spread = |scope: &Scope, root: &Tensor<2>| {
                let eye = Tensor::<2>::eye(u, scope.device()).cast(root.dtype());
                if count == 1 {
                    let sd = root.clone() + 2.0;
                    return (eye * (sd.clone() * sd.clone()), flatten(sd));
                }
                let full = root.clone() * 0.2 + eye;
                (full.clone().matmul(full.clone().transpose()), flatten(full))
            };
            let got = outcome(&kernel, Precision::F64, &inputs, BUDGET, |scope, x| {
                let q = Tensor::cat(vec![flatten(x[2].clone()), spread(scope, &x[3]).1], 0);
                products::Cross::new(&kernel, scope, &x[1], &x[0]).local(q, neighbours.clone(), NUGGET).unwrap()
            });
            let want = outcome(&kernel, Precision::F64, &inputs, BUDGET, |scope, x| {
                let (mean, (s, _)) = (flatten(x[2].clone()), spread(scope, &x[3]));
                local_by_graph(&kernel, scope, &[x[0].clone(), x[1].clone()], &mean, &s, &neighbours)
            });
            got.assert_near(&want, &format!("local marginals, {kernel}, {what} S"), 1e-9);
        }
    }
}

#[test]
fn conditional_moments_of_every_kernel() {
    let (n, d) = (23, 3);
    let kernels = KERNELS.iter().map(|text| (*text, 9, 4));
    // Enough pairs for several tiles for each thread.
    for (text, b, h) in kernels.chain([("rq(alpha=0.7, lengthscale=ard)", 150, 11), ("rbf() + linear()", 5, 1)]) {
        let kernel = Kernel::parse(&format!("{text} + white(variance=0.3)"), d).unwrap();
        let neighbours = lists(b, n, h);
        let inputs = [
            ("x", noise(2, b * d), [b, d]),
            ("z", noise(1, n * d), [n, d]),
            ("residuals", noise(5, n), [1, n]),
            ("noise", noise(8, n).iter().map(|s| 1.5 + s).collect(), [1, n]),
        ];
        let got = outcome(&kernel, Precision::F64, &inputs, BUDGET, |scope, x| {
            let [residuals, variances] = [2, 3].map(|i: usize| flatten(x[i].clone()));
            let rows = products::Cross::new(&kernel, scope, &x[1], &x[0]);
            rows.conditional(residuals, variances, neighbours.clone()).unwrap()
        });
        let want = outcome(&kernel, Precision::F64, &inputs, BUDGET, |scope, x| {
            let (mut shifts, mut changes) = (Vec::new(), Vec::new());
            for row in 0..b {
                let places: Vec<i32> = neighbours.of(row).iter().map(|&j| j as i32).collect();
                let places = Tensor::<1, Int>::from_data(TensorData::new(places, [h]), scope.device());
                let z = x[1].clone().select(0, places.clone());
                let [r, s] = [2, 3].map(|i: usize| x[i].clone().transpose().select(0, places.clone()));
                let eye = Tensor::<2>::eye(h, scope.device()).cast(s.dtype());
                let lower = cholesky(kernel.gram(scope, &z).unwrap() + eye * s, "K").unwrap();
                let k = kernel.cross(scope, &z, &x[0].clone().narrow(0, row, 1)).unwrap();
                let (a, u) = (solve_lower(lower.clone(), k).unwrap(), solve_lower(lower, r).unwrap());
                shifts.push((a.clone() * u).sum());
                changes.push(-(a.clone() * a).sum());
            }
            Tensor::cat([shifts, changes].concat(), 0)
        });
        got.assert_near(&want, &format!("conditional moments, {kernel}"), 1e-9);
    }
}

#[test]
fn moments_of_every_kernel() {
    let (n, m, d) = (37, 9, 3);
    for text in KERNELS.iter().filter(|text| !text.contains("_norm")) {
        let kernel = Kernel::parse(&format!("{text} + white(variance=0.3)"), d).unwrap();
        let inputs = [
            ("x", noise(2, n * d), [n, d]),
            ("z", noise(1, m * d), [m, d]),
            ("s", noise(3, n).iter().map(|s| 2.0 + s).collect(), [n, 1]),
            ("t", noise(4, n), [n, 1]),
        ];
        let want = outcome(&kernel, Precision::F64, &inputs, BUDGET, |scope, x| {
            let lower = cholesky(kernel.gram(scope, &x[1]).unwrap(), "K_ZZ").unwrap();
            let a = solve_lower(lower, kernel.cross(scope, &x[1], &x[0]).unwrap()).unwrap() * x[2].clone().transpose();
            let (square, along) = (a.clone().matmul(a.clone().transpose()), a.matmul(x[3].clone()));
            Tensor::cat(vec![flatten(square), flatten(along)], 0)
        });
        // Budgets for all of A, for chunks of a few rows, and for a single sum.
        for budget in [BUDGET, 2000, 1] {
            let got = outcome(&kernel, Precision::F64, &inputs, budget, |scope, x| {
                let [s, t] = [2, 3].map(|i: usize| flatten(x[i].clone()));
                let (square, along) = products::Cross::new(&kernel, scope, &x[1], &x[0]).moments(&s, &t).unwrap();
                Tensor::cat(vec![flatten(square), along], 0)
            });
            got.assert_near(&want, &format!("moments, {kernel}, budget {budget}"), 1e-10);
        }
    }
}
