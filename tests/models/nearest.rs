//! The GP on nearest neighbours compared with exact GPs: of all rows, and of the rows nearest to each.

use std::f64::consts::TAU;

use cagey::kernels::Kernel;
use cagey::means::Mean;
use cagey::models::exact::{ExactGp, ExactObjective};
use cagey::models::gp_model::{GpModel, Training};
use cagey::models::minibatch::{BatchLoss, Minibatches, Rows};
use cagey::models::nearest::{NearestGp, NearestOptions};
use cagey::models::options::ModelOptions;
use cagey::models::posterior::Posterior;
use cagey::models::{Model, Observations};
use cagey::params::Parameters;
use cagey::scope::{Scope, scalar};
use cagey::train::{Objective, Step, TrainConfig};

use crate::common::{F64, assert_close, data, gradients};

const KERNEL: &str = "0.8 * matern32(lengthscale=[0.7, 1.4])";
const AT: [f64; 8] = [0.1, -0.2, 0.9, 0.4, -1.0, 1.3, 3.0, 0.0];

fn exact() -> ExactGp {
    let mut model = ExactGp::new(Kernel::parse(KERNEL, 2).unwrap());
    model.prior.mean = Mean::named("linear", 2).unwrap();
    model.likelihood.noise.set(&[0.15]).unwrap();
    model.objective = ExactObjective::LeaveOneOut;
    model
}

fn model(neighbours: usize) -> NearestGp {
    let ExactGp { prior, likelihood, .. } = exact();
    NearestGp { prior, likelihood, neighbours, trained: neighbours }
}

/// The rows nearest to a point by the lengthscales, without one of them.
fn near(data: &Observations, at: &[f64], count: usize, without: Option<usize>) -> Observations {
    let distance = |row: usize| {
        let x = &data.x[2 * row..];
        ((x[0] - at[0]) / 0.7).powi(2) + ((x[1] - at[1]) / 1.4).powi(2)
    };
    let mut rows: Vec<usize> = (0..data.n()).filter(|row| Some(*row) != without).collect();
    rows.sort_by(|a, b| distance(*a).total_cmp(&distance(*b)));
    data.gather(&rows[..count]).unwrap()
}

/// Minus the log density of a row by the exact model of its nearest others.
fn left_out(data: &Observations, row: usize, count: usize) -> f64 {
    let at = &data.x[2 * row..2 * row + 2];
    let left = exact().posterior(F64, near(data, at, count, Some(row))).unwrap().predict(at).unwrap();
    let variance = left.variance[0] + 0.15;
    0.5 * ((data.y[row] - left.mean[0]).powi(2) / variance + (TAU * variance).ln())
}

fn loss(model: &dyn Model, data: &Observations) -> f64 {
    let scope = Scope::new(F64).unwrap();
    scalar(model.objective(&scope, &data.batch(&scope)).unwrap()).unwrap()
}

#[test]
fn with_all_rows_it_is_the_exact_model() {
    for auxiliary in [false, true] {
        let data = data(30, 2);
        let known = (0..30).map(|i| 0.01 * f64::from(i)).collect();
        let data = data.with_auxiliary(auxiliary.then_some(known)).unwrap();
        for neighbours in [29, 30, 1000] {
            let (nearest, exact) = (model(neighbours), exact());
            let [got, want] = [loss(&nearest, &data), loss(&exact, &data)];
            assert!((got - want).abs() < 1e-9, "{neighbours}: {got}, left out {want}");
            let [own, differences] = gradients(&nearest, &data);
            assert_close("gradient by differences", &own, &differences, 1e-6);
            assert_close("gradient of left-out densities", &own, &gradients(&exact, &data)[0], 1e-8);
            if neighbours >= 30 {
                let [got, want] = [
                    nearest.posterior(F64, data.clone()).unwrap().predict(&AT).unwrap(),
                    exact.posterior(F64, data.clone()).unwrap().predict(&AT).unwrap(),
                ];
                assert_close("means", &got.mean, &want.mean, 1e-10);
                assert_close("variances", &got.variance, &want.variance, 1e-10);
            }
        }
    }
}

#[test]
fn a_row_is_predicted_by_the_exact_model_of_its_nearest_rows() {
    let (data, nearest) = (data(40, 2), model(6));
    let posterior = nearest.posterior(F64, data.clone()).unwrap();
    let got = posterior.predict(&AT).unwrap();
    for (i, at) in AT.chunks(2).enumerate() {
        let want = exact().posterior(F64, near(&data, at, 6, None)).unwrap().predict(at).unwrap();
        assert_close("mean", &got.mean[i..=i], &want.mean, 1e-11);
        assert_close("variance", &got.variance[i..=i], &want.variance, 1e-11);
        // A joint distribution of one row is its prediction.
        let joint = posterior.predict_joint(at).unwrap();
        assert_close("joint", &[joint.mean[0], joint.covariance[0]], &[got.mean[i], got.variance[i]], 1e-11);
    }
    let want: f64 = (0..40).map(|row| left_out(&data, row, 6)).sum();
    assert!((loss(&nearest, &data) - want).abs() < 1e-10);
}

#[test]
fn batches_find_neighbours_among_all_rows() {
    let (data, mut nearest) = (data(40, 2), model(6));
    let whole = loss(&nearest, &data);
    let batches = Minibatches { size: 10, ..Minibatches::default() };
    let start = nearest.free_raw();
    let mut batched = BatchLoss::new(&mut nearest, F64, &data, &batches).unwrap();
    let step = |iteration| Step { iteration, epoch: 0.0, seed: 3, factor: 1.0 };
    let mean = (0..4).map(|k| batched.evaluate(&start, step(k)).unwrap().loss).sum::<f64>() / 4.0;
    assert!((mean - whole).abs() < 1e-9, "batches {mean}, all rows {whole}");
}

#[test]
fn new_rows_and_equal_rows() {
    let (all, nearest) = (data(30, 2), model(5));
    let [first, rest] = [0..20, 20..30].map(|rows| all.gather(&rows.collect::<Vec<_>>()).unwrap());
    let grown = nearest.posterior(F64, first).unwrap().updated(&rest).unwrap().unwrap();
    assert_eq!(grown.predict(&AT).unwrap(), nearest.posterior(F64, all.clone()).unwrap().predict(&AT).unwrap());
    // More equal rows than neighbours: a row is not its own neighbour.
    let equal = Observations::new(vec![0.3; 24], 2, (0..12).map(f64::from).collect(), None).unwrap();
    let want: f64 = (0..12).map(|row| left_out(&equal, row, 5)).sum();
    let got = loss(&model(5), &equal);
    assert!((got - want).abs() < 1e-9 * want, "{got}, by other rows {want}");
    let one = equal.gather(&[0]).unwrap();
    assert!((loss(&model(5), &one) - loss(&exact(), &one)).abs() < 1e-12, "a single row has the prior");
}

#[test]
fn it_learns_the_scales_of_the_data() {
    let x: Vec<f64> = (0..2000).map(|i| f64::from(i * 7919 % 2000) / 1000.0 - 1.0).collect();
    let wave = |(i, x): (usize, &f64)| (9.0 * x).sin() + 0.1 * f64::from(i as u32 * 31 % 17) / 5.0;
    let y = x.iter().enumerate().map(wave).collect();
    let data = Observations::new(x, 1, y, None).unwrap();
    let mut nearest = NearestGp::new(Kernel::parse("matern32(lengthscale=1)", 1).unwrap());
    let config: TrainConfig = NearestOptions::default().training(data.n());
    let options = NearestOptions::default();
    let batches = options.minibatches();
    let training = Training { compute: F64, data: &data, rows: &data, batches, config: &config, spread: None };
    let outcome = nearest.train(training, &mut []).unwrap();
    // The last digits of i are noise of sd .098.
    let noise = nearest.likelihood.noise.internal()[0];
    assert!((noise.sqrt() - 0.098).abs() < 0.01, "noise of sd {}", noise.sqrt());
    assert!(outcome.loss < -0.8, "{}", outcome.loss);
    let at = nearest.posterior(F64, data).unwrap().predict(&[0.5]).unwrap();
    assert!((at.mean[0] - (4.5f64.sin() + 0.16)).abs() < 0.05, "{}", at.mean[0]);
}
