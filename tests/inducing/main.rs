//! Models with inducing points against reference values, each other, the exact GP and finite differences.

#[path = "../common/mod.rs"]
mod common;
mod sgpr;
mod svgp;
mod swsgp;

use cagey::device::{Compute, DeviceKind, Precision};
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
