//! The state-space model beside the dense exact one, on rows with gaps, repeats and noise of their own.

use cagey::kernels::Kernel;
use cagey::likelihoods::Gaussian;
use cagey::means::Mean;
use cagey::models::exact::{ExactGp, ExactObjective};
use cagey::models::laplace::LaplaceGp;
use cagey::models::leave_one_out::LeaveOneOut;
use cagey::models::minibatch::Rows;
use cagey::models::posterior::{Exact, Posterior};
use cagey::models::state_space::{LEFT_OUT, StateSpaceGp, StateSpaceLaplaceGp};
use cagey::models::{Observations, fit};
use cagey::params::Parameters;
use cagey::scope::Scope;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use serde_json::Value;

use crate::common::{F64, assert_close, check_posterior, gradients, likelihood, noise};

/// Kernels of every form it knows, with times from 0 on.
const KERNELS: [&str; 22] = [
    "matern12(lengthscale=0.7)",
    "matern32(lengthscale=0.9, variance=1.4)",
    "matern52(lengthscale=1.1)",
    "wiener(lengthscale=2.0, variance=1.5, origin=-0.5)",
    "wiener(order=2, lengthscale=3.0, variance=2.0, origin=-1.0)",
    "constant(variance=2.0) + matern12(0.4)",
    "linear(variance=0.3) + matern32(0.6)",
    "cosine_sum(lengthscale=1.3) + white(variance=0.2)",
    "cosine_norm(period=0.8, variance=0.6)",
    "periodic(period=1.7, lengthscale=0.9, variance=1.2)",
    "periodic_norm(period=1.7, lengthscale=1.4)",
    "periodic(period=1.0, lengthscale=1.1) * wiener(lengthscale=4.0, origin=-0.1)",
    "periodic(period=1.0, lengthscale=1.2) * matern32(lengthscale=2.0)",
    "periodic(period=1.0, lengthscale=1.2) * matern52(lengthscale=3.0)",
    "periodic(period=1.0, lengthscale=1.2) * linear(variance=0.2) + wiener(order=2, lengthscale=2.0)",
    "matern12(lengthscale=3.0) * matern52(lengthscale=2.0)",
    "matern32(lengthscale=3.0) * wiener(lengthscale=2.0, origin=-0.3)",
    "matern32(lengthscale=3.0) * wiener(order=2, lengthscale=5.0, origin=-0.3)",
    "wiener(order=2, origin=-0.2) * periodic(period=2.0, lengthscale=1.5) * matern12(3.0)",
    "linear * linear + constant",
    "periodic(period=3.0, lengthscale=2.0) * periodic(period=0.7, lengthscale=1.8)",
    "(constant + wiener(lengthscale=2.0, origin=-1.0)) * (matern12(0.5) + 0.5 * cosine_sum(2.0)) + white * matern32",
];

fn pair(text: &str) -> (StateSpaceGp, ExactGp) {
    of_kernel(Kernel::parse(text, 1).unwrap(), 1)
}

/// The same for several series, which the second column tells apart.
fn pair_of_series(text: &str) -> (StateSpaceGp, ExactGp) {
    of_kernel(Kernel::parse(text, 1).unwrap().within(1, 2).unwrap(), 2)
}

fn of_kernel(kernel: Kernel, d: usize) -> (StateSpaceGp, ExactGp) {
    let mut fast = StateSpaceGp::new(kernel).unwrap();
    fast.prior.mean = Mean::named("linear", d).unwrap();
    fast.likelihood.noise.set(&[0.05]).unwrap();
    let StateSpaceGp { prior, likelihood } = fast.clone();
    (fast, ExactGp { prior, likelihood, objective: ExactObjective::MarginalLikelihood })
}

/// Rows in any order: some close to each other, some far apart, some at the same time, with noise of their own.
fn rows(n: usize, seed: u64) -> Observations {
    let mut state = seed;
    let mut x: Vec<f64> = (0..n).map(|_| 3.0 * (noise(&mut state) + 0.5)).collect();
    for i in 0..n {
        match i % 7 {
            2 if i > 0 => x[i] = x[i - 1],
            4 => x[i] = x[i / 2] + 1e-7,
            6 => x[i] += 2.5,
            _ => {}
        }
    }
    let y = x.iter().map(|x| (3.0 * x).sin() + 0.2 * x + 0.3 * noise(&mut state)).collect();
    let known = (0..n).map(|_| 0.1 * (noise(&mut state) + 0.5)).collect();
    Observations::new(x, 1, y, Some(known)).unwrap()
}

/// New times before, between, at and after those of the data.
fn times(data: &Observations) -> Vec<f64> {
    let mut all: Vec<f64> = (0..12).map(|i| -0.1 + 0.7 * f64::from(i)).collect();
    all.extend([data.x[0], data.x[3], 15.0]);
    all
}

/// Such rows of three series.
fn rows_of_series(n: usize, seed: u64) -> Observations {
    let (all, mut state) = (rows(n, seed), seed);
    let mut number = || ((noise(&mut state) + 0.5) * 3.0).floor() - 1.0;
    let x = all.x.iter().flat_map(|t| [*t, number()]).collect();
    Observations::new(x, 2, all.y.to_vec(), all.auxiliary.clone().map(|noise| noise.to_vec())).unwrap()
}

/// Times of these series, and of one that is new.
fn times_of_series(data: &Observations) -> Vec<f64> {
    let mut all: Vec<f64> = (0..12).flat_map(|i| [-0.1 + 0.7 * f64::from(i), f64::from(i % 4) - 1.0]).collect();
    all.extend([data.x[0], data.x[1], data.x[6], data.x[7], 15.0, 0.0]);
    all
}

fn compare(text: &str, data: &Observations) {
    same_numbers(text, pair(text), data, &times(data));
}

/// Cut-off harmonics count in single digits of the noise's precision.
fn same_numbers(text: &str, (fast, dense): (StateSpaceGp, ExactGp), data: &Observations, x: &[f64]) {
    let tolerance = if text.contains("periodic") { 1e-5 } else { 1e-8 };
    let summands = fast.prior.kernel.summands().len();
    let batch = data.batch(&Scope::new(F64).unwrap());
    let (a, b) = (fit::evaluate(&fast, F64, &batch).unwrap(), fit::evaluate(&dense, F64, &batch).unwrap());
    assert_close(&format!("{text}: objective"), &[a.loss], &[b.loss], tolerance);
    assert_close(&format!("{text}: gradient"), &a.gradient, &b.gradient, tolerance);
    let (fast, dense) = (fast.posterior(F64, data.clone()).unwrap(), dense.posterior(F64, data.clone()).unwrap());
    let (a, b) = (fast.predict(x).unwrap(), dense.predict(x).unwrap());
    assert_close(&format!("{text}: mean"), &a.mean, &b.mean, tolerance);
    assert_close(&format!("{text}: variance"), &a.variance, &b.variance, tolerance);
    let (a, b) = (fast.predict_joint(x).unwrap(), dense.predict_joint(x).unwrap());
    assert_close(&format!("{text}: joint mean"), &a.mean, &b.mean, tolerance);
    assert_close(&format!("{text}: covariance"), &a.covariance, &b.covariance, tolerance);
    let (a, b) = (fast.leave_one_out(), dense.leave_one_out());
    assert_close(&format!("{text}: left-out means"), &a.mean, &b.mean, tolerance);
    assert_close(&format!("{text}: left-out variances"), &a.variance, &b.variance, tolerance);
    for summand in 0..summands {
        let (a, b) = (fast.predict_component(summand, x).unwrap(), dense.predict_component(summand, x).unwrap());
        assert_close(&format!("{text}: component mean"), &a.mean, &b.mean, tolerance);
        assert_close(&format!("{text}: component variance"), &a.variance, &b.variance, tolerance);
    }
}

#[test]
fn it_is_the_exact_model_for_every_kernel_it_knows() {
    for text in KERNELS {
        compare(text, &rows(60, 3));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn it_is_the_exact_model_for_any_rows(n in 1..400usize, seed in any::<u64>(), which in 0..KERNELS.len()) {
        compare(KERNELS[which], &rows(n.max(8), seed));
    }
}

#[test]
fn several_series_have_the_numbers_of_the_exact_model() {
    for (k, text) in KERNELS.into_iter().enumerate() {
        let data = rows_of_series(70, 3 + k as u64);
        same_numbers(text, pair_of_series(text), &data, &times_of_series(&data));
    }
}

#[test]
fn the_evidence_of_several_series_is_the_sum_of_theirs() {
    let (data, text) = (rows_of_series(80, 4), KERNELS[14]);
    let (mut model, mut single) = (pair_of_series(text).0, pair(text).0);
    (model.prior.mean, single.prior.mean) = (Mean::Zero, Mean::Zero);
    let whole = model.posterior(F64, data.clone()).unwrap();
    let (mut sum, mut found) = (0.0, 0);
    for number in [-1.0, 0.0, 1.0] {
        let own: Vec<usize> = (0..80).filter(|row| data.x[2 * row + 1] == number).collect();
        let own = data.gather(&own).unwrap();
        let t: Vec<f64> = own.x.iter().step_by(2).copied().collect();
        let noise = own.auxiliary.clone().map(|noise| noise.to_vec());
        let alone = single.posterior(F64, Observations::new(t, 1, own.y.to_vec(), noise).unwrap()).unwrap();
        sum += alone.evidence();
        found += own.n();
        let (a, b) = (whole.predict(&[1.3, number]).unwrap(), alone.predict(&[1.3]).unwrap());
        assert_close("mean", &a.mean, &b.mean, 1e-9);
        assert_close("variance", &a.variance, &b.variance, 1e-9);
    }
    assert_eq!(found, 80);
    assert_close("evidence", &[whole.evidence()], &[sum], 1e-9);
    // Nothing is known of a new series.
    let new = whole.predict(&[1.3, 5.0]).unwrap();
    assert!(new.mean[0] == 0.0 && new.variance[0] > whole.predict(&[1.3, 0.0]).unwrap().variance[0]);
}

#[test]
fn steps_that_repeat_are_computed_once_and_right() {
    let y: Vec<f64> = (0..300).map(|i| (0.1 * f64::from(i)).sin()).collect();
    let x = (0..300).map(|i| 0.01 * f64::from(i)).collect();
    let data = Observations::new(x, 1, y, None).unwrap();
    compare("matern32(0.5) + periodic(period=0.3, lengthscale=1.3) * wiener(origin=-1.0)", &data);
}

/// Evidence, forecasts and components of statsmodels' `UnobservedComponents` at the same parameters, as
/// `benches/peers/structural.py` writes them.
#[test]
fn structural_models_have_the_numbers_of_unobserved_components() {
    let golden: Value = serde_json::from_str(include_str!("structural.json")).unwrap();
    let numbers = |value: &Value| -> Vec<f64> { serde_json::from_value(value.clone()).unwrap() };
    let data = Observations::new(numbers(&golden["t"]), 1, numbers(&golden["y"]), None).unwrap();
    for case in golden["cases"].as_array().unwrap() {
        let name = case["case"].as_str().unwrap();
        let mut model = StateSpaceGp::new(Kernel::parse(case["kernel"].as_str().unwrap(), 1).unwrap()).unwrap();
        let noise = golden["noise"].as_f64().unwrap();
        model.likelihood.noise.set(&[noise]).unwrap();
        let posterior = model.posterior(F64, data.clone()).unwrap();
        assert_close(name, &[posterior.evidence()], &[case["evidence"].as_f64().unwrap()], 1e-9);
        let mut ahead = posterior.predict(&numbers(&golden["ahead"])).unwrap();
        ahead.variance.iter_mut().for_each(|variance| *variance += noise);
        assert_close(&format!("{name}: forecast"), &ahead.mean, &numbers(&case["mean"]), 1e-8);
        assert_close(&format!("{name}: variance"), &ahead.variance, &numbers(&case["variance"]), 1e-8);
        let component = |summand: usize| posterior.predict_component(summand, &data.x).unwrap().mean;
        for (part, expected) in case["components"].as_object().unwrap() {
            let found = match part.parse() {
                Ok(summand) => component(summand),
                // A level and a slope, which are two summands here.
                Err(_) => component(0).iter().zip(component(1)).map(|(level, slope)| level + slope).collect(),
            };
            assert_close(&format!("{name}: {part}"), &found, &numbers(expected), 1e-8);
        }
    }
}

#[test]
fn gradients_are_those_of_the_objective() {
    for text in KERNELS {
        let [analytic, numeric] = gradients(&pair(text).0, &rows(150, 11));
        assert_close(text, &analytic, &numeric, 1e-6);
    }
}

#[test]
fn harmonics_leave_out_less_than_their_bound() {
    for lengthscale in [0.15, 0.3, 0.7, 1.5, 5.0] {
        let kernel = Kernel::parse(&format!("periodic(period=1.0, lengthscale={lengthscale})"), 1).unwrap();
        let fast = StateSpaceGp::new(kernel).unwrap();
        // The prior at many times, from rows that say nothing.
        let silent = Observations::new(vec![0.0], 1, vec![0.0], Some(vec![1e12])).unwrap();
        let posterior = fast.posterior(F64, silent).unwrap();
        let x: Vec<f64> = (0..40).map(|i| 0.013 * f64::from(i)).collect();
        let joint = posterior.predict_joint(&x).unwrap();
        for (i, a) in x.iter().enumerate() {
            for (j, b) in x.iter().enumerate() {
                let sine = (std::f64::consts::PI * (a - b)).sin() / lengthscale;
                let want = (-2.0 * sine * sine).exp();
                let got = joint.covariance[i * x.len() + j];
                assert!((got - want).abs() <= LEFT_OUT + 1e-11, "{lengthscale}: {got} and {want}");
            }
        }
    }
}

#[test]
fn later_rows_update_it_and_earlier_ones_too() {
    let all = rows(90, 5);
    let mut order: Vec<usize> = (0..90).collect();
    order.sort_by(|a, b| all.x[*a].total_cmp(&all.x[*b]));
    let (model, x) = (pair(KERNELS[1]).0, times(&all));
    let whole = model.posterior(F64, all.clone()).unwrap();
    for cut in [30, 89] {
        for turned in [false, true] {
            let (mut first, mut second) = (order[..cut].to_vec(), order[cut..].to_vec());
            if turned {
                (first, second) = (second, first);
            }
            let part = model.posterior(F64, all.gather(&first).unwrap()).unwrap();
            let both = part.condition(&all.gather(&second).unwrap()).unwrap();
            assert_close("evidence", &[both.evidence()], &[whole.evidence()], 1e-9);
            let (a, b) = (both.predict(&x).unwrap(), whole.predict(&x).unwrap());
            assert_close("mean", &a.mean, &b.mean, 1e-9);
            assert_close("variance", &a.variance, &b.variance, 1e-9);
            let left = both.leave_one_out();
            let direct = model.posterior(F64, both.data().clone()).unwrap().leave_one_out();
            assert_close("left out", &left.mean, &direct.mean, 1e-9);
        }
    }
}

#[test]
fn rows_of_one_of_several_series_update_it() {
    let all = rows_of_series(60, 5);
    let (model, x) = (pair_of_series(KERNELS[1]).0, times_of_series(&all));
    let whole = model.posterior(F64, all.clone()).unwrap();
    let later = |row: &usize| all.x[2 * row] > 1.5 && all.x[2 * row + 1] == 0.0;
    let (second, first): (Vec<usize>, Vec<usize>) = (0..60).partition(later);
    let part = model.posterior(F64, all.gather(&first).unwrap()).unwrap();
    let both = part.condition(&all.gather(&second).unwrap()).unwrap();
    assert!(second.len() > 5);
    assert_close("evidence", &[both.evidence()], &[whole.evidence()], 1e-9);
    let (a, b) = (both.predict(&x).unwrap(), whole.predict(&x).unwrap());
    assert_close("mean", &a.mean, &b.mean, 1e-9);
    assert_close("variance", &a.variance, &b.variance, 1e-9);
}

#[test]
fn residuals_have_the_correlations_of_the_exact_model() {
    residuals(rows(40, 9), pair(KERNELS[16]));
    residuals(rows_of_series(40, 9), pair_of_series(KERNELS[16]));
}

fn residuals(data: Observations, (fast, dense): (StateSpaceGp, ExactGp)) {
    let (fast, dense) = (fast.posterior(F64, data.clone()).unwrap(), dense.posterior(F64, data.clone()).unwrap());
    let variance = dense.leave_one_out().variance;
    // The covariance R Rᵀ of residuals R z does not depend on which square root R is.
    let square = |posterior: &dyn LeaveOneOut| {
        let mut eye = vec![0.0; 40 * 40];
        eye.iter_mut().step_by(41).for_each(|value| *value = 1.0);
        let r = posterior.residuals(eye, 40, &variance).unwrap();
        let dot = |i: usize, j: usize| (0..40).map(|k| r[i * 40 + k] * r[j * 40 + k]).sum::<f64>();
        (0..1600).map(|at| dot(at / 40, at % 40)).collect::<Vec<f64>>()
    };
    assert_close("covariances", &square(&fast), &square(&dense), 1e-8);
    let (a, b) = (fast.influence().unwrap().unwrap(), LeaveOneOut::influence(&dense).unwrap().unwrap());
    assert_eq!(a, b);
}

#[test]
fn posteriors_keep_their_promises() {
    let data = rows(50, 2);
    for text in [KERNELS[1], KERNELS[14]] {
        check_posterior(text, &pair(text).0.posterior(F64, data.clone()).unwrap(), &[0.3, -0.05, 1.2, 7.5], 1);
    }
    let of_series = pair_of_series(KERNELS[14]).0.posterior(F64, rows_of_series(50, 2)).unwrap();
    check_posterior("series", &of_series, &[0.3, 0.0, -0.05, 1.0, 1.2, 0.0, 7.5, 4.0], 2);
}

#[test]
fn rows_without_noise_and_long_gaps_stay_finite() {
    let x: Vec<f64> = (0..200).map(|i| 1e-4 * f64::from(i) + if i > 100 { 1e5 } else { 0.0 }).collect();
    let y = x.iter().map(|x| (40.0 * x).sin()).collect();
    let data = Observations::new(x, 1, y, None).unwrap();
    for text in ["matern52(0.5)", "matern32(0.5) + wiener", "periodic(period=0.3) * matern12(2.0)"] {
        let mut model = pair(text).0;
        model.likelihood = Gaussian::new(1e-6);
        let batch = data.batch(&Scope::new(F64).unwrap());
        let found = fit::evaluate(&model, F64, &batch).unwrap();
        assert!(found.loss.is_finite() && found.gradient.iter().all(|value| value.is_finite()), "{text}");
        let prediction = model.posterior(F64, data.clone()).unwrap().predict(&[0.00505, 5e4, 2e5]).unwrap();
        assert!(prediction.variance.iter().all(|v| v.is_finite() && *v > 0.0), "{text}: {prediction:?}");
    }
}

#[test]
fn it_says_which_kernels_it_does_not_know_and_which_are_near() {
    for (text, word) in [
        ("rbf", "matern52"),
        ("rq + matern12", "matern32"),
        ("polynomial", "linear"),
        ("projection(rbf)", "transform"),
        ("white * linear", "stationary"),
        ("matern52 * matern52 * matern52", "states"),
    ] {
        let error = StateSpaceGp::new(Kernel::parse(text, 1).unwrap()).unwrap_err().to_string();
        assert!(error.contains("state-space") && error.contains(word), "{text}: {error}");
    }
    let two = Kernel::parse("matern32", 2).unwrap();
    assert!(!StateSpaceGp::knows(&two, 2) && StateSpaceGp::knows(&two, 1));
    let short = Kernel::parse("periodic(lengthscale=0.01)", 1).unwrap();
    let error = StateSpaceGp::new(short).unwrap().posterior(F64, rows(10, 1)).unwrap_err().to_string();
    assert!(error.contains("harmonics"), "{error}");
    assert!(StateSpaceGp::new(Kernel::parse("matern32", 1).unwrap()).unwrap().parameters().len() == 3);
}

/// Likelihoods of one function that are log-concave.
const LIKELIHOODS: [&str; 9] = [
    "bernoulli(logit)",
    "bernoulli(probit)",
    "binomial",
    "ordinal(4)",
    "poisson(exp)",
    "poisson(softplus)",
    "negative-binomial(0.4)",
    "gamma(2.5)",
    "exponential",
];

/// Targets drawn around a wave at the times of [`rows`], and the model of them by its state space and with matrices.
fn of_targets(text: &str, kernel: &str, n: usize) -> (StateSpaceLaplaceGp, LaplaceGp, Observations) {
    let (own, times) = (likelihood(text), rows(n, 3));
    let (density, mut rng) = (own.density(), Xoshiro256PlusPlus::seed_from_u64(5));
    let auxiliary: Vec<f64> = (0..n).map(|i| 1.0 + (i % 3) as f64).collect();
    let target = |(i, x): (usize, &f64)| density.sample(&[(2.0 * x).sin() + 0.3], auxiliary[i], &mut rng);
    let y = times.x.iter().enumerate().map(target).collect();
    let data = Observations::new(times.x.to_vec(), 1, y, Some(auxiliary)).unwrap();
    let kernel = Kernel::parse(kernel, 1).unwrap();
    let mut fast = StateSpaceLaplaceGp::boxed(kernel.into(), own).unwrap();
    fast.prior.mean = Mean::named("linear", 1).unwrap();
    fast.prior.mean.parameters_mut().into_iter().for_each(|(_, p)| p.set(&[0.15]).unwrap());
    let dense = LaplaceGp::boxed(fast.prior.clone(), fast.likelihood.clone());
    (fast, dense, data)
}

#[test]
fn counts_and_classes_have_the_numbers_of_the_dense_approximation() {
    for (k, text) in LIKELIHOODS.into_iter().enumerate() {
        let kernel = [KERNELS[1], KERNELS[4], KERNELS[5], KERNELS[11]][k % 4];
        let (fast, dense, data) = of_targets(text, kernel, 80);
        let name = format!("{text}, {kernel}");
        let batch = data.batch(&Scope::new(F64).unwrap());
        let (a, b) = (fit::evaluate(&fast, F64, &batch).unwrap(), fit::evaluate(&dense, F64, &batch).unwrap());
        assert_close(&format!("{name}: objective"), &[a.loss], &[b.loss], 1e-8);
        assert_close(&format!("{name}: gradient"), &a.gradient, &b.gradient, 1e-5);
        let (fast, dense) = (fast.posterior(F64, data.clone()).unwrap(), dense.posterior(F64, data.clone()).unwrap());
        assert_close(&format!("{name}: mode"), fast.mode(), dense.mode(), 1e-6);
        let x = times(&data);
        let (a, b) = (fast.predict(&x).unwrap(), dense.predict(&x).unwrap());
        assert_close(&format!("{name}: mean"), &a.mean, &b.mean, 1e-6);
        assert_close(&format!("{name}: variance"), &a.variance, &b.variance, 1e-6);
        let (a, b) = (fast.predict_joint(&x).unwrap(), dense.predict_joint(&x).unwrap());
        assert_close(&format!("{name}: covariance"), &a.covariance, &b.covariance, 1e-6);
        let (a, b) = (fast.cavities().unwrap().unwrap(), dense.cavities().unwrap().unwrap());
        assert_close(&format!("{name}: left-out means"), &a.mean, &b.mean, 1e-5);
        assert_close(&format!("{name}: left-out variances"), &a.variance, &b.variance, 1e-5);
    }
}

#[test]
fn counts_of_several_series_have_the_numbers_of_the_dense_approximation() {
    let (one, _, times) = of_targets("poisson(exp)", KERNELS[1], 60);
    let x = times.x.iter().enumerate().flat_map(|(i, t)| [*t, (i % 3) as f64]).collect();
    let auxiliary = times.auxiliary.clone().map(|values| values.to_vec());
    let data = Observations::new(x, 2, times.y.to_vec(), auxiliary).unwrap();
    let kernel = Kernel::parse(KERNELS[1], 1).unwrap().within(1, 2).unwrap();
    let fast = StateSpaceLaplaceGp::boxed(kernel.into(), one.likelihood).unwrap();
    let dense = LaplaceGp::boxed(fast.prior.clone(), fast.likelihood.clone());
    let batch = data.batch(&Scope::new(F64).unwrap());
    let (a, b) = (fit::evaluate(&fast, F64, &batch).unwrap(), fit::evaluate(&dense, F64, &batch).unwrap());
    assert_close("objective", &[a.loss], &[b.loss], 1e-8);
    assert_close("gradient", &a.gradient, &b.gradient, 1e-5);
    let (fast, dense) = (fast.posterior(F64, data.clone()).unwrap(), dense.posterior(F64, data).unwrap());
    let x = [0.3, 0.0, 1.1, 2.0, 9.0, 1.0, 0.3, 4.0];
    let (a, b) = (fast.predict(&x).unwrap(), dense.predict(&x).unwrap());
    assert_close("mean", &a.mean, &b.mean, 1e-6);
    assert_close("variance", &a.variance, &b.variance, 1e-6);
}

/// What is left without a row's site is nearly the posterior of a model that never saw the row, and nothing of the row.
#[test]
fn left_out_counts_and_classes_are_predicted_as_by_models_without_them() {
    for text in ["poisson(exp)", "bernoulli(logit)", "negative-binomial(0.4)"] {
        let (fast, _, data) = of_targets(text, KERNELS[1], 60);
        let posterior = fast.posterior(F64, data.clone()).unwrap();
        let cavities = posterior.cavities().unwrap().unwrap();
        let own = posterior.predict(&data.x).unwrap();
        let (mut off, mut seen) = (0.0, 0.0);
        for row in (0..60).step_by(5) {
            let others = data.gather(&(0..60).filter(|other| *other != row).collect::<Vec<_>>()).unwrap();
            let without = fast.posterior(F64, others).unwrap().predict(&data.x[row..=row]).unwrap();
            let sd = without.variance[0].sqrt();
            let ratio = cavities.variance[row] / without.variance[0];
            assert!((0.7..1.4).contains(&ratio), "{text}, row {row}: variance {ratio}");
            off += ((cavities.mean[row] - without.mean[0]) / sd).abs();
            seen += ((own.mean[row] - without.mean[0]) / sd).abs();
        }
        assert!(off < 0.35 * seen, "{text}: {off} and, with its own target, {seen}");
    }
}

#[test]
fn gradients_of_counts_and_classes_are_those_of_the_objective() {
    for text in LIKELIHOODS {
        let [analytic, numeric] = gradients(&of_targets(text, KERNELS[11], 60).0, &of_targets(text, KERNELS[11], 60).2);
        assert_close(text, &analytic, &numeric, 1e-5);
    }
}

#[test]
fn extreme_counts_and_classes_have_a_mode() {
    let far = |y: Vec<f64>, text: &str, kernel: &str| {
        let n = y.len();
        let data = Observations::new((0..n).map(|i| 0.1 * i as f64).collect(), 1, y, None).unwrap();
        let gp = StateSpaceLaplaceGp::boxed(Kernel::parse(kernel, 1).unwrap().into(), likelihood(text)).unwrap();
        let batch = data.batch(&Scope::new(F64).unwrap());
        let found = fit::evaluate(&gp, F64, &batch).unwrap();
        let dense = fit::evaluate(&LaplaceGp::boxed(gp.prior.clone(), gp.likelihood.clone()), F64, &batch).unwrap();
        assert_close(&format!("{text}: objective"), &[found.loss], &[dense.loss], 1e-6);
        assert_close(&format!("{text}: gradient"), &found.gradient, &dense.gradient, 1e-4);
        let posterior = gp.posterior(F64, data).unwrap();
        check_posterior(text, &posterior, &[0.15, 3.3, 40.0], 1);
        posterior
    };
    // Counts from none to a million, and classes that are certain.
    far((0..40).map(|i| if i < 20 { 0.0 } else { 1e6 }).collect(), "poisson(exp)", "matern32(0.4, variance=100.0)");
    far((0..60).map(|i| f64::from(i > 30)).collect(), "bernoulli(logit)", "matern52(lengthscale=5.0, variance=1e4)");
    far(vec![1.0; 50], "bernoulli(probit)", "wiener(lengthscale=1.0, variance=400.0, origin=-1.0)");
}

#[test]
fn other_likelihoods_are_refused_by_name() {
    for text in ["student-t(4)", "softmax(3)", "heteroscedastic", "beta(6)"] {
        let prior = Kernel::parse("matern32", 1).unwrap().into();
        let error = StateSpaceLaplaceGp::boxed(prior, likelihood(text)).unwrap_err().to_string();
        assert!(error.contains("log-concave") && error.contains(text.split('(').next().unwrap()), "{error}");
    }
    let noisy = Kernel::parse("matern32 + white", 1).unwrap();
    let error = StateSpaceLaplaceGp::boxed(noisy.into(), likelihood("poisson")).unwrap_err().to_string();
    assert!(error.contains("white"), "{error}");
}
