//! Checks what must hold for every model, with any approximation.

use cagey::fitted::Registry;
use cagey::kernels::Kernel;
use cagey::likelihoods::Gaussian;
use cagey::models::Observations;
use cagey::models::cagp::{ActionPolicy, CagpOptions};
use cagey::models::cggp::CgGpOptions;
use cagey::models::exact::ExactOptions;
use cagey::models::experts::aggregation::Rule;
use cagey::models::experts::{ExpertsOptions, LocalKind, Partition};
use cagey::models::gp_model::{GpModel, Size, UserUnits};
use cagey::models::laplace::LaplaceOptions;
use cagey::models::minibatch::Minibatches;
use cagey::models::nearest::NearestOptions;
use cagey::models::options::{Context, Kind, ModelChoice, Parts};
use cagey::models::sgpr::SgprOptions;
use cagey::models::sparse_grid::{Combination, SparseGridOptions};
use cagey::models::state_space::StateSpaceOptions;
use cagey::models::svgp::SvgpOptions;
use cagey::models::swsgp::SwsgpOptions;
use cagey::models::variational::Covariance;
use cagey::solvers::CgOptions;

use crate::common::{F64, assert_close, check_posterior, data};

const ROWS: usize = 36;

/// Every kind of model, with options for small data.
fn choices() -> Vec<ModelChoice> {
    let batches = Minibatches::default();
    let cagp = |policy| CagpOptions::default().actions(8).policy(policy).into();
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
        ActionPolicy::Gradient,
    ];
    let (inducing, neighbours, divergence) = (9, 4, 1.0);
    let variational = [Covariance::Full, Covariance::Diagonal].into_iter().flat_map(|covariance| {
        let local = |union| {
            SwsgpOptions::default()
                .inducing(inducing)
                .neighbours(neighbours)
                .divergence(divergence)
                .union(union)
                .covariance(covariance)
                .batches(batches.clone())
        };
        let all = SvgpOptions::default().inducing(inducing).covariance(covariance).batches(batches.clone());
        [all.into(), local(false).into(), local(true).into()]
    });
    let mut all: Vec<ModelChoice> = policies.into_iter().map(cagp).collect();
    // At the full rank of the matrix nothing is random; central differences need solves of all digits.
    let solver = CgOptions { relative: 1e-13, ..CgGpOptions::default().solver };
    let whole = CgGpOptions::default().rank(ROWS).solver(solver);
    all.extend([ExactOptions::default().into(), SgprOptions::default().inducing(inducing).into(), whole.into()]);
    all.extend([LaplaceOptions::default().into(), StateSpaceOptions::default().into()]);
    all.push(NearestOptions::default().neighbours(7).into());
    for (partition, local, aggregation) in [
        (Partition::Random, LocalKind::Exact, Rule::Grbcm),
        (Partition::Tree, LocalKind::Exact, Rule::Npae),
        (Partition::Kmeans, LocalKind::Exact, Rule::Rbcm),
        (Partition::Random, LocalKind::Sgpr, Rule::Weights),
        (Partition::Tree, LocalKind::Sgpr, Rule::Bcm),
    ] {
        all.push(
            usual()
                .experts(Some(3))
                .partition(partition)
                .local(local)
                .inducing(inducing)
                .aggregation(Some(aggregation))
                .into(),
        );
    }
    let grids = SparseGridOptions::default().level(3);
    all.extend([grids.into(), grids.combination(Combination::Ct).into(), grids.combination(Combination::Union).into()]);
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
    let text = if data.d == 1 { "1.3 * matern32(0.8)" } else { "1.3 * rbf(lengthscale=[0.8, 1.1])" };
    let prior = Kernel::parse(text, data.d).unwrap().into();
    let parts = Parts { likelihood: Box::new(likelihood), prior };
    let names: Vec<String> = (0..data.d).map(|column| format!("x{column}")).collect();
    let mut model = options.build(parts, &Context::new(data, &names, 1)).unwrap();
    let (d, ones) = (vec![0.0; data.d], vec![1.0; data.d]);
    model.start(data, &UserUnits { input_mean: d, input_sd: ones, target_mean: 0.0, target_sd: 1.0 });
    model
}

/// Checks everything that a model promises. `joint` says whether its joint distributions have its marginals,
/// `tolerance` how accurate gradients are.
fn check_model(name: &str, model: &dyn GpModel, data: &Observations, joint: bool, tolerance: f64) {
    if let Err(faults) = cagey::check::model(model, data, tolerance) {
        panic!("{name}: {faults}");
    }
    let posterior = model.condition(F64, data.clone()).unwrap();
    if joint {
        check_posterior(name, &*posterior, &[0.1, -0.2, 0.9, 0.4, -1.0, 1.3], data.d);
    }
    let far = posterior.predict(&[1e3, -1e3]).unwrap();
    assert!(far.mean[0].abs() < 1e-9, "{name}: the prior's mean far from data: {}", far.mean[0]);
    assert_close(
        &format!("{name}: the prior's variance far from data"),
        &far.variance,
        &vec![1.3; far.variance.len()],
        1e-6,
    );
    let marginals = posterior.marginals(&[0.1, -0.2]).unwrap();
    assert_eq!(marginals, [posterior.predict(&[0.1, -0.2]).unwrap()], "{name}");
    // A copy has its own parameters.
    let mut copy = model.boxed();
    copy.set_free_raw(&vec![0.1; model.free_raw().len()]).unwrap();
    assert_ne!(copy.free_raw(), model.free_raw(), "{name}");
    let size = |rows| Size { rows, columns: data.d, batch: rows };
    assert!(model.bytes(F64, size(1000)) > model.bytes(F64, size(10)) && !model.title().is_empty(), "{name}");
}

#[test]
fn every_model_keeps_its_promises() {
    let choices = choices();
    // Models of classes have a file of their own.
    for row in Registry::default().models.rows().iter().filter(|row| !row.classes) {
        assert!(choices.iter().any(|choice| choice.kind() == row.name), "{} is not tested", row.name);
    }
    for choice in choices {
        let data = data(ROWS, if choice.kind() == StateSpaceOptions::NAME { 1 } else { 2 });
        // A single row has fewer neighbours than several rows together.
        let local = [SwsgpOptions::NAME, ExpertsOptions::NAME, NearestOptions::NAME].contains(&choice.kind());
        // The value and the gradient are two separate estimates.
        let tolerance = if choice.kind() == CgGpOptions::NAME { 1e-5 } else { 1e-6 };
        check_model(&format!("{choice:?}"), &*build(&choice, &data), &data, !local, tolerance);
    }
}
