//! Kernels against reference values, finite differences and their own definitions.

mod common;

use burn::tensor::Tensor;
use cagey::device::{Compute, DeviceKind, Precision};
use cagey::kernels::Kernel;
use cagey::params::Parameters;
use cagey::products;
use cagey::scope::{Scope, to_f64};
use common::{assert_close, columns, flat, golden, kernel, kernel_gradient, rows};
use serde_json::Value;

type Gram = fn(&Kernel, &Scope, &Tensor<2>) -> cagey::Result<Tensor<2>>;
type Cross = fn(&Kernel, &Scope, &Tensor<2>, &Tensor<2>) -> cagey::Result<Tensor<2>>;
const FUSED: (Gram, Cross) = (products::gram, products::cross);
const GRAPH: (Gram, Cross) = (|k, s, x| k.gram(s, x), |k, s, a, b| k.cross(s, a, b));

fn check(case: &Value, compute: Compute, (gram, cross): (Gram, Cross), tolerance: f64) {
    let name = case["case"].as_str().unwrap();
    let d = columns(&case["X"]);
    let kernel = kernel(&case["kernel"], d);
    let matrix = |scope: &Scope, value: &Value| scope.matrix(&flat(value), rows(value), columns(value));
    let expected = &case["expected"];

    let scope = Scope::training(compute).unwrap();
    let (x, w) = (matrix(&scope, &case["X"]).require_grad(), matrix(&scope, &case["W"]));
    let k = gram(&kernel, &scope, &x).unwrap();
    assert_close(&format!("{name} K_xx"), &to_f64(k.clone()).unwrap(), &flat(&expected["K_xx"]), tolerance);
    let diag: Vec<f64> = (0..rows(&case["X"])).map(|i| flat(&expected["K_xx"][i][i])[0]).collect();
    assert_close(&format!("{name} diag"), &to_f64(kernel.diag(&scope, &x).unwrap()).unwrap(), &diag, tolerance);
    compare(name, &scope, &kernel, (k * w).sum(), &[("X", x)], &expected["grad_xx"], tolerance);

    let scope = Scope::training(compute).unwrap();
    let (x, z) = (matrix(&scope, &case["X"]).require_grad(), matrix(&scope, &case["Z"]).require_grad());
    let k = cross(&kernel, &scope, &x, &z).unwrap();
    assert_close(&format!("{name} K_xz"), &to_f64(k.clone()).unwrap(), &flat(&expected["K_xz"]), tolerance);
    let loss = (k * matrix(&scope, &case["W2"])).sum();
    compare(name, &scope, &kernel, loss, &[("X", x), ("Z", z)], &expected["grad_xz"], tolerance);
}

fn compare(
    name: &str,
    scope: &Scope,
    kernel: &Kernel,
    loss: Tensor<1>,
    inputs: &[(&str, Tensor<2>)],
    want: &Value,
    tolerance: f64,
) {
    let gradients = loss.is_tracked().then(|| loss.backward());
    let zero_or = |found: Option<Vec<f64>>, len: usize| found.unwrap_or_else(|| vec![0.0; len]);
    let expected = kernel_gradient(kernel, &want["kernel"]);
    for ((path, parameter), want) in kernel.parameters().iter().zip(expected) {
        let leaf = scope.value(parameter);
        let got = gradients.as_ref().and_then(|g| leaf.grad(g)).map(|g| to_f64(g).unwrap());
        assert_close(&format!("{name} d/d{path}"), &zero_or(got, want.len()), &want, tolerance);
    }
    for (input, tensor) in inputs {
        let want = flat(&want[input]);
        let got = gradients.as_ref().and_then(|g| tensor.grad(g)).map(|g| to_f64(g).unwrap());
        assert_close(&format!("{name} d/d{input}"), &zero_or(got, want.len()), &want, tolerance);
    }
}

fn compute(kind: DeviceKind, precision: Precision) -> Compute {
    Compute { kind, precision }
}

#[test]
fn golden_kernels_fused() {
    for case in golden("kernel") {
        check(&case, compute(DeviceKind::Flex, Precision::F64), FUSED, 1e-8);
        check(&case, compute(DeviceKind::Flex, Precision::F32), FUSED, 2e-4);
    }
}

#[test]
fn golden_kernels_graph() {
    for case in golden("kernel") {
        check(&case, compute(DeviceKind::Flex, Precision::F64), GRAPH, 1e-8);
        check(&case, compute(DeviceKind::Flex, Precision::F32), GRAPH, 2e-4);
    }
}
