//! Models with inducing points against reference values, each other, the exact GP and finite differences.

#[path = "../common/mod.rs"]
mod common;
mod sgpr;
mod svgp;
mod swsgp;

use cagey::device::{Compute, DeviceKind, Precision};
use cagey::models::posterior::Posterior;
use cagey::models::{Model, Observations, fit};
use cagey::scope::Scope;
use common::assert_close;

pub const F64: Compute = Compute { kind: DeviceKind::Flex, precision: Precision::F64 };
pub const F32: Compute = Compute { kind: DeviceKind::Flex, precision: Precision::F32 };

/// A pseudo-random number in (-0.5, 0.5), the same on every machine.
pub fn noise(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as f64 / 2f64.powi(31) - 0.5
}

pub fn data(n: usize, d: usize) -> Observations {
    let mut state = 7;
    let x: Vec<f64> = (0..n * d).map(|_| 4.0 * noise(&mut state)).collect();
    let y = (0..n).map(|i| x[i * d].sin() + 0.3 * noise(&mut state)).collect();
    Observations::new(x, d, y, None).unwrap()
}

/// The gradient of a model's loss against central differences of step `h` in every free parameter.
pub fn check_gradient<M: Model + Clone>(name: &str, model: &M, data: &Observations, tolerance: f64) {
    let batch = data.batch(&Scope::new(F64).unwrap());
    let at = |raw: &[f64]| {
        let mut moved = model.clone();
        moved.set_free_raw(raw).unwrap();
        fit::evaluate(&moved, F64, &batch).unwrap()
    };
    let raw = model.free_raw();
    let gradient = at(&raw).gradient;
    let numeric: Vec<f64> = (0..raw.len())
        .map(|i| {
            let shifted = |h: f64| {
                let mut moved = raw.clone();
                moved[i] += h;
                at(&moved).loss
            };
            (shifted(1e-5) - shifted(-1e-5)) / 2e-5
        })
        .collect();
    // Group by group, so that a small gradient is not hidden by a large one.
    let mut start = 0;
    for (path, parameter) in model.parameters().into_iter().filter(|(_, p)| !p.fixed) {
        let range = start..start + parameter.len();
        assert_close(&format!("{name}: {path}"), &gradient[range.clone()], &numeric[range.clone()], tolerance);
        start = range.end;
    }
}

/// What must hold of every posterior.
pub fn check_posterior(name: &str, posterior: &impl Posterior, x: &[f64], d: usize) {
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
}
