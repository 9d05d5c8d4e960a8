//! Checks what must hold for every model, with any approximation.

use burn::tensor::{DType, Tensor, TensorData};
use cagey::ErrorKind;
use cagey::fitted::Registry;
use cagey::kernels::Kernel;
use cagey::likelihoods::Gaussian;
use cagey::models::cagp::{ActionPolicy, CagpOptions};
use cagey::models::cggp::CgGpOptions;
use cagey::models::exact::ExactOptions;
use cagey::models::experts::aggregation::Rule;
use cagey::models::experts::{ExpertsOptions, LocalKind, Partition};
use cagey::models::gp_model::{GpModel, Size, UserUnits};
use cagey::models::laplace::LaplaceOptions;
use cagey::models::minibatch::{Minibatches, Rows};
use cagey::models::options::{Context, Kind, ModelChoice, Parts};
use cagey::models::sgpr::SgprOptions;
use cagey::models::sparse_grid::{Combination, SparseGridOptions};
use cagey::models::svgp::SvgpOptions;
use cagey::models::swsgp::SwsgpOptions;
use cagey::models::variational::Covariance;
use cagey::models::{Batch, Observations};
use cagey::scope::{Scope, scalar, to_f64};
use cagey::solvers::CgOptions;

use crate::common::{F32, F64, assert_close, check_posterior, data};

const ROWS: usize = 36;

/// Every kind of model, with options for small data.
fn choices() -> Vec<ModelChoice> {
    let batches = Minibatches::default();
    let cagp = |policy| CagpOptions { actions: 8, policy, ..CagpOptions::default() }.into();
    let policies = [
        ActionPolicy::Learned,
        ActionPolicy::Cg,
        ActionPolicy::Cholesky,
        ActionPolicy::Lanczos,
        ActionPolicy::Eigenvector,
        ActionPolicy::Random,
        ActionPolicy::PseudoInput,
        ActionPolicy::Mixed,
        ActionPolicy::Preconditioned,
    ];
    let (inducing, neighbours, divergence) = (9, 4, 1.0);
    let variational = [Covariance::Full, Covariance::Diagonal].into_iter().flat_map(|covariance| {
        let local = |union| SwsgpOptions {
            inducing,
            neighbours,
            divergence,
            union,
            nugget: 1e-3,
            covariance,
            batches: batches.clone(),
        };
        let all = SvgpOptions { inducing, covariance, batches: batches.clone() };
        [all.into(), local(false).into(), local(true).into()]
    });
    let mut all: Vec<ModelChoice> = policies.into_iter().map(cagp).collect();
    // At the full rank of the matrix nothing is random; central differences need solves of all digits.
    let solver = CgOptions { relative: 1e-13, ..CgGpOptions::default().solver };
    let whole = CgGpOptions { rank: ROWS, solver, ..CgGpOptions::default() };
    all.extend([ExactOptions::default().into(), SgprOptions { inducing }.into(), whole.into()]);
    all.push(LaplaceOptions {}.into());
    for (partition, local, aggregation) in [
        (Partition::Random, LocalKind::Exact, Rule::Grbcm),
        (Partition::Tree, LocalKind::Exact, Rule::Npae),
        (Partition::Kmeans, LocalKind::Exact, Rule::Rbcm),
        (Partition::Random, LocalKind::Sgpr, Rule::Weights),
        (Partition::Tree, LocalKind::Sgpr, Rule::Bcm),
    ] {
        all.push(
            ExpertsOptions { experts: Some(3), partition, local, inducing, aggregation: Some(aggregation), ..usual() }
                .into(),
        );
    }
    let grids = SparseGridOptions { level: 3, ..SparseGridOptions::default() };
    all.extend([
        grids.into(),
        SparseGridOptions { combination: Combination::Ct, ..grids }.into(),
        SparseGridOptions { combination: Combination::Union, ..grids }.into(),
    ]);
    all.extend(variational);
    all
}

fn usual() -> ExpertsOptions {
    ExpertsOptions::default()
}

fn build(choice: &ModelChoice, data: &Observations) -> Box<dyn GpModel> {
    let options = Registry::default().models.options(choice).unwrap();
    let mut likelihood = Gaussian::new(0.1);
    likelihood.noise.set(&[0.2]).unwrap();
    let prior = Kernel::parse("1.3 * rbf(lengthscale=[0.8, 1.1])", data.d).unwrap().into();
    let parts = Parts { likelihood: Box::new(likelihood), prior };
    let names: Vec<String> = (0..data.d).map(|column| format!("x{column}")).collect();
    let mut model = options.build(parts, &Context::new(data, &names, 1)).unwrap();
    let (d, ones) = (vec![0.0; data.d], vec![1.0; data.d]);
    model.start(data, &UserUnits { input_mean: d, input_sd: ones, target_mean: 0.0, target_sd: 1.0 });
    model
}

/// The objective for the choices that the model makes at its present parameters.
struct AtChoice<'a> {
    batch: &'a Batch,
    chosen: Option<cagey::models::Held>,
}

impl AtChoice<'_> {
    fn objective(&self, model: &dyn GpModel, scope: &Scope) -> burn::tensor::Tensor<1> {
        match &self.chosen {
            Some(chosen) => model.objective_for(scope, self.batch, chosen).unwrap(),
            None => model.objective(scope, self.batch).unwrap(),
        }
    }
}

/// Checks everything that a model promises. `joint` says whether its joint distributions have its marginals,
/// `tolerance` how accurate gradients are.
fn check_model(name: &str, model: &dyn GpModel, data: &Observations, joint: bool, tolerance: f64) {
    let scope = Scope::new(F64).unwrap();
    let batch = data.batch(&scope);
    let chosen = model.refresh().and_then(|_| model.choose(&scope, &batch).unwrap());
    let held = AtChoice { batch: &batch, chosen };
    gradient(name, model, &held, tolerance);
    scale(name, model, &batch);
    saving(name, model, data);
    precisions(name, model, data);
    refusals(name, model, data);
    means(name, model, data);
    tensors(name, model, data);
    growing(name, model, data);
    let posterior = model.condition(F64, data.clone()).unwrap();
    if joint {
        check_posterior(name, &*posterior, &[0.1, -0.2, 0.9, 0.4, -1.0, 1.3], data.d);
    }
    let far = posterior.predict(&[1e3, -1e3]).unwrap();
    assert!(far.mean[0].abs() < 1e-9, "{name}: the prior's mean far from data: {}", far.mean[0]);
    assert_close(&format!("{name}: the prior's variance far from data"), &far.variance, &[1.3], 1e-6);
    let marginals = posterior.marginals(&[0.1, -0.2]).unwrap();
    assert_eq!(marginals, [posterior.predict(&[0.1, -0.2]).unwrap()], "{name}");
    // A copy has its own parameters.
    let mut copy = model.boxed();
    copy.set_free_raw(&vec![0.1; model.free_raw().len()]).unwrap();
    assert_ne!(copy.free_raw(), model.free_raw(), "{name}");
    let size = |rows| Size { rows, columns: data.d, batch: rows };
    assert!(model.bytes(F64, size(1000)) > model.bytes(F64, size(10)) && !model.title().is_empty(), "{name}");
}

/// Compares gradients with central differences.
fn gradient(name: &str, model: &dyn GpModel, held: &AtChoice, tolerance: f64) {
    const STEP: f64 = 1e-5;
    let scope = Scope::training(F64).unwrap();
    let (_, gradient) = scope.gradient(held.objective(model, &scope), model).unwrap();
    let (mut moved, start) = (model.boxed(), model.free_raw());
    let size = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
    // Of many parameters every seventh is compared: those of q and of actions are alike.
    let every = if start.len() > 40 { 7 } else { 1 };
    for at in (0..start.len()).filter(|at| *at < 8 || at % every == 0) {
        let [above, below] = [STEP, -STEP].map(|step| {
            let mut x = start.clone();
            x[at] += step;
            moved.set_free_raw(&x).unwrap();
            scalar(held.objective(&*moved, &Scope::new(F64).unwrap())).unwrap()
        });
        let difference = (above - below) / (2.0 * STEP);
        assert!(
            (difference - gradient[at]).abs() <= tolerance * size.max(1.0),
            "{name}, {at}: {difference} {}",
            gradient[at]
        );
    }
}

/// The rows of a batch count as often as its scale says, or the scale has no effect if a model uses all rows.
fn scale(name: &str, model: &dyn GpModel, batch: &Batch) {
    let loss = |scale| {
        let batch = Batch { scale, ..batch.clone() };
        scalar(model.objective(&Scope::new(F64).unwrap(), &batch).unwrap()).unwrap()
    };
    let [one, two, three] = [1.0, 2.0, 3.0].map(loss);
    assert!((three - two - (two - one)).abs() <= 1e-9 * three.abs().max(1.0), "{name}: {one} {two} {three}");
}

/// An impossible request gives an error, not a panic.
fn refusals(name: &str, model: &dyn GpModel, data: &Observations) {
    let posterior = model.condition(F64, data.clone()).unwrap();
    assert_eq!(posterior.sample(&[], 3, 0).unwrap(), vec![Vec::<f64>::new(); 3], "{name}");
    for bad in [f64::NAN, f64::INFINITY] {
        let refused = posterior.predict(&[0.1, bad]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Request, "{name}: {refused}");
    }
    let (scope, other) = (Scope::new(F64).unwrap(), Scope::new(F32).unwrap());
    let (own, single) = (data.batch(&scope), data.batch(&other));
    let columns = Observations::new(data.x.clone(), 1, [&data.y[..], &data.y].concat(), None).unwrap();
    let mixed = [
        single.clone(),
        Batch { y: single.y.clone(), ..own.clone() },
        Batch { x: single.x, ..own.clone() },
        Batch { y: own.y.clone().narrow(0, 0, 3), ..own },
        columns.batch(&scope),
    ];
    for (i, batch) in mixed.iter().enumerate() {
        let refused = model.objective(&scope, batch).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Request, "{name}, {i}: {refused}");
    }
}

/// Means alone equal those of predictions, for any number of rows.
fn means(name: &str, model: &dyn GpModel, data: &Observations) {
    let posterior = model.condition(F64, data.clone()).unwrap();
    let points: Vec<f64> = (0..60).map(|i| (0.37 * f64::from(i)).sin()).collect();
    let all = posterior.predict(&points).unwrap();
    assert_close(&format!("{name}: means"), &posterior.mean(&points).unwrap(), &all.mean, 1e-10);
    for (row, x) in points.chunks(2).enumerate() {
        let one = posterior.predict(x).unwrap();
        assert_close(&format!("{name}: mean of a row"), &posterior.mean(x).unwrap(), &all.mean[row..=row], 1e-10);
        assert_close(&format!("{name}: mean of a row"), &one.mean, &all.mean[row..=row], 1e-10);
        assert_close(&format!("{name}: variance of a row"), &one.variance, &all.variance[row..=row], 1e-9);
    }
}

/// Moments as tensors equal the predictions, and their gradients in the points equal central differences.
fn tensors(name: &str, model: &dyn GpModel, data: &Observations) {
    const STEP: f64 = 1e-5;
    let posterior = model.condition(F64, data.clone()).unwrap();
    let x = [0.3, -0.1, 1.1, 0.5, -0.7, 0.9];
    let device = F64.device().unwrap().autodiff();
    let points = Tensor::<2>::from_data(TensorData::new(x.to_vec(), [3, 2]), (&device, DType::F64)).require_grad();
    let Some([mean, variance]) = posterior.moments(points.clone()).unwrap() else { return };
    let predicted = posterior.predict(&x).unwrap();
    assert_close(&format!("{name}: mean"), &to_f64(mean.clone()).unwrap(), &predicted.mean, 1e-10);
    assert_close(&format!("{name}: variance"), &to_f64(variance.clone()).unwrap(), &predicted.variance, 1e-8);
    for which in 0..2 {
        let value = posterior.moments(points.clone()).unwrap().unwrap()[which].clone();
        let weights = Tensor::<1>::from_data(TensorData::new(vec![1.0, -0.4, 2.0], [3]), (&device, DType::F64));
        let gradient = to_f64(points.grad(&(value * weights).sum().backward()).unwrap()).unwrap();
        let numeric: Vec<f64> = (0..x.len())
            .map(|at| {
                let [above, below] = [STEP, -STEP].map(|step| {
                    let mut moved = x;
                    moved[at] += step;
                    let found = posterior.predict(&moved).unwrap();
                    let values = if which == 0 { found.mean } else { found.variance };
                    values[0] - 0.4 * values[1] + 2.0 * values[2]
                });
                (above - below) / (2.0 * STEP)
            })
            .collect();
        assert_close(&format!("{name}: gradient of moment {which}"), &gradient, &numeric, 1e-6);
    }
    let plain = Tensor::<2>::from_data(TensorData::new(x.to_vec(), [3, 2]), (&F64.device().unwrap(), DType::F64));
    assert!(posterior.moments(plain.clone()).unwrap().is_some(), "{name}");
    assert!(posterior.moments(plain.clone().cast(DType::F32)).is_err(), "{name}");
    assert!(posterior.moments(plain.narrow(1, 0, 1)).is_err(), "{name}");
}

/// A posterior extended by rows equals that of all rows.
fn growing(name: &str, model: &dyn GpModel, data: &Observations) {
    let part = |rows: std::ops::Range<usize>| data.gather(&rows.collect::<Vec<_>>()).unwrap();
    // Actions fit one number of rows: other rows cannot condition such a model.
    let Ok(before) = model.condition(F64, part(0..20)) else { return };
    let Some(grown) = before.updated(&part(20..21)).unwrap() else { return };
    let grown = grown.updated(&part(21..ROWS)).unwrap().unwrap();
    let whole = model.condition(F64, data.clone()).unwrap();
    let points: Vec<f64> = (0..40).map(|i| (0.37 * f64::from(i)).sin()).collect();
    for x in [&points[..], &points[..2]] {
        let (got, want) = (grown.predict(x).unwrap(), whole.predict(x).unwrap());
        assert_close(&format!("{name}: grown means"), &got.mean, &want.mean, 1e-10);
        assert_close(&format!("{name}: grown variances"), &got.variance, &want.variance, 1e-9);
    }
    let other = Observations::new(vec![1.0], 1, vec![1.0], None).unwrap();
    assert_eq!(before.updated(&other).unwrap_err().kind(), ErrorKind::Request, "{name}");
}

/// A saved posterior comes back unchanged.
fn saving(name: &str, model: &dyn GpModel, data: &Observations) {
    let points = [0.3, -0.1, 2.0, 0.5];
    let posterior = model.condition(F64, data.clone()).unwrap();
    let restored = model.restore(F64, data.clone(), posterior.saved(true).unwrap()).unwrap();
    assert_eq!(restored.predict(&points).unwrap(), posterior.predict(&points).unwrap(), "{name}");
    assert_eq!(restored.solve(), posterior.solve(), "{name}");
    assert_eq!(restored.needs_data(), posterior.needs_data(), "{name}");
}

/// Single precision agrees with double precision.
fn precisions(name: &str, model: &dyn GpModel, data: &Observations) {
    let points = [0.3, -0.1, 2.0, 0.5];
    let [single, double] = [F32, F64].map(|compute| {
        let scope = Scope::new(compute).unwrap();
        let loss = scalar(model.objective(&scope, &data.batch(&scope)).unwrap()).unwrap();
        (loss, model.condition(compute, data.clone()).unwrap().predict(&points).unwrap())
    });
    assert!((single.0 - double.0).abs() <= 1e-4 * double.0.abs().max(1.0), "{name}: {} {}", single.0, double.0);
    assert_close(&format!("{name}: means in f32"), &single.1.mean, &double.1.mean, 1e-3);
    assert_close(&format!("{name}: variances in f32"), &single.1.variance, &double.1.variance, 1e-3);
}

#[test]
fn every_model_keeps_its_promises() {
    let (data, choices) = (data(ROWS, 2), choices());
    for row in Registry::default().models.rows() {
        assert!(choices.iter().any(|choice| choice.kind() == row.name), "{} is not tested", row.name);
    }
    for choice in choices {
        // A single row has fewer neighbours than several rows together.
        let local = choice.of::<SwsgpOptions>().is_some() || choice.of::<ExpertsOptions>().is_some();
        // The value and the gradient are two separate estimates.
        let tolerance = if choice.kind() == CgGpOptions::NAME { 1e-5 } else { 1e-6 };
        check_model(&format!("{choice:?}"), &*build(&choice, &data), &data, !local, tolerance);
    }
}
