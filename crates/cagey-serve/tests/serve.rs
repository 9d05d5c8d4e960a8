//! Predictions from a file against those of the library: every kind of model, likelihood and kernel.

use std::sync::Arc;

use cagey::burn;
use cagey::data::{Dataset, Schema, TargetTransform};
use cagey::fitted::{Calibrate, Fit, Fitted, Registry};
use cagey::kernels::form::{Form, Lowered};
use cagey::kernels::{registry, stationary};
use cagey::likelihoods::registry::Row as Entry;
use cagey::likelihoods::{Custom, Support};
use cagey::models::cagp::{ActionPolicy, CagpOptions};
use cagey::models::cggp::CgGpOptions;
use cagey::models::exact::ExactOptions;
use cagey::models::experts::ExpertsOptions;
use cagey::models::label_regression::LabelRegressionOptions;
use cagey::models::laplace::LaplaceOptions;
use cagey::models::nearest::NearestOptions;
use cagey::models::options::ModelChoice;
use cagey::models::sgpr::SgprOptions;
use cagey::models::sparse_grid::{Combination, SparseGridOptions};
use cagey::models::state_space::StateSpaceOptions;
use cagey::models::svgp::SvgpOptions;
use cagey::models::swsgp::SwsgpOptions;
use cagey::models::variational::Covariance;
use cagey::params::{Parameter, Unit};
use cagey_serve::{Model, Prediction};

/// Rounding errors of the two programs, relative to values above 1.
const CLOSE: f64 = 1e-12;

fn noise(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

/// Two inputs and a target made of them.
fn table(target: impl Fn(f64, f64) -> f64) -> Dataset {
    let mut state = 7;
    let x: Vec<f64> = (0..120).map(|_| 4.0 * noise(&mut state)).collect();
    let y = x.chunks(2).map(|x| target((1.3 * x[0]).sin() + 0.4 * x[1] + 0.3 * noise(&mut state), noise(&mut state)));
    Dataset::new(["a", "b"], x.clone()).unwrap().with_target("y", y.collect()).unwrap()
}

/// Targets that a likelihood takes.
fn targets(likelihood: &str) -> Dataset {
    match likelihood.split('(').next().unwrap() {
        "poisson" | "negative-binomial" => table(|f, u| (f.exp() + 2.0 * u).floor()),
        "bernoulli" | "binomial" => table(|f, u| f64::from(u8::from(f > 0.4 + 0.8 * u))),
        "softmax" | "ordinal" => table(|f, u| (f + u).floor().clamp(0.0, 2.0)),
        "gamma" | "exponential" => table(|f, u| f.exp() * (0.5 + u)),
        "beta" => table(|f, u| (0.1 + 0.8 / (1.0 + (-f - u).exp())).clamp(0.05, 0.95)),
        _ => table(|f, u| 3.0 + 2.0 * f + 0.3 * u),
    }
}

fn close(a: f64, b: f64, tolerance: f64, what: &str) {
    let same = a == b || (a - b).abs() <= tolerance * b.abs().max(1.0) || (a.is_nan() && b.is_nan());
    assert!(same, "{what}: {a} against the library's {b}, {:e} apart", (a - b).abs());
}

/// Few rows and many, among the data and beyond.
fn rows(count: usize) -> Vec<f64> {
    let mut state = 3;
    (0..2 * count).map(|_| 6.0 * noise(&mut state) - 1.0).collect()
}

fn serve(fitted: &Fitted) -> cagey_serve::Result<Model> {
    Model::from_bytes(&fitted.to_bytes().unwrap())
}

/// Compares predictions, whatever the model.
fn same(fitted: &Fitted, what: &str) {
    same_within(fitted, what, CLOSE);
}

fn same_within(fitted: &Fitted, what: &str, tolerance: f64) {
    let model = serve(fitted).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(model.inputs(), fitted.input_names());
    for count in [3, 90] {
        let d = fitted.input_names().len();
        let x = rows(count * d / 2 + count * d % 2)[..count * d].to_vec();
        let found = model.predict(&x).unwrap();
        assert_eq!(found.len(), count);
        // The library has another way for many rows of sparse models, whose rounding errors are larger.
        let few: Vec<Dataset> = x.chunks(3 * d).map(|x| fitted.table(x).unwrap()).collect();
        let check = |found: &Prediction, numbers: [f64; 4], y: f64| {
            let own = [found.mean(), found.sd(), found.cdf(y), found.log_density(y)];
            own.into_iter().zip(numbers).for_each(|(a, b)| close(a, b, tolerance, what));
        };
        if fitted.is_gaussian() {
            let own = few.iter().flat_map(|data| fitted.predict(data).unwrap());
            for (found, own) in found.iter().zip(own) {
                let y = own.quantile(0.3);
                check(found, [own.mean(), own.sd(), own.cdf(y), own.log_density(y)], y);
                close(found.interval(0.9)[1], own.quantile(0.95), tolerance, what);
            }
            continue;
        }
        let own = few.iter().flat_map(|data| fitted.predict_targets(data).unwrap());
        for (found, own) in found.iter().zip(own) {
            let y = own.quantile(0.6);
            check(found, [own.mean(), own.sd(), own.cdf(y), own.log_density(y)], y);
            // Quantiles are searched for.
            close(found.quantile(0.6), y, 1e-7, what);
            assert_eq!(found.probabilities().is_some(), own.probabilities().is_some());
            for (a, b) in found.probabilities().iter().flatten().zip(own.probabilities().iter().flatten()) {
                close(*a, *b, tolerance, what);
            }
        }
    }
}

fn fit(data: &Dataset, likelihood: &str, model: impl Into<ModelChoice>, kernel: &str) -> Fitted {
    let fit = Fit::new(data).likelihood(likelihood).model(model).kernel(kernel).steps(6).store_factor(true);
    fit.run().unwrap_or_else(|error| panic!("{likelihood}: {error}"))
}

#[test]
fn gaussian_models_of_every_kind() {
    let data = targets("gaussian");
    let near = |covariance| SwsgpOptions::default().inducing(20).neighbours(5).covariance(covariance);
    let grid = |combination| SparseGridOptions::default().level(3).combination(combination);
    let models: [(&str, ModelChoice); 13] = [
        ("exact", ExactOptions::default().into()),
        ("sgpr", SgprOptions::default().inducing(12).into()),
        ("svgp", SvgpOptions::default().inducing(12).into()),
        ("cagp, learned", CagpOptions::default().actions(8).into()),
        ("cagp, cg", CagpOptions::default().actions(8).policy(ActionPolicy::Cg).into()),
        ("swsgp, union", SwsgpOptions::default().inducing(10).neighbours(5).union(true).into()),
        ("swsgp", near(Covariance::Diagonal).into()),
        ("nearest", NearestOptions::default().neighbours(12).into()),
        ("swsgp, full", near(Covariance::Full).into()),
        ("opticom", grid(Combination::Opticom).into()),
        ("ct", grid(Combination::Ct).into()),
        ("union", grid(Combination::Union).into()),
        ("laplace", LaplaceOptions::default().into()),
    ];
    for (what, model) in models {
        // Variances of combined grids are differences of large numbers, and cost two digits.
        let tolerance = if matches!(what, "opticom" | "ct") { 100.0 * CLOSE } else { CLOSE };
        same_within(&fit(&data, "gaussian", model, "matern52(ard) + linear"), what, tolerance);
    }
}

#[test]
fn experts_by_their_rules() {
    let data = targets("gaussian");
    let of = |partition: &str, local: &str, rule: &str| {
        let experts: ExpertsOptions = serde_json::from_value(serde_json::json!({
            "experts": 4, "partition": partition, "local": local, "inducing": 6, "aggregation": rule,
        }))
        .unwrap();
        fit(&data, "gaussian", experts, "matern32(ard)")
    };
    for rule in ["poe", "gpoe", "gpoe-entropy", "gpoe-entropy-normalised", "bcm", "rbcm", "grbcm", "near", "nearest"] {
        same(&of("random", "exact", rule), rule);
    }
    same(&of("tree", "exact", "near"), "near, tree");
    same(&of("kmeans", "sgpr", "grbcm"), "grbcm, sparse");
    same(&of("random", "sgpr", "rbcm"), "rbcm, sparse");
    for rule in ["npae", "weights", "weights-noise"] {
        same(&of("random", "exact", rule), rule);
        same(&of("kmeans", "sgpr", rule), &format!("{rule}, sparse"));
    }
}

#[test]
fn functions_of_time_by_their_states() {
    let mut state = 11;
    // Some times are equal, and not in order.
    let t: Vec<f64> = (0..80).map(|_| (40.0 * noise(&mut state)).floor() / 4.0).collect();
    let wave = |t: &f64| (1.3 * t).sin() + 0.1 * t;
    let y: Vec<f64> = t.iter().map(|t| wave(t) + 0.2 * noise(&mut state)).collect();
    let counts: Vec<f64> = t.iter().map(|t| (wave(t).exp() + noise(&mut state)).floor()).collect();
    let series = |y: Vec<f64>| Dataset::new(["t"], t.clone()).unwrap().with_target("y", y).unwrap();
    let kernels = [
        "matern12",
        "matern32 + white",
        "matern52 + linear",
        "periodic * matern32 + matern12",
        "wiener + constant",
        "wiener(order=2) + matern12",
        "matern32 * matern12 + cosine_sum",
    ];
    for (kernel, mean) in kernels.into_iter().zip(["zero", "linear"].into_iter().cycle()) {
        let data = series(y.clone());
        let fit = Fit::new(&data).kernel(kernel).mean(mean).model(StateSpaceOptions::default());
        let fitted = fit.steps(4).store_factor(true).run().unwrap_or_else(|error| panic!("{kernel}: {error}"));
        let tolerance = if kernel.starts_with("wiener(order=2") { 10.0 * CLOSE } else { CLOSE };
        same_within(&fitted, kernel, tolerance);
    }
    same(&fit(&series(counts), "poisson", StateSpaceOptions::default(), "matern52"), "poisson by states");
}

#[test]
fn every_likelihood() {
    for likelihood in [
        "poisson",
        "poisson(softplus)",
        "negative-binomial",
        "bernoulli",
        "bernoulli(probit)",
        "binomial",
        "ordinal(3)",
        "gamma",
        "exponential",
        "beta",
        "student-t",
        "heteroscedastic",
    ] {
        let data = targets(likelihood);
        let svgp = SvgpOptions::default().inducing(8);
        same(&fit(&data, likelihood, svgp, "matern32(ard)"), &format!("svgp, {likelihood}"));
        let cagp = CagpOptions::default().actions(6);
        same(&fit(&data, likelihood, cagp, "matern32(ard)"), &format!("cagp, {likelihood}"));
        same(&fit(&data, likelihood, LaplaceOptions::default(), "matern32(ard)"), &format!("laplace, {likelihood}"));
    }
}

#[test]
fn a_regression_of_two_labels() {
    for likelihood in ["bernoulli", "bernoulli(probit)"] {
        let fitted = fit(&targets(likelihood), likelihood, LabelRegressionOptions::default(), "matern32(ard)");
        same(&fitted, likelihood);
    }
}

#[test]
fn classes_whose_functions_are_correlated() {
    // The common shift is left out of three functions; four take a lattice.
    for classes in [2, 3, 4] {
        let data = table(|f, u| (1.3 * f + 1.3 * u).floor().clamp(0.0, f64::from(classes) - 1.0));
        let likelihood = format!("softmax({classes})");
        let fit = |model: ModelChoice, what: &str| {
            same(&fit(&data, &likelihood, model, "matern32(ard)"), &format!("{what}, {likelihood}"));
        };
        fit(SvgpOptions::default().inducing(8).into(), "svgp");
        fit(LaplaceOptions::default().into(), "laplace");
        fit(LabelRegressionOptions::default().into(), "labels");
        fit(CagpOptions::default().actions(9).into(), "cagp");
        fit(CagpOptions::default().actions(9).policy(ActionPolicy::Cg).into(), "cagp, cg");
    }
}

#[test]
fn every_kernel_and_mean() {
    let data = targets("gaussian");
    for kernel in [
        "matern12",
        "matern32 * linear(ard)",
        "rbf(ard) + constant + white",
        "rq(ard)",
        "periodic(ard) * rbf",
        "periodic_norm(dims=[0]) + polynomial(power=2)",
        "cosine_sum(ard) + rbf",
        "spectral_mixture(components=2)",
        "wiener(order=2, dims=[0])",
        "wiener",
        "projection(rbf, dim=1) + linear",
        "matern52(dims=[0]) + rbf(dims=[1])",
    ] {
        for mean in ["zero", "linear"] {
            let fit = Fit::new(&data).kernel(kernel).mean(mean).steps(4).store_factor(true);
            let fitted = fit.run().unwrap_or_else(|error| panic!("{kernel}: {error}"));
            // The integral of a walk is so smooth that its covariances are nearly singular, and rounding costs a digit.
            let tolerance = if kernel.starts_with("wiener(order=2") { 10.0 * CLOSE } else { CLOSE };
            same_within(&fitted, &format!("{kernel}, {mean} mean"), tolerance);
        }
    }
}

#[test]
fn scales_calibrations_and_averages() {
    let positive = table(|f, u| (f + u).exp());
    let fitted = |transform, calibrate| {
        let fit = Fit::new(&positive).target_transform(transform).calibrate(calibrate).steps(6).store_factor(true);
        fit.run().unwrap()
    };
    let plain = fitted(TargetTransform::Identity, Calibrate::Yes);
    assert!(plain.calibration.is_some());
    same(&plain, "calibrated");
    same(&fitted(TargetTransform::Log, Calibrate::No), "logarithm");
    same(&fitted(TargetTransform::Log1p, Calibrate::Yes), "calibrated logarithm");
    let one = fit(&positive, "gaussian", ExactOptions::default(), "rbf");
    let other = fit(&positive, "gaussian", ExactOptions::default(), "matern12");
    same(&Fitted::average(vec![one, other]).unwrap(), "average");
    let of_classes = |kernel| fit(&targets("bernoulli"), "bernoulli", LaplaceOptions::default(), kernel);
    same(&Fitted::average(vec![of_classes("rbf"), of_classes("linear")]).unwrap(), "average of classes");
    let mut asked = cagey::data::Warping::default();
    asked.add("a=ranks").unwrap();
    asked.add("b=asinh").unwrap();
    let warped = Fit::new(&positive).input_transform(asked).steps(4).store_factor(true).run().unwrap();
    same(&warped, "warped");
}

#[test]
fn numbers_of_rows_beside_inputs() {
    let data = targets("poisson");
    let exposure: Vec<f64> = (0..data.n).map(|i| 1.0 + (i % 3) as f64).collect();
    let x: Vec<f64> = (0..data.n).flat_map(|i| [data.row(i)[0], exposure[i], data.row(i)[1]]).collect();
    let y = data.y.clone().unwrap();
    let with = Dataset::new(["a", "e", "b"], x).unwrap().with_target("y", y).unwrap();
    for likelihood in ["poisson", "gaussian"] {
        let model = SvgpOptions::default().inducing(8);
        let fit = Fit::new(&with).likelihood(likelihood).auxiliary_column("e").model(model).steps(6);
        let fitted = fit.run().unwrap();
        let model = serve(&fitted).unwrap();
        assert_eq!((model.auxiliary(), model.inputs()), (Some("e"), &["a".to_string(), "b".to_string()][..]));
        let found = &model.predict_with(&[1.0, 2.0], Some(&[2.5])).unwrap()[0];
        let row = fitted.table(&[1.0, 2.5, 2.0]).unwrap();
        let mean = match likelihood {
            "gaussian" => fitted.predict(&row).unwrap()[0].sd(),
            _ => fitted.predict_targets(&row).unwrap()[0].sd(),
        };
        close(found.sd(), mean, CLOSE, likelihood);
        assert!(model.predict_with(&[1.0, 2.0], Some(&[-1.0])).is_err());
        assert!(model.predict_with(&[1.0, 2.0], Some(&[1.0, 1.0])).is_err());
    }
}

#[test]
fn labels_are_those_of_the_table() {
    let data = targets("bernoulli");
    let mut schema = Schema::numeric(&data);
    schema.classes = Some(cagey::data::Classes::in_order(["no".to_string(), "yes".to_string()]).unwrap());
    let model = SvgpOptions::default().inducing(8);
    let fit = Fit::new(&data).schema(schema).likelihood("bernoulli").model(model).steps(10);
    let model = serve(&fit.run().unwrap()).unwrap();
    assert_eq!(model.classes().unwrap(), ["no", "yes"]);
    let prediction = &model.predict(&[1.2, 3.0]).unwrap()[0];
    let p = prediction.probabilities().unwrap();
    assert_eq!(model.class(prediction), Some(if p[1] > p[0] { "yes" } else { "no" }));
}

#[derive(Debug)]
struct Own;

impl Form for Own {
    fn name(&self) -> &str {
        "own"
    }

    fn parameters(&self, d: usize) -> Vec<Parameter> {
        stationary::rbf().parameters(d)
    }

    fn lower(&self, p: &[burn::tensor::Tensor<1>], x: burn::tensor::Tensor<2>) -> Option<Lowered> {
        stationary::rbf().lower(p, x)
    }
}

cagey::log_density!(Laplace: Support::Real, |row, f, own| {
    -((f[0] - row.y) * (f[0] - row.y) + 1e-6).sqrt() / own[0] - (own[0] * 2.0).ln()
});

#[test]
fn what_cannot_be_served_is_refused_by_name() {
    let data = targets("gaussian");
    let registry = Registry::from(registry::Registry::default().with_form(Arc::new(Own)));
    let fit = |kernel: &str| Fit::new(&data).kernel(kernel).registry(&registry).steps(2).store_factor(true);
    let refused = |fitted: Fitted| serve(&fitted).unwrap_err().to_string();
    let text = refused(fit("own + linear").run().unwrap());
    assert!(text.contains("kernel `own`"), "{text}");

    let laplace =
        || Box::new(Custom::new("laplacian", Laplace, [Parameter::positive("scale", Unit::None, &[0.3])])) as _;
    let registry = Registry::default().with_likelihood(Entry::new("laplacian", laplace));
    let model = SvgpOptions::default().inducing(6);
    let custom = Fit::new(&data).likelihood("laplacian").model(model).registry(&registry).steps(2).run().unwrap();
    assert!(refused(custom).contains("likelihood `laplacian"));

    let without = Fit::new(&data).steps(2).run().unwrap();
    let text = refused(without);
    assert!(text.contains("--store-factor"), "{text}");
    let solves = Fit::new(&data).model(CgGpOptions::default()).steps(2).run().unwrap();
    assert!(refused(solves).contains("conjugate gradients"));
}

#[test]
fn wrong_requests_and_files_are_told() {
    let fitted = fit(&targets("gaussian"), "gaussian", ExactOptions::default(), "rbf");
    let model = serve(&fitted).unwrap();
    let problem = |x: &[f64]| model.predict(x).unwrap_err().to_string();
    assert!(problem(&[1.0]).contains("rows of 2 numbers: a, b"));
    assert!(problem(&[1.0, f64::NAN]).contains("row 1, `b`"));
    assert!(model.predict_with(&[1.0, 2.0], Some(&[1.0])).unwrap_err().to_string().contains("auxiliary"));
    assert!(model.predict(&[]).unwrap().is_empty());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.cagey");
    fitted.save(&path).unwrap();
    let close = (Model::load(&path).unwrap().predict(&[1.0, 2.0]).unwrap(), model.predict(&[1.0, 2.0]).unwrap());
    assert_eq!(close.0[0].mean(), close.1[0].mean());
    std::fs::write(&path, b"nothing").unwrap();
    assert!(Model::load(&path).unwrap_err().to_string().contains("model.cagey"));
}
