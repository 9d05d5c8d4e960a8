//! Kernels compared with reference values, finite differences and their own definitions.

mod common;

use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use cagey::device::{Compute, DeviceKind, Precision};
use cagey::kernels::Kernel;
use cagey::kernels::registry::Registry;
use cagey::kernels::transform::ModuleTransform;
use cagey::linalg;
use cagey::params::Parameters;
use cagey::products;
use cagey::scope::{Scope, to_f64};
use common::{assert_close, columns, flat, golden, kernel, kernel_gradient, rows};
use proptest::prelude::*;
use serde_json::Value;

type Gram = fn(&Kernel, &Scope, &Tensor<2>) -> cagey::Result<Tensor<2>>;
type Cross = fn(&Kernel, &Scope, &Tensor<2>, &Tensor<2>) -> cagey::Result<Tensor<2>>;
const FUSED: (Gram, Cross) =
    (|k, s, x| products::Covariance::new(k, s, x).matrix(), |k, s, a, b| products::Cross::new(k, s, a, b).matrix());
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
        let leaf = scope.wide_value(parameter);
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

/// Every built-in form on `d` columns, with its default parameters.
fn every_form(d: usize) -> Vec<Kernel> {
    let registry = Registry::default();
    registry.names().into_iter().filter_map(|name| registry.form(name)).map(|form| Kernel::leaf(form, d)).collect()
}

/// Checks what must hold for every kernel: symmetry, the same numbers by every way of computing them, no negative
/// eigenvalue, and finite gradients where rows coincide.
fn check_kernel(kernel: &Kernel, x: &[f64], d: usize, semidefinite: bool) {
    let n = x.len() / d;
    let name = kernel.to_string();
    let scope = Scope::training(compute(DeviceKind::Flex, Precision::F64)).unwrap();
    let inputs = scope.matrix(x, n, d).require_grad();
    let gram = products::Covariance::new(kernel, &scope, &inputs).matrix().unwrap();
    let values = to_f64(gram.clone()).unwrap();
    let scale = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    for i in 0..n {
        for j in 0..i {
            assert!((values[i * n + j] - values[j * n + i]).abs() <= 1e-12 * scale, "{name} is not symmetric");
        }
    }
    assert_close(&format!("{name} graph"), &values, &to_f64(kernel.gram(&scope, &inputs).unwrap()).unwrap(), 1e-12);
    let diag: Vec<f64> = (0..n).map(|i| values[i * n + i]).collect();
    assert_close(&format!("{name} diag"), &to_f64(kernel.diag(&scope, &inputs).unwrap()).unwrap(), &diag, 1e-12);
    if semidefinite {
        let (eigenvalues, _) = linalg::eigh(gram.clone().inner(), "K").unwrap();
        let least = to_f64(eigenvalues).unwrap()[0];
        assert!(least >= -1e-10 * n as f64 * scale, "{name}: eigenvalue {least}");
    }
    let gradients = (gram.clone() * gram).sum().backward();
    let mut leaves = vec![inputs.grad(&gradients).map(|g| to_f64(g).unwrap())];
    let parameters = kernel.parameters();
    leaves.extend(parameters.iter().map(|(_, p)| scope.wide_value(p).grad(&gradients).map(|g| to_f64(g).unwrap())));
    for gradient in leaves.into_iter().flatten() {
        assert!(gradient.iter().all(|v| v.is_finite()), "{name}: gradient {gradient:?}");
    }
}

/// Whether a kernel is positive semi-definite in every dimension; `cosine_norm` and `periodic_norm` only are in one.
fn semidefinite_everywhere(kernel: &Kernel) -> bool {
    !["cosine_norm", "periodic_norm"].iter().any(|name| kernel.shape().contains(name))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_kernel_is_a_kernel(rows in prop::collection::vec(-3.0..3.0f64, 2..12), twice in any::<bool>()) {
        let mut x = rows;
        if twice {
            x.extend_from_within(..);
        }
        let two: Vec<f64> = x.iter().flat_map(|v| [*v, 0.7 * v * v - 1.0]).collect();
        for kernel in every_form(1) {
            check_kernel(&kernel, &x, 1, true);
        }
        for kernel in every_form(2) {
            check_kernel(&kernel, &two, 2, semidefinite_everywhere(&kernel));
        }
        for text in [
            "rbf(ard) + 2.0 * periodic * rq + white",
            "(linear + matern12) * matern32(dims=[1])",
            "projection(rbf, dim=1)",
            "wiener(order=2, origin=-1.0) * rbf",
        ] {
            check_kernel(&Kernel::parse(text, 2).unwrap(), &two, 2, true);
        }
    }
}

/// Walks are integrals of white noise: their covariances are sums over small steps of it.
#[test]
fn walks_are_integrals_of_noise() {
    let (length, origin, variance, step) = (0.8, -0.5, 1.7, 1e-4);
    let x: [f64; 4] = [-0.9, -0.1, 0.4, 1.3];
    for order in [1, 2] {
        let text = format!("wiener(order={order}, lengthscale={length}, variance={variance}, origin={origin})");
        let kernel = Kernel::parse(&text, 1).unwrap();
        assert!(kernel.parameters()[2].1.fixed, "the origin is not learned");
        let scope = Scope::new(compute(DeviceKind::Flex, Precision::F64)).unwrap();
        let gram = to_f64(kernel.gram(&scope, &scope.matrix(&x, 4, 1)).unwrap()).unwrap();
        // The response of f at u to noise at s, where all is in lengthscales from the origin.
        let response = |u: f64, s: f64| if s > u { 0.0 } else { (u - s).powi(order - 1) };
        for (i, a) in x.iter().enumerate() {
            for (j, b) in x.iter().enumerate() {
                let [u, v] = [a, b].map(|x| (x - origin).max(0.0) / length);
                let noise: f64 =
                    (0..40_000).map(|k| (k as f64 + 0.5) * step).map(|s| response(u, s) * response(v, s)).sum();
                let slope = if order == 2 { u * v } else { 0.0 };
                let want = variance * (1.0 + slope + step * noise);
                assert!((gram[i * 4 + j] - want).abs() < 1e-3, "{text}: {} and {want}", gram[i * 4 + j]);
            }
        }
    }
    assert_eq!(Kernel::parse("wiener(order=3)", 1).unwrap_err().kind(), cagey::ErrorKind::Request);
}

#[derive(Module, Debug)]
struct Layer {
    weight: Param<Tensor<2>>,
    shift: Param<Tensor<1>>,
}

#[test]
fn any_module_is_an_input_transform() {
    let device = burn::tensor::Device::flex();
    let weight = Tensor::<2>::from_data([[0.3, -1.0, 0.4], [0.9, 0.2, -0.5]], (&device, burn::tensor::DType::F64));
    let shift = Tensor::<1>::from_data([0.1, 0.2, -0.3], (&device, burn::tensor::DType::F64));
    let layer = Layer { weight: Param::from_tensor(weight), shift: Param::from_tensor(shift) };
    let forward = |layer: &Layer, x: Tensor<2>| (x.matmul(layer.weight.val()) + layer.shift.val().unsqueeze()).tanh();
    let transform = Arc::new(ModuleTransform::new("layer", layer, 3, forward).unwrap());
    let deep = Kernel::parse("matern52(ard)", 3).unwrap().transformed(transform.clone(), 2);
    assert_eq!(deep.parameters()[0].1.len(), 9);
    let x = [0.5, -0.2, 1.0, 0.3, -1.0, 0.8, 0.5, -0.2];
    check_kernel(&deep, &x, 2, true);
    // The gradient in the module's weights agrees with finite differences.
    let loss = |kernel: &Kernel| {
        let scope = Scope::training(compute(DeviceKind::Flex, Precision::F64)).unwrap();
        let inputs = scope.matrix(&x, 4, 2);
        scope
            .gradient(products::Covariance::new(kernel, &scope, &inputs).matrix().unwrap().powi_scalar(3).sum(), kernel)
            .unwrap()
    };
    let (_, gradient) = loss(&deep);
    let raw = deep.free_raw();
    let numeric: Vec<f64> = (0..raw.len())
        .map(|i| {
            let at = |h: f64| {
                let (mut moved, mut kernel) = (raw.clone(), deep.clone());
                moved[i] += h;
                kernel.set_free_raw(&moved).unwrap();
                loss(&kernel).0
            };
            (at(1e-5) - at(-1e-5)) / 2e-5
        })
        .collect();
    assert_close("deep kernel", &gradient, &numeric, 1e-7);
    // A registry that knows the transform reads the kernel back from text.
    let registry = Registry::default().with_transform(transform);
    let read = cagey::kernels::text::parse(&deep.to_string(), 2, &registry).unwrap();
    assert_eq!(read.to_string(), deep.to_string());
}

#[test]
fn a_sum_of_no_kernels_is_an_error() {
    let scope = Scope::new(Compute { kind: DeviceKind::Flex, precision: Precision::F64 }).unwrap();
    let x = scope.matrix(&[0.0, 1.0], 2, 1);
    for kernel in [Kernel::Sum(Vec::new()), Kernel::Product(Vec::new())] {
        for (gram, cross) in [FUSED, GRAPH] {
            assert!(gram(&kernel, &scope, &x).is_err() && cross(&kernel, &scope, &x, &x).is_err());
        }
        assert!(products::Covariance::new(&kernel, &scope, &x).diagonal_wide().is_err());
    }
}

#[test]
fn a_leaf_without_all_its_parameters_is_refused() {
    let scope = Scope::new(Compute { kind: DeviceKind::Flex, precision: Precision::F64 }).unwrap();
    let x = scope.matrix(&[0.1, 0.2, 0.3, 0.4], 2, 2);
    let Kernel::Leaf(mut leaf) = Kernel::leaf(cagey::kernels::stationary::rbf(), 2) else { panic!() };
    leaf.parameters.pop();
    let few = Kernel::Leaf(leaf.clone());
    leaf.parameters.clear();
    for kernel in [few, Kernel::Leaf(leaf)] {
        for (gram, cross) in [FUSED, GRAPH] {
            let error = gram(&kernel, &scope, &x).unwrap_err().to_string();
            assert!(error.contains("parameters of `rbf`"), "{error}");
            assert!(cross(&kernel, &scope, &x, &x).is_err());
        }
        assert!(kernel.diag(&scope, &x).is_err() && kernel.lower(&scope, &x).is_err());
    }
    let projection = cagey::kernels::transform::projection(1);
    let Kernel::Transformed(mut transformed) = Kernel::parse("rbf", 1).unwrap().transformed(projection, 2) else {
        panic!()
    };
    transformed.parameters.clear();
    assert!(Kernel::Transformed(transformed).gram(&scope, &x).is_err());
}

#[test]
fn kernels_for_other_columns_are_refused() {
    use cagey::ErrorKind;
    use cagey::kernels::stationary::rbf;

    let scope = Scope::new(Compute { kind: DeviceKind::Flex, precision: Precision::F64 }).unwrap();
    let two = scope.matrix(&[0.1, 0.2, 0.3, 0.4], 2, 2);
    let wide = Kernel::leaf(rbf(), 3).with("lengthscale", &[1.0, 2.0, 3.0]).unwrap();
    let kernels = [
        Kernel::leaf(rbf(), 1).on(&[5]).unwrap(),
        Kernel::parse("periodic(ard) + rbf(ard)", 3).unwrap(),
        Kernel::parse("projection(rbf, dim=2)", 3).unwrap(),
        wide.clone(),
        &wide * 2.0,
    ];
    for kernel in &kernels {
        let refused = [
            products::Covariance::new(kernel, &scope, &two).matrix().map(drop),
            products::Cross::new(kernel, &scope, &two, &two).matrix().map(drop),
            products::Cross::new(kernel, &scope, &two, &two).matrix_wide().map(drop),
            kernel.gram(&scope, &two).map(drop),
            kernel.cross(&scope, &two, &two).map(drop),
            kernel.diag(&scope, &two).map(drop),
        ];
        for refused in refused {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Request, "{kernel}");
        }
        let mut kernel = kernel.clone();
        kernel.set_units(&[1.0, 2.0], 1.0);
    }
    for bad in [&[-1.0][..], &[0.0], &[f64::NAN], &[f64::INFINITY], &[]] {
        let refused = Kernel::leaf(rbf(), 1).with("lengthscale", bad).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Request, "{bad:?}: {refused}");
    }
}
