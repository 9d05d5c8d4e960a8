//! Sparse within sparse GPs.

use std::ops::ControlFlow;

use cagey::kernels::Kernel;
use cagey::likelihoods::{Bernoulli, BernoulliLink, Gaussian, Likelihood};
use cagey::means::Mean;
use cagey::models::gp_model::{GpModel, Training};
use cagey::models::neighbours::nearest;
use cagey::models::posterior::Posterior;
use cagey::models::svgp::Svgp;
use cagey::models::swsgp::Swsgp;
use cagey::models::variational::Covariance;
use cagey::models::{Batch, Observations, fit, minibatch};
use cagey::params::Parameters;
use cagey::scope::Scope;
use cagey::train::{Adam, CheckpointPlan, Observer, Optimizer, Outcome, Report, TrainConfig};

use crate::common::assert_close;
use crate::unwhitened::Unwhitened;
use crate::{F64, check_gradient, data, noise};

fn model(z: &[f64], h: usize, covariance: Covariance, likelihood: impl Likelihood + 'static) -> Swsgp {
    let kernel = Kernel::parse("matern32(ard)", 2).unwrap().with("lengthscale", &[0.8, 1.7]).unwrap();
    let mut gp = Swsgp::new(kernel, z, 2, h, likelihood).unwrap().covariance(covariance);
    gp.process.prior.mean = Mean::named("constant", 2).unwrap();
    let mut state = 3;
    let q = &mut gp.variational;
    let moved = |raw: &[f64], state: &mut u64| raw.iter().map(|v| v + 0.3 * noise(state)).collect::<Vec<_>>();
    q.mean.set_raw(&moved(q.mean.raw(), &mut state)).unwrap();
    q.root.set_raw(&moved(q.root.raw(), &mut state)).unwrap();
    gp
}

/// Trains everything except Z on minibatches of `size` rows.
fn train(gp: &mut Swsgp, data: &Observations, size: usize, config: &TrainConfig) -> cagey::Result<Outcome> {
    gp.process.inducing.fixed = true;
    let batches = minibatch::Minibatches { size, ..Default::default() };
    gp.train(Training { compute: F64, data, rows: data, batches: Some(&batches), config, spread: None }, &mut [])
}

fn adam(rate: f64, steps: usize) -> TrainConfig {
    TrainConfig::new(Optimizer::Adam(Adam { rate, ..Adam::default() }), steps)
}

fn observations() -> (Observations, Vec<f64>) {
    let mut state = 11;
    (data(20, 2), (0..24).map(|_| 4.0 * noise(&mut state)).collect())
}

/// The model of all inducing inputs with the q of another.
fn unwhitened(whole: Svgp, gp: &Swsgp) -> Unwhitened {
    let q = &gp.variational;
    Unwhitened::new(whole.covariance(Covariance::Full), &q.mean.internal(), &q.root.internal())
}

#[test]
fn with_all_neighbours_it_is_the_unwhitened_svgp() {
    let (data, z) = observations();
    let batch = data.batch(&Scope::new(F64).unwrap());
    for covariance in [Covariance::Full, Covariance::Diagonal] {
        for union in [false, true] {
            let mut gp = model(&z, 12, covariance, Gaussian::new(0.2));
            gp.union = union;
            let kernel = gp.process.prior.kernel.clone();
            let mut whole = Svgp::new(kernel, &z, 2, Gaussian::new(0.2)).unwrap().covariance(covariance);
            whole.set_free_raw(&gp.free_raw()).unwrap_err();
            whole.processes[0].prior.mean = gp.process.prior.mean.clone();
            whole.set_free_raw(&gp.free_raw()).unwrap();
            let unwhitened = unwhitened(whole, &gp);
            let whole = &unwhitened.whitened;
            let name = format!("{covariance:?}, union {union}");
            let (got, mut want) =
                (fit::evaluate(&gp, F64, &batch).unwrap(), fit::evaluate(whole, F64, &batch).unwrap());
            want.gradient = unwhitened.gradient(&want.gradient);
            assert_close(&name, &[got.loss], &[want.loss], 1e-10);
            // The root of a union is a different matrix, so that only the sign of a diagonal could differ.
            assert_close(&name, &got.gradient, &want.gradient, 1e-8);
            let points = [0.3, -0.2, 1.0, 1.0, -2.0, 0.5];
            let want = whole.posterior(F64).unwrap().predict_joint(&points).unwrap();
            let posterior = gp.posterior(F64);
            let got = posterior.predict(&points).unwrap();
            assert_close(&format!("{name}: mean"), &got.mean, &want.mean, 1e-9);
            let diagonal: Vec<f64> = (0..3).map(|i| want.covariance[4 * i]).collect();
            assert_close(&format!("{name}: variance"), &got.variance, &diagonal, 1e-9);
            let joint = posterior.predict_joint(&points).unwrap();
            assert_close(&format!("{name}: joint"), &joint.covariance, &want.covariance, 1e-9);
        }
    }
}

/// The paper's remark on its prior, and its Figure 1: if inducing values have their prior, f has its prior at every
/// point, whichever of them it depends on.
#[test]
fn the_prior_of_f_is_the_same_for_any_neighbours() {
    let (_, z) = observations();
    let points = [0.3, -0.2, 1.0, 1.0, -2.0, 0.5];
    for neighbours in [1, 3, 12] {
        let mut gp = model(&z, neighbours, Covariance::Full, Gaussian::new(0.2));
        gp.process.prior.mean = Mean::Zero;
        gp.start_at_prior(F64).unwrap();
        let said = gp.posterior(F64).predict(&points).unwrap();
        assert_close("mean", &said.mean, &[0.0; 3], 1e-12);
        assert_close("variance", &said.variance, &[1.0; 3], 1e-9);
        // Something else than the prior shows.
        gp.variational.root.set_raw(&gp.variational.root.raw().iter().map(|r| 0.5 * r).collect::<Vec<_>>()).unwrap();
        let said = gp.posterior(F64).predict(&points).unwrap();
        assert!(said.variance.iter().all(|variance| *variance < 1.0 - 1e-6), "{said:?}");
    }
}

#[test]
fn after_unions_a_row_sees_all_inducing_inputs() {
    let (_, z) = observations();
    let mut gp = model(&z, 3, Covariance::Full, Gaussian::new(0.2));
    gp.union = true;
    let kernel = gp.process.prior.kernel.clone();
    let mut whole = Svgp::new(kernel, &z, 2, Gaussian::new(0.2)).unwrap();
    whole.processes[0].prior.mean = gp.process.prior.mean.clone();
    whole.set_free_raw(&gp.free_raw()).unwrap();
    let whole = unwhitened(whole, &gp).whitened;
    let points = [0.3, -0.2, 1.0, 1.0, -2.0, 0.5];
    let (got, want) = (gp.posterior(F64).predict(&points).unwrap(), whole.posterior(F64).unwrap().predict(&points));
    let want = want.unwrap();
    assert_close("mean", &got.mean, &want.mean, 1e-9);
    assert_close("variance", &got.variance, &want.variance, 1e-9);
    // Rows predicted together use only each other's neighbours; a single row uses its own.
    let alone = Swsgp { union: false, ..gp.clone() }.posterior(F64).predict(&points[..2]).unwrap();
    let joint = gp.posterior(F64).predict_joint(&points[..2]).unwrap();
    assert_close("one row", &joint.mean, &alone.mean, 1e-9);
    assert!((joint.mean[0] - got.mean[0]).abs() > 1e-3);
}

#[test]
fn gradients_match_finite_differences() {
    let (labels, z) = observations();
    let y = labels.y.iter().map(|y| f64::from(u8::from(*y > 0.0))).collect();
    let labels = labels.with_targets(y).unwrap();
    for covariance in [Covariance::Full, Covariance::Diagonal] {
        for union in [false, true] {
            let mut gp = model(&z, 3, covariance, Bernoulli { link: BernoulliLink::Logit });
            gp.union = union;
            check_gradient(&format!("{covariance:?}, union {union}"), &gp, &labels, 2e-6);
        }
    }
}

#[test]
fn the_divergence_is_weighed() {
    let (data, z) = observations();
    let mut gp = model(&z, 1, Covariance::Diagonal, Gaussian::new(0.2));
    gp.divergence = 2.5;
    // Without the likelihood, only the divergence is left; for one value under a unit prior it is known.
    let batch = Batch { scale: 0.0, ..data.batch(&Scope::new(F64).unwrap()) };
    let (means, roots) = (gp.variational.mean.internal(), gp.variational.root.internal());
    let of = |i: usize| 0.5 * (roots[i].powi(2) + means[i].powi(2) - 1.0) - roots[i].abs().ln();
    let nearest = gp.neighbours(F64, &data.x).unwrap().indices;
    let want = 2.5 * nearest.iter().map(|&i| of(i as usize)).sum::<f64>() / nearest.len() as f64;
    assert_close("divergence", &[fit::evaluate(&gp, F64, &batch).unwrap().loss], &[want], 1e-12);
}

#[test]
fn neighbours_are_the_nearest_in_scaled_space() {
    let found = nearest(&[0.0, 0.0], &[3.0, 0.0, 0.0, 1.0, -2.0, 0.0, 0.0, -1.0], 2, 3);
    assert_eq!(found.indices, [1, 3, 2], "nearest first, ties by index");
    let kernel = Kernel::parse("rbf(ard)", 2).unwrap().with("lengthscale", &[10.0, 0.1]).unwrap();
    let gp = Swsgp::new(kernel, &[3.0, 0.0, 0.0, 1.0], 2, 1, Gaussian::new(0.1)).unwrap();
    assert_eq!(gp.neighbours(F64, &[0.0, 0.0]).unwrap().indices, [0], "a long lengthscale brings inputs near");
    assert!(gp.neighbours(F64, &[0.0, 0.0, 0.0]).is_err() && gp.posterior(F64).predict(&[0.0]).is_err());
    let kernel = Kernel::parse("rbf", 2).unwrap();
    assert!(Swsgp::new(kernel.clone(), &[0.0; 4], 2, 3, Gaussian::new(0.1)).is_err());
    assert!(Swsgp::new(kernel.clone(), &[0.0; 4], 2, 0, Gaussian::new(0.1)).is_err());
    assert_eq!(nearest(&[0.0, 0.0], &[3.0, 0.0, 0.0, 1.0], 2, 5).each, 2, "all where there are fewer");
    // Many points on a coarse grid, with ties, in descending and in any order, and one that is nowhere.
    let mut state = 5;
    for count in [1, 4, 50] {
        let mut z: Vec<f64> = (0..400).map(|_| (3.0 * noise(&mut state)).round()).collect();
        z[..100].sort_by(|a, b| b.abs().total_cmp(&a.abs()));
        z[7] = f64::NAN;
        let x = [0.4, -1.1, 9.0, 2.0];
        let found = nearest(&x, &z, 2, count);
        for (row, x) in x.chunks(2).enumerate() {
            let far = |j: &u32| z[2 * *j as usize..][..2].iter().zip(x).map(|(z, x)| (z - x) * (z - x)).sum::<f64>();
            let mut all: Vec<u32> = (0..200).collect();
            all.sort_by(|a, b| far(a).total_cmp(&far(b)).then(a.cmp(b)));
            assert_eq!(found.of(row), &all[..count], "{count} nearest of row {row}");
        }
    }
    // Mismatches are reported before the first step.
    let config = adam(0.01, 1);
    let mut gp = Swsgp::new(kernel.clone(), &[0.0; 4], 2, 1, Gaussian::new(0.1)).unwrap();
    assert!(train(&mut gp, &data(12, 4), 5, &config).is_err(), "other columns");
    gp.neighbours = 3;
    assert!(train(&mut gp, &data(12, 2), 5, &config).is_err(), "more neighbours than there are");
    let likelihood = Bernoulli { link: BernoulliLink::Logit };
    let mut classes = Swsgp::new(kernel, &[0.0; 4], 2, 1, likelihood).unwrap();
    let labels = data(12, 2).with_targets(vec![2.0; 12]).unwrap();
    let problem = train(&mut classes, &labels, 5, &config).unwrap_err().to_string();
    assert!(problem.contains("the target 2 is no class"), "{problem}");
}

#[test]
fn lazy_adam_is_adam_where_a_batch_sees_all() {
    let (data, z) = observations();
    let mut lazy = model(&z, 12, Covariance::Diagonal, Gaussian::new(0.2));
    lazy.process.inducing.fixed = true;
    let mut dense = lazy.clone();
    let config = adam(0.05, 5);
    let got = train(&mut lazy, &data, 20, &config).unwrap();
    let batches = minibatch::Minibatches { size: 20, ..Default::default() };
    let want = minibatch::fit(&mut dense, F64, &data, &batches, &config, &mut []).unwrap();
    let losses = |outcome: &Outcome| outcome.history.records.iter().map(|record| record.loss).collect::<Vec<_>>();
    assert_close("losses", &losses(&got), &losses(&want), 1e-12);
    assert!(got.loss < losses(&got)[0]);
    assert_close("parameters", &lazy.free_raw(), &dense.free_raw(), 1e-12);
}

/// Records the points of a training.
#[derive(Default)]
struct Points(Vec<Vec<f64>>);

impl Observer for Points {
    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        self.0.push(report.x.to_vec());
        ControlFlow::Continue(())
    }
}

#[test]
fn a_step_leaves_alone_what_its_batch_does_not_see() {
    let (data, z) = observations();
    let mut gp = model(&z, 2, Covariance::Diagonal, Gaussian::new(0.2));
    gp.process.inducing.fixed = true;
    let q = gp.free_raw().len() - 2 * 12;
    let batches = minibatch::Minibatches { size: 2, ..Default::default() };
    let training = Training {
        compute: F64,
        data: &data,
        rows: &data,
        batches: Some(&batches),
        config: &adam(0.01, 8),
        spread: None,
    };
    let mut points = Points::default();
    gp.train(training, &mut [&mut points]).unwrap();
    for pair in points.0.windows(2) {
        let means = pair[0][q..][..12].iter().zip(&pair[1][q..]);
        let moved = means.filter(|(a, b)| a != b).count();
        assert!((2..=4).contains(&moved), "{moved} of 12 moved");
    }
    // The model learns.
    let outcome = train(&mut gp, &data, 10, &adam(0.01, 400)).unwrap();
    let losses: Vec<f64> = outcome.history.records.iter().map(|record| record.loss).collect();
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    assert!(mean(&losses[380..]) < mean(&losses[..20]) - 0.1, "{} to {}", losses[0], losses[399]);
}

#[test]
fn training_with_kept_neighbours_goes_on_from_a_checkpoint() {
    let (data, z) = observations();
    let start = model(&z, 2, Covariance::Diagonal, Gaussian::new(0.2));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    // Four steps an epoch: neighbours are found at steps 0, 4, 8 and 16.
    let [mut whole, mut first, mut second] = [0; 3].map(|_| start.clone());
    let want = train(&mut whole, &data, 5, &adam(0.1, 20)).unwrap();
    train(&mut first, &data, 5, &TrainConfig { checkpoint: Some(CheckpointPlan::new(&path)), ..adam(0.1, 13) })
        .unwrap();
    let got = train(&mut second, &data, 5, &TrainConfig { resume: Some(path), ..adam(0.1, 20) }).unwrap();
    assert_eq!(got.x, want.x);
    assert_eq!(second.free_raw(), whole.free_raw());
}

/// Rows of a smooth function along a line, which are also the inducing inputs.
fn smooth(n: usize, h: usize, covariance: Covariance) -> (Swsgp, Observations) {
    let x: Vec<f64> = (0..n).map(|i| 6.0 * i as f64 / n as f64 - 3.0).collect();
    let mut state = 5;
    let y = x.iter().map(|x| x.sin() + 0.2 * noise(&mut state)).collect();
    let mut gp = Swsgp::new(Kernel::parse("rbf", 1).unwrap(), &x, 1, h, Gaussian::new(0.1)).unwrap();
    gp = gp.covariance(covariance);
    gp.nugget = 1e-3;
    (gp, Observations::new(x, 1, y, None).unwrap())
}

/// Inducing values of a smooth function nearly determine each other: q starts where it agrees with that.
#[test]
fn training_starts_near_the_prior() {
    for (n, h) in [(20, 16), (200, 16), (20, 1)] {
        for covariance in [Covariance::Full, Covariance::Diagonal] {
            let (mut gp, data) = smooth(n, h, covariance);
            let batch = data.batch(&Scope::new(F64).unwrap());
            let loss = |gp: &Swsgp| fit::evaluate(gp, F64, &batch).unwrap().loss / n as f64;
            train(&mut gp, &data, n, &adam(0.01, 0)).unwrap();
            let start = loss(&gp);
            assert!(start < 10.0, "{n} rows, {h} neighbours, {covariance:?}: {start}");
            train(&mut gp, &data, n, &adam(0.01, 100)).unwrap();
            assert!(loss(&gp) < start, "{n} rows, {h} neighbours, {covariance:?}: {} {start}", loss(&gp));
        }
    }
}
