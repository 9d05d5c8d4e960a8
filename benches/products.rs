//! Covariance products, forward and with their gradients: `cargo bench --bench products`.

use std::hint::black_box;

use burn::tensor::{Distribution, Tensor};
use cagey::device::{Compute, DeviceKind, Precision};
use cagey::kernels::Kernel;
use cagey::products::{self, BlockSparse};
use cagey::scope::Scope;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const PRECISIONS: [Precision; 2] = [Precision::F32, Precision::F64];
const D: usize = 9;

fn training(precision: Precision) -> Scope {
    Scope::training(Compute { kind: DeviceKind::Flex, precision }).unwrap()
}

fn normal<const R: usize>(scope: &Scope, shape: [usize; R]) -> Tensor<R> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), (scope.device(), scope.dtype()))
}

fn kernel(text: &str) -> Kernel {
    Kernel::parse(text, D).unwrap()
}

fn matvec(c: &mut Criterion) {
    let mut group = c.benchmark_group("kv_gram");
    let kernels = ["matern32(lengthscale=3.0)", "rbf(lengthscale=3.0)", "matern52(lengthscale=3.0) * rq() + linear()"];
    for precision in PRECISIONS {
        for text in kernels {
            for (n, rhs) in [(4000, 1), (4000, 16)] {
                group.throughput(Throughput::Elements((n * n) as u64));
                let id = |kind| BenchmarkId::new(kind, format!("{text}, n = {n}, t = {rhs}, {}", precision.name()));
                let kernel = kernel(text);
                let scope = training(precision);
                let (x, v) = (normal(&scope, [n, D]), normal(&scope, [n, rhs]));
                group.bench_function(id("value"), |b| {
                    b.iter(|| black_box(products::Covariance::new(&kernel, &scope, &x).times(&v).unwrap().into_data()));
                });
                group.bench_function(id("gradient"), |b| {
                    b.iter(|| {
                        let (x, v) = (x.clone().require_grad(), v.clone().require_grad());
                        black_box(products::Covariance::new(&kernel, &scope, &x).times(&v).unwrap().sum().backward())
                    });
                });
            }
        }
    }
}

fn cross(c: &mut Criterion) {
    let mut group = c.benchmark_group("kv");
    for precision in PRECISIONS {
        for (n, m) in [(10_000, 500), (500, 10_000)] {
            group.throughput(Throughput::Elements((n * m) as u64));
            let (kernel, scope) = (kernel("matern32(lengthscale=3.0)"), training(precision));
            let (x1, x2, v) = (normal(&scope, [n, D]), normal(&scope, [m, D]), normal(&scope, [m, 1]));
            group.bench_function(format!("n = {n}, m = {m}, {}", precision.name()), |b| {
                b.iter(|| black_box(products::Cross::new(&kernel, &scope, &x1, &x2).times(&v).unwrap().into_data()));
            });
        }
    }
}

fn sparse(c: &mut Criterion) {
    let mut group = c.benchmark_group("block-sparse");
    let (n, actions) = (4000, 256);
    for precision in PRECISIONS {
        group.throughput(Throughput::Elements((n * n) as u64));
        let (kernel, scope) = (kernel("matern32(lengthscale=3.0)"), training(precision));
        let (x, s) = (normal(&scope, [n, D]), normal(&scope, [n]));
        let blocks = BlockSparse::new(s.clone(), BlockSparse::even(n, actions)).unwrap();
        group.bench_function(format!("k_s, {}", precision.name()), |b| {
            b.iter(|| {
                black_box(products::Cross::new(&kernel, &scope, &x, &x).times_blocks(&blocks).unwrap().into_data())
            });
        });
        group.bench_function(format!("SᵀKS with gradient, {}", precision.name()), |b| {
            b.iter(|| {
                let s = s.clone().require_grad();
                let blocks = BlockSparse::new(s, BlockSparse::even(n, actions)).unwrap();
                let square = products::Covariance::new(&kernel, &scope, &x).projected(&blocks).unwrap();
                black_box(square.sum().backward())
            });
        });
    }
}

fn dense(c: &mut Criterion) {
    let mut group = c.benchmark_group("gram");
    for precision in PRECISIONS {
        let n = 4000;
        group.throughput(Throughput::Elements((n * n) as u64));
        let (kernel, scope) = (kernel("matern32(lengthscale=3.0)"), training(precision));
        let x = normal(&scope, [n, D]);
        group.bench_function(format!("value, {}", precision.name()), |b| {
            b.iter(|| black_box(products::Covariance::new(&kernel, &scope, &x).matrix().unwrap()));
        });
        group.bench_function(format!("gradient, {}", precision.name()), |b| {
            b.iter(|| {
                let x = x.clone().require_grad();
                black_box(products::Covariance::new(&kernel, &scope, &x).matrix().unwrap().sum().backward())
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = matvec, cross, sparse, dense
}
criterion_main!(benches);
