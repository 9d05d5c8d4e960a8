//! How Newton's method goes by its options: compression and stopping as the paper prints them, rows in order, and
//! gradients through the solve of Gaussian targets. All against dense arithmetic, other models or finite differences.

use cagey::kernels::Kernel;
use cagey::likelihoods::{Bernoulli, BernoulliLink, Gaussian, Likelihood, Softmax};
use cagey::linalg::Factor;
use cagey::models::Observations;
use cagey::models::cagp::{ActionPolicy, CagpOptions, Compression, IterativeCagp, Newton, NewtonOptions, Stopping};
use cagey::models::exact::ExactGp;
use cagey::models::fit;
use cagey::models::laplace::LaplaceGp;
use cagey::models::options::{Context, ModelOptions, Parts};
use cagey::models::posterior::Posterior;
use cagey::products::Covariance;
use cagey::scope::{Scope, to_f64};
use cagey::solvers::policies::{Pivots, UnitVector};
use faer::{Mat, Side};

use crate::common::{F64, assert_close, data, noise};

const POINTS: [f64; 6] = [0.4, -0.7, 3.0, 0.2, -1.1, 1.6];

fn kernel() -> Kernel {
    Kernel::parse("3.0 * matern32(1.3)", 2).unwrap()
}

fn logit() -> Bernoulli {
    Bernoulli { link: BernoulliLink::Logit }
}

/// Rows with labels.
fn labels(n: usize, classes: usize) -> Observations {
    let mut state = 9;
    let x = data(n, 2).x.clone();
    let y =
        (0..n).map(|_| ((noise(&mut state) + 2.0) * classes as f64 * 0.25).floor().clamp(0.0, classes as f64 - 1.0));
    let y = y.collect();
    Observations::new(x, 2, y, None).unwrap()
}

fn covariance(a: &[f64], b: &[f64]) -> Mat<f64> {
    let (scope, n, m) = (Scope::new(F64).unwrap(), a.len() / 2, b.len() / 2);
    let all: Vec<f64> = [a, b].concat();
    let k = to_f64(Covariance::new(&kernel(), &scope, &scope.matrix(&all, n + m, 2)).matrix().unwrap()).unwrap();
    Mat::from_fn(n, m, |i, j| k[i * (n + m) + n + j])
}

/// A⁻¹ b of a symmetric positive definite A.
fn solved(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    let n = a.nrows();
    let factor = Factor::new((0..n * n).map(|e| a[(e / n, e % n)]).collect(), "a").unwrap();
    let columns = b.ncols();
    let mut values: Vec<f64> = (0..n * columns).map(|e| b[(e / columns, e % columns)]).collect();
    factor.solve(&mut values).unwrap();
    Mat::from_fn(n, columns, |i, j| values[i * columns + j])
}

/// Pseudo-targets and their noise at latent values.
fn sites(f: &Mat<f64>, y: &[f64]) -> (Mat<f64>, Vec<f64>) {
    let p: Vec<f64> = (0..y.len()).map(|i| 1.0 / (1.0 + (-f[(i, 0)]).exp())).collect();
    let noise: Vec<f64> = p.iter().map(|p| 1.0 / (p * (1.0 - p))).collect();
    (Mat::from_fn(y.len(), 1, |i, _| f[(i, 0)] + (y[i] - p[i]) * noise[i]), noise)
}

/// One step with five unit vectors, of which the three largest eigenvectors of M are kept, as Algorithm 3 prints it.
#[test]
fn the_printed_compression_keeps_the_largest_eigenvectors_of_m() {
    let (n, i, kept) = (12, 5, 3);
    let data = labels(n, 2);
    let gp = IterativeCagp::newton(kernel(), logit(), i);
    let compression = Compression::Largest;
    let newton = NewtonOptions { per_step: i, steps: 1, kept: Some(kept), compression, ..gp.newton };
    let gp = IterativeCagp { policy: Box::new(UnitVector { pivots: Pivots::Data }), newton, ..gp };
    let got = gp.posterior(F64, data.clone()).unwrap().0.predict(&POINTS).unwrap();

    let k = covariance(&data.x, &data.x);
    let s = Mat::from_fn(n, i, |row, column| if row == column { 1.0 } else { 0.0 });
    let noisy = |noise: &[f64]| Mat::from_fn(n, n, |a, b| k[(a, b)] + if a == b { noise[a] } else { 0.0 });
    let (targets, first) = sites(&Mat::zeros(n, 1), &data.y);
    let m = s.transpose() * noisy(&first) * &s;
    let weights = solved(&m, &(s.transpose() * &targets));
    let eigen = m.self_adjoint_eigen(Side::Lower).unwrap();
    let u = Mat::from_fn(i, kept, |row, column| eigen.U()[(row, i - 1 - column)]);
    let su = &s * &u;
    let f = &k * &su * (u.transpose() * &weights);
    let (targets, second) = sites(&f, &data.y);
    let m = su.transpose() * noisy(&second) * &su;
    let cross = su.transpose() * covariance(&data.x, &POINTS);
    let mean = cross.transpose() * solved(&m, &(su.transpose() * &targets));
    let explained = cross.transpose() * solved(&m, &cross);
    for point in 0..3 {
        assert_close("mean", &[got.mean[point]], &[mean[(point, 0)]], 1e-9);
        assert_close("variance", &[got.variance[point]], &[3.0 - explained[(point, point)]], 1e-9);
    }
}

/// With all actions in every step, the steps are those of the dense method, which ends when f − m changes by a
/// hundredth.
#[test]
fn the_printed_rule_ends_with_the_dense_method() {
    let n = 15;
    let data = labels(n, 2);
    let k = covariance(&data.x, &data.x);
    let (mut f, mut steps) = (Mat::<f64>::zeros(n, 1), 0);
    let next = |f: &Mat<f64>| {
        let (targets, noise) = sites(f, &data.y);
        &k * solved(&Mat::from_fn(n, n, |a, b| k[(a, b)] + if a == b { noise[a] } else { 0.0 }), &targets)
    };
    loop {
        let to = next(&f);
        let change = (&to - &f).norm_l2() / to.norm_l2();
        (f, steps) = (to, steps + 1);
        if change <= 0.01 {
            break;
        }
    }
    let gp = IterativeCagp::newton(kernel(), logit(), n);
    let newton = NewtonOptions { per_step: n, stopping: Stopping::Change, settled: 0.01, ..gp.newton };
    let gp = IterativeCagp { policy: Box::new(UnitVector { pivots: Pivots::Data }), newton, ..gp };
    let (posterior, report) = gp.posterior(F64, data.clone()).unwrap();
    assert_eq!((report.steps, steps > 1), (steps, true));
    // The posterior is that of one more step.
    let want = next(&f);
    let got = posterior.predict(&data.x).unwrap().mean;
    assert_close("mean", &got, &(0..n).map(|i| want[(i, 0)]).collect::<Vec<_>>(), 1e-8);
}

const SITES: cagey::models::cagp::SiteRule = cagey::models::cagp::SiteRule::Mode;

/// Rows in order are a subset of the data, if each Newton step takes all of them.
#[test]
fn rows_in_order_are_the_model_of_the_first_rows() {
    let n = 14;
    let of = |likelihood: Box<dyn Likelihood>, data: &Observations, actions: usize| {
        let newton = Newton { per_step: Some(actions), stopping: Stopping::Change, ..Newton::default() };
        let (policy, sites) = (ActionPolicy::Rows, SITES);
        let options = CagpOptions::default().actions(actions).policy(policy).sites(sites).newton(newton);
        let mut model =
            options.build(Parts { likelihood, prior: kernel().into() }, &Context::new(data, &[], 0)).unwrap();
        for (path, parameter) in model.parameters_mut() {
            if path == "likelihood.noise" {
                parameter.set(&[0.3]).unwrap();
            }
        }
        model.condition(F64, data.clone()).unwrap()
    };
    let first = |data: &Observations, rows: usize| {
        Observations::new(data.x[..2 * rows].to_vec(), 2, data.y[..rows].to_vec(), None).unwrap()
    };
    let all = data(n, 2);
    let mut exact = ExactGp::new(kernel());
    exact.likelihood.noise.set(&[0.3]).unwrap();
    let (got, want) = (
        of(Box::new(Gaussian::new(0.3)), &all, 6).predict(&POINTS).unwrap(),
        exact.posterior(F64, first(&all, 6)).unwrap().predict(&POINTS).unwrap(),
    );
    assert_close("Gaussian mean", &got.mean, &want.mean, 1e-9);
    assert_close("Gaussian variance", &got.variance, &want.variance, 1e-9);
    for classes in [2, 3] {
        let all = labels(n, classes);
        // Three classes have two directions a row.
        let (rows, likelihood, directions): (usize, Box<dyn Likelihood>, usize) = match classes {
            2 => (6, Box::new(logit()), 1),
            _ => (5, Box::new(Softmax::new(3)), 2),
        };
        let want = LaplaceGp::boxed(kernel().into(), likelihood.clone()).posterior(F64, first(&all, rows)).unwrap();
        let (got, want) =
            (of(likelihood, &all, directions * rows).marginals(&POINTS).unwrap(), want.marginals(&POINTS).unwrap());
        for (got, want) in got.iter().zip(&want) {
            // The steps end when they change f by a hundredth, and converge quadratically.
            assert_close(&format!("{classes} classes: mean"), &got.mean, &want.mean, 3e-4);
            assert_close(&format!("{classes} classes: variance"), &got.variance, &want.variance, 3e-4);
        }
    }
}

/// The gradient of a Gaussian model with a policy goes through its solve.
#[test]
fn gradients_go_through_the_solve_of_gaussian_targets() {
    let data = data(13, 2);
    for unrolled in [0, 1] {
        let options = CagpOptions::default().actions(4).policy(ActionPolicy::Cg).unrolled(unrolled);
        let parts = Parts { likelihood: Box::new(Gaussian::new(0.3)), prior: kernel().into() };
        let mut model = options.build(parts, &Context::new(&data, &[], 0)).unwrap();
        let batch = data.batch(&Scope::new(F64).unwrap());
        let at = model.free_raw();
        let gradient = fit::evaluate(&*model, F64, &batch).unwrap().gradient;
        let mut value = |k: usize, by: f64| {
            let mut moved = at.clone();
            moved[k] += by;
            model.set_free_raw(&moved).unwrap();
            fit::evaluate(&*model, F64, &batch).unwrap().loss
        };
        let numeric: Vec<f64> = (0..at.len()).map(|k| (value(k, 1e-5) - value(k, -1e-5)) / 2e-5).collect();
        let off = gradient.iter().zip(&numeric).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        // Held actions have the gradient of another function.
        assert!(if unrolled == 1 { off < 1e-5 } else { off > 1e-4 }, "unrolled {unrolled}: {off}");
    }
}
