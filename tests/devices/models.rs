//! Compares every kind of model and every likelihood on every device with the CPU in double precision.

use cagey::device::{Algebra, Compute, limit_memory, set_algebra};
use cagey::fitted::Registry;
use cagey::kernels::Kernel;
use cagey::likelihoods::registry::Likelihoods;
use cagey::likelihoods::{Gaussian, Likelihood};
use cagey::models::cagp::{ActionPolicy, CagpOptions, SiteRule};
use cagey::models::cggp::CgGpOptions;
use cagey::models::exact::ExactOptions;
use cagey::models::experts::ExpertsOptions;
use cagey::models::gp_model::{GpModel, UserUnits};
use cagey::models::label_regression::LabelRegressionOptions;
use cagey::models::laplace::LaplaceOptions;
use cagey::models::minibatch::Minibatches;
use cagey::models::nearest::NearestOptions;
use cagey::models::options::{Context, Kind, ModelChoice, Parts};
use cagey::models::sgpr::SgprOptions;
use cagey::models::sparse_grid::SparseGridOptions;
use cagey::models::svgp::SvgpOptions;
use cagey::models::swsgp::SwsgpOptions;
use cagey::models::variational::Covariance;
use cagey::models::{Observations, fit};
use cagey::scope::Scope;
use cagey::solvers::CgOptions;

use crate::{REFERENCE, computes, gpus, inputs, name, noise, observations, tolerance};

const D: usize = 2;

fn choices() -> Vec<(&'static str, ModelChoice)> {
    let (inducing, batches) = (20, Minibatches::default());
    let svgp = |covariance| SvgpOptions::default().inducing(inducing).covariance(covariance).batches(batches.clone());
    let swsgp = |union| {
        SwsgpOptions::default()
            .inducing(inducing)
            .neighbours(4)
            .union(union)
            .covariance(Covariance::Full)
            .batches(batches.clone())
    };
    let cagp = |policy| CagpOptions::default().actions(16).policy(policy);
    let solver = CgOptions { relative: 1e-5, ..CgGpOptions::default().solver };
    vec![
        ("exact", ExactOptions::default().into()),
        ("cagp", cagp(ActionPolicy::Learned).into()),
        ("cagp-cg", cagp(ActionPolicy::Cg).into()),
        ("cagp-cg, unrolled", cagp(ActionPolicy::Cg).unrolled(1).into()),
        ("sgpr", SgprOptions::default().inducing(inducing).into()),
        ("sparse-grid", SparseGridOptions::default().level(3).into()),
        ("svgp", svgp(Covariance::Full).into()),
        ("svgp, diagonal", svgp(Covariance::Diagonal).into()),
        ("swsgp", swsgp(false).into()),
        ("nearest", NearestOptions::default().neighbours(9).into()),
        ("swsgp, union", swsgp(true).into()),
        ("cggp", CgGpOptions::default().rank(32).solver(solver).into()),
        ("laplace", LaplaceOptions::default().into()),
        ("label-regression", LabelRegressionOptions::default().into()),
        ("experts", ExpertsOptions::default().experts(Some(3)).inducing(inducing).into()),
    ]
}

fn build(choice: &ModelChoice, likelihood: Box<dyn Likelihood>, data: &Observations) -> Box<dyn GpModel> {
    let options = Registry::default().models.options(choice).unwrap();
    let prior = Kernel::parse("1.3 * matern32(lengthscale=[0.8, 1.1])", D).unwrap().into();
    let names: Vec<String> = (0..D).map(|column| format!("x{column}")).collect();
    let context = Context::new(data, &names, 1);
    let mut model = options.build(Parts { likelihood, prior }, &context).unwrap();
    let (zeros, ones) = (vec![0.0; D], vec![1.0; D]);
    model.start(data, &UserUnits { input_mean: zeros, input_sd: ones, target_mean: 0.0, target_sd: 1.0 });
    model
}

fn gaussian() -> Box<dyn Likelihood> {
    let mut likelihood = Gaussian::new(0.1);
    likelihood.noise.set(&[0.3]).unwrap();
    Box::new(likelihood)
}

/// Loss and gradient for the choices of the reference model, with chunks of `budget` bytes.
fn evaluate(model: &dyn GpModel, compute: Compute, data: &Observations, budget: usize) -> (f64, Vec<f64>) {
    let scope = Scope::training(compute).unwrap().with_budget(budget);
    let batch = data.batch(&scope);
    let chosen = model.refresh().and_then(|_| model.choose(&Scope::new(compute).unwrap(), &batch).unwrap());
    let loss = match &chosen {
        Some(chosen) => model.objective_for(&scope, &batch, chosen).unwrap(),
        None => model.objective(&scope, &batch).unwrap(),
    };
    scope.gradient(loss, model).unwrap()
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|v| v * v).sum::<f64>().sqrt()
}

/// The error of numbers, by their norm, if it is above the tolerance.
pub fn fault(what: &str, got: &[f64], want: &[f64], tolerance: f64) -> Option<String> {
    let (off, size) = (norm(got.iter().zip(want).map(|(a, b)| a - b)), norm(want.iter().copied()));
    (off.is_nan() || off > tolerance * size).then(|| format!("{what}: off by {off:.2e} of {size:.2e}"))
}

/// The errors of loss, gradient and predictions that are above the tolerances.
fn faults(what: &str, model: &dyn GpModel, data: &Observations, budget: usize, single: f64) -> Vec<String> {
    let points = inputs(41, 15, D);
    let run = |compute| {
        let (loss, gradient) = evaluate(model, compute, data, budget);
        let predicted = model.condition(compute, data.clone()).unwrap().marginals(&points).unwrap();
        let mean: Vec<f64> = predicted.iter().flat_map(|latent| latent.mean.clone()).collect();
        let variance: Vec<f64> = predicted.iter().flat_map(|latent| latent.variance.clone()).collect();
        (loss, gradient, mean, variance)
    };
    let want = run(REFERENCE);
    let mut faults = Vec::new();
    for compute in computes() {
        let (got, what) = (run(compute), format!("{} {what}", name(compute)));
        let tolerance = tolerance(compute, single);
        faults.extend(fault(&format!("{what}: loss"), &[got.0], &[want.0], tolerance));
        faults.extend(fault(&format!("{what}: gradient"), &got.1, &want.1, tolerance));
        faults.extend(fault(&format!("{what}: means"), &got.2, &want.2, tolerance));
        faults.extend(fault(&format!("{what}: variances"), &got.3, &want.3, tolerance));
    }
    faults
}

#[test]
fn every_kind_of_model_agrees() {
    set_algebra(Algebra::Device);
    let named: Vec<&str> = Registry::default().models.rows().iter().map(|row| row.name).collect();
    // Filters of one column run on the host, whatever the device.
    for row in named.into_iter().filter(|row| *row != "state-space") {
        assert!(choices().iter().any(|(name, _)| name.starts_with(row)), "{row} is not tried");
    }
    let mut all = Vec::new();
    for (n, budget) in [(513, 1 << 18), (1025, 1 << 27)] {
        let data = observations(n, D);
        let classes =
            data.clone().with_targets(data.y.iter().map(|y| f64::from(u8::from(*y > 0.0))).collect()).unwrap();
        for (what, choice) in choices() {
            let (likelihood, data) = match choice.kind() {
                LabelRegressionOptions::NAME => {
                    (Likelihoods::default().parse("bernoulli(logit)", None).unwrap(), &classes)
                }
                _ => (gaussian(), &data),
            };
            all.extend(faults(&format!("{what}, {n} rows"), &*build(&choice, likelihood, data), data, budget, 1e-4));
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}

/// A likelihood as text, and a function from a latent value and noise to a target and its auxiliary number.
pub type Case = (&'static str, fn(f64, f64) -> (f64, Option<f64>));

pub const LIKELIHOODS: [Case; 14] = [
    ("heteroscedastic(0.3)", |f, e| (f + e, None)),
    ("student-t(3.5)", |f, e| (f + e, None)),
    ("bernoulli(logit)", |f, e| (f64::from(u8::from(f + e > 0.0)), None)),
    ("bernoulli(probit)", |f, e| (f64::from(u8::from(f + e > 0.0)), None)),
    ("binomial", |f, e| ((4.0 * (f + e) + 4.0).round().clamp(0.0, 8.0), Some(8.0))),
    ("softmax(3)", |f, e| ((f + e + 1.5).floor().clamp(0.0, 2.0), None)),
    ("ordinal(4)", |f, e| ((f + e + 2.0).floor().clamp(0.0, 3.0), None)),
    ("poisson(exp)", |f, e| ((f + e).exp().round(), Some(1.3))),
    ("poisson(softplus)", |f, e| ((f + e).exp().round(), Some(1.3))),
    ("negative-binomial(0.4)", |f, e| ((f + e).exp().round(), None)),
    ("gamma(2.5)", |f, e| ((f + e).exp(), None)),
    ("exponential", |f, e| ((f + e).exp(), None)),
    ("beta(6)", |f, e| (1.0 / (1.0 + (f + e).exp()), None)),
    ("gaussian(0.3)", |f, e| (f + e, Some(0.2))),
];

pub fn targets(case: &Case, n: usize) -> (Box<dyn Likelihood>, Observations) {
    let x = inputs(42, n, D);
    let latents = x.chunks(D).map(|row| row[0].sin() + 0.5 * (row[1] + 0.3).cos());
    let rows: Vec<_> = latents.zip(noise(43, n)).map(|(f, e)| (case.1)(f, e)).collect();
    let auxiliary: Option<Vec<f64>> = rows.iter().map(|row| row.1).collect();
    let data = Observations::new(x, D, rows.iter().map(|row| row.0).collect(), auxiliary).unwrap();
    (Likelihoods::default().parse(case.0, None).unwrap(), data)
}

#[test]
fn every_likelihood_agrees() {
    set_algebra(Algebra::Device);
    for row in Likelihoods::default().rows() {
        assert!(LIKELIHOODS.iter().any(|(text, _)| text.split('(').next() == Some(row.name)), "{}", row.name);
    }
    let svgp = SvgpOptions::default().inducing(20).covariance(Covariance::Full).batches(Minibatches::default());
    let cagp = CagpOptions::default().actions(16);
    let mut all = Vec::new();
    for case in &LIKELIHOODS {
        let (likelihood, data) = targets(case, 120);
        let gaussian = case.0.starts_with("gaussian");
        let mut kinds: Vec<(&str, ModelChoice)> = vec![("svgp", svgp.clone().into())];
        if !gaussian {
            // Newton's method for a policy as a tensor graph on the device.
            let graph = cagp.clone().policy(ActionPolicy::Gradient).sites(SiteRule::Mode).unrolled(4);
            kinds.extend([("laplace", LaplaceOptions::default().into()), ("cagp", cagp.clone().into())]);
            kinds.push(("cagp by Newton's graph", graph.into()));
        }
        for (what, choice) in kinds {
            let model = build(&choice, likelihood.boxed(), &data);
            // Four steps of Newton's method lose another digit of single precision.
            let single = if what.ends_with("graph") { 5e-4 } else { 1e-4 };
            all.extend(faults(&format!("{what}, {}", case.0), &*model, &data, 1 << 27, single));
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}

/// Classes whose latent functions are correlated, with work spaces and products in parts and whole.
#[test]
fn computation_aware_classes_agree() {
    set_algebra(Algebra::Device);
    let cases: [(Case, usize); 3] = [
        (("softmax(2)", |f, e| (f64::from(u8::from(f + e > 0.0)), None)), 257),
        (("softmax(3)", |f, e| ((f + e + 1.5).floor().clamp(0.0, 2.0), None)), 257),
        (("softmax(10)", |f, e| ((3.0 * (f + e) + 4.0).floor().clamp(0.0, 9.0), None)), 150),
    ];
    let mut all = Vec::new();
    for (case, n) in cases {
        let (likelihood, data) = targets(&case, n);
        for sites in [SiteRule::Mode, SiteRule::Expectation] {
            let choice = CagpOptions::default().actions(12).sites(sites).into();
            let model = build(&choice, likelihood.boxed(), &data);
            for budget in [1 << 16, 1 << 27] {
                let what = format!("{}, {sites:?}, chunks of {budget} bytes", case.0);
                all.extend(faults(&what, &*model, &data, budget, 1e-4));
            }
        }
    }
    assert!(all.is_empty(), "{all:#?}");
}

/// Newton's search for sites where K S is too large to be stored.
#[test]
fn newton_models_agree_in_chunks() {
    set_algebra(Algebra::Device);
    limit_memory(1 << 18);
    let mut all = Vec::new();
    for case in LIKELIHOODS.iter().filter(|(text, _)| ["heteroscedastic(0.3)", "bernoulli(logit)"].contains(text)) {
        let (likelihood, data) = targets(case, 257);
        for sites in [SiteRule::Mode, SiteRule::Expectation] {
            let choice = CagpOptions::default().actions(16).sites(sites).into();
            let model = build(&choice, likelihood.boxed(), &data);
            all.extend(faults(&format!("{}, {sites:?}", case.0), &*model, &data, 1 << 27, 1e-4));
            for compute in gpus() {
                let batch = data.batch(&Scope::new(compute).unwrap());
                let whole = fit::evaluate(&*model, compute, &batch).unwrap().loss;
                let want =
                    fit::evaluate(&*model, REFERENCE, &data.batch(&Scope::new(REFERENCE).unwrap())).unwrap().loss;
                all.extend(fault(&format!("{} {}, a step", name(compute), case.0), &[whole], &[want], 1e-4));
            }
        }
    }
    limit_memory(0);
    assert!(all.is_empty(), "{all:#?}");
}
