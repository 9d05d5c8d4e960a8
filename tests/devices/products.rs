//! Compares products on a GPU with the CPU in double precision, with gradients in everything; checks the transfers.

use std::sync::Arc;

use burn::tensor::Tensor;
use cagey::Result;
use cagey::device::{Algebra, Compute, Transfers, set_algebra};
use cagey::kernels::Kernel;
use cagey::kernels::form::Form;
use cagey::params::{Parameter, Parameters, Unit};
use cagey::products::{BlockSparse, Covariance, Cross, Explained, Neighbours, tiled};
use cagey::scope::Scope;

use crate::{REFERENCE, alone, gpus, inputs, name, noise, tolerance};

/// Trees of every built-in form.
const KERNELS: [&str; 14] = [
    "rbf(lengthscale=ard, variance=1.3)",
    "matern12(variance=0.7)",
    "1.3 * matern32(lengthscale=0.7)",
    "matern52(ard)",
    "rq(alpha=0.8, variance=1.4)",
    "periodic(period=1.7)",
    "periodic_norm(dims=[0], period=2.5, lengthscale=1.2)",
    "cosine_sum(lengthscale=3.0)",
    "linear(variance=ard)",
    "polynomial(power=3, offset=0.5)",
    "spectral_mixture(components=2)",
    "matern32(variance=0.5) + 0.3 * linear()",
    "rbf() * periodic(dims=[0], period=0.9) + white(variance=0.2)",
    "(matern52(dims=[1]) + constant(0.4)) * rq(dims=[0, 2]) + white(variance=0.1)",
];

const D: usize = 3;

/// A kernel defined only by a tensor graph: 1/(1 + ‖x − z‖²/ℓ²).
#[derive(Debug)]
struct Cauchy;

impl Form for Cauchy {
    fn name(&self) -> &str {
        "cauchy"
    }
    fn parameters(&self, _d: usize) -> Vec<Parameter> {
        vec![Parameter::positive("lengthscale", Unit::Length, &[0.8])]
    }
    fn cross(&self, p: &[Tensor<1>], x1: Tensor<2>, x2: Tensor<2>) -> Result<Tensor<2>> {
        let columns = (0..x1.dims()[1])
            .map(|k| (x1.clone().narrow(1, k, 1) - x2.clone().narrow(1, k, 1).transpose()).powi_scalar(2));
        let distance = columns.reduce(|a, b| a + b).unwrap() / p[0].clone().unsqueeze::<2>().powi_scalar(2);
        Ok((distance + 1.0).recip())
    }
    fn diag(&self, _p: &[Tensor<1>], x: Tensor<2>) -> Result<Tensor<1>> {
        Ok((x.narrow(1, 0, 1) * 0.0 + 1.0).squeeze_dim(1))
    }
}

fn custom() -> Kernel {
    Kernel::leaf(Arc::new(Cauchy), D) + parse("white(variance=0.2)")
}

fn parse(text: &str) -> Kernel {
    Kernel::parse(text, D).unwrap()
}

/// The parts of a product, and how much memory it may take.
struct Case<'a> {
    kernel: &'a Kernel,
    inputs: Vec<(Vec<f64>, usize)>,
    budget: usize,
}

impl Case<'_> {
    /// The product, then its gradients in the inputs and the kernel's parameters, all weighted at random.
    fn run(
        &self,
        compute: Compute,
        f: &dyn Fn(&Scope, &[Tensor<2>]) -> Tensor<2>,
    ) -> (Vec<(String, Tensor<2>)>, Transfers) {
        let scope = Scope::training(compute).unwrap().with_budget(self.budget);
        let matrix = |(values, columns): &(Vec<f64>, usize)| {
            scope.matrix(values, values.len() / columns, *columns).require_grad()
        };
        let leaves: Vec<Tensor<2>> = self.inputs.iter().map(matrix).collect();
        let before = Transfers::so_far();
        let value = f(&scope, &leaves);
        let [n, m] = value.dims();
        let moved = Transfers::so_far() - before;
        let weights = scope.matrix_in(&noise(91, n * m), n, m, value.dtype());
        let before = Transfers::so_far();
        let gradients = (value.clone() * weights).sum().backward();
        let back = Transfers::so_far() - before;
        let moved = Transfers { up: moved.up + back.up, down: moved.down + back.down, syncs: moved.syncs + back.syncs };
        let mut all = vec![("value".to_string(), value.inner())];
        for (i, leaf) in leaves.iter().enumerate() {
            all.extend(leaf.grad(&gradients).map(|slope| (format!("input {i}"), slope)));
        }
        // Compared as one vector by its norm: single slopes may be small by cancellation.
        let slopes: Vec<Tensor<1>> =
            self.kernel.parameters().iter().filter_map(|(_, p)| scope.wide_value(p).grad(&gradients)).collect();
        if !slopes.is_empty() {
            all.push(("parameters".into(), Tensor::cat(slopes, 0).unsqueeze()));
        }
        (all, moved)
    }

    /// Compares every part by its norm; returns the transfers.
    fn check(&self, what: &str, single: f64, f: &dyn Fn(&Scope, &[Tensor<2>]) -> Tensor<2>) -> Vec<Transfers> {
        let numbers = |tensor: Tensor<2>| tensor.into_data().convert::<f64>().try_into_vec::<f64>().unwrap();
        let want: Vec<_> = self.run(REFERENCE, f).0.into_iter().map(|(part, t)| (part, numbers(t))).collect();
        let mut crossed = Vec::new();
        for compute in gpus() {
            let (got, moved) = self.run(compute, f);
            let names: Vec<_> = got.iter().map(|(part, _)| part.clone()).collect();
            assert_eq!(names, want.iter().map(|(part, _)| part.clone()).collect::<Vec<_>>(), "{what}");
            for ((part, got), (_, want)) in got.into_iter().zip(&want) {
                let got = numbers(got);
                let norm = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>().sqrt();
                let off: Vec<f64> = got.iter().zip(want).map(|(a, b)| a - b).collect();
                let (off, size) = (norm(&off), norm(want));
                let most = tolerance(compute, single) * size.max(1e-3);
                assert!(off <= most, "{} {what}: {part}: {off:.2e} of {size:.2e}", name(compute));
            }
            crossed.push(moved);
        }
        crossed
    }
}

/// Bytes of temporary memory for tiles of some tens of rows.
const SMALL: usize = 1 << 18;

fn close(kernel: &Kernel, what: &str, n: usize, m: usize, t: usize) {
    let (x, z, v) = ((inputs(12, n, D), D), (inputs(13, m, D), D), |rows: usize| (noise(14, rows * t), t));
    let case = |inputs| Case { kernel, inputs, budget: SMALL };
    let cross = case(vec![x.clone(), z.clone()]);
    let name = |product: &str| format!("{what} {n} × {m}, {t} columns: {product}");
    cross.check(&name("matrix"), 1e-4, &|s, x| Cross::new(kernel, s, &x[0], &x[1]).matrix().unwrap());
    case(vec![x.clone()]).check(&name("gram"), 1e-4, &|s, x| Covariance::new(kernel, s, &x[0]).matrix().unwrap());
    case(vec![x.clone(), z.clone(), v(m)])
        .check(&name("times"), 1e-4, &|s, x| Cross::new(kernel, s, &x[0], &x[1]).times(&x[2]).unwrap());
    case(vec![x, v(n)])
        .check(&name("gram times"), 1e-4, &|s, x| Covariance::new(kernel, s, &x[0]).times(&x[1]).unwrap());
}

#[test]
fn fused_matrices_and_products_agree() {
    for text in KERNELS {
        close(&parse(text), text, 130, 70, 3);
    }
    for (n, m, t) in [(513, 513, 1), (1025, 300, 9), (4097, 65, 17)] {
        close(&parse(KERNELS[12]), KERNELS[12], n, m, t);
    }
}

#[test]
fn graphs_of_custom_kernels_agree() {
    close(&custom(), "custom", 130, 70, 3);
    // Only one factor has a graph.
    close(&(custom() * parse("1.3 * matern32(lengthscale=0.7)")), "custom times built-in", 130, 70, 2);
}

/// Block boundaries that tiles cut through.
fn boundaries(n: usize) -> Vec<usize> {
    let mut all = vec![0, 1, n / 2];
    all.extend((1..9).map(|k| n / 2 + k * (n - n / 2) / 8));
    all
}

#[test]
fn products_with_blocks_agree() {
    let n = 150;
    let mut kernels: Vec<(&str, Kernel)> = KERNELS.iter().map(|text| (*text, parse(text))).collect();
    kernels.push(("custom", custom()));
    for (what, kernel) in kernels {
        let kernel = &kernel;
        let blocks = |values: &Tensor<2>| {
            BlockSparse::new(values.clone().reshape([values.dims()[0] as i32]), boundaries(values.dims()[0])).unwrap()
        };
        let (x, s) = ((inputs(15, n, D), D), (noise(16, n), 1));
        let case = |inputs| Case { kernel, inputs, budget: SMALL };
        case(vec![(inputs(17, 70, D), D), x.clone(), s.clone()]).check(&format!("{what}: K S"), 1e-4, &|scope, x| {
            Cross::new(kernel, scope, &x[0], &x[1]).times_blocks(&blocks(&x[2])).unwrap()
        });
        case(vec![x.clone(), s.clone()]).check(&format!("{what}: own K S"), 1e-4, &|scope, x| {
            Covariance::new(kernel, scope, &x[0]).times_blocks(&blocks(&x[1])).unwrap()
        });
        type Projected = fn(&Kernel, &Scope, &Tensor<2>, &BlockSparse) -> Result<Tensor<2>>;
        let stored: Projected = |kernel, scope, x, blocks| Covariance::new(kernel, scope, x).projected(blocks);
        for (name, run) in [("stored", stored), ("tiled", tiled::projected)] {
            case(vec![x.clone(), s.clone()]).check(&format!("{what}: projected, {name}"), 1e-4, &|scope, x| {
                run(kernel, scope, &x[0], &blocks(&x[1])).unwrap()
            });
        }
        set_algebra(Algebra::Device);
        let positive: Vec<f64> = noise(19, n).iter().map(|v| 3.0 + v).collect();
        let all = || case(vec![x.clone(), s.clone(), (noise(18, n), 1), (positive.clone(), 1)]);
        type Run = fn(&Kernel, &Scope, &Tensor<2>, &BlockSparse, [&Tensor<1>; 2]) -> Result<Explained>;
        let runs: [(&str, Run); 2] = [
            ("stored", |kernel, scope, x, blocks, noisy| {
                Covariance::new(kernel, scope, x).explained(blocks, noisy, None)
            }),
            ("tiled", tiled::explained),
        ];
        for (name, run) in runs {
            all().check(&format!("{what}: explained, {name}"), 1e-4, &|scope, x| {
                let [t, spread] = [2, 3].map(|place| x[place].clone().cast(scope.wide()).squeeze_dim(1));
                let told = run(kernel, scope, &x[0], &blocks(&x[1]), [&t, &spread]).unwrap();
                let divergence = told.divergence.unsqueeze::<2>().expand([1, n]);
                Tensor::cat(vec![divergence, told.mean, told.variance], 0)
            });
        }
    }
}

#[test]
fn sets_of_neighbours_agree() {
    let (b, m, h) = (40, 21, 5);
    let indices = (0..b * h).map(|k| ((k / h * 7 + k % h * 4) % m) as u32).collect();
    let neighbours = Arc::new(Neighbours { indices, each: h });
    for text in ["1.3 * matern32(lengthscale=0.7)", "rbf(ard) + 0.2 * linear + white(variance=0.3)"] {
        let kernel = &parse(text);
        for columns in [1, 4 + m] {
            let root = noise(20, m * columns).iter().map(|r| 0.4 + 0.5 * r).collect();
            let inputs = vec![(inputs(21, m, D), D), (inputs(22, b, D), D), (noise(23, m), 1), (root, 1)];
            Case { kernel, inputs, budget: SMALL }.check(&format!("{text}: neighbours"), 3e-4, &|scope, x| {
                let q = Tensor::cat(vec![x[2].clone(), x[3].clone()], 0).reshape([(m * (1 + columns)) as i32]);
                let q: Tensor<1> = q.cast(scope.wide());
                Cross::new(kernel, scope, &x[0], &x[1]).local(q, neighbours.clone(), 0.02).unwrap().unsqueeze()
            });
        }
        let variances = noise(24, m).iter().map(|s| 1.5 + s).collect();
        let inputs = vec![(inputs(21, m, D), D), (inputs(22, b, D), D), (noise(23, m), 1), (variances, 1)];
        Case { kernel, inputs, budget: SMALL }.check(&format!("{text}: conditional"), 3e-4, &|scope, x| {
            let [residuals, variances] = [2, 3].map(|place| x[place].clone().squeeze_dim(1));
            let rows = Cross::new(kernel, scope, &x[0], &x[1]);
            rows.conditional(residuals, variances, neighbours.clone()).unwrap().unsqueeze()
        });
    }
}

#[test]
fn products_of_many_rows_with_blocks_agree() {
    if !alone() {
        return;
    }
    let (n, i) = (1025, 40);
    let kernel = &parse(KERNELS[12]);
    let case = Case { kernel, inputs: vec![(inputs(26, n, D), D), (noise(27, n), 1)], budget: 1 << 27 };
    let moved = case.check("many rows", 1e-4, &|scope, x| {
        let s = x[1].clone().reshape([n as i32]);
        let blocks = BlockSparse::new(s, BlockSparse::even(n, i)).unwrap();
        Covariance::new(kernel, scope, &x[0]).times_blocks(&blocks).unwrap()
    });
    for moved in moved {
        assert!(moved.up <= 256 + 4 * (i as u64 + 1) && moved.down == 0, "{moved:?}");
    }
}

/// A product with its gradient transfers only what a caller uploads and reads.
#[test]
fn products_leave_nothing_but_parameters_to_move() {
    if !alone() {
        return;
    }
    let (n, t) = (700, 2);
    for (what, kernel) in [("built-in", parse(KERNELS[12])), ("custom", custom())] {
        let inputs = vec![(inputs(24, n, D), D), (noise(25, n * t), t)];
        let case = Case { kernel: &kernel, inputs, budget: SMALL };
        let moved = case.check(what, 1e-4, &|s, x| Covariance::new(case.kernel, s, &x[0]).times(&x[1]).unwrap());
        for moved in moved {
            assert!(moved.up <= 256 && moved.down == 0, "{what}: {moved:?}");
        }
    }
}
