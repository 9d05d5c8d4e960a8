//! Models with inducing points, compared with reference values, each other, the exact GP and finite differences.

#[path = "../common/mod.rs"]
mod common;
mod grids;
mod sgpr;
mod sparse_grid;
mod svgp;
mod swsgp;
mod unwhitened;
mod whitened;

use cagey::models::{Model, Observations};
use common::{F32, F64, assert_close, data, gradients, noise};

/// Compares the gradient of a model's loss with central differences of step `h` in every free parameter.
pub fn check_gradient<M: Model + Clone>(name: &str, model: &M, data: &Observations, tolerance: f64) {
    let [gradient, numeric] = gradients(model, data);
    // Compared group by group, so that a large gradient does not hide a small one.
    let mut start = 0;
    for (path, parameter) in model.parameters().into_iter().filter(|(_, p)| !p.fixed) {
        let range = start..start + parameter.len();
        assert_close(&format!("{name}: {path}"), &gradient[range.clone()], &numeric[range.clone()], tolerance);
        start = range.end;
    }
}
