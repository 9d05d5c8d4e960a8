//! Shared helpers of the tests: golden files, comparisons, small generators.
#![allow(dead_code)] // each test binary uses its own part

pub mod policies;

use std::ops::ControlFlow;
use std::path::PathBuf;

use cagey::device::{Compute, DeviceKind, Precision};
use cagey::kernels::registry::Registry;
use cagey::kernels::{Kernel, Leaf};
use cagey::likelihoods::Likelihood;
use cagey::likelihoods::registry::Likelihoods;
use cagey::models::posterior::Posterior;
use cagey::models::{Model, Observations, fit};
use cagey::scope::Scope;
use cagey::train::{Observer, Report};
use serde_json::Value;

pub const F64: Compute = Compute { kind: DeviceKind::Flex, precision: Precision::F64 };
pub const F32: Compute = Compute { kind: DeviceKind::Flex, precision: Precision::F32 };

/// A built-in likelihood.
pub fn likelihood(text: &str) -> Box<dyn Likelihood> {
    Likelihoods::default().parse(text, None).unwrap()
}

/// The likelihood of a golden file with one latent function.
pub fn golden_likelihood(case: &Value) -> Box<dyn Likelihood> {
    match case["likelihood"]["type"].as_str().unwrap() {
        "bernoulli_logit" => likelihood("bernoulli(logit)"),
        "poisson" => likelihood("poisson(exp)"),
        other => panic!("no likelihood {other}"),
    }
}

/// Asks to stop at a given step.
pub struct StopAt(pub usize);

impl Observer for StopAt {
    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        if report.iteration >= self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Records the points where restarts begin.
#[derive(Default)]
pub struct Beginnings(pub Vec<Vec<f64>>);

impl Observer for Beginnings {
    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        if report.iteration == 0 {
            self.0.push(report.x.to_vec());
        }
        ControlFlow::Continue(())
    }
}

/// The golden cases of a given kind, from `CAGEY_GOLDEN_DIR` or `tests/golden`.
pub fn golden(kind: &str) -> Vec<Value> {
    let folder = std::env::var_os("CAGEY_GOLDEN_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden"), PathBuf::from);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no golden files in {}", folder.display());
    let read = |path: &PathBuf| serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases: Vec<Value> = files.iter().map(read).filter(|case| case["kind"] == kind).collect();
    assert!(!cases.is_empty(), "no golden file of the kind {kind} in {}", folder.display());
    cases
}

/// A pseudo-random number in (-0.5, 0.5), the same on every machine.
pub fn noise(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as f64 / 2f64.powi(31) - 0.5
}

/// A noisy wave along the first of `d` inputs.
pub fn data(n: usize, d: usize) -> Observations {
    let mut state = 7;
    let x: Vec<f64> = (0..n * d).map(|_| 4.0 * noise(&mut state)).collect();
    let y = (0..n).map(|i| x[i * d].sin() + 0.3 * noise(&mut state)).collect();
    Observations::new(x, d, y, None).unwrap()
}

/// The gradient of a model's loss in every free parameter: computed, and by central differences.
pub fn gradients<M: Model + Clone>(model: &M, data: &Observations) -> [Vec<f64>; 2] {
    let batch = data.batch(&Scope::new(F64).unwrap());
    let at = |raw: &[f64]| {
        let mut moved = model.clone();
        moved.set_free_raw(raw).unwrap();
        fit::evaluate(&moved, F64, &batch).unwrap()
    };
    let raw = model.free_raw();
    let numeric = (0..raw.len()).map(|i| {
        let shifted = |h: f64| {
            let mut moved = raw.clone();
            moved[i] += h;
            at(&moved).loss
        };
        (shifted(1e-5) - shifted(-1e-5)) / 2e-5
    });
    [at(&raw).gradient, numeric.collect()]
}

/// All numbers of a nested array, in order; panics on an empty array, which would pass every comparison.
pub fn flat(value: &Value) -> Vec<f64> {
    let numbers = match value {
        Value::Array(items) => items.iter().flat_map(flat).collect(),
        Value::Number(number) => vec![number.as_f64().unwrap()],
        other => panic!("expected numbers, got {other}"),
    };
    assert!(!numbers.is_empty(), "a golden file has an empty list in place of numbers");
    numbers
}

/// Number of rows of a matrix.
pub fn rows(value: &Value) -> usize {
    value.as_array().unwrap().len()
}

/// Number of columns of a matrix.
pub fn columns(value: &Value) -> usize {
    value[0].as_array().unwrap().len()
}

/// Panics unless every entry agrees, relative to the largest entry.
pub fn assert_close(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}: lengths differ");
    let scale = want.iter().fold(0.0f64, |m, v| m.max(v.abs())).max(1e-300);
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let error = (g - w).abs() / scale;
        assert!(error <= tolerance, "{what}[{i}]: got {g}, want {w} (relative to the largest entry: {error:.2e})");
    }
}

/// The kernel of a golden file's tree, with every parameter free.
pub fn kernel(tree: &Value, d: usize) -> Kernel {
    let name = tree["type"].as_str().unwrap();
    if let Some(terms) = tree["terms"].as_array() {
        let parts = terms.iter().map(|term| kernel(term, d)).collect();
        return if name == "sum" { Kernel::Sum(parts) } else { Kernel::Product(parts) };
    }
    let mut form = Registry::default().form(name).unwrap_or_else(|| panic!("no kernel `{name}`"));
    if let Some(power) = tree["power"].as_u64() {
        form = form.with_option("power", power as usize).unwrap();
    }
    let dims = tree["active_dims"].as_array().map(|_| flat(&tree["active_dims"]).iter().map(|&c| c as usize).collect());
    let active = dims.as_ref().map_or(d, Vec::len);
    let mut leaf = Leaf { parameters: form.parameters(active), form, dims };
    for parameter in &mut leaf.parameters {
        let values = match &tree[&parameter.name] {
            Value::Number(number) => vec![number.as_f64().unwrap()],
            list => flat(list),
        };
        parameter.resize(&values);
    }
    Kernel::Leaf(leaf)
}

/// The numbers of a golden gradient tree, in the order of [`Kernel`]'s parameters.
pub fn kernel_gradient(kernel: &Kernel, tree: &Value) -> Vec<Vec<f64>> {
    match kernel {
        Kernel::Leaf(leaf) => leaf
            .parameters
            .iter()
            .map(|p| match &tree[&p.name] {
                Value::Number(number) => vec![number.as_f64().unwrap()],
                list => flat(list),
            })
            .collect(),
        Kernel::Sum(parts) | Kernel::Product(parts) => parts
            .iter()
            .zip(tree["terms"].as_array().unwrap())
            .flat_map(|(part, tree)| kernel_gradient(part, tree))
            .collect(),
        other => panic!("golden files have no {other}"),
    }
}

/// Checks what must hold for every posterior.
pub fn check_posterior(name: &str, posterior: &(impl Posterior + ?Sized), x: &[f64], d: usize) {
    let n = x.len() / d;
    let marginals = posterior.predict(x).unwrap();
    let joint = posterior.predict_joint(x).unwrap();
    assert_close(&format!("{name} joint mean"), &joint.mean, &marginals.mean, 1e-10);
    let diagonal: Vec<f64> = (0..n).map(|i| joint.covariance[i * n + i]).collect();
    assert_close(&format!("{name} joint diagonal"), &diagonal, &marginals.variance, 1e-9);
    assert!(marginals.variance.iter().all(|v| *v > 0.0), "{name}: variances must be positive");
    for i in 0..n {
        for j in 0..n {
            assert_eq!(joint.covariance[i * n + j], joint.covariance[j * n + i], "{name}: covariance is symmetric");
        }
    }
    let single: Vec<f64> = x.chunks(d).flat_map(|row| posterior.predict(row).unwrap().mean).collect();
    assert_close(&format!("{name} row by row"), &single, &marginals.mean, 1e-10);
    let paths = posterior.sample(x, 4000, 1).unwrap();
    assert_eq!(paths[..3], posterior.sample(x, 3, 1).unwrap()[..]);
    for i in 0..n {
        let values: Vec<f64> = paths.iter().map(|path| path[i]).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        let sd = marginals.variance[i].sqrt();
        assert!((mean - marginals.mean[i]).abs() < 5.0 * sd / 63.0, "{name}: sample mean of row {i}");
        assert!((variance / marginals.variance[i] - 1.0).abs() < 0.15, "{name}: sample variance of row {i}");
    }
    assert!(posterior.predict(&x[..x.len() - 1]).is_err() || d == 1, "{name}: half a row is an error");
    for bad in [f64::NAN, f64::INFINITY] {
        let rows = [&x[..d], &vec![bad; d]].concat();
        assert!(posterior.predict(&rows).is_err() && posterior.predict_joint(&rows).is_err(), "{name}: {bad}");
    }
    assert!(posterior.predict(&[]).unwrap().mean.is_empty(), "{name}");
    assert!(posterior.predict_joint(&[]).unwrap().covariance.is_empty(), "{name}");
}
