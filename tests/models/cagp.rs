//! Computation-aware GPs: golden values, limits, invariances, bounds, and the paper's theorem on their variance.

use std::sync::Arc;

use burn::tensor::Tensor;
use cagey::kernels::Kernel;
use cagey::kernels::form::Form;
use cagey::likelihoods::Gaussian;
use cagey::means::Mean;
use cagey::models::cagp::{Actions, Cagp, CagpObjective, CagpPosterior, EXACT_ROWS, IterativeCagp};
use cagey::models::exact::ExactGp;
use cagey::models::gp_model::GpModel;
use cagey::models::nearest::NearestGp;
use cagey::models::ordering::{RowOrder, kd_tree};
use cagey::models::posterior::{ComputationAware, Posterior};
use cagey::models::{Batch, Held, Model, Observations, fit};
use cagey::params::{Parameter, Parameters, Unit};
use cagey::products::BlockSparse;
use cagey::scope::{Scope, scalar, to_f64};
use cagey::solvers::Probes;
use cagey::solvers::itergp::{IterGpOptions, Stop};
use cagey::solvers::policies::{Eigenvector, Pivots, Policy, Preconditioned, Random, Residual, UnitVector};
use cagey::train::{Lbfgs, Optimizer, Restarts, TrainConfig};
use proptest::prelude::*;

use crate::common::policies::policies;
use crate::common::{Beginnings, assert_close, check_posterior, columns, flat, golden, kernel, kernel_gradient, rows};
use crate::{F32, F64, data, noise};

const POINTS: [f64; 8] = [0.1, 0.2, -1.0, 1.5, 3.0, -3.0, 0.7, -0.4];

fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    (0..count).map(|_| noise(&mut state)).collect()
}

fn matern() -> Kernel {
    Kernel::parse("matern32(ard)", 2).unwrap()
}

fn loss(gp: &impl Model, batch: &Batch) -> f64 {
    scalar(gp.objective(&Scope::new(F64).unwrap(), batch).unwrap()).unwrap()
}

fn set_noise(gp: &mut impl Parameters, noise: f64) {
    gp.find_mut("likelihood.noise").unwrap()[0].set(&[noise]).unwrap();
}

fn iterative(policy: Box<dyn Policy>, actions: usize) -> IterativeCagp {
    let options = IterGpOptions { block: 3, ..IterGpOptions::budget(actions) };
    let mut gp = IterativeCagp::new(matern(), policy, options);
    set_noise(&mut gp, 0.2);
    gp
}

/// The batch form with dense actions.
fn batch_form(gp: &IterativeCagp, s: &[f64], i: usize) -> Cagp {
    let mut fixed = Cagp::new(gp.priors[0].kernel.clone(), Actions::dense(s, i));
    fixed.actions.values.fixed = true;
    fixed.likelihood = gp.likelihood.clone();
    fixed.priors[0].mean = gp.priors[0].mean.clone();
    fixed.objective = gp.objective;
    fixed
}

/// Central differences of a function of the raw parameters.
fn differences(raw: &[f64], at: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let shifted = |i: usize, h: f64| {
        let mut moved = raw.to_vec();
        moved[i] += h;
        at(&moved)
    };
    (0..raw.len()).map(|i| (shifted(i, 1e-5) - shifted(i, -1e-5)) / 2e-5).collect()
}

#[test]
fn golden_cagp() {
    for case in golden("cagp") {
        let name = case["case"].as_str().unwrap();
        let (n, d) = (rows(&case["X"]), columns(&case["X"]));
        let (actions, action_gradient) = if case["S"].is_array() {
            (Actions::dense(&flat(&case["S"]), columns(&case["S"])), "S")
        } else {
            let blocks = rows(&case["blocks"]);
            let offsets = (0..=blocks).map(|a| a * columns(&case["blocks"])).collect();
            (Actions::from_blocks(&flat(&case["blocks"]), offsets), "blocks")
        };
        let mut gp = Cagp::new(kernel(&case["kernel"], d), actions);
        gp.priors[0].mean = Mean::named("constant", d).unwrap();
        gp.parameters_mut()
            .iter_mut()
            .find(|(path, _)| path == "mean.constant")
            .unwrap()
            .1
            .set(&flat(&case["mean"]))
            .unwrap();
        gp.find_mut("likelihood.noise").unwrap()[0].set(&flat(&case["noise"])).unwrap();
        let data = Observations::new(flat(&case["X"]), d, flat(&case["y"]), None).unwrap();
        assert_eq!(data.n(), n);
        let expected = &case["expected"];
        for (compute, tolerance) in [(F64, 1e-8), (F32, 2e-4)] {
            let scope = Scope::training(compute).unwrap();
            let loss = gp.objective(&scope, &data.batch(&scope)).unwrap();
            assert_close(name, &[scalar(loss.clone()).unwrap()], &flat(&expected["loss"]), tolerance);
            let (_, raw) = scope.gradient(loss, &gp).unwrap();
            let mut want: Vec<f64> = kernel_gradient(&gp.priors[0].kernel, &expected["grad"]["kernel"]).concat();
            want.extend(flat(&expected["grad"]["mean"]));
            want.extend(flat(&expected["grad"]["noise"]));
            want.extend(flat(&expected["grad"][action_gradient]));
            let slopes: Vec<f64> = gp.parameters().iter().flat_map(|(_, p)| p.internal_slope()).collect();
            let got: Vec<f64> = raw.iter().zip(slopes).map(|(g, s)| g / s).collect();
            assert_close(&format!("{name} gradient"), &got, &want, tolerance);
        }
        let train = flat(&case["X"]);
        let posterior = gp.posterior(F64, data.clone()).unwrap();
        assert_close(&format!("{name} weights"), &posterior.weights(), &flat(&expected["v_tilde"]), 1e-8);
        let fitted = posterior.predict(&train).unwrap();
        assert_close(&format!("{name} train mean"), &fitted.mean, &flat(&expected["train_mean"]), 1e-8);
        let points = flat(&case["Xs"]);
        let joint = posterior.predict_joint(&points).unwrap();
        assert_close(&format!("{name} f_mean"), &joint.mean, &flat(&expected["f_mean"]), 1e-8);
        assert_close(&format!("{name} f_cov"), &joint.covariance, &flat(&expected["f_cov"]), 1e-8);
        check_posterior(name, &posterior, &points, d);
        let single = gp.posterior(F32, data).unwrap().predict_joint(&points).unwrap();
        assert_close(&format!("{name} f_cov, single precision"), &single.covariance, &flat(&expected["f_cov"]), 1e-3);
    }
}

#[test]
fn computation_aware_bounds_and_limits() {
    let observations = data(24, 2);
    let exact = ExactGp::new(Kernel::parse("matern32(ard)", 2).unwrap());
    let scope = Scope::new(F64).unwrap();
    let batch = observations.batch(&scope);
    let exact_loss = scalar(exact.objective(&scope, &batch).unwrap()).unwrap();
    let exact_posterior = exact.posterior(F64, observations.clone()).unwrap();
    let points = [0.1, 0.2, -1.0, 1.5, 3.0, -3.0];
    let truth = exact_posterior.predict(&points).unwrap();
    let noise = exact.likelihood.noise.internal()[0];
    for i in [1, 5, 7, 24] {
        let mut gp = Cagp::new(exact.prior.kernel.clone(), Actions::random(24, i, 3).unwrap());
        let elbo = scalar(gp.objective(&scope, &batch).unwrap()).unwrap();
        gp.objective = CagpObjective::Projected;
        let projected = scalar(gp.objective(&scope, &batch).unwrap()).unwrap();
        let rest = 0.5 * (24 - i) as f64 * (2.0 * std::f64::consts::PI * noise).ln();
        assert!(projected + rest <= exact_loss + 1e-8 && exact_loss <= elbo + 1e-8, "i = {i}");
        let predicted = gp.posterior(F64, observations.clone()).unwrap().predict(&points).unwrap();
        for (computed, exact) in predicted.variance.iter().zip(&truth.variance) {
            assert!(*computed >= exact - 1e-10, "i = {i}: never overconfident");
        }
        if i == 24 {
            assert_close("elbo", &[elbo], &[exact_loss], 1e-9);
            assert_close("projected", &[projected], &[exact_loss], 1e-9);
            assert_close("mean", &predicted.mean, &truth.mean, 1e-8);
            assert_close("variance", &predicted.variance, &truth.variance, 1e-8);
        }
    }
    assert!(Actions::random(24, 25, 0).is_err());
    assert!(Actions::random(24, 0, 0).is_err());
    let wrong = Cagp::new(exact.prior.kernel.clone(), Actions::random(10, 2, 0).unwrap());
    assert!(wrong.objective(&scope, &batch).is_err());
}

#[test]
fn only_the_span_of_the_actions_matters() {
    let (n, i) = (24, 5);
    let observations = data(n, 2);
    let batch = observations.batch(&Scope::new(F64).unwrap());
    let (s, w) = (numbers(n * i, 1), numbers(i * i, 2));
    let mixed: Vec<f64> = (0..n * i).map(|e| (0..i).map(|k| s[e / i * i + k] * w[k * i + e % i]).sum()).collect();
    for objective in [CagpObjective::Elbo, CagpObjective::Projected] {
        let model = |s: &[f64]| Cagp { objective, ..Cagp::new(matern(), Actions::dense(s, i)) };
        assert_close("loss", &[loss(&model(&mixed), &batch)], &[loss(&model(&s), &batch)], 1e-9);
        let predict = |s: &[f64]| model(s).posterior(F64, observations.clone()).unwrap().predict(&POINTS).unwrap();
        assert_close("mean", &predict(&mixed).mean, &predict(&s).mean, 1e-8);
        assert_close("variance", &predict(&mixed).variance, &predict(&s).variance, 1e-8);
    }
    // Block-sparse actions of any lengths are dense actions with zeros.
    let offsets = BlockSparse::even(n, i);
    let values = numbers(n, 3);
    let owner = |row: usize| offsets.iter().rposition(|&o| o <= row).unwrap();
    let lengths = [1e-9, 4.0, 1e7, 0.3, 2.0];
    let scaled: Vec<f64> = (0..n).map(|row| values[row] * lengths[owner(row)]).collect();
    let dense: Vec<f64> = (0..n * i).map(|e| if owner(e / i) == e % i { values[e / i] } else { 0.0 }).collect();
    let sparse = Cagp::new(matern(), Actions::from_blocks(&scaled, offsets));
    assert_close(
        "sparse",
        &[loss(&sparse, &batch)],
        &[loss(&Cagp::new(matern(), Actions::dense(&dense, i)), &batch)],
        1e-9,
    );
    let none = Cagp::new(matern(), Actions::from_blocks(&vec![0.0; n], BlockSparse::even(n, i)));
    assert!(none.objective(&Scope::new(F64).unwrap(), &batch).is_err(), "actions of length zero");
}

#[test]
fn iterative_form_equals_batch_form() {
    let n = 24;
    let observations = data(n, 2);
    let scope = Scope::new(F64).unwrap();
    let batch = observations.batch(&scope);
    for policy in policies(n) {
        for objective in [CagpObjective::Elbo, CagpObjective::Projected] {
            let mut gp = iterative(policy.clone(), 6);
            gp.priors[0].mean = Mean::named("constant", 2).unwrap();
            gp.priors[0].mean.parameters_mut()[0].1.set(&[0.3]).unwrap();
            gp.objective = objective;
            let name = format!("{:?}", gp.policy);
            let solve = gp.solve(&scope, &batch, None).unwrap();
            assert_eq!((solve.actions.len(), solve.report.stop), (6, Stop::Budget), "{name}");
            let s = to_f64(solve.actions.clone().into_dense().unwrap()).unwrap();
            let fixed = batch_form(&gp, &s, 6);
            for unrolled in [0, 1] {
                gp.unrolled = unrolled;
                assert_close(&name, &[loss(&gp, &batch)], &[loss(&fixed, &batch)], 1e-9);
            }
            let expected = fixed.posterior(F64, observations.clone()).unwrap().predict(&POINTS).unwrap();
            let (posterior, _) = gp.posterior(F64, observations.clone()).unwrap();
            let got = posterior.predict(&POINTS).unwrap();
            assert_close(&name, &got.mean, &expected.mean, 1e-8);
            assert_close(&name, &got.variance, &expected.variance, 1e-8);
            // The solve's own weights and precision give the same result.
            let points = scope.matrix(&POINTS, 4, 2);
            let cross = gp.priors[0].cross(&scope, &batch.x, &points).matrix().unwrap();
            let shift = to_f64(cross.clone().transpose().matmul(solve.weights().unwrap())).unwrap();
            assert_close(&name, &shift.iter().map(|v| v + 0.3).collect::<Vec<_>>(), &expected.mean, 1e-8);
            let explained = to_f64((solve.precision_times(&cross).unwrap() * cross).sum_dim(0)).unwrap();
            let prior = to_f64(gp.priors[0].kernel.diag(&scope, &points).unwrap()).unwrap();
            let variance: Vec<f64> = prior.iter().zip(explained).map(|(p, e)| p - e).collect();
            assert_close(&name, &variance, &expected.variance, 1e-8);
        }
    }
}

#[test]
fn gradients_of_the_iterative_form_match_finite_differences() {
    let n = 18;
    let observations = data(n, 2);
    let batch = observations.batch(&Scope::new(F64).unwrap());
    for policy in policies(n) {
        for objective in [CagpObjective::Elbo, CagpObjective::Projected] {
            let mut gp = iterative(policy.clone(), 4);
            gp.objective = objective;
            gp.priors[0].mean = Mean::named("linear", 2).unwrap();
            let name = format!("{:?} {objective:?}", gp.policy);
            let raw = gp.free_raw();
            // Unrolled: the gradient of the whole computation, a policy's parameters included.
            gp.unrolled = 1;
            let numeric = differences(&raw, |raw| {
                let mut moved = gp.clone();
                moved.set_free_raw(raw).unwrap();
                loss(&moved, &batch)
            });
            let gradient = fit::evaluate(&gp, F64, &batch).unwrap().gradient;
            assert_close(&format!("{name} unrolled"), &gradient, &numeric, 2e-6);
            // Detached: the gradient of the batch form with the actions of this point.
            gp.unrolled = 0;
            let s = to_f64(gp.chosen(&Scope::new(F64).unwrap(), &batch).unwrap().actions).unwrap();
            let fixed = batch_form(&gp, &s, 4);
            let start = fixed.free_raw();
            let numeric = differences(&start, |raw| {
                let mut moved = fixed.clone();
                moved.set_free_raw(raw).unwrap();
                loss(&moved, &batch)
            });
            let gradient = fit::evaluate(&gp, F64, &batch).unwrap().gradient;
            assert_close(&format!("{name} detached"), &gradient[..start.len()], &numeric, 2e-6);
            assert!(gradient[start.len()..].iter().all(|g| *g == 0.0), "{name}: no gradient through fixed actions");
        }
    }
}

#[test]
fn training_holds_actions_between_choices() {
    let n = 40;
    let observations = data(n, 2);
    let batch = observations.batch(&Scope::new(F64).unwrap());
    let train = |refresh, steps| {
        let mut gp = IterativeCagp { refresh, ..iterative(Box::new(Residual), 6) };
        let config = TrainConfig::new(Optimizer::Lbfgs(Lbfgs::default()), steps);
        let outcome = fit::fit(&mut gp, F64, &observations, &config, &mut []).unwrap();
        (gp, outcome)
    };
    // While the actions are held, training equals that of the batch form with these actions.
    let (held, outcome) = train(100, 8);
    let start = iterative(Box::new(Residual), 6);
    let s = to_f64(start.chosen(&Scope::new(F64).unwrap(), &batch).unwrap().actions).unwrap();
    let mut fixed = batch_form(&start, &s, 6);
    fixed.actions.values.fixed = true;
    let config = TrainConfig::new(Optimizer::Lbfgs(Lbfgs::default()), 8);
    let want = fit::fit(&mut fixed, F64, &observations, &config, &mut []).unwrap();
    let ended = held.objective_at(
        &Scope::new(F64).unwrap(),
        &batch,
        &start.chosen(&Scope::new(F64).unwrap(), &batch).unwrap().actions,
        None,
    );
    assert_close("loss", &[scalar(ended.unwrap()).unwrap() / n as f64], &[want.loss], 1e-8);
    assert_close("parameters", &held.free_raw(), &fixed.free_raw(), 1e-5);
    // The loss at the end belongs to the actions chosen there.
    assert_close("own loss", &[outcome.loss], &[fit::evaluate(&held, F64, &batch).unwrap().loss / n as f64], 1e-12);
    // If actions are chosen again, training ends where the gradient with the actions of that same point is zero.
    for refresh in [1, 5] {
        let (gp, outcome) = train(refresh, 400);
        let gradient = fit::evaluate(&gp, F64, &batch).unwrap().gradient;
        assert!(gradient.iter().all(|g| g.abs() < 1e-2), "{refresh}: {gradient:?} {}", outcome.termination);
    }
}

/// A model with loss x². For the choice held at c the loss is (x − 3)² + c² − (c − 3)², which seems to fall towards 3.
#[derive(Debug, Clone)]
struct Astray(Parameter);

impl Model for Astray {
    fn objective(&self, scope: &Scope, _batch: &Batch) -> cagey::Result<Tensor<1>> {
        Ok(scope.value(&self.0).powi_scalar(2))
    }

    fn refresh(&self) -> Option<usize> {
        Some(5)
    }

    fn choose(&self, _scope: &Scope, _batch: &Batch) -> cagey::Result<Option<Held>> {
        Ok(Some(Held::new(self.0.values()[0])))
    }

    fn objective_for(&self, scope: &Scope, _batch: &Batch, chosen: &Held) -> cagey::Result<Tensor<1>> {
        let c = *chosen.get::<f64>()?;
        Ok((scope.value(&self.0) - 3.0).powi_scalar(2) + c * c - (c - 3.0).powi(2))
    }
}

impl Parameters for Astray {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        vec![("x".into(), &self.0)]
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        vec![("x".into(), &mut self.0)]
    }
}

#[test]
fn steps_since_the_last_choice_that_lead_astray_are_taken_back() {
    for steps in [3, 5, 12] {
        let mut model = Astray(Parameter::real("x", Unit::None, &[0.5]));
        let config = TrainConfig::new(Optimizer::default(), steps);
        let outcome = fit::fit(&mut model, F64, &data(4, 1), &config, &mut []).unwrap();
        assert_eq!((model.0.values()[0], outcome.x[0]), (0.5, 0.5), "{steps}");
        assert_close("loss", &[outcome.loss], &[0.25 / 4.0], 1e-12);
    }
}

#[test]
fn restarts_begin_from_the_same_actions() {
    let observations = data(30, 2);
    let mut gp = Cagp::new(matern(), Actions::averages(30, 5).unwrap());
    let start = gp.actions.values.raw().to_vec();
    let mut begun = Beginnings::default();
    let config = TrainConfig::new(Optimizer::Lbfgs(Lbfgs::default()), 3).restarts(Restarts::new(3, 1.0));
    fit::fit(&mut gp, F64, &observations, &config, &mut [&mut begun]).unwrap();
    let hyper = gp.free_raw().len() - start.len();
    assert_eq!(begun.0.len(), 3);
    assert!(begun.0.iter().all(|x| x[hyper..] == start), "actions");
    assert!(begun.0[0][..hyper] != begun.0[1][..hyper], "hyperparameters differ");
}

#[test]
fn constant_targets_are_solved_for_by_every_policy() {
    let observations = data(20, 2).with_targets(vec![0.0; 20]).unwrap();
    for policy in policies(20) {
        let gp = iterative(policy, 4);
        let name = gp.policy.name();
        let (posterior, report) = gp.posterior(F64, observations.clone()).unwrap();
        assert!(report.actions >= 1, "{name}: {report}");
        let predicted = posterior.predict(&[0.1, 0.2]).unwrap();
        assert!(predicted.mean[0].abs() < 1e-12 && predicted.variance[0] > 0.0, "{name}: {predicted:?}");
    }
}

#[test]
fn learned_action_gradients_match_finite_differences() {
    let n = 17;
    let observations = data(n, 2);
    let batch = observations.batch(&Scope::new(F64).unwrap());
    for actions in [Actions::random(n, 4, 1).unwrap(), Actions::dense(&numbers(n * 3, 2), 3)] {
        for objective in [CagpObjective::Elbo, CagpObjective::Projected] {
            let gp = Cagp { objective, ..Cagp::new(matern(), actions.clone()) };
            let numeric = differences(&gp.free_raw(), |raw| {
                let mut moved = gp.clone();
                moved.set_free_raw(raw).unwrap();
                loss(&moved, &batch)
            });
            let gradient = fit::evaluate(&gp, F64, &batch).unwrap().gradient;
            assert_close(&format!("{:?} {objective:?}", gp.actions.layout), &gradient, &numeric, 1e-6);
        }
    }
}

#[test]
fn single_precision_follows_double_in_the_iterative_form() {
    let n = 60;
    let observations = data(n, 2);
    for policy in policies(n) {
        let gp = iterative(policy, 6);
        let name = format!("{:?}", gp.policy);
        let evaluate = |compute| {
            let batch = observations.batch(&Scope::new(compute).unwrap());
            fit::evaluate(&gp, compute, &batch).unwrap()
        };
        let (double, single) = (evaluate(F64), evaluate(F32));
        assert_close(&name, &[single.loss], &[double.loss], 1e-4);
        assert_close(&name, &single.gradient, &double.gradient, 2e-3);
        let predict = |compute| gp.posterior(compute, observations.clone()).unwrap().0.predict(&POINTS).unwrap();
        assert_close(&name, &predict(F32).mean, &predict(F64).mean, 1e-3);
        assert_close(&name, &predict(F32).variance, &predict(F64).variance, 1e-3);
    }
}

/// Theorem S2: the predictive variance at a new point is the largest squared error of the posterior mean there, over
/// all y in the unit ball of the RKHS of k + σ²δ.
#[test]
fn variance_is_the_worst_squared_error() {
    let n = 15;
    let observations = data(n, 2);
    let noise_variance = 0.2;
    let scope = Scope::new(F64).unwrap();
    let unknown = [0.4, -0.7];
    for i in [1, 4, 15] {
        let mut gp = Cagp::new(matern(), Actions::random(n, i, 8).unwrap());
        set_noise(&mut gp, noise_variance);
        let mean_for = |y: Vec<f64>| {
            let observations = Observations::new(observations.x.clone(), 2, y, None).unwrap();
            let posterior = gp.posterior(F64, observations).unwrap();
            let marginals = posterior.predict(&unknown).unwrap();
            (marginals.mean[0], marginals.variance[0] + noise_variance)
        };
        // The mean is linear in y: unit vectors give its coefficients.
        let unit = |j: usize| (0..n).map(|k| f64::from(u8::from(k == j))).collect::<Vec<_>>();
        let coefficients: Vec<f64> = (0..n).map(|j| mean_for(unit(j)).0).collect();
        let variance = mean_for(unit(0)).1;
        // Functions y = Σ a_k kσ(·, z_k), with z the data, the new point and others; ‖y‖² = aᵀKσ a.
        let mut sites = observations.x.clone();
        sites.extend(unknown);
        sites.extend(numbers(10, 3).iter().map(|v| 4.0 * v));
        let m = sites.len() / 2;
        let points = scope.matrix(&sites, m, 2);
        let mut gram = to_f64(gp.priors[0].cross(&scope, &points, &points).matrix().unwrap()).unwrap();
        gram.iter_mut().step_by(m + 1).for_each(|d| *d += noise_variance);
        let error = |a: &[f64]| {
            let y: Vec<f64> = gram.chunks(m).map(|row| row.iter().zip(a).map(|(k, a)| k * a).sum()).collect();
            let square: f64 = y.iter().zip(a).map(|(y, a)| y * a).sum();
            let (mean, _) = mean_for(y[..n].to_vec());
            (y[n] - mean).powi(2) / square
        };
        // The worst function is kσ(·, x*) − Σ c_j kσ(·, x_j).
        let mut worst = vec![0.0; m];
        worst[..n].iter_mut().zip(&coefficients).for_each(|(a, c)| *a = -c);
        worst[n] = 1.0;
        assert_close(&format!("i = {i}"), &[error(&worst)], &[variance], 1e-9);
        for seed in 0..20 {
            assert!(error(&numbers(m, seed)) <= variance * (1.0 + 1e-9), "i = {i}: no y does worse");
            let near: Vec<f64> = worst.iter().zip(numbers(m, seed)).map(|(w, v)| w + 0.05 * v).collect();
            assert!(error(&near) <= variance * (1.0 + 1e-9), "i = {i}: no y does worse");
        }
    }
}

#[test]
fn more_actions_without_starting_over() {
    let n = 30;
    let observations = data(n, 2);
    let s = numbers(n * 9, 4);
    let part = |from: usize, to: usize| {
        let values: Vec<f64> = s.chunks(9).flat_map(|row| &row[from..to]).copied().collect();
        Actions::dense(&values, to - from)
    };
    let posterior = |actions: Actions| Cagp::new(matern(), actions).posterior(F64, observations.clone()).unwrap();
    let agree = |name: &str, grown: &CagpPosterior, whole: &CagpPosterior| {
        let (a, b) = (grown.predict(&POINTS).unwrap(), whole.predict(&POINTS).unwrap());
        assert_close(&format!("{name} mean"), &a.mean, &b.mean, 1e-8);
        assert_close(&format!("{name} variance"), &a.variance, &b.variance, 1e-8);
    };
    let mut grown = posterior(part(0, 2));
    for (from, to) in [(2, 3), (3, 9)] {
        let next = grown.condition(&part(from, to)).unwrap();
        let (before, after) = (grown.predict(&POINTS).unwrap().variance, next.predict(&POINTS).unwrap().variance);
        assert!(after.iter().zip(&before).all(|(a, b)| a <= b), "more actions, less variance");
        grown = next;
    }
    assert_eq!(grown.actions(), 9);
    let whole = posterior(part(0, 9));
    agree("dense", &grown, &whole);
    assert_close("weights", &grown.weights(), &whole.weights(), 1e-7);
    // Coarse blocks, then finer ones: together the span of the finer and the coarse blocks.
    let coarse = Actions::random(n, 3, 1).unwrap();
    let fine = Actions::random(n, 5, 2).unwrap();
    let filled = |actions: &Actions| {
        let (scope, i) = (Scope::new(F64).unwrap(), actions.len());
        let blocks = BlockSparse::new(scope.value(&actions.values), BlockSparse::even(n, i)).unwrap();
        to_f64(cagey::solvers::itergp::Basis::sparse(blocks).into_dense().unwrap()).unwrap()
    };
    let (a, b) = (filled(&coarse), filled(&fine));
    let both: Vec<f64> = a.chunks(3).zip(b.chunks(5)).flat_map(|(a, b)| a.iter().chain(b)).copied().collect();
    let grown = posterior(coarse.clone()).condition(&fine).unwrap();
    agree("blocks", &grown, &posterior(Actions::dense(&both, 8)));
    check_posterior("grown", &grown, &POINTS, 2);
    // A policy continues where learned actions ended, down to the exact posterior.
    for policy in policies(n) {
        let more = IterGpOptions { block: 4, ..IterGpOptions::budget(5) };
        let start = posterior(coarse.clone());
        let (grown, report) = start.compute_more(policy.as_ref(), &more, None).unwrap();
        let name = format!("{policy:?}");
        assert_eq!((report.stop, report.actions, grown.actions()), (Stop::Budget, 5, 8), "{name}");
        let (before, after) = (start.predict(&POINTS).unwrap(), grown.predict(&POINTS).unwrap());
        assert!(after.variance.iter().zip(&before.variance).all(|(a, b)| a <= b), "{name}");
    }
    let exact = ExactGp::new(matern()).posterior(F64, observations.clone()).unwrap().predict(&POINTS).unwrap();
    let random = Random { probes: Probes::Gaussian, seed: 77 };
    let (all, report) = posterior(coarse).compute_more(&random, &IterGpOptions::budget(100), None).unwrap();
    assert_eq!((report.stop, all.actions()), (Stop::Budget, n));
    let all = all.predict(&POINTS).unwrap();
    assert_close("all", &all.mean, &exact.mean, 1e-7);
    assert_close("all", &all.variance, &exact.variance, 1e-7);
    assert!(whole.condition(&part(0, 1)).is_err(), "an action that is there already");
    let twice = Actions::dense(&numbers(n, 1).iter().flat_map(|v| [*v, 2.0 * v]).collect::<Vec<_>>(), 2);
    let problem = Cagp::new(matern(), twice).posterior(F64, observations.clone()).unwrap_err().to_string();
    assert!(problem.contains("action 1 lies in the span"), "{problem}");
    let many = Cagp::new(matern(), Actions::dense(&numbers(n * (n + 1), 1), n + 1));
    assert!(many.posterior(F64, observations.clone()).unwrap_err().to_string().contains("31 actions for 30 rows"));
    // Saved numbers belong to actions of the same lengths.
    let model = Cagp::new(matern(), part(0, 2));
    for posterior in [posterior(part(0, 2)), posterior(part(0, 2)).condition(&part(2, 5)).unwrap()] {
        let restored = model.restored(F64, observations.clone(), posterior.saved(true).unwrap()).unwrap().unwrap();
        assert_close("lengths", &restored.weights(), &posterior.weights(), 1e-12);
    }
    assert!(whole.condition(&Actions::random(n + 1, 2, 0).unwrap()).is_err(), "actions for other rows");
}

#[test]
fn conjugate_gradients_go_on_as_if_never_stopped() {
    let observations = data(40, 2);
    let (short, _) = iterative(Box::new(Residual), 5).posterior(F64, observations.clone()).unwrap();
    let (long, _) = iterative(Box::new(Residual), 12).posterior(F64, observations).unwrap();
    let (more, report) = short.compute_more(&Residual, &IterGpOptions::budget(7), None).unwrap();
    assert_eq!(report.actions, 7);
    let (a, b) = (more.predict(&POINTS).unwrap(), long.predict(&POINTS).unwrap());
    assert_close("mean", &a.mean, &b.mean, 1e-8);
    assert_close("variance", &a.variance, &b.variance, 1e-8);
}

/// Actions are added until what was not computed hardly adds to variances; of many rows their nearest stand for all.
#[test]
fn actions_are_added_until_variances_need_no_more() {
    for (n, start, share) in [(400, 4, 0.1), (400, 4, 0.02), (8200, 16, 0.05)] {
        let x: Vec<f64> = (0..n).map(|i| 40.0 * f64::from(i) / f64::from(n)).collect();
        let y = x.iter().enumerate().map(|(i, x)| x.sin() + 0.3 * noise(&mut (9 + i as u64))).collect();
        let observations = Observations::new(x, 1, y, None).unwrap();
        let mut model = Cagp::new(Kernel::parse("rbf", 1).unwrap(), Actions::averages(n as usize, start).unwrap());
        let before = model.posterior(F64, observations.clone()).unwrap();
        model.share = Some(share);
        let after = model.condition(F64, observations.clone()).unwrap();
        let points: Vec<f64> = (0..50).map(|i| 0.79 * f64::from(i)).collect();
        let exact = if n < 1000 {
            ExactGp { likelihood: model_noise(&model), ..ExactGp::new(Kernel::parse("rbf", 1).unwrap()) }
                .posterior(F64, observations)
                .unwrap()
                .predict(&points)
                .unwrap()
                .variance
        } else {
            let near =
                NearestGp { likelihood: model_noise(&model), ..NearestGp::new(Kernel::parse("rbf", 1).unwrap()) };
            near.posterior(F64, observations).unwrap().predict(&points).unwrap().variance
        };
        let noise = 50.0 * model.likelihood.noise().unwrap();
        let above = |posterior: &dyn Posterior| {
            let all = posterior.predict(&points).unwrap().variance.iter().sum::<f64>();
            (all + noise) / (exact.iter().sum::<f64>() + noise) - 1.0
        };
        let (said, open) = after.computation_aware().unwrap().added().unwrap();
        assert!(said.contains("added after training") && open.is_none(), "{said} {open:?}");
        let (before, after) = (above(&before), above(&*after));
        assert!(before > share && after < 1.5 * share, "{n} rows: {before} and {after} above, for {share}");
    }
}

/// The noise of a model of Gaussian targets.
fn model_noise(model: &Cagp) -> Gaussian {
    let mut likelihood = Gaussian::new(1.0);
    likelihood.noise.set(&[model.likelihood.noise().unwrap()]).unwrap();
    likelihood
}

#[test]
fn uncertainty_is_mathematical_and_computational() {
    let n = 24;
    let observations = data(n, 2);
    let exact = ExactGp::new(matern()).posterior(F64, observations.clone()).unwrap().predict(&POINTS).unwrap();
    let mut last = f64::INFINITY;
    for i in [1, 3, 12, 24] {
        // If the values stay, halving blocks nests the spans.
        let gp = Cagp::new(matern(), Actions::from_blocks(&numbers(n, 1), BlockSparse::even(n, i)));
        let parts = gp.posterior(F64, observations.clone()).unwrap().uncertainty(&POINTS).unwrap();
        let (mathematical, computational) = (parts.mathematical.unwrap(), parts.computational.unwrap());
        assert_close("mathematical", &mathematical, &exact.variance, 1e-8);
        let sum: Vec<f64> = mathematical.iter().zip(&computational).map(|(m, c)| m + c).collect();
        assert_close("sum", &sum, &parts.total, 1e-12);
        let largest = computational.iter().copied().fold(0.0, f64::max);
        assert!(largest <= last, "i = {i}");
        last = largest;
    }
    assert!(last < 1e-8, "nothing is left to compute at i = n");
    let many = data(EXACT_ROWS + 1, 1);
    let gp = Cagp::new(Kernel::parse("rbf", 1).unwrap(), Actions::random(EXACT_ROWS + 1, 2, 0).unwrap());
    let parts = gp.posterior(F32, many).unwrap().uncertainty(&[0.5]).unwrap();
    assert!(parts.mathematical.is_none() && parts.computational.is_none() && parts.total.len() == 1);
}

#[test]
fn all_actions_are_the_exact_gp() {
    let n = 20;
    let observations = data(n, 2);
    let batch = observations.batch(&Scope::new(F64).unwrap());
    let mut exact = ExactGp::new(matern());
    exact.likelihood.noise.set(&[0.2]).unwrap();
    let want = exact.posterior(F64, observations.clone()).unwrap().predict(&POINTS).unwrap();
    let evidence = loss(&exact, &batch);
    let complete: Vec<Box<dyn Policy>> = vec![
        Box::new(Residual),
        Box::new(UnitVector { pivots: Pivots::Largest }),
        Box::new(Random { probes: Probes::Gaussian, seed: 1 }),
        Box::new(Eigenvector),
        Box::new(Preconditioned::new(Box::new(UnitVector { pivots: Pivots::Data }), 6, Box::new(Residual))),
    ];
    for policy in complete {
        let name = format!("{policy:?}");
        let mut gp = iterative(policy, n);
        for objective in [CagpObjective::Elbo, CagpObjective::Projected] {
            gp.objective = objective;
            assert_close(&name, &[loss(&gp, &batch)], &[evidence], 1e-7);
        }
        let got = gp.posterior(F64, observations.clone()).unwrap().0.predict(&POINTS).unwrap();
        assert_close(&name, &got.mean, &want.mean, 1e-7);
        assert_close(&name, &got.variance, &want.variance, 1e-7);
    }
}

#[test]
fn initial_actions() {
    let averages = Actions::averages(5, 2).unwrap();
    let (three, two) = (3f64.sqrt().recip(), 2f64.sqrt().recip());
    let sizes: Vec<usize> = BlockSparse::even(5, 2).windows(2).map(|w| w[1] - w[0]).collect();
    let want: Vec<f64> = sizes.iter().flat_map(|&size| vec![if size == 3 { three } else { two }; size]).collect();
    assert_close("averages", &averages.values.internal(), &want, 1e-15);
    assert!(Actions::averages(2, 3).is_err() && Actions::averages(2, 0).is_err());
    let y = [3.0, 4.0, 0.0, 0.0, -2.0];
    let actions = Actions::from_targets(&y, 2).unwrap();
    assert_close("values", &actions.values.internal(), &[0.6, 0.8, 0.0, 0.0, -1.0], 1e-15);
    let zeros = Actions::from_targets(&[0.0; 4], 2).unwrap();
    assert_close("zeros", &zeros.values.internal(), &[0.5f64.sqrt(); 4], 1e-15);
    assert!(Actions::from_targets(&y, 6).is_err() && Actions::from_targets(&y, 0).is_err());
}

#[test]
fn blocks_of_a_tree_are_coherent_and_complete() {
    let (n, d) = (103, 2);
    let observations = data(n, d).with_auxiliary(Some((0..n).map(|i| i as f64).collect())).unwrap();
    for (leaves, lengthscales) in [(1, [1.0, 1.0]), (8, [1.0, 1.0]), (13, [0.1, 10.0]), (103, [1.0, 1.0])] {
        let order = kd_tree(&observations.x, d, &lengthscales, leaves).unwrap();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..n).collect::<Vec<_>>(), "every row once, the remainder too");
        let moved = observations.permuted(&order).unwrap();
        assert_eq!(moved.x[2 * 7 + 1], observations.x[2 * order[7] + 1]);
        assert_eq!((moved.y[9], moved.auxiliary.as_ref().unwrap()[9]), (observations.y[order[9]], order[9] as f64));
        // Extents of the blocks in scaled inputs, compared with the order of the data.
        let extent = |data: &Observations| -> f64 {
            let blocks = BlockSparse::even(n, leaves);
            let spread = |rows: &[f64], c: usize| {
                let column = rows.iter().skip(c).step_by(d);
                let (low, high) = column.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
                (high - low) / lengthscales[c]
            };
            blocks.windows(2).map(|w| (0..d).map(|c| spread(&data.x[w[0] * d..w[1] * d], c)).fold(0.0, f64::max)).sum()
        };
        if leaves == 8 || leaves == 13 {
            assert!(extent(&moved) < 0.6 * extent(&observations), "{leaves} leaves");
        }
    }
    assert_eq!(RowOrder::Data.rows(&observations, 5).unwrap(), (0..n).collect::<Vec<_>>());
    assert_eq!(RowOrder::Tree.rows(&observations, 5).unwrap(), kd_tree(&observations.x, d, &[1.0, 1.0], 5).unwrap());
    // Along a line the leaves are intervals in order, even with ties.
    let line = [5.0, 1.0, 1.0, 3.0, 0.0, 9.0, 1.0];
    let order = kd_tree(&line, 1, &[2.0], 3).unwrap();
    let blocks: Vec<Vec<f64>> =
        BlockSparse::even(7, 3).windows(2).map(|w| order[w[0]..w[1]].iter().map(|&r| line[r]).collect()).collect();
    let largest = |b: &Vec<f64>| b.iter().copied().fold(f64::MIN, f64::max);
    let smallest = |b: &Vec<f64>| b.iter().copied().fold(f64::MAX, f64::min);
    assert!(blocks.windows(2).all(|w| largest(&w[0]) <= smallest(&w[1])));
    assert!(kd_tree(&line, 1, &[1.0], 8).is_err() && kd_tree(&line, 1, &[0.0], 2).is_err());
    assert!(observations.permuted(&[0, 0]).is_err());
}

const KERNELS: [&str; 5] = [
    "matern12(ard)",
    "matern52(0.7)",
    "rbf(ard) + linear",
    "rq + white(variance=0.1)",
    "periodic(period=1.5) * matern32",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The variance is never below the exact one, the bounds stay in order, and each action lowers the variance.
    #[test]
    fn never_overconfident(
        text in 0..KERNELS.len(),
        n in 4usize..26,
        share in 0.0f64..1.0,
        log_noise in -6.0f64..1.0,
        seed in 0u64..1000,
        which in 0usize..3,
    ) {
        let kernel = Kernel::parse(KERNELS[text], 2).unwrap();
        let mut state = seed;
        let x: Vec<f64> = (0..2 * n).map(|_| 4.0 * noise(&mut state)).collect();
        let y: Vec<f64> = (0..n).map(|_| 3.0 * noise(&mut state)).collect();
        let observations = Observations::new(x, 2, y, None).unwrap();
        let scope = Scope::new(F64).unwrap();
        let batch = observations.batch(&scope);
        let i = 1 + (share * (n - 1) as f64) as usize;
        let actions = match which {
            0 => Actions::random(n, i, seed).unwrap(),
            1 => Actions::dense(&numbers(n * i, seed), i),
            _ => Actions::from_targets(&observations.y, i).unwrap(),
        };
        let mut gp = Cagp::new(kernel.clone(), actions);
        let mut exact = ExactGp::new(kernel);
        set_noise(&mut gp, log_noise.exp());
        set_noise(&mut exact, log_noise.exp());
        let sigma = exact.likelihood.noise.internal()[0];
        let evidence = loss(&exact, &batch);
        let elbo = loss(&gp, &batch);
        gp.objective = CagpObjective::Projected;
        let projected = loss(&gp, &batch) + 0.5 * (n - i) as f64 * (2.0 * std::f64::consts::PI * sigma).ln();
        let slack = 1e-6 * (1.0 + evidence.abs());
        prop_assert!(projected <= evidence + slack && evidence <= elbo + slack, "{projected} {evidence} {elbo}");
        let truth = exact.posterior(F64, observations.clone()).unwrap().predict(&POINTS).unwrap().variance;
        let posterior = gp.posterior(F64, observations).unwrap();
        let computed = posterior.predict(&POINTS).unwrap().variance;
        for (computed, truth) in computed.iter().zip(&truth) {
            prop_assert!(*computed >= truth - 1e-8 * computed.abs().max(1.0), "{computed} below {truth}");
        }
        if i < n {
            let auxiliary: Vec<f64> = numbers(n, seed + 1);
            if let Ok(more) = posterior.condition(&Actions::dense(&auxiliary, 1)) {
                let more = more.predict(&POINTS).unwrap().variance;
                prop_assert!(more.iter().zip(&computed).all(|(m, c)| *m <= c + 1e-12));
                prop_assert!(more.iter().zip(&truth).all(|(m, t)| *m >= t - 1e-8 * m.abs().max(1.0)));
            }
        }
    }
}

/// If SᵀK̂S is nearly singular, the expected squared error is a small difference of numbers that are larger by many
/// orders of magnitude.
#[test]
fn the_bound_is_one_where_targets_are_nearly_free_of_noise() {
    let (n, i) = (600, 60);
    let observations = data(n, 2);
    let y = observations.x.chunks_exact(2).map(|x| (0.5 * x[0]).sin() + 0.2 * x[1]).collect();
    let observations = observations.with_targets(y).unwrap();
    let scope = Scope::new(F64).unwrap();
    let batch = observations.batch(&scope);
    for text in ["100 * matern52(30)", "100 * rbf(10)", "10 * matern32(100)", "1e4 * rbf(30)"] {
        let mut blocks = Cagp::new(Kernel::parse(text, 2).unwrap(), Actions::random(n, i, 3).unwrap());
        set_noise(&mut blocks, 2e-6);
        let mut exact = ExactGp::new(blocks.priors[0].kernel.clone());
        set_noise(&mut exact, 2e-6);
        let mut s = vec![0.0; n * i];
        for (row, value) in blocks.actions.values.internal().into_iter().enumerate() {
            s[row * i + row * i / n] = value;
        }
        let dense = Cagp { actions: Actions::dense(&s, i), ..blocks.clone() };
        let [blocks, dense, exact] = [loss(&blocks, &batch), loss(&dense, &batch), loss(&exact, &batch)];
        assert!(blocks >= exact - 1e-6 * exact.abs(), "{text}: {blocks} is below {exact}");
        assert_close(text, &[dense], &[blocks], 1e-3);
    }
}

/// The squared exponential kernel as a user would write it: no product knows its form.
#[derive(Debug)]
struct Plain;

impl Form for Plain {
    fn name(&self) -> &str {
        "plain"
    }

    fn parameters(&self, _d: usize) -> Vec<Parameter> {
        vec![
            Parameter::positive("lengthscale", Unit::Length, &[10.0]),
            Parameter::positive("variance", Unit::Variance, &[100.0]),
        ]
    }

    fn cross(&self, p: &[Tensor<1>], x1: Tensor<2>, x2: Tensor<2>) -> cagey::Result<Tensor<2>> {
        let scaled = |x: Tensor<2>| x / p[0].clone().unsqueeze::<2>();
        let (a, b) = (scaled(x1).unsqueeze_dim::<3>(1), scaled(x2).unsqueeze_dim::<3>(0));
        let squares: Tensor<2> = (a - b).powi_scalar(2).sum_dim(2).squeeze_dim(2);
        Ok((squares * -0.5).exp() * p[1].clone().unsqueeze::<2>())
    }

    fn diag(&self, p: &[Tensor<1>], x: Tensor<2>) -> cagey::Result<Tensor<1>> {
        Ok(p[1].clone().expand([x.dims()[0]]))
    }
}

#[test]
fn the_bound_of_a_users_form_is_that_of_a_built_in_one() {
    let (n, i) = (300, 30);
    let observations = data(n, 2);
    let y = observations.x.chunks_exact(2).map(|x| (0.5 * x[0]).sin() + 0.2 * x[1]).collect();
    let observations = observations.with_targets(y).unwrap();
    let batch = observations.batch(&Scope::new(F64).unwrap());
    let model = |kernel| {
        let mut gp = Cagp::new(kernel, Actions::random(n, i, 3).unwrap());
        set_noise(&mut gp, 2e-6);
        gp
    };
    let own = model(Kernel::leaf(Arc::new(Plain), 2));
    let built_in = model(Kernel::parse("rbf(10, variance=100)", 2).unwrap());
    let mut exact = ExactGp::new(built_in.priors[0].kernel.clone());
    set_noise(&mut exact, 2e-6);
    let (ours, theirs) = (fit::evaluate(&own, F64, &batch).unwrap(), fit::evaluate(&built_in, F64, &batch).unwrap());
    assert!(ours.loss >= loss(&exact, &batch), "{} is below {}", ours.loss, loss(&exact, &batch));
    assert_close("loss", &[ours.loss], &[theirs.loss], 1e-5);
    assert_close("gradient", &ours.gradient, &theirs.gradient, 1e-3);
}

/// For a smooth function all rows of K S are alike, and the bound is a small difference of their large squares.
#[test]
fn single_precision_keeps_the_bound_where_rows_are_alike() {
    let (n, i) = (600, 64);
    let observations = data(n, 2);
    for objective in [CagpObjective::Elbo, CagpObjective::Projected] {
        let mut gp = Cagp::new(Kernel::parse("2 * matern32(20)", 2).unwrap(), Actions::random(n, i, 3).unwrap());
        set_noise(&mut gp, 0.13);
        gp.objective = objective;
        let evaluate = |compute| {
            let batch = observations.batch(&Scope::new(compute).unwrap());
            fit::evaluate(&gp, compute, &batch).unwrap()
        };
        let (double, single) = (evaluate(F64), evaluate(F32));
        let error = (single.loss - double.loss).abs() / n as f64;
        assert!(error < 1e-5, "{objective:?}: {error:e} per row");
        assert_close(&format!("{objective:?}"), &single.gradient, &double.gradient, 2e-3);
    }
}

/// The derivatives of tr K and of its explained part are as large as n over the noise, but their difference is not.
#[test]
fn single_precision_keeps_gradients_that_cancel() {
    let n = 6000;
    let observations = data(n, 2);
    let mut gp = Cagp::new(Kernel::parse("2 * matern32(20)", 2).unwrap(), Actions::averages(n, 48).unwrap());
    set_noise(&mut gp, 0.13);
    let evaluate = |compute| {
        let batch = observations.batch(&Scope::new(compute).unwrap());
        fit::evaluate(&gp, compute, &batch).unwrap().gradient
    };
    let (double, single) = (evaluate(F64), evaluate(F32));
    for ((path, _), (double, single)) in gp.parameters().iter().zip(double.iter().zip(single)).take(3) {
        let error = (single - double).abs() / double.abs();
        assert!(error < 3e-4, "{path}: {single:e}, in f64 {double:e}");
    }
}
