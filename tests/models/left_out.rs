//! Closed forms of leaving one row out, compared with models without that row.

use cagey::kernels::Kernel;
use cagey::means::Mean;
use cagey::models::Observations;
use cagey::models::cagp::{Actions, Cagp};
use cagey::models::exact::{ExactGp, ExactPosterior};
use cagey::models::fit::fit;
use cagey::models::leave_one_out::{Influence, LeaveOneOut};
use cagey::models::minibatch::Rows;
use cagey::models::posterior::{Marginals, Posterior};
use cagey::models::sgpr::Sgpr;
use cagey::params::Parameters;
use cagey::train::TrainConfig;

use crate::common::assert_close;
use crate::{F64, data, noise};

const N: usize = 24;

fn kernel() -> Kernel {
    Kernel::parse("1.3 * matern32(lengthscale=[0.8, 1.1])", 2).unwrap()
}

/// Rows with known noise.
fn observed() -> Observations {
    let known = (0..N).map(|i| 0.02 * (i % 5) as f64).collect();
    data(N, 2).with_auxiliary(Some(known)).unwrap()
}

fn without(data: &Observations, row: usize) -> Observations {
    data.gather(&(0..data.n()).filter(|other| *other != row).collect::<Vec<_>>()).unwrap()
}

/// Compares closed forms with the predictions of `refit`: the latent function at a row after a fit to the others.
fn check(
    name: &str,
    data: &Observations,
    closed: &dyn LeaveOneOut,
    refit: impl Fn(usize, Observations) -> Box<dyn Posterior>,
) {
    let learned = ExactGp::new(kernel()).likelihood.noise.values()[0];
    let all = closed.left_out(data).unwrap();
    for row in 0..N {
        let expected = refit(row, without(data, row)).predict(&data.x[2 * row..][..2]).unwrap();
        let noise = learned + data.auxiliary.as_ref().map_or(0.0, |values| values[row]);
        assert_close(&format!("{name} mean {row}"), &[all.mean[row]], &expected.mean, 1e-8);
        assert_close(&format!("{name} variance {row}"), &[all.variance[row]], &[expected.variance[0] + noise], 1e-8);
    }
}

#[test]
fn closed_forms_equal_models_without_the_row() {
    let data = observed();
    let exact = ExactGp::new(kernel());
    check("exact", &data, &exact.posterior(F64, data.clone()).unwrap(), |_, others| {
        Box::new(exact.posterior(F64, others).unwrap())
    });

    let z: Vec<f64> = data.x[..14].iter().map(|x| x + 0.1).collect();
    let sparse = Sgpr::new(kernel(), &z, 2).unwrap();
    check("sgpr", &data, &sparse.posterior(F64, data.clone()).unwrap(), |_, others| {
        Box::new(sparse.posterior(F64, others).unwrap())
    });

    let mut state = 3;
    let dense: Vec<f64> = (0..N * 6).map(|_| noise(&mut state)).collect();
    let through = |s: &[f64]| Cagp::new(kernel(), Actions::dense(s, 6));
    check("cagp", &data, &through(&dense).posterior(F64, data.clone()).unwrap(), |row, others| {
        let rest: Vec<f64> =
            dense.chunks(6).enumerate().filter(|(i, _)| *i != row).flat_map(|(_, s)| s).copied().collect();
        Box::new(through(&rest).posterior(F64, others).unwrap())
    });

    let values: Vec<f64> = (0..N).map(|_| 1.0 + noise(&mut state).abs()).collect();
    let blocks = Cagp::new(kernel(), Actions::from_blocks(&values, vec![0, 5, 11, 18, N]));
    check("cagp by blocks", &data, &blocks.posterior(F64, data.clone()).unwrap(), |row, others| {
        let ends = [0, 5, 11, 18, N].map(|end| end - usize::from(end > row));
        let rest: Vec<f64> = values.iter().enumerate().filter(|(i, _)| *i != row).map(|(_, v)| *v).collect();
        Box::new(Cagp::new(kernel(), Actions::from_blocks(&rest, ends.to_vec())).posterior(F64, others).unwrap())
    });
}

#[test]
fn actions_that_span_everything_leave_out_as_the_exact_model_does() {
    let data = observed();
    let identity: Vec<f64> = (0..N * N).map(|e| f64::from(u8::from(e % (N + 1) == 0))).collect();
    let exact = ExactGp::new(kernel()).posterior(F64, data.clone()).unwrap().leave_one_out();
    let all = Cagp::new(kernel(), Actions::dense(&identity, N)).posterior(F64, data.clone()).unwrap();
    let all = all.left_out(&data).unwrap();
    assert_close("mean", &all.mean, &exact.mean, 1e-6);
    assert_close("variance", &all.variance, &exact.variance, 1e-6);
}

#[test]
fn residuals_of_the_exact_model_are_drawn_with_their_correlations() {
    let (data, gp) = (observed(), ExactGp::new(kernel()));
    let posterior = gp.posterior(F64, data.clone()).unwrap();
    let identity: Vec<f64> = (0..N * N).map(|e| f64::from(u8::from(e % (N + 1) == 0))).collect();
    let variance = posterior.leave_one_out().variance;
    let root = posterior.residuals(identity, N, &variance).unwrap();
    let covariance = |i: usize, j: usize| (0..N).map(|k| root[i * N + k] * root[j * N + k]).sum::<f64>();
    // Leave-one-out residuals are linear in the targets: residuals of unit targets are the columns of the map.
    let residuals = |y: Vec<f64>| {
        let left = gp.posterior(F64, data.clone().with_targets(y.clone()).unwrap()).unwrap().leave_one_out();
        (0..N).map(|i| (y[i] - left.mean[i]) / left.variance[i].sqrt()).collect::<Vec<_>>()
    };
    let unit = |j: usize| residuals((0..N).map(|i| f64::from(u8::from(i == j))).collect());
    let map: Vec<Vec<f64>> = (0..N).map(unit).collect();
    let scope = cagey::scope::Scope::new(F64).unwrap();
    let batch = data.batch(&scope);
    let mut gram = cagey::scope::to_f64(gp.prior.covariance(&scope, &batch.x).matrix().unwrap()).unwrap();
    for i in 0..N {
        gram[i * N + i] += gp.likelihood.noise.values()[0] + data.auxiliary.as_ref().unwrap()[i];
    }
    for (i, j) in [(0, 0), (3, 3), (0, 1), (4, 9), (20, 7)] {
        let pairs = (0..N).flat_map(|a| (0..N).map(move |b| (a, b)));
        let expected: f64 = pairs.map(|(a, b)| map[a][i] * gram[a * N + b] * map[b][j]).sum();
        assert!((covariance(i, j) - expected).abs() < 1e-9, "{i} {j}: {} {expected}", covariance(i, j));
    }
}

/// The trained model with the left-out predictions of its rows.
fn trained(kernel: &str, data: &Observations) -> (ExactGp, ExactPosterior) {
    let mut model = ExactGp::new(Kernel::parse(kernel, data.d).unwrap());
    fit(&mut model, F64, data, &TrainConfig::default(), &mut []).unwrap();
    let posterior = model.posterior(F64, data.clone()).unwrap();
    (model, posterior)
}

/// Root mean squared error, mean negative log density and root mean squared standardised error.
fn scores(y: &[f64], left: &Marginals) -> [f64; 3] {
    let n = y.len() as f64;
    let errors: Vec<(f64, f64)> = y.iter().zip(&left.mean).zip(&left.variance).map(|((y, m), v)| (y - m, *v)).collect();
    let mean = |f: fn(&(f64, f64)) -> f64| errors.iter().map(f).sum::<f64>() / n;
    let nlpd = mean(|(e, v)| 0.5 * (std::f64::consts::TAU * v).ln() + 0.5 * e * e / v);
    [mean(|(e, _)| e * e).sqrt(), nlpd, mean(|(e, v)| e * e / v).sqrt()]
}

#[test]
fn rows_left_out_of_the_training_are_predicted_as_by_trainings_without_them() {
    let (n, d, mut state) = (50, 3, 11);
    let x: Vec<f64> = (0..n * d).map(|_| noise(&mut state)).collect();
    let f = |x: &[f64]| (1.5 * x[0]).sin() + 0.5 * x[1] * x[1];
    let y = x.chunks(d).map(|x| f(x) + 0.3 * noise(&mut state)).collect();
    let data = Observations::new(x, d, y, None).unwrap();
    let (model, posterior) = trained("matern32(ard)", &data);
    let none = posterior.leave_one_out();
    let influence = posterior.influence().unwrap().unwrap();
    assert_eq!(influence.unknown, None);
    let first = influence.applied(&none);
    let mut refits = Marginals::default();
    for row in 0..n {
        let (others, mut model) = (without(&data, row), model.clone());
        fit(&mut model, F64, &others, &TrainConfig::default(), &mut []).unwrap();
        let found = model.posterior(F64, others).unwrap().predict(&data.x[d * row..][..d]).unwrap();
        refits.mean.push(found.mean[0]);
        refits.variance.push(found.variance[0] + model.likelihood.noise.values()[0]);
    }
    let [none, first, refits] = [&none, &first, &refits].map(|left| scores(&data.y, left));
    for (k, what) in ["RMSE", "NLPD", "rms z"].into_iter().enumerate() {
        let (before, after) = ((none[k] - refits[k]).abs(), (first[k] - refits[k]).abs());
        assert!(after < 0.4 * before, "{what}: {none:?} {first:?} {refits:?}");
    }
}

#[test]
fn rounding_errors_of_a_large_variance_are_no_influence() {
    // The variance of a smooth function of low noise grows until K̂ is almost singular.
    let (n, d, mut state) = (200, 3, 5);
    let mut largest = 0.0_f64;
    for phase in 0..6 {
        let x: Vec<f64> = (0..n * d).map(|_| noise(&mut state)).collect();
        let f = |x: &[f64]| 1.4 * (5.0 * x[0] + f64::from(phase)).sin() + 2.8 * x[1] * x[1] - 1.4 * x[2];
        let y: Vec<f64> = x.chunks(d).map(|x| f(x) + 0.02 * noise(&mut state)).collect();
        let (mean, count) = (y.iter().sum::<f64>() / n as f64, n as f64);
        let sd = (y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / count).sqrt();
        let data = Observations::new(x, d, y.iter().map(|y| (y - mean) / sd).collect(), None).unwrap();
        let (model, posterior) = trained("matern32(ard)", &data);
        largest = largest.max(model.parameters().iter().map(|(_, p)| p.values()[0]).fold(0.0, f64::max));
        let (none, influence) = (posterior.leave_one_out(), posterior.influence().unwrap().unwrap());
        let first = influence.applied(&none);
        let [none, first] = [&none, &first].map(|left| scores(&data.y, left));
        assert!(first[1] - none[1] < 0.05, "{phase}: {none:?} {first:?}");
    }
    assert!(largest > 1e6, "{largest}");
}

#[test]
fn without_correlations_the_influence_is_that_of_least_squares() {
    let data = data(N, 1);
    let mut model = ExactGp::new(Kernel::parse("1e-12 * rbf(lengthscale=1)", 1).unwrap());
    model.prior.mean = Mean::named("constant", 1).unwrap();
    for (path, parameter) in model.parameters_mut() {
        parameter.fixed = !path.starts_with("mean");
    }
    let mean = data.y.iter().sum::<f64>() / N as f64;
    model.find_mut("mean.constant").unwrap()[0].set(&[mean]).unwrap();
    let posterior = model.posterior(F64, data.clone()).unwrap();
    // Without row i, the mean of the others is lower by (yᵢ − ȳ) / (n − 1); to first order, by (yᵢ − ȳ) / n.
    let expected: Vec<f64> = data.y.iter().map(|y| (mean - y) / N as f64).collect();
    let influence = posterior.influence().unwrap().unwrap();
    assert_close("means", &influence.mean, &expected, 1e-6);
    assert!(influence.log_variance.iter().all(|by| by.abs() < 1e-6));
}

#[test]
fn parameters_at_a_bound_stay_there() {
    let data = data(N, 2);
    let mut model = ExactGp::new(Kernel::parse("matern32(ard)", 2).unwrap());
    model.find_mut("lengthscale").unwrap()[0].set_bounds(0.1, 0.2).unwrap();
    model.find_mut("lengthscale").unwrap()[0].set(&[0.2, 0.2]).unwrap();
    fit(&mut model, F64, &data, &TrainConfig::default(), &mut []).unwrap();
    let mut fixed = model.clone();
    let bounded = model.find_mut("lengthscale").unwrap()[0].clone();
    let influence = |model: &ExactGp| model.posterior(F64, data.clone()).unwrap().influence().unwrap().unwrap().clone();
    assert!(bounded.at_bound(), "{:?}", bounded.values());
    fixed.find_mut("lengthscale").unwrap()[0].fixed = true;
    assert_close("means", &influence(&model).mean, &influence(&fixed).mean, 1e-6);
}

#[test]
fn only_a_minimum_tells_what_a_training_without_a_row_would_find() {
    let untrained = ExactGp::new(kernel()).posterior(F64, data(N, 2)).unwrap();
    let influence = untrained.influence().unwrap().unwrap();
    assert!(influence.mean.is_empty() && influence.unknown.as_ref().unwrap().contains("minimum"), "{influence:?}");
    // Constant targets have no smallest variance.
    let data = data(N, 2).with_targets(vec![0.0; N]).unwrap();
    let constant = ExactGp::new(kernel()).posterior(F64, data).unwrap();
    assert!(constant.influence().unwrap().unwrap().mean.iter().all(|by| *by == 0.0));
}

#[test]
fn with_many_rows_for_each_parameter_there_is_no_influence() {
    let (_, posterior) = trained("rbf(lengthscale=0.5)", &data(700, 1));
    assert_eq!(posterior.influence().unwrap().unwrap(), &Influence::default());
}

#[test]
fn of_many_parameters_the_influence_enlarges_errors_only() {
    let data = data(N, 110);
    let mut model = ExactGp::new(Kernel::parse("matern32(ard)", 110).unwrap());
    // So that rows are near enough to predict each other.
    model.find_mut("lengthscale").unwrap()[0].set(&[20.0; 110]).unwrap();
    let posterior = model.posterior(F64, data.clone()).unwrap();
    let (left, influence) = (posterior.leave_one_out(), posterior.influence().unwrap().unwrap());
    assert!(influence.mean.len() == N && influence.log_variance.is_empty() && influence.unknown.is_none());
    let larger = |row: usize| influence.mean[row] * (left.mean[row] - data.y[row]) >= 0.0;
    assert!((0..N).all(larger) && influence.mean.iter().any(|by| by.abs() > 1e-6));
}
