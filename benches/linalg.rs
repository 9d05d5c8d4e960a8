//! Dense linear algebra: one group for each operation, in elements (multiply-adds) a second, so that rates can be
//! compared with `matmul`.

use burn::tensor::{DType, Device, Tensor, TensorData};
use cagey::linalg::{Factor, cholesky, eigh, loo_nll, mvn_nll, solve_lower};
use criterion::{BatchSize, BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};

const SIZES: [usize; 3] = [512, 1024, 2048];
const DTYPES: [(DType, &str); 2] = [(DType::F32, "f32"), (DType::F64, "f64")];

/// A Cauchy kernel on a line, with unit noise: its entries never underflow.
fn kernel(n: usize) -> Vec<f64> {
    let entry = |i: usize, j: usize| 1.0 / (1.0 + (i as f64 - j as f64).powi(2) / 400.0) + f64::from(u8::from(i == j));
    (0..n * n).map(|l| entry(l / n, l % n)).collect()
}

fn tensor<const D: usize>(values: Vec<f64>, shape: [usize; D], device: &Device, dtype: DType) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape).convert_dtype(dtype), (device, dtype))
}

/// Runs `step` for every size and dtype; `cubes` is the operation count in units of `n³`.
fn group<I>(
    c: &mut Criterion,
    name: &str,
    cubes: f64,
    setup: impl Fn(usize, DType) -> I,
    step: impl Fn(I) -> Tensor<2>,
) {
    let mut group = c.benchmark_group(name);
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    for (dtype, label) in DTYPES {
        for n in SIZES {
            group.throughput(Throughput::Elements((cubes * (n as f64).powi(3)) as u64));
            group.bench_function(BenchmarkId::new(label, n), |b| {
                b.iter_batched(|| setup(n, dtype), &step, BatchSize::PerIteration);
            });
        }
    }
}

fn products(c: &mut Criterion) {
    let device = Device::flex();
    let pair = |n, dtype| [(); 2].map(|()| tensor(kernel(n), [n, n], &device, dtype));
    group(c, "matmul", 2.0, pair, |[a, b]| a.matmul(b));
    group(c, "solve_lower", 1.0, pair, |[l, b]| solve_lower(l, b).unwrap());
}

fn factorisations(c: &mut Criterion) {
    let device = Device::flex();
    let one = |n, dtype| tensor(kernel(n), [n, n], &device, dtype);
    group(c, "cholesky", 1.0 / 3.0, one, |k| cholesky(k, "K").unwrap());
    group(c, "eigh", 9.0, one, |k| eigh(k, "K").unwrap().1);
    let mut inverses = c.benchmark_group("inverse");
    inverses.sample_size(10).sampling_mode(SamplingMode::Flat);
    for n in SIZES {
        inverses.throughput(Throughput::Elements((2.0 / 3.0 * (n as f64).powi(3)) as u64));
        let factor = Factor::new(kernel(n), "K").unwrap();
        inverses.bench_function(BenchmarkId::new("f64", n), |b| {
            b.iter_batched(|| factor.clone(), Factor::inverse, BatchSize::PerIteration);
        });
    }
}

fn batches(c: &mut Criterion) {
    let device = Device::flex();
    let mut group = c.benchmark_group("cholesky of 256");
    for h in [8, 32, 128] {
        group.throughput(Throughput::Elements((256 * h * h * h / 3) as u64));
        let batch = || tensor(kernel(h).repeat(256), [256, h, h], &device, DType::F64);
        group.bench_function(BenchmarkId::new("f64", h), |b| {
            b.iter_batched(batch, |k| cholesky(k, "K").unwrap(), BatchSize::PerIteration);
        });
    }
}

type Objective = fn(Tensor<2>, Tensor<1>, Tensor<1>) -> cagey::Result<Tensor<1>>;

fn objectives(c: &mut Criterion) {
    let device = Device::flex().autodiff();
    let inputs = |n, dtype| {
        let k = tensor(kernel(n), [n, n], &device, dtype).require_grad();
        (k, tensor(vec![0.1; n], [n], &device, dtype), tensor(vec![1.0; n], [n], &device, dtype))
    };
    let all: [(&str, f64, Objective); 2] =
        [("mvn_nll and gradient", 1.0, mvn_nll), ("loo_nll and gradient", 2.0, loo_nll)];
    for (name, cubes, objective) in all {
        group(c, name, cubes, inputs, |(k, noise, r)| {
            let gradients = objective(k.clone(), noise, r).unwrap().backward();
            k.grad(&gradients).unwrap()
        });
    }
}

criterion_group!(benches, products, factorisations, batches, objectives);
criterion_main!(benches);
