//! Stochastic variational GPs.

use cagey::data::{ReadOptions, RowFile};
use cagey::kernels::Kernel;
use cagey::likelihoods::{
    Bernoulli, BernoulliLink, Gaussian, Likelihood, Ordinal, Poisson, RateLink, Softmax, StudentT,
};
use cagey::linalg::jitter::watch;
use cagey::means::Mean;
use cagey::models::exact::ExactGp;
use cagey::models::minibatch::{Minibatches, Rows};
use cagey::models::posterior::Posterior;
use cagey::models::sgpr::Sgpr;
use cagey::models::svgp::Svgp;
use cagey::models::variational::Covariance;
use cagey::models::{Batch, Model, Observations, fit, minibatch};
use cagey::params::Parameters;
use cagey::scope::{Scope, scalar};
use cagey::train::{Adam, CheckpointPlan, Cooling, Optimizer, Restarts, Schedule, TrainConfig};
use serde_json::Value;

use crate::common::{
    Beginnings, StopAt, assert_close, check_posterior, columns, flat, golden, kernel, kernel_gradient,
};
use crate::unwhitened::Unwhitened;
use crate::{F32, F64, check_gradient, data, noise};

/// Names of gradients in a golden file, with factors.
type Named = Vec<(&'static str, f64)>;

/// The likelihood of a golden file, and the gradients in its parameters: their names there and factors.
fn likelihood(tree: &Value) -> Option<(Box<dyn Likelihood>, Named)> {
    Some(match tree["type"].as_str()? {
        "gaussian" => (Box::new(Gaussian::new(tree["noise"].as_f64()?)), vec![("noise", 1.0)]),
        "bernoulli_logit" => (Box::new(Bernoulli { link: BernoulliLink::Logit }), vec![]),
        "bernoulli_probit" => (Box::new(Bernoulli { link: BernoulliLink::Probit }), vec![]),
        "poisson" => (Box::new(Poisson { link: RateLink::Exp }), vec![]),
        "student_t" => {
            // The golden file learns the scale, not its square, and fixes df.
            let scale = tree["scale"].as_f64()?;
            let mut student = StudentT::new(scale * scale, tree["df"].as_f64()?);
            student.df.fixed = true;
            (Box::new(student), vec![("scale", 0.5 / scale)])
        }
        _ => return None,
    })
}

fn lower_rows(matrix: &Value) -> Vec<f64> {
    matrix.as_array().unwrap().iter().enumerate().flat_map(|(i, row)| flat(row)[..=i].to_vec()).collect()
}

#[test]
fn golden_svgp() {
    let mut seen = 0;
    for case in golden("svgp") {
        let name = case["case"].as_str().unwrap();
        let Some((likelihood, own)) = likelihood(&case["likelihood"]) else { continue };
        seen += 1;
        let (d, expected) = (columns(&case["X"]), &case["expected"]);
        let start = Gaussian::new(1.0);
        let mut gp = Svgp::new(kernel(&case["kernel"], d), &flat(&case["Z"]), d, start).unwrap();
        gp.likelihood = likelihood;
        gp.processes[0].prior.mean = Mean::named("constant", d).unwrap();
        gp.parameters_mut()
            .iter_mut()
            .find(|(path, _)| path == "mean.constant")
            .unwrap()
            .1
            .set(&flat(&case["mean"]))
            .unwrap();
        let (mean, root) = (flat(&case["q_mu"]), lower_rows(&case["q_sqrt"]));
        let unwhitened = (!case["whiten"].as_bool().unwrap()).then(|| Unwhitened::new(gp.clone(), &mean, &root));
        match &unwhitened {
            Some(unwhitened) => gp = unwhitened.whitened.clone(),
            None => {
                gp.variational[0].mean.set(&mean).unwrap();
                gp.variational[0].root.set(&root).unwrap();
            }
        }
        let data = Observations::new(flat(&case["X"]), d, flat(&case["y"]), None).unwrap();
        let scale = case["num_data"].as_f64().unwrap() / data.n() as f64;
        for (compute, tolerance) in [(F64, 1e-7), (F32, 4e-4)] {
            let scope = Scope::training(compute).unwrap();
            let loss = gp.objective(&scope, &Batch { scale, ..data.batch(&scope) }).unwrap();
            let value_tolerance = if compute == F64 { 1e-8 } else { 2e-4 };
            assert_close(name, &[-scalar(loss.clone()).unwrap()], &flat(&expected["elbo"]), value_tolerance);
            let (_, mut raw) = scope.gradient(loss, &gp).unwrap();
            if let Some(unwhitened) = &unwhitened {
                raw = unwhitened.gradient(&raw);
            }
            let mut want: Vec<f64> =
                kernel_gradient(&gp.processes[0].prior.kernel, &expected["grad"]["kernel"]).concat();
            for (part, factor) in [("mean", 1.0), ("Z", 1.0)].iter().chain(&own).chain(&[("q_mu", 1.0)]) {
                want.extend(flat(&expected["grad"][part]).iter().map(|g| g * factor));
            }
            want.extend(lower_rows(&expected["grad"]["q_sqrt"]));
            let slopes: Vec<f64> =
                gp.parameters().iter().filter(|(_, p)| !p.fixed).flat_map(|(_, p)| p.internal_slope()).collect();
            let got: Vec<f64> = raw.iter().zip(slopes).map(|(g, s)| -g / s).collect();
            assert_close(&format!("{name} gradient"), &got, &want, tolerance);
        }
        let posterior = gp.posterior(F64).unwrap();
        let train = posterior.predict(&flat(&case["X"])).unwrap();
        assert_close(&format!("{name} q_f_mean"), &train.mean, &flat(&expected["q_f_mean"]), 1e-8);
        assert_close(&format!("{name} q_f_var"), &train.variance, &flat(&expected["q_f_var"]), 1e-8);
        let points = flat(&case["Xs"]);
        let joint = posterior.predict_joint(&points).unwrap();
        assert_close(&format!("{name} f_mean"), &joint.mean, &flat(&expected["f_mean"]), 1e-8);
        assert_close(&format!("{name} f_cov"), &joint.covariance, &flat(&expected["f_cov"]), 1e-8);
        let single = gp.posterior(F32).unwrap().predict(&points).unwrap();
        assert_close(&format!("{name} f32 mean"), &single.mean, &flat(&expected["f_mean"]), 2e-4);
        check_posterior(name, &posterior, &points, d);
    }
    assert!(seen >= 10, "only {seen} golden files were read");
}

/// A model whose parameters are not at a symmetric point.
fn model(text: &str, z: &[f64], d: usize, likelihood: impl Likelihood + 'static) -> Svgp {
    let mut gp = Svgp::new(Kernel::parse(text, d).unwrap(), z, d, likelihood).unwrap();
    gp.processes[0].prior.mean = Mean::named("linear", d).unwrap();
    gp
}

fn shake(gp: &mut Svgp) {
    let mut state = 3;
    for q in &mut gp.variational {
        let moved = |raw: &[f64], state: &mut u64| raw.iter().map(|v| v + 0.3 * noise(state)).collect::<Vec<_>>();
        q.mean.set_raw(&moved(q.mean.raw(), &mut state)).unwrap();
        q.root.set_raw(&moved(q.root.raw(), &mut state)).unwrap();
    }
}

fn classes(observations: Observations) -> Observations {
    let y = observations.y.iter().map(|y| f64::from(u8::from(*y > 0.0))).collect();
    observations.with_targets(y).unwrap()
}

#[test]
fn gradients_match_finite_differences() {
    let observations = data(20, 2);
    let labels = classes(observations.clone());
    let z = &observations.x[..10];
    for covariance in [Covariance::Full, Covariance::Diagonal] {
        let name = format!("{covariance:?}");
        let mut gp = model("matern32(ard) + white(variance=0.1)", z, 2, Gaussian::new(0.2)).covariance(covariance);
        shake(&mut gp);
        check_gradient(&name, &gp, &observations, 2e-6);
        gp.likelihood = Box::new(Bernoulli { link: BernoulliLink::Logit });
        check_gradient(&name, &gp, &labels, 2e-6);
    }
}

#[test]
fn gradients_of_several_latents_match_finite_differences() {
    let observations = data(15, 2).with_targets((0..15).map(|i| (i % 3) as f64).collect()).unwrap();
    for separate in [false, true] {
        let mut gp = model("rbf(ard)", &observations.x[..8], 2, Softmax::new(3));
        if separate {
            gp = gp.separate();
            gp.processes[1].inducing.set_raw(&observations.x[8..16]).unwrap();
        } else {
            // Class probabilities do not change if all latent functions shift together.
            gp.processes[0].prior.mean = Mean::Zero;
        }
        shake(&mut gp);
        check_gradient(&format!("separate {separate}"), &gp, &observations, 2e-6);
    }
}

#[test]
fn optimal_q_is_the_collapsed_bound_and_with_all_inputs_the_exact_gp() {
    let observations = data(25, 2);
    let scope = Scope::new(F64).unwrap();
    let batch = observations.batch(&scope);
    for rows in [7, 25] {
        let z = &observations.x[..2 * rows];
        let mut gp = model("matern32(ard)", z, 2, Gaussian::new(0.2));
        shake(&mut gp);
        // One natural-gradient step of length 1 ends at the optimum.
        gp.natural_step(F64, &batch, 1.0).unwrap();
        let mut collapsed = Sgpr::new(gp.processes[0].prior.kernel.clone(), z, 2).unwrap();
        collapsed.process.prior.mean = gp.processes[0].prior.mean.clone();
        collapsed.likelihood = Gaussian::new(0.2);
        let got = fit::evaluate(&gp, F64, &batch).unwrap();
        let want = fit::evaluate(&collapsed, F64, &batch).unwrap();
        let name = format!("{rows} rows");
        assert_close(&name, &[got.loss], &[want.loss], 1e-9);
        // At the optimum of q both bounds have the same gradient in everything else.
        assert_close(&name, &got.gradient[..want.gradient.len()], &want.gradient, 1e-7);
        let points = [0.3, -0.2, 1.0, 1.0, -2.0, 0.5];
        let predicted = gp.posterior(F64).unwrap().predict(&points).unwrap();
        let sparse = collapsed.posterior(F64, observations.clone()).unwrap().predict(&points).unwrap();
        assert_close(&format!("{name}: mean"), &predicted.mean, &sparse.mean, 1e-8);
        assert_close(&format!("{name}: variance"), &predicted.variance, &sparse.variance, 1e-8);
        if rows == 25 {
            let mut exact = ExactGp::new(gp.processes[0].prior.kernel.clone());
            (exact.prior.mean, exact.likelihood) = (gp.processes[0].prior.mean.clone(), Gaussian::new(0.2));
            let exact_loss = fit::evaluate(&exact, F64, &batch).unwrap().loss;
            assert_close(&format!("{name}: exact"), &[got.loss], &[exact_loss], 1e-9);
        }
    }
}

#[test]
fn many_rows_are_predicted_as_each_alone() {
    let (observations, points) = (data(25, 2), data(40, 2).into_values().x);
    let mut optimal = model("matern32(ard)", &observations.x, 2, Gaussian::new(0.2));
    optimal.natural_step(F64, &observations.batch(&Scope::new(F64).unwrap()), 1.0).unwrap();
    let prior = model("matern32(ard)", &observations.x, 2, Gaussian::new(0.2));
    // Values that vary more than under the prior take another path in the code.
    let mut wide = optimal.clone();
    let root: Vec<f64> = wide.variational[0].root.raw().iter().map(|r| 3.0 * r).collect();
    wide.variational[0].root.set_raw(&root).unwrap();
    for (name, gp) in [("optimal", &optimal), ("prior", &prior), ("wide", &wide)] {
        let posterior = gp.posterior(F64).unwrap();
        let all = posterior.predict(&points).unwrap();
        let each: Vec<_> = points.chunks(2).map(|point| posterior.predict(point).unwrap()).collect();
        let means: Vec<f64> = each.iter().flat_map(|e| &e.mean).copied().collect();
        let variances: Vec<f64> = each.iter().flat_map(|e| &e.variance).copied().collect();
        assert_close(&format!("{name}: mean"), &all.mean, &means, 1e-11);
        assert_close(&format!("{name}: variance"), &all.variance, &variances, 1e-11);
    }
    let mut exact = ExactGp::new(optimal.processes[0].prior.kernel.clone());
    (exact.prior.mean, exact.likelihood) = (optimal.processes[0].prior.mean.clone(), Gaussian::new(0.2));
    let want = exact.posterior(F64, observations).unwrap().predict(&points).unwrap();
    let got = optimal.posterior(F64).unwrap().predict(&points).unwrap();
    assert_close("exact mean", &got.mean, &want.mean, 1e-9);
    assert_close("exact variance", &got.variance, &want.variance, 1e-9);
}

#[test]
fn natural_gradients_of_other_likelihoods_lower_the_loss() {
    let labels = classes(data(40, 2));
    let batch = labels.batch(&Scope::new(F64).unwrap());
    let mut gp = model("matern52(ard)", &labels.x[..20], 2, Bernoulli { link: BernoulliLink::Logit });
    let loss = |gp: &Svgp| fit::evaluate(gp, F64, &batch).unwrap();
    let mut losses = vec![loss(&gp).loss];
    for _ in 0..12 {
        gp.natural_step(F64, &batch, 0.5).unwrap();
        losses.push(loss(&gp).loss);
    }
    assert!(losses.windows(2).all(|w| w[1] <= w[0] + 1e-9), "{losses:?}");
    let end = loss(&gp);
    let q = gp.free_raw().len() - 10 - 55;
    assert!(end.gradient[q..].iter().all(|g| g.abs() < 1e-2), "q is not at its optimum");
    assert!(gp.natural_step(F64, &batch, 1.5).is_err());
    assert!(gp.clone().covariance(Covariance::Diagonal).natural_step(F64, &batch, 0.5).is_err());
}

#[test]
fn minibatch_gradients_are_unbiased() {
    let counts = data(30, 2);
    let y = counts.y.iter().map(|y| (3.0 * y.abs()).floor()).collect();
    let counts = counts.with_targets(y).unwrap();
    let mut gp = model("rbf(ard)", &counts.x[..12], 2, Poisson { link: RateLink::Exp });
    shake(&mut gp);
    let scope = Scope::new(F64).unwrap();
    let whole = fit::evaluate(&gp, F64, &counts.batch(&scope)).unwrap();
    let mut mean = vec![0.0; whole.gradient.len()];
    for part in 0..3 {
        let rows = part * 10..(part + 1) * 10;
        let part = Observations::new(counts.x[2 * rows.start..2 * rows.end].to_vec(), 2, counts.y[rows].to_vec(), None);
        let batch = Batch { scale: 3.0, ..part.unwrap().batch(&scope) };
        let gradient = fit::evaluate(&gp, F64, &batch).unwrap().gradient;
        mean.iter_mut().zip(gradient).for_each(|(m, g)| *m += g / 3.0);
    }
    assert_close("gradient", &mean, &whole.gradient, 1e-10);
}

#[test]
fn shared_and_separate_latents_agree_while_they_are_the_same() {
    let observations = data(20, 2);
    let mut one = model("rbf(ard)", &observations.x[..10], 2, Gaussian::new(0.3));
    shake(&mut one);
    // The likelihood does not fit two latent functions: only their divergences and marginals are compared.
    let mut two = one.clone();
    two.variational.push(one.variational[0].clone());
    let (shared, separate) = (two.clone(), two.separate());
    assert_eq!((shared.processes.len(), separate.processes.len()), (1, 2));
    let points = [0.1, 0.2, 1.0, -1.0];
    let want = one.posterior(F64).unwrap().predict(&points).unwrap();
    for model in [&shared, &separate] {
        let posterior = model.posterior(F64).unwrap();
        assert!(posterior.predict(&points).is_err());
        for latent in posterior.latents() {
            assert_eq!(latent.predict(&points).unwrap(), want);
        }
    }
    let paths: Vec<String> = separate.parameters().into_iter().map(|(path, _)| path).collect();
    assert!(paths.contains(&"latent2.kernel.rbf.lengthscale".to_string()), "{paths:?}");
    assert!(paths.contains(&"variational2.root".to_string()), "{paths:?}");
}

#[test]
fn restarts_with_natural_gradients_end_at_the_optimum_of_q() {
    let observations = data(60, 1);
    let z: Vec<f64> = (0..6).map(|i| -2.0 + 0.8 * f64::from(i)).collect();
    let batches = Minibatches { natural: Some(0.1), ..Minibatches::default() };
    let adam = Adam { rate: 0.05, ..Adam::default() };
    for count in [1, 3] {
        let mut gp = Svgp::new(Kernel::parse("rbf", 1).unwrap(), &z, 1, Gaussian::new(0.1)).unwrap();
        let mut begun = Beginnings::default();
        let config = TrainConfig::new(Optimizer::Adam(adam.clone()), 30).restarts(Restarts::new(count, 1.0));
        minibatch::fit(&mut gp, F64, &observations, &batches, &config, &mut [&mut begun]).unwrap();
        assert!(begun.0.iter().all(|x| x.windows(6).any(|part| part == z)), "inducing inputs: {:?}", begun.0);
        let batch = observations.batch(&Scope::new(F64).unwrap());
        let loss = fit::evaluate(&gp, F64, &batch).unwrap().loss;
        gp.natural_step(F64, &batch, 1.0).unwrap();
        let best = fit::evaluate(&gp, F64, &batch).unwrap().loss;
        assert!(loss - best < 1e-3, "{count}: {loss} {best}");
    }
}

#[test]
fn the_loss_is_the_bound_of_the_model_that_is_left() {
    let observations = data(120, 1);
    let z: Vec<f64> = (0..6).map(|i| -2.0 + 0.8 * f64::from(i)).collect();
    let adam = Adam { rate: 0.05, ..Adam::default() };
    for (size, natural) in [(1024, Some(0.1)), (17, Some(0.1)), (1024, None), (17, None)] {
        let mut gp = Svgp::new(Kernel::parse("rbf", 1).unwrap(), &z, 1, Gaussian::new(0.1)).unwrap();
        let batches = Minibatches { natural, size, ..Minibatches::default() };
        let config = TrainConfig::new(Optimizer::Adam(adam.clone()), 40);
        let outcome = minibatch::fit(&mut gp, F64, &observations, &batches, &config, &mut []).unwrap();
        let whole = observations.batch(&Scope::new(F64).unwrap());
        let bound = fit::evaluate(&gp, F64, &whole).unwrap().loss / 120.0;
        assert!((outcome.loss - bound).abs() < 1e-9, "{size} {natural:?}: {} {bound}", outcome.loss);
        assert_eq!(outcome.restarts[0].loss, Some(outcome.loss));
    }
}

#[test]
fn one_inducing_input_has_natural_gradients() {
    let observations = data(20, 1);
    let mut gp = Svgp::new(Kernel::parse("rbf", 1).unwrap(), &[0.0], 1, Gaussian::new(0.1)).unwrap();
    let batch = observations.batch(&Scope::new(F64).unwrap());
    gp.natural_step(F64, &batch, 1.0).unwrap();
    let mut collapsed = Sgpr::new(gp.processes[0].prior.kernel.clone(), &[0.0], 1).unwrap();
    collapsed.likelihood = Gaussian::new(0.1);
    let want = fit::evaluate(&collapsed, F64, &batch).unwrap().loss;
    assert_close("collapsed", &[fit::evaluate(&gp, F64, &batch).unwrap().loss], &[want], 1e-9);
}

#[test]
fn targets_that_a_likelihood_does_not_take_are_named() {
    let observations = data(12, 1);
    let config = TrainConfig::new(Optimizer::Adam(Adam::default()), 1);
    let likelihoods: [(Box<dyn Likelihood>, f64, &str); 4] = [
        (Box::new(Softmax::new(3)), 3.0, "the target 3 is no class"),
        (Box::new(Ordinal::new(3)), 3.0, "the target 3 is no class"),
        (Box::new(Bernoulli { link: BernoulliLink::Logit }), 2.0, "the target 2 is no class"),
        (Box::new(Poisson { link: RateLink::Exp }), -1.25, "negative"),
    ];
    for (likelihood, bad, words) in likelihoods {
        let mut y = vec![1.0; 12];
        y[7] = bad;
        let observations = observations.clone().with_targets(y).unwrap();
        let mut gp = Svgp::boxed(Kernel::parse("rbf", 1).unwrap(), &[0.0, 1.0], 1, likelihood).unwrap();
        let problem = minibatch::fit(&mut gp, F64, &observations, &Minibatches::default(), &config, &mut []);
        let problem = problem.unwrap_err().to_string();
        assert!(problem.contains("row 8") && problem.contains(words), "{problem}");
    }
    let mut gp = Svgp::new(Kernel::parse("rbf", 1).unwrap(), &[0.0, 1.0], 1, Gaussian::new(0.1)).unwrap();
    gp.variational[0].mean.fixed = true;
    let natural = Minibatches { natural: Some(0.1), ..Minibatches::default() };
    let problem = minibatch::fit(&mut gp, F64, &observations, &natural, &config, &mut []).unwrap_err().to_string();
    assert!(problem.contains("natural gradients move all of q"), "{problem}");
}

#[test]
fn minibatch_training_finds_the_optimum() {
    let observations = data(120, 1);
    let z: Vec<f64> = (0..10).map(|i| -2.0 + 0.4 * f64::from(i)).collect();
    let mut best = Sgpr::new(Kernel::parse("rbf", 1).unwrap(), &z, 1).unwrap();
    fit::fit(&mut best, F64, &observations, &TrainConfig::default(), &mut []).unwrap();
    let whole = observations.batch(&Scope::new(F64).unwrap());
    let optimum = fit::evaluate(&best, F64, &whole).unwrap().loss;
    for natural in [None, Some(0.1)] {
        let mut gp = Svgp::new(Kernel::parse("rbf", 1).unwrap(), &z, 1, Gaussian::new(0.1)).unwrap();
        let batches = Minibatches { size: 50, variational_rate: 2.0, natural };
        let schedule = Schedule::Linear { final_fraction: 0.01 };
        let adam = Adam { rate: 0.02, schedule, ..Adam::default() };
        let config = TrainConfig::new(Optimizer::Adam(adam), 1500);
        let outcome = minibatch::fit(&mut gp, F64, &observations, &batches, &config, &mut []).unwrap();
        let mut again = Svgp::new(Kernel::parse("rbf", 1).unwrap(), &z, 1, Gaussian::new(0.1)).unwrap();
        let repeated = minibatch::fit(&mut again, F64, &observations, &batches, &config, &mut []).unwrap();
        assert_eq!(outcome.x, repeated.x, "a seed fixes everything");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let mut parts = Svgp::new(Kernel::parse("rbf", 1).unwrap(), &z, 1, Gaussian::new(0.1)).unwrap();
        let part = TrainConfig { checkpoint: Some(CheckpointPlan::new(&path)), ..config.clone() };
        minibatch::fit(&mut parts, F64, &observations, &batches, &part, &mut [&mut StopAt(7)]).unwrap();
        let mut resumed = Svgp::new(Kernel::parse("rbf", 1).unwrap(), &z, 1, Gaussian::new(0.1)).unwrap();
        let rest = config.clone().resume(&path);
        let ended = minibatch::fit(&mut resumed, F64, &observations, &batches, &rest, &mut []).unwrap();
        assert_eq!(outcome.x, ended.x, "an interruption changes nothing");
        for ((path, p), (_, q)) in gp.parameters().iter().zip(resumed.parameters()) {
            assert_eq!(p.raw(), q.raw(), "{path} after an interruption");
        }
        assert!(gp.parameters().iter().all(|(_, p)| !p.fixed), "parameters are as free as before");
        let reached = fit::evaluate(&gp, F64, &whole).unwrap().loss;
        assert!(reached < optimum + 2.0 && reached > optimum - 1e-6, "{natural:?}: {reached} against {optimum}");
    }
}

/// Counts along a wave whose variance is above their mean.
fn overdispersed(n: usize) -> Observations {
    let x: Vec<f64> = (0..n).map(|i| -2.0 + 4.0 * (0.618_033_988_749_895 * i as f64).fract()).collect();
    let y = x.iter().enumerate().map(|(i, x)| {
        let rate = (0.5 + 0.7 * (4.0 * x).sin()).exp();
        // Quantiles of an exponential distribution.
        (-rate * (1.0 - (0.754_877_666 * i as f64).fract()).ln()).round()
    });
    Observations::new(x.clone(), 1, y.collect(), None).unwrap()
}

#[test]
fn noisy_batches_lead_natural_gradients_near_the_bound_of_all_rows() {
    let observations = overdispersed(3000);
    let z: Vec<f64> = (0..16).map(|i| -2.0 + 4.0 * f64::from(i) / 15.0).collect();
    let ended = |size: usize| {
        let mut gp = Svgp::new(Kernel::parse("matern32", 1).unwrap(), &z, 1, Poisson { link: RateLink::Exp }).unwrap();
        gp.processes[0].prior.mean = Mean::named("constant", 1).unwrap();
        if let Mean::Constant(level) = &mut gp.processes[0].prior.mean {
            level.set(&[0.5]).unwrap();
        }
        gp.processes[0].inducing.fixed = true;
        let batches = Minibatches { natural: Some(0.1), size, ..Minibatches::default() };
        let adam = Adam { rate: 0.05, ..Adam::default() };
        let config = TrainConfig::new(Optimizer::Adam(adam), 300).cooling(Cooling { steps: 300 });
        minibatch::fit(&mut gp, F64, &observations, &batches, &config, &mut []).unwrap().loss
    };
    let (whole, parts) = (ended(3000), ended(100));
    // .0001 above; at a constant rate of q, gradients of unseen batches alone end .001 above, of fitted ones .0023.
    assert!(parts < whole + 0.0008, "{parts} {whole}");
}

#[test]
fn rows_on_disk_train_the_model_that_rows_in_memory_do() {
    let observations = data(90, 1);
    let row = |i: usize| format!("{:?},{:?}\n", 3.0 * observations.x[i], 5.0 + 2.0 * observations.y[i]);
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t.csv");
    std::fs::write(&table, format!("x,y\n{}", (0..90).map(row).collect::<String>())).unwrap();
    let rows = RowFile::create(table, &ReadOptions::default(), folder.path().join("t.rows")).unwrap();
    let whole = rows.gather(&(0..90).collect::<Vec<_>>()).unwrap();
    let moments = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / 90.0;
        [mean, values.iter().map(|v| v * v).sum::<f64>() / 90.0 - mean * mean]
    };
    for values in [&whole.x, &whole.y] {
        assert_close("standardised", &moments(values), &[0.0, 1.0], 1e-10);
    }
    let z: Vec<f64> = (0..8).map(|i| -2.0 + 0.5 * f64::from(i)).collect();
    let train = |rows: &dyn Rows| {
        let mut gp = Svgp::new(Kernel::parse("rbf", 1).unwrap(), &z, 1, Gaussian::new(0.1)).unwrap();
        let config = TrainConfig::new(Optimizer::Adam(Adam::default()), 30);
        let batches = Minibatches { size: 40, ..Minibatches::default() };
        minibatch::fit(&mut gp, F64, rows, &batches, &config, &mut []).unwrap().x
    };
    assert_eq!(train(&rows), train(&whole));
}

#[test]
fn jitter_of_inducing_inputs_that_coincide_is_known_to_the_thread_that_trains() {
    let z = [0.0, 1.0, 1.0, 2.0];
    let model = Svgp::new(Kernel::parse("rbf", 1).unwrap(), &z, 1, Gaussian::new(0.1)).unwrap();
    let rows = Observations::new(vec![0.5, 1.5], 1, vec![0.0, 1.0], None).unwrap();
    let evaluate = || fit::evaluate(&model, F64, &rows.batch(&Scope::new(F64).unwrap())).unwrap();
    assert!(watch(evaluate).1 > 0.0);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    assert!(pool.install(|| watch(evaluate).1) > 0.0);
}

/// Rows go through the bound in blocks of 256: the result of 300 rows equals that of parts that fit into one block.
#[test]
fn bounds_of_several_blocks_add_up() {
    let points = |count: usize, by: f64| (0..count).map(move |i| (by * i as f64).sin());
    let [x, y] = [(600, 1.7), (300, 0.9)].map(|(count, by)| points(count, by).collect::<Vec<_>>());
    let rows = |from: usize, to: usize| (x[2 * from..2 * to].to_vec(), y[from..to].to_vec());
    let twice = |(x, y): (Vec<f64>, Vec<f64>)| (x.repeat(2), y.repeat(2));
    let z: Vec<f64> = points(40, 2.3).collect();
    for (compute, tolerance) in [(F64, 1e-10), (F32, 2e-4)] {
        for covariance in [Covariance::Full, Covariance::Diagonal] {
            let kernel = Kernel::parse("matern32([0.3, 0.5])", 2).unwrap();
            let mut model = Svgp::new(kernel, &z, 2, Gaussian::new(0.2)).unwrap().covariance(covariance);
            let moved: Vec<f64> = model.free_raw().iter().zip(points(1000, 0.7)).map(|(x, s)| x + 0.1 * s).collect();
            model.set_free_raw(&moved).unwrap();
            let at = |(x, y): (Vec<f64>, Vec<f64>)| {
                let rows = Observations::new(x, 2, y, None).unwrap();
                let found = fit::evaluate(&model, compute, &rows.batch(&Scope::new(compute).unwrap())).unwrap();
                [vec![found.loss], found.gradient].concat()
            };
            let (whole, first, rest) = (at(rows(0, 300)), at(rows(0, 100)), at(rows(100, 300)));
            let doubled = at(twice(rows(0, 100)));
            let size = whole.iter().fold(0.0f64, |most, g| most.max(g.abs()));
            for (k, whole) in whole.iter().enumerate() {
                let divergence = 2.0 * first[k] - doubled[k];
                let parts = first[k] + rest[k] - divergence;
                assert!((whole - parts).abs() < tolerance * size, "{covariance:?} {k}: {whole} {parts}");
            }
        }
    }
}
