//! Compares every device of this build with the CPU in double precision: kernels, objective, training and predictions.
//!
//! A GPU that is built in but absent is reported and skipped, unless `CAGEY_REQUIRE_WGPU=1` asks for it.

#[cfg(feature = "gpu")]
mod command;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "gpu")]
mod likelihoods;
#[cfg(feature = "gpu")]
mod linalg;
#[cfg(feature = "gpu")]
mod models;
#[cfg(feature = "gpu")]
mod products;
#[cfg(feature = "gpu")]
mod training;
#[cfg(feature = "gpu")]
mod transfers;

use burn::tensor::Tensor;
use cagey::device::{Compute, DeviceKind, Precision};
use cagey::kernels::Kernel;
use cagey::likelihoods::Gaussian;
use cagey::means::Mean;
use cagey::models::cagp::{Actions, Cagp};
use cagey::models::exact::ExactGp;
use cagey::models::posterior::Posterior;
use cagey::models::sgpr::Sgpr;
use cagey::models::svgp::Svgp;
use cagey::models::{Model, Observations, fit};
use cagey::params::Parameters;
use cagey::scope::{Scope, to_f64};
use cagey::train::{Evaluation, TrainConfig};
use common::assert_close;

const REFERENCE: Compute = Compute { kind: DeviceKind::Flex, precision: Precision::F64 };

/// Every device and precision of this build and machine, except the reference.
fn computes() -> Vec<Compute> {
    let required = std::env::var("CAGEY_REQUIRE_WGPU").is_ok_and(|v| v == "1");
    let mut found = Vec::new();
    for kind in DeviceKind::ALL.into_iter().filter(|kind| kind.is_built()) {
        for precision in [Precision::F32, Precision::F64] {
            let compute = Compute { kind, precision };
            match compute.device() {
                Ok(_) if compute == REFERENCE => {}
                Ok(_) => found.push(compute),
                Err(error) => {
                    let wanted = required && kind == DeviceKind::Wgpu && precision == Precision::F32;
                    assert!(!wanted, "CAGEY_REQUIRE_WGPU=1, but {error}");
                    // Not captured by the test harness: a skipped device should be visible.
                    eprintln!("skipped {} {}: {error}", kind.name(), precision.name());
                }
            }
        }
    }
    found
}

/// The GPUs among them.
#[cfg(feature = "gpu")]
fn gpus() -> Vec<Compute> {
    computes().into_iter().filter(|compute| !compute.kind.is_cpu()).collect()
}

/// Whether this process runs a single test; else runs that of this thread in a process of its own: what others move
/// between host and GPU would be counted as its own.
#[cfg(feature = "gpu")]
fn alone() -> bool {
    const CASE: &str = "CAGEY_ALONE";
    let thread = std::thread::current();
    let Some(test) = thread.name().filter(|name| *name != "main" && std::env::var_os(CASE).is_none()) else {
        return true;
    };
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let status = command.args([test, "--exact", "--nocapture"]).env(CASE, "1").status().unwrap();
    assert!(status.success(), "{test}: {status}");
    false
}

fn name(compute: Compute) -> String {
    format!("{} {}", compute.kind.name(), compute.precision.name())
}

fn tolerance(compute: Compute, single: f64) -> f64 {
    match compute.precision {
        Precision::F32 => single,
        _ => 1e-8,
    }
}

/// Pseudo-random numbers in (-0.5, 0.5), the same on every machine.
fn noise(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / 2f64.powi(31) - 0.5
    };
    (0..count).map(|_| next()).collect()
}

fn inputs(seed: u64, rows: usize, d: usize) -> Vec<f64> {
    noise(seed, rows * d).iter().map(|v| 4.0 * v).collect()
}

/// A value and its gradient in the kernel's parameters and the given tensors, all as host numbers.
type Outcome = Vec<(String, Vec<f64>)>;

fn outcome(
    scope: &Scope,
    kernel: &Kernel,
    value: Tensor<2>,
    weights: &[f64],
    leaves: &[(&str, &Tensor<2>)],
) -> Outcome {
    let [n, m] = value.dims();
    let mut all = vec![("value".to_string(), to_f64(value.clone()).unwrap())];
    let gradients = (value * scope.matrix(weights, n, m)).sum().backward();
    for (path, parameter) in kernel.parameters() {
        let slope = scope.wide_value(parameter).grad(&gradients).map(|g| to_f64(g).unwrap());
        all.push((path, slope.unwrap_or_else(|| vec![0.0; parameter.len()])));
    }
    for (leaf, tensor) in leaves {
        let slope = tensor.grad(&gradients).map(|g| to_f64(g).unwrap());
        all.push((leaf.to_string(), slope.unwrap_or_else(|| vec![0.0; tensor.shape().num_elements()])));
    }
    all
}

fn compare(what: &str, got: &Outcome, want: &Outcome, tolerance: f64) {
    for ((part, got), (_, want)) in got.iter().zip(want) {
        assert_close(&format!("{what}: {part}"), got, want, tolerance);
    }
}

#[test]
fn covariances_and_their_gradients_agree() {
    let texts = [
        "rbf(ard)",
        "matern12(ard)",
        "matern32(0.7) + white",
        "1.7 * matern52(ard)",
        "rq(alpha=0.8) * linear",
        "periodic(period=1.3) * matern32 + polynomial(power=2)",
    ];
    let (n, m, d) = (37, 19, 2);
    let (x, z) = (inputs(1, n, d), inputs(2, m, d));
    for text in texts {
        let kernel = Kernel::parse(text, d).unwrap();
        let run = |compute| {
            let scope = Scope::training(compute).unwrap();
            let leaf = |values: &[f64], rows| scope.matrix(values, rows, d).require_grad();
            let (a, b) = (leaf(&x, n), leaf(&z, m));
            let value = cagey::products::Cross::new(&kernel, &scope, &a, &b).matrix().unwrap();
            let cross = outcome(&scope, &kernel, value, &noise(3, n * m), &[("x1", &a), ("x2", &b)]);
            let scope = Scope::training(compute).unwrap();
            let a = scope.matrix(&x, n, d).require_grad();
            let value = cagey::products::Covariance::new(&kernel, &scope, &a).matrix().unwrap();
            let gram = outcome(&scope, &kernel, value, &noise(4, n * n), &[("x", &a)]);
            (cross, gram)
        };
        let want = run(REFERENCE);
        for compute in computes() {
            let (got, tolerance) = (run(compute), tolerance(compute, 5e-4));
            compare(&format!("{} {text} cross", name(compute)), &got.0, &want.0, tolerance);
            compare(&format!("{} {text} gram", name(compute)), &got.1, &want.1, tolerance);
        }
    }
}

/// Row counts just above the kernels' block sizes.
const ROWS: [usize; 3] = [513, 1025, 4097];

#[test]
fn covariances_of_many_rows_agree() {
    let (m, d) = (33, 3);
    let kernel = Kernel::parse("1.3 * matern32(ard)", d).unwrap();
    let (z, v) = (inputs(6, m, d), noise(7, m * 2));
    for n in ROWS {
        let x = inputs(5, n, d);
        let run = |compute| {
            let scope = Scope::training(compute).unwrap();
            let a = scope.matrix(&x, n, d).require_grad();
            let b = scope.matrix(&z, m, d).require_grad();
            let v = scope.matrix(&v, m, 2).require_grad();
            let value = cagey::products::Cross::new(&kernel, &scope, &a, &b).matrix().unwrap().matmul(v.clone());
            outcome(&scope, &kernel, value, &noise(8, n * 2), &[("x1", &a), ("x2", &b), ("v", &v)])
        };
        let want = run(REFERENCE);
        for compute in computes() {
            compare(&format!("{} {n} rows", name(compute)), &run(compute), &want, tolerance(compute, 1e-4));
        }
    }
}

fn observations(n: usize, d: usize) -> Observations {
    let x = inputs(9, n, d);
    let y = x.chunks(d).zip(noise(10, n)).map(|(row, e)| row[0].sin() + 0.5 * row[d - 1] + 0.4 * e).collect();
    Observations::new(x, d, y, None).unwrap()
}

fn model(text: &str, d: usize) -> ExactGp {
    let mut model = ExactGp::new(Kernel::parse(text, d).unwrap());
    model.prior.mean = Mean::named("constant", d).unwrap();
    model
}

#[test]
fn objectives_and_gradients_agree() {
    let data = observations(80, 2);
    let gp = model("matern52(ard) + 0.3 * rq", 2);
    let run = |compute| fit::evaluate(&gp, compute, &data.batch(&Scope::new(compute).unwrap())).unwrap();
    let want = run(REFERENCE);
    for compute in computes() {
        let got = run(compute);
        assert_close(&format!("{} loss", name(compute)), &[got.loss], &[want.loss], tolerance(compute, 1e-4));
        let tolerance = tolerance(compute, 5e-4);
        assert_close(&format!("{} gradient", name(compute)), &got.gradient, &want.gradient, tolerance);
    }
}

#[test]
fn training_ends_at_the_same_optimum_and_predictions_agree() {
    let data = observations(60, 2);
    let points = inputs(11, 20, 2);
    let run = |compute| {
        let mut gp = model("rbf(ard)", 2);
        let outcome = fit::fit(&mut gp, compute, &data, &TrainConfig::default(), &mut []).unwrap();
        let predictions = gp.posterior(compute, data.clone()).unwrap().predict(&points).unwrap();
        (outcome.loss, gp.free_raw(), predictions)
    };
    let want = run(REFERENCE);
    for compute in computes() {
        let (got, name) = (run(compute), name(compute));
        // In single precision the line search ends on noise in the loss; the square root of the noise bounds the
        // point's error.
        assert_close(&format!("{name} loss"), &[got.0], &[want.0], tolerance(compute, 1e-4));
        let tolerance = if compute.precision == Precision::F32 { 2e-2 } else { 1e-3 };
        assert_close(&format!("{name} optimum"), &got.1, &want.1, tolerance);
        assert_close(&format!("{name} mean"), &got.2.mean, &want.2.mean, tolerance);
        assert_close(&format!("{name} variance"), &got.2.variance, &want.2.variance, tolerance);
    }
}

/// Their small matrices are in f64 if the device computes in f64; some drivers only claim that it does.
#[test]
fn objectives_of_approximations_agree() {
    let (n, d) = (120, 2);
    let data = observations(n, d);
    let kernel = || Kernel::parse("1.2 * matern32(0.8)", d).unwrap();
    let sgpr = Sgpr::new(kernel(), &inputs(23, 15, d), d).unwrap();
    let blocks = Cagp::new(kernel(), Actions::averages(n, 12).unwrap());
    let dense = Cagp::new(kernel(), Actions::dense(&noise(24, n * 6), 6));
    let svgp = Svgp::new(kernel(), &inputs(23, 15, d), d, Gaussian::new(0.1)).unwrap();
    let models: [(&str, &dyn Fn(Compute) -> Evaluation); 4] = [
        ("sgpr", &|compute| evaluated(&sgpr, compute, &data)),
        ("blocks", &|compute| evaluated(&blocks, compute, &data)),
        ("dense", &|compute| evaluated(&dense, compute, &data)),
        ("svgp", &|compute| evaluated(&svgp, compute, &data)),
    ];
    for (model, run) in models {
        let want = run(REFERENCE);
        for compute in computes() {
            let (got, what) = (run(compute), format!("{} {model}", name(compute)));
            assert_close(&format!("{what}: loss"), &[got.loss], &[want.loss], tolerance(compute, 1e-4));
            assert_close(&format!("{what}: gradient"), &got.gradient, &want.gradient, tolerance(compute, 5e-3));
        }
    }
}

fn evaluated(model: &impl Model, compute: Compute, data: &Observations) -> Evaluation {
    fit::evaluate(model, compute, &data.batch(&Scope::new(compute).unwrap())).unwrap()
}
