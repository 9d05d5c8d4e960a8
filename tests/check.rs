//! What is said of pieces that are wrong: each of these was once trained in silence.

#[path = "common/mod.rs"]
mod common;

use std::sync::Arc;

use burn::tensor::{DType, Tensor};
use cagey::arithmetic::Real;
use cagey::check;
use cagey::data::Dataset;
use cagey::kernels::Kernel;
use cagey::kernels::form::Form;
use cagey::kernels::transform::InputTransform;
use cagey::likelihoods::{Custom, Density, Formula, Likelihood, Row, Support};
use cagey::models::cagp::IterativeCagp;
use cagey::models::exact::ExactGp;
use cagey::models::fit;
use cagey::models::posterior::Posterior;
use cagey::models::svgp::Svgp;
use cagey::params::{Parameter, Parameters, Unit};
use cagey::scope::{Scope, gradient_in};
use cagey::solvers::itergp::{IterGpOptions, LinearSystem};
use cagey::solvers::policies::{Actor, Lanczos, LanczosSeed, Pivots, Policy, Random, Residual, SolveState, UnitVector};
use cagey::{Error, Result};
use common::{F64, data};

/// What is wrong with a form.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wrong {
    Nothing,
    Transposed,
    Type,
    Diagonal,
    Detached,
    Sign,
    Asymmetric,
}

/// v exp(−‖x₁ − x₂‖²/2), or something near it.
#[derive(Debug)]
struct Bell(Wrong);

impl Form for Bell {
    fn name(&self) -> &str {
        "bell"
    }

    fn parameters(&self, _d: usize) -> Vec<Parameter> {
        vec![Parameter::positive("variance", Unit::Variance, &[1.3])]
    }

    fn cross(&self, p: &[Tensor<1>], x1: Tensor<2>, x2: Tensor<2>) -> Result<Tensor<2>> {
        let square = |x: Tensor<2>| (x.clone() * x).sum_dim(1);
        let inner = x1.clone().matmul(x2.clone().transpose());
        let shift = if self.0 == Wrong::Asymmetric { x1.clone().sum_dim(1) * 0.3 } else { x1.clone().sum_dim(1) * 0.0 };
        let distance: Tensor<2> = square(x1) + square(x2).transpose() - inner * 2.0 + shift;
        let mut v = p[0].clone();
        if self.0 == Wrong::Detached {
            v = v.detach();
        }
        let sign = if self.0 == Wrong::Sign { -1.0 } else { 1.0 };
        let v: Tensor<2> = v.unsqueeze();
        let k = (distance * -0.5).exp() * v * sign;
        Ok(match self.0 {
            Wrong::Transposed => k.transpose(),
            Wrong::Type => k.cast(DType::F32),
            _ => k,
        })
    }

    fn diag(&self, p: &[Tensor<1>], x: Tensor<2>) -> Result<Tensor<1>> {
        let mut v = p[0].clone();
        if self.0 == Wrong::Detached {
            v = v.detach();
        }
        let factor = match self.0 {
            Wrong::Diagonal => 2.0,
            Wrong::Sign => -1.0,
            _ => 1.0,
        };
        Ok(v.repeat_dim(0, x.dims()[0]) * factor)
    }
}

fn bell(wrong: Wrong) -> Kernel {
    Kernel::leaf(Arc::new(Bell(wrong)), 2)
}

#[test]
fn wrong_kernels_are_told() {
    check::kernel(&bell(Wrong::Nothing), 2).unwrap();
    for (wrong, words) in [
        (Wrong::Transposed, "`cross` of the kernel form `bell`: expected [6, 4]"),
        (Wrong::Type, "of F32"),
        (Wrong::Diagonal, "diag is not the diagonal of the Gram matrix"),
        (Wrong::Detached, "the gradient in its parameters: the loss depends on no free parameter"),
        (Wrong::Sign, "covariances are not positive semi-definite"),
        (Wrong::Asymmetric, "k(a, b) is not the transpose of k(b, a)"),
    ] {
        let told = check::kernel(&bell(wrong), 2).unwrap_err().to_string();
        assert!(told.contains(words), "{wrong:?}: {told}");
    }
}

#[test]
fn a_transposed_kernel_predicts_nothing() {
    let rows = data(9, 2);
    let model = ExactGp::new(bell(Wrong::Transposed));
    // Square matrices do not show it: the rows of a prediction do.
    let posterior = model.posterior(F64, rows).unwrap();
    let told = posterior.predict(&[0.1, 0.2, 0.3, 0.4]).unwrap_err().to_string();
    assert!(told.contains("`cross` of the kernel form `bell`"), "{told}");
}

#[test]
fn the_kernels_of_the_library_are_right() {
    for text in [
        "rbf",
        "matern12(ard) + white",
        "matern32 * linear",
        "matern52(dims=[1])",
        "rq",
        "periodic",
        "cosine_sum",
        "spectral_mixture(components=2)",
        "polynomial(power=2) + constant",
        "projection(rbf, dim=2)",
    ] {
        check::kernel(&Kernel::parse(text, 2).unwrap(), 2).unwrap();
    }
    for text in ["periodic_norm", "cosine_norm"] {
        check::kernel(&Kernel::parse(text, 1).unwrap(), 1).unwrap();
    }
}

#[test]
fn a_loss_must_be_one_number_of_this_scope() {
    let (model, rows) = (ExactGp::new(Kernel::parse("rbf", 2).unwrap()), data(9, 2));
    let scope = Scope::training(F64).unwrap();
    let diag = |scope: &Scope| model.prior.kernel.diag(scope, &rows.batch(scope).x).unwrap();
    let told = |loss| scope.gradient(loss, &model).unwrap_err().to_string();
    assert!(told(diag(&scope)).contains("a sum over the rows is missing"));
    for other in [Scope::training(F64).unwrap(), Scope::new(F64).unwrap()] {
        let said = told(diag(&other).sum());
        assert!(said.contains("depends on no free parameter of this scope"), "{said}");
    }
    scope.gradient(diag(&scope).sum(), &model).unwrap();
    // A model without free parameters has no gradient to miss.
    let mut fixed = model.clone();
    fixed.parameters_mut().into_iter().for_each(|(_, p)| p.fixed = true);
    assert!(scope.gradient(diag(&Scope::new(F64).unwrap()).sum(), &fixed).unwrap().1.is_empty());
    fit::evaluate(&model, F64, &rows.batch(&Scope::new(F64).unwrap())).unwrap();
}

#[test]
fn a_second_gradient_of_a_graph_is_told() {
    let (model, rows) = (ExactGp::new(Kernel::parse("rbf", 2).unwrap()), data(9, 2));
    let posterior = model.posterior(F64, rows).unwrap();
    let device = F64.device().unwrap().autodiff();
    let x = Tensor::<2>::from_data([[0.3, -0.2], [0.5, 0.4]], (&device, DType::F64)).require_grad();
    let [mean, variance] = posterior.moments(x.clone()).unwrap().unwrap();
    assert_eq!(gradient_in(mean.clone().sum(), &x).unwrap().len(), 4);
    for again in [mean.clone().sum(), variance.sum()] {
        let told = gradient_in(again, &x).unwrap_err().to_string();
        assert!(told.contains("differentiated before") && told.contains("compute the tensors again"), "{told}");
    }
    assert!(gradient_in(mean, &x).unwrap_err().to_string().contains("a sum over the rows is missing"));
    let apart = x.clone().detach().sum();
    assert!(gradient_in(apart, &x).unwrap_err().to_string().contains("does not depend on the tensor"));
    gradient_in(posterior.moments(x.clone()).unwrap().unwrap()[1].clone().sum(), &x).unwrap();
}

#[test]
fn a_request_of_another_width_names_the_columns() {
    let told = Dataset::new(["a", "b", "c"], vec![1.0, 2.0]).unwrap_err().to_string();
    assert!(told.contains("rows of 3 columns (a, b, c)") && told.contains("2 numbers"), "{told}");
}

/// Noise of a learned scale.
#[derive(Debug, Clone)]
struct Own {
    scale: Parameter,
    wrong: bool,
}

cagey::parameters!(Own { "scale": scale });

#[derive(Debug)]
struct AtScale {
    scale: [f64; 1],
    wrong: bool,
}

impl Formula for AtScale {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Real
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], own: &[A]) -> A {
        // Without its own parameters, the density has the scale as a constant.
        let scale = own.first().copied().unwrap_or(A::constant(self.scale[0]));
        let t = (f[0] - row.y) / scale;
        t * t * -0.5 - scale.ln() - 0.5 * std::f64::consts::TAU.ln()
    }
}

impl Density for AtScale {
    fn own(&self) -> &[f64] {
        if self.wrong { &[] } else { &self.scale }
    }
}

impl Likelihood for Own {
    fn text(&self) -> String {
        "own".into()
    }

    fn density(&self) -> Arc<dyn Density> {
        Arc::new(AtScale { scale: [self.scale.internal()[0]], wrong: self.wrong })
    }
}

#[test]
fn own_parameters_that_are_never_learned_are_told() {
    let own = |wrong| Own { scale: Parameter::positive("scale", Unit::None, &[0.7]), wrong };
    let rows = [Row { y: 0.4, auxiliary: 1.0 }, Row { y: -2.0, auxiliary: 1.0 }];
    check::likelihood(&own(false), &rows).unwrap();
    let told = check::likelihood(&own(true), &rows).unwrap_err().to_string();
    assert!(told.contains("`own`") && told.contains("never learned"), "{told}");
    // Training says so too.
    let model = Svgp::new(Kernel::parse("rbf", 2).unwrap(), &[0.1, 0.2], 2, own(true)).unwrap();
    let batch = data(9, 2).batch(&Scope::new(F64).unwrap());
    let told = fit::evaluate(&model, F64, &batch).unwrap_err().to_string();
    assert!(told.contains("likelihood `own`") && told.contains("Density::own"), "{told}");
}

/// Says that it is a density of counts that is log-concave, and is neither.
#[derive(Debug, Clone)]
struct Bad;

impl Formula for Bad {
    fn support(&self, _auxiliary: f64) -> Support {
        Support::Counts(None)
    }

    fn log_density<A: Real>(&self, row: Row, f: &[A], _own: &[A]) -> A {
        let t = f[0] - row.y;
        -(t * t + 1.0).ln()
    }
}

#[test]
fn wrong_likelihoods_are_told() {
    let told = check::likelihood(&Custom::new("bad", Bad, []), &[Row { y: 3.0, auxiliary: 1.0 }]);
    let told = told.unwrap_err().to_string();
    assert!(told.contains("not log-concave"), "{told}");
    let outside = check::likelihood(&Custom::new("bad", Bad, []), &[Row { y: 0.5, auxiliary: 1.0 }]);
    assert!(outside.unwrap_err().to_string().contains("the target 0.5"));
}

/// Says that it has two columns, and has one.
#[derive(Debug)]
struct Narrow;

impl InputTransform for Narrow {
    fn name(&self) -> &str {
        "narrow"
    }

    fn output_dim(&self, _d: usize) -> usize {
        2
    }

    fn parameters(&self, _d: usize) -> Vec<Parameter> {
        Vec::new()
    }

    fn apply(&self, _p: &[Tensor<1>], x: Tensor<2>) -> Tensor<2> {
        x.narrow(1, 0, 1)
    }
}

#[test]
fn a_transform_has_the_columns_that_it_says() {
    let kernel = Kernel::parse("rbf", 2).unwrap().transformed(Arc::new(Narrow), 3);
    let told = check::kernel(&kernel, 3).unwrap_err().to_string();
    assert!(told.contains("the transform `narrow`: expected [6, 2]"), "{told}");
}

#[test]
fn columns_of_a_sum_are_those_of_its_parts() {
    let scope = Scope::new(F64).unwrap();
    let x = scope.matrix(&[0.1, 0.9, -0.4, 1.2, 0.3, 0.5], 2, 3);
    let on = Kernel::parse("rbf + matern32(dims=[1]) * linear", 2).unwrap().on(&[2, 0]).unwrap();
    let written = Kernel::parse("rbf(dims=[2, 0]) + matern32(dims=[0]) * linear(dims=[2, 0])", 3).unwrap();
    let gram = |kernel: &Kernel| cagey::scope::to_f64(kernel.gram(&scope, &x).unwrap()).unwrap();
    assert_eq!(gram(&on), gram(&written));
    for (text, words) in [("projection(rbf, dim=2)", "takes all columns"), ("rbf(dims=[1])", "takes column 1")] {
        let refused = Kernel::parse(text, 2).unwrap().on(&[0]).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
}

/// Gives another first action in each solve.
#[derive(Debug, Clone)]
struct Restless(Arc<std::sync::atomic::AtomicU64>);

impl Policy for Restless {
    fn name(&self) -> &'static str {
        "restless"
    }

    fn start(&self, system: &dyn LinearSystem, budget: usize) -> Result<Box<dyn Actor>> {
        let seed = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Random { probes: cagey::solvers::Probes::Gaussian, seed }.start(system, budget)
    }
}

/// Actions of too few rows.
#[derive(Debug, Clone)]
struct Short;

impl Policy for Short {
    fn name(&self) -> &'static str {
        "short"
    }

    fn start(&self, _system: &dyn LinearSystem, _budget: usize) -> Result<Box<dyn Actor>> {
        Ok(Box::new(self.clone()))
    }
}

impl Actor for Short {
    fn next(&mut self, state: &dyn SolveState, _most: usize) -> Result<Option<Tensor<2>>> {
        Ok(Some(state.residual()?.narrow(0, 0, 3)))
    }
}

/// A policy with a parameter.
#[derive(Debug, Clone)]
struct Weighted(Parameter);

impl Policy for Weighted {
    fn name(&self) -> &'static str {
        "weighted"
    }

    fn start(&self, system: &dyn LinearSystem, budget: usize) -> Result<Box<dyn Actor>> {
        Residual.start(system, budget)
    }

    fn parameters(&self) -> Vec<(String, &Parameter)> {
        vec![("weight".into(), &self.0)]
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        vec![("weight".into(), &mut self.0)]
    }
}

#[test]
fn parameters_of_a_policy_that_are_not_learned_are_told() {
    let x: Vec<f64> = (0..20).map(|i| 0.2 * f64::from(i)).collect();
    let y = x.iter().map(|x| x.sin()).collect();
    let data = cagey::models::Observations::new(x, 1, y, None).unwrap();
    let policy = Weighted(Parameter::positive("weight", Unit::None, &[1.0]));
    let options = IterGpOptions::budget(4);
    let mut model = IterativeCagp::new(Kernel::parse("rbf", 1).unwrap(), Box::new(policy), options);
    let told = |model: &IterativeCagp| {
        let warnings = cagey::models::diagnose::warnings(model, &data, &["x".to_string()]);
        warnings.iter().any(|advice| advice.text.contains("policy.weight"))
    };
    assert!(told(&model));
    model.unrolled = 1;
    assert!(!told(&model));
}

#[test]
fn policies_are_checked() {
    let policies: [Box<dyn Policy>; 4] = [
        Box::new(Residual),
        Box::new(UnitVector { pivots: Pivots::Largest }),
        Box::new(Lanczos { seed: LanczosSeed::Targets }),
        Box::new(Random { probes: cagey::solvers::Probes::Rademacher, seed: 3 }),
    ];
    for policy in policies {
        check::policy(&*policy).unwrap();
    }
    let told = |policy: &dyn Policy| match check::policy(policy) {
        Err(Error::Usage(told)) => told,
        other => panic!("{other:?}"),
    };
    assert!(told(&Restless(Arc::default())).contains("two solves differ"));
    assert!(told(&Short).contains("the policy `short`: a solve"));
}
