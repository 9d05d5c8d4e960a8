//! Models compared with reference values, their own definitions and finite differences.

#[path = "../common/mod.rs"]
mod common;

mod aggregation;
mod cagp;
mod experts;
mod federation;
mod label_regression;
mod laplace;
mod left_out;
mod nearest;
mod newton;
mod newton_graph;
mod newton_guarded;
mod newton_learned;
mod newton_low_rank;
mod newton_several;
mod newton_steps;
mod race;
mod ranks;
mod row_files;
mod shards;
mod spread;
mod stacked;
mod state_space;
mod suite;
mod theorems;

use cagey::kernels::Kernel;
use cagey::means::Mean;
use cagey::models::exact::{ExactGp, ExactObjective};
use cagey::models::gp_model::{GpModel, Training};
use cagey::models::minibatch::Rows;
use cagey::models::posterior::{Exact, Posterior};
use cagey::models::{Model, Observations, fit};
use cagey::params::{Constraint, Parameters, Prior};
use cagey::scope::{Scope, scalar};
use cagey::train::TrainConfig;
use common::{
    F32, F64, assert_close, check_posterior, columns, data, flat, golden, gradients, kernel, kernel_gradient, noise,
};

fn model(text: &str, d: usize) -> ExactGp {
    let mut model = ExactGp::new(Kernel::parse(text, d).unwrap());
    model.prior.mean = Mean::named("linear", d).unwrap();
    model.likelihood.noise.set(&[0.2]).unwrap();
    model
}

#[test]
fn golden_exact_gp() {
    for case in golden("exact_gp") {
        let name = case["case"].as_str().unwrap();
        let d = columns(&case["X"]);
        let mut gp = ExactGp::new(kernel(&case["kernel"], d));
        gp.prior.mean = Mean::named("constant", d).unwrap();
        gp.parameters_mut()
            .iter_mut()
            .find(|(path, _)| path == "mean.constant")
            .unwrap()
            .1
            .set(&flat(&case["mean"]))
            .unwrap();
        gp.likelihood.noise.set(&flat(&case["noise"])).unwrap();
        let data = Observations::new(flat(&case["X"]), d, flat(&case["y"]), None).unwrap();
        let expected = &case["expected"];
        for (compute, tolerance) in [(F64, 1e-8), (F32, 2e-4)] {
            let scope = Scope::training(compute).unwrap();
            let batch = data.batch(&scope);
            let loss = gp.objective(&scope, &batch).unwrap();
            let value = scalar(loss.clone()).unwrap();
            assert_close(name, &[-value], &flat(&expected["log_marginal_likelihood"]), tolerance);
            let (_, raw) = scope.gradient(loss, &gp).unwrap();
            let mut want: Vec<f64> = kernel_gradient(&gp.prior.kernel, &expected["grad"]["kernel"]).concat();
            want.extend(flat(&expected["grad"]["mean"]));
            want.extend(flat(&expected["grad"]["noise"]));
            let slopes: Vec<f64> = gp.parameters().iter().flat_map(|(_, p)| p.internal_slope()).collect();
            let got: Vec<f64> = raw.iter().zip(slopes).map(|(g, s)| -g / s).collect();
            assert_close(&format!("{name} gradient"), &got, &want, tolerance);
        }
        let posterior = gp.posterior(F64, data).unwrap();
        let points = flat(&case["Xs"]);
        let joint = posterior.predict_joint(&points).unwrap();
        assert_close(&format!("{name} f_mean"), &joint.mean, &flat(&expected["f_mean"]), 1e-8);
        assert_close(&format!("{name} f_cov"), &joint.covariance, &flat(&expected["f_cov"]), 1e-8);
        let marginals = posterior.predict(&points).unwrap();
        let y_var: Vec<f64> = marginals.variance.iter().map(|v| v + gp.likelihood.noise.values()[0]).collect();
        assert_close(&format!("{name} y_var"), &y_var, &flat(&expected["y_var"]), 1e-8);
        check_posterior(name, &posterior, &points, d);
    }
}

#[test]
fn objective_gradients_match_finite_differences() {
    let observations = data(25, 2);
    let texts = [
        "matern32(ard) + 0.5 * periodic(period=1.3, dims=[0]) * rbf",
        "rq(dims=[1]) + linear(ard) + white",
        "spectral_mixture(components=2, dims=[0]) + polynomial(power=2)",
        "projection(matern52, dim=1) + constant",
    ];
    for text in texts {
        for objective in [ExactObjective::MarginalLikelihood, ExactObjective::LeaveOneOut] {
            let mut gp = model(text, 2);
            gp.objective = objective;
            for (_, parameter) in gp.parameters_mut() {
                if parameter.constraint() != Constraint::Real {
                    parameter.set_prior(None, Prior::LogNormal(0.3, 0.8)).unwrap();
                }
            }
            let [gradient, numeric] = gradients(&gp, &observations);
            assert_close(&format!("{text} {objective:?}"), &gradient, &numeric, 1e-6);
        }
    }
}

#[test]
fn leave_one_out_equals_leaving_rows_out() {
    let observations = data(12, 1);
    let gp = model("rbf(0.8)", 1);
    let closed = gp.posterior(F64, observations.clone()).unwrap().leave_one_out();
    let noise = gp.likelihood.noise.values()[0];
    let mut log_density = 0.0;
    for i in 0..12 {
        let keep = |values: &[f64]| values.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, v)| *v).collect();
        let rest = Observations::new(keep(&observations.x), 1, keep(&observations.y), None).unwrap();
        let left_out = gp.posterior(F64, rest).unwrap().predict(&observations.x[i..=i]).unwrap();
        let variance = left_out.variance[0] + noise;
        assert_close("mean", &[closed.mean[i]], &left_out.mean, 1e-9);
        assert_close("variance", &[closed.variance[i]], &[variance], 1e-9);
        let error = observations.y[i] - left_out.mean[0];
        log_density -= 0.5 * (error * error / variance + (2.0 * std::f64::consts::PI * variance).ln());
    }
    let mut loo = gp.clone();
    loo.objective = ExactObjective::LeaveOneOut;
    let scope = Scope::new(F64).unwrap();
    let loss = scalar(loo.objective(&scope, &observations.batch(&scope)).unwrap()).unwrap();
    assert_close("objective", &[-loss], &[log_density], 1e-9);
}

#[test]
fn conditioning_on_more_equals_conditioning_on_all() {
    let all = data(30, 2);
    let part = |from: usize, to: usize| {
        let known = (from..to).map(|i| 0.01 * i as f64).collect();
        Observations::new(all.x[2 * from..2 * to].to_vec(), 2, all.y[from..to].to_vec(), Some(known)).unwrap()
    };
    let gp = model("matern52(ard) + white(variance=0.1)", 2);
    let at_once = gp.posterior(F64, part(0, 30)).unwrap();
    let grown = gp.posterior(F64, part(0, 11)).unwrap().condition(&part(11, 29)).unwrap();
    let grown = grown.condition(&part(29, 30)).unwrap();
    let points = [0.3, -0.2, 1.0, 1.0, -2.0, 0.5];
    let (a, b) = (at_once.predict(&points).unwrap(), grown.predict(&points).unwrap());
    assert_close("mean", &b.mean, &a.mean, 1e-9);
    assert_close("variance", &b.variance, &a.variance, 1e-9);
    assert_eq!(grown.data().n(), 30);
}

#[test]
fn components_add_up_to_the_whole() {
    let observations = data(20, 1);
    let mut gp = model("rbf(2.0) + 0.3 * periodic(period=1.0) * rbf(3.0) + linear", 1);
    gp.prior.mean = Mean::Zero;
    let posterior = gp.posterior(F64, observations).unwrap();
    let points = [-3.0, -1.0, 0.1, 2.2];
    let whole = posterior.predict(&points).unwrap();
    let parts: Vec<_> = (0..3).map(|i| posterior.predict_component(i, &points).unwrap()).collect();
    let sum: Vec<f64> = (0..4).map(|j| parts.iter().map(|p| p.mean[j]).sum()).collect();
    assert_close("sum of means", &sum, &whole.mean, 1e-9);
    assert!(posterior.predict_component(3, &points).is_err());
}

#[test]
fn known_noise_widens_what_it_should() {
    let observations = data(20, 1);
    let gp = model("rbf(0.5)", 1);
    let plain = gp.posterior(F64, observations.clone()).unwrap().predict(&[0.5]).unwrap();
    let known = observations.clone().with_auxiliary(Some(vec![1.0; 20])).unwrap();
    let noisy = gp.posterior(F64, known).unwrap().predict(&[0.5]).unwrap();
    assert!(noisy.variance[0] > plain.variance[0]);
    // A known noise of 1 for every row raises the learned noise by 1.
    let mut shifted = gp.clone();
    shifted.likelihood.noise.set(&[1.2]).unwrap();
    let same = shifted.posterior(F64, observations).unwrap().predict(&[0.5]).unwrap();
    assert_close("variance", &noisy.variance, &same.variance, 1e-10);
}

#[test]
fn single_precision_follows_double() {
    let observations = data(60, 3);
    let gp = model("matern32(ard) + linear", 3);
    let batch = |compute| observations.batch(&Scope::new(compute).unwrap());
    let double = fit::evaluate(&gp, F64, &batch(F64)).unwrap();
    let single = fit::evaluate(&gp, F32, &batch(F32)).unwrap();
    assert_close("loss", &[single.loss], &[double.loss], 1e-5);
    assert_close("gradient", &single.gradient, &double.gradient, 1e-4);
}

#[test]
fn bad_observations_are_refused() {
    assert!(Observations::new(vec![], 1, vec![], None).is_err());
    assert!(Observations::new(vec![1.0], 1, vec![f64::NAN], None).is_err());
    assert!(Observations::new(vec![f64::INFINITY], 1, vec![0.0], None).is_err());
    assert!(Observations::new(vec![1.0, 2.0, 3.0], 2, vec![0.0], None).is_err());
    assert!(Observations::new(vec![1.0], 1, vec![0.0], Some(vec![-1.0])).is_err());
}

/// Repeated rows that are trained on as one have the likelihood of all of them, wherever the training ends.
#[test]
fn repeated_rows_are_averaged_exactly() {
    let row = |i: usize| [(1.7 * i as f64).sin(), (0.9 * i as f64).cos()];
    // Ten rows once, ten twice, five four times; none of the means of the repeats is zero.
    let rows: Vec<usize> = (0..25)
        .flat_map(|i| {
            vec![
                i;
                if i < 10 {
                    1
                } else if i < 20 {
                    2
                } else {
                    4
                }
            ]
        })
        .collect();
    let x = rows.iter().flat_map(|i| row(*i)).collect();
    let y = rows.iter().enumerate().map(|(at, i)| row(*i)[0] + 0.3 * (12.9 * at as f64).sin()).collect();
    let data = Observations::new(x, 2, y, None).unwrap();
    for text in ["rbf(ard)", "matern32 + linear", "rbf + white"] {
        for (compute, tolerance) in [(F64, 1e-10), (F32, 1e-4)] {
            for steps in [0, 3, 20] {
                let mut gp = model(text, 2);
                let config = TrainConfig { steps, ..TrainConfig::default() };
                let training =
                    Training { compute, data: &data, rows: &data, batches: None, config: &config, spread: None };
                let outcome = gp.train(training, &mut []).unwrap();
                let scope = Scope::training(compute).unwrap();
                let all = scalar(gp.objective(&scope, &data.batch(&scope)).unwrap()).unwrap() / rows.len() as f64;
                assert!((outcome.loss - all).abs() < tolerance, "{text}, {steps} steps: {} {all}", outcome.loss);
            }
        }
    }
}

#[test]
fn rows_that_are_not_there_are_refused() {
    let data = data(6, 2);
    assert!(data.gather(&[0, 6]).is_err());
    assert!(data.clone().with_auxiliary(Some(vec![-1.0; 6])).is_err());
    assert!(data.clone().with_targets(vec![0.0; 5]).is_err());
    let again = data.clone().into_values();
    assert_eq!(Observations::new(again.x, again.d, again.y, again.auxiliary).unwrap(), data);
}
