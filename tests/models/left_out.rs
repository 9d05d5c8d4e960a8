//! Closed forms of leaving one row out, compared with models without that row.

use cagey::kernels::Kernel;
use cagey::linalg::Factor;
use cagey::means::Mean;
use cagey::models::Observations;
use cagey::models::cagp::{Actions, Cagp};
use cagey::models::exact::ExactGp;
use cagey::models::minibatch::Rows;
use cagey::models::posterior::{LeaveOneOut, Posterior};
use cagey::models::sgpr::Sgpr;
use cagey::params::{Parameters, Prior};

use crate::common::assert_close;
use crate::{F64, data, noise};

const N: usize = 24;

fn kernel() -> Kernel {
    Kernel::parse("1.3 * matern32(lengthscale=[0.8, 1.1])", 2).unwrap()
}

/// Rows with known noise.
fn observed() -> Observations {
    let data = data(N, 2);
    let known = (0..N).map(|i| 0.02 * (i % 5) as f64).collect();
    Observations { auxiliary: Some(known), ..data }
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

    // These models have one noise for all rows.
    let data = Observations { auxiliary: None, ..data };
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
    let data = Observations { auxiliary: None, ..observed() };
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
        let left = gp.posterior(F64, Observations { y: y.clone(), ..data.clone() }).unwrap().leave_one_out();
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

/// Standardised residuals of rows left out, with D^-½ as it is for other parameters: the weights times it.
fn residuals(model: &ExactGp, data: &Observations, precision: &[f64]) -> Vec<f64> {
    let left = model.posterior(F64, data.clone()).unwrap().leave_one_out();
    let weights = data.y.iter().zip(&left.mean).zip(&left.variance).map(|((y, mean), variance)| (y - mean) / variance);
    weights.zip(precision).map(|(weight, precision)| weight / precision.sqrt()).collect()
}

#[test]
fn leverages_are_those_of_the_linear_model() {
    let data = observed();
    let mut model = ExactGp::new(Kernel::parse("1.3 * matern32(lengthscale=[0.8, 1.1]) + 0.2 * white", 2).unwrap());
    model.prior.mean = Mean::named("constant", 2).unwrap();
    model.find_mut("lengthscale").unwrap()[0].set_prior(None, Prior::LogNormal(0.0, 0.5));
    model.find_mut("noise").unwrap()[0].set_prior(None, Prior::Normal(0.1, 0.02));
    let posterior = model.posterior(F64, data.clone()).unwrap();
    let precision: Vec<f64> = posterior.leave_one_out().variance.iter().map(|variance| 1.0 / variance).collect();

    let (raw, step) = (model.free_raw(), 1e-5);
    let count = raw.len();
    let mut jacobian = vec![0.0; N * count];
    for entry in 0..count {
        let at = |change: f64| {
            let (mut moved, mut raw) = (model.clone(), raw.clone());
            raw[entry] += change;
            moved.set_free_raw(&raw).unwrap();
            residuals(&moved, &data, &precision)
        };
        for (row, (up, down)) in at(step).iter().zip(at(-step)).enumerate() {
            jacobian[row * count + entry] = (up - down) / (2.0 * step);
        }
    }
    // A common factor of the variances changes the residuals, but not what they should be.
    let z = residuals(&model, &data, &precision);
    let square: f64 = z.iter().map(|z| z * z).sum();
    for entry in 0..count {
        let along = z.iter().enumerate().map(|(row, z)| z * jacobian[row * count + entry]).sum::<f64>() / square;
        z.iter().enumerate().for_each(|(row, z)| jacobian[row * count + entry] -= along * z);
    }
    let parameters = model.parameters();
    let priors = parameters.iter().flat_map(|(_, parameter)| parameter.prior_curvature());
    let mut curvature = vec![0.0; count * count];
    for (place, value) in curvature.iter_mut().enumerate() {
        *value = jacobian.chunks(count).map(|row| row[place / count] * row[place % count]).sum();
    }
    curvature.iter_mut().step_by(count + 1).zip(priors).for_each(|(diagonal, prior)| *diagonal += prior);
    let factor = Factor::new(curvature, "the test's matrix").unwrap();
    let expected: Vec<f64> = (jacobian.chunks(count))
        .map(|row| {
            let mut solved = row.to_vec();
            factor.solve(&mut solved).unwrap();
            row.iter().zip(solved).map(|(a, b)| a * b).sum()
        })
        .collect();
    assert_close("leverages", posterior.leverages().unwrap().unwrap(), &expected, 1e-5);
}

#[test]
fn without_correlations_leverages_are_those_of_least_squares() {
    let data = data(N, 1);
    let mut model = ExactGp::new(Kernel::parse("1e-12 * rbf(lengthscale=1)", 1).unwrap());
    model.prior.mean = Mean::named("constant", 1).unwrap();
    for (path, parameter) in model.parameters_mut() {
        parameter.fixed = !path.starts_with("mean");
    }
    // Around their mean, the targets are at right angles to a constant.
    let sum: f64 = data.y.iter().sum();
    model.find_mut("mean.constant").unwrap()[0].set(&[sum / N as f64]);
    let posterior = model.posterior(F64, data.clone()).unwrap();
    assert_close("leverages", posterior.leverages().unwrap().unwrap(), &[1.0 / N as f64; N], 1e-6);
    // The row's residual from the mean of the other rows.
    let left = posterior.leave_one_out();
    let deleted: Vec<f64> = data.y.iter().zip(&left.mean).map(|(y, m)| (y - m) / (1.0 - 1.0 / N as f64)).collect();
    let expected: Vec<f64> = data.y.iter().map(|y| y - (sum - y) / (N as f64 - 1.0)).collect();
    assert_close("residuals", &deleted, &expected, 1e-8);
}

#[test]
fn constant_targets_have_no_leverage() {
    let data = Observations { y: vec![0.0; N], ..data(N, 2) };
    let posterior = ExactGp::new(kernel()).posterior(F64, data).unwrap();
    assert_eq!(posterior.leverages().unwrap().unwrap(), [0.0; N]);
}

#[test]
fn many_rows_for_each_parameter_have_no_leverage() {
    let data = data(700, 1);
    let model = ExactGp::new(Kernel::parse("rbf(lengthscale=0.5)", 1).unwrap());
    let leverages = |data: Observations| {
        let posterior = model.posterior(F64, data).unwrap();
        posterior.leverages().unwrap().unwrap().iter().sum::<f64>()
    };
    let some = Observations { x: data.x[..100].to_vec(), y: data.y[..100].to_vec(), ..data.clone() };
    let (some, all) = (leverages(some), leverages(data));
    // Lengthscale and ratio of variances; the third parameter is a common factor.
    assert!((some - 2.0).abs() < 1e-3, "{some}");
    assert_eq!(all, 0.0);
}
