//! The collapsed bound.

use cagey::kernels::Kernel;
use cagey::means::Mean;
use cagey::models::exact::ExactGp;
use cagey::models::inducing::{Choice, choose};
use cagey::models::posterior::Posterior;
use cagey::models::sgpr::Sgpr;
use cagey::models::{Model, Observations, fit};
use cagey::params::Parameters;
use cagey::scope::{Scope, scalar};

use crate::common::check_posterior;
use crate::common::{assert_close, columns, flat, golden, kernel, kernel_gradient};
use crate::{F32, F64, check_gradient, data};

fn model(text: &str, z: &[f64], d: usize) -> Sgpr {
    let mut model = Sgpr::new(Kernel::parse(text, d).unwrap(), z, d).unwrap();
    model.process.prior.mean = Mean::named("linear", d).unwrap();
    model.likelihood.noise.set(&[0.2]).unwrap();
    model
}

#[test]
fn golden_sgpr() {
    let cases = golden("sgpr");
    assert!(!cases.is_empty());
    for case in cases {
        let name = case["case"].as_str().unwrap();
        let d = columns(&case["X"]);
        let mut gp = Sgpr::new(kernel(&case["kernel"], d), &flat(&case["Z"]), d).unwrap();
        gp.process.prior.mean = Mean::named("constant", d).unwrap();
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
            let loss = gp.objective(&scope, &data.batch(&scope)).unwrap();
            assert_close(name, &[-scalar(loss.clone()).unwrap()], &flat(&expected["elbo"]), tolerance);
            let (_, raw) = scope.gradient(loss, &gp).unwrap();
            let mut want: Vec<f64> = kernel_gradient(&gp.process.prior.kernel, &expected["grad"]["kernel"]).concat();
            for part in ["mean", "Z", "noise"] {
                want.extend(flat(&expected["grad"][part]));
            }
            let slopes: Vec<f64> = gp.parameters().iter().flat_map(|(_, p)| p.internal_slope()).collect();
            let got: Vec<f64> = raw.iter().zip(slopes).map(|(g, s)| -g / s).collect();
            assert_close(&format!("{name} gradient"), &got, &want, tolerance);
        }
        let posterior = gp.posterior(F64, data).unwrap();
        let points = flat(&case["Xs"]);
        let joint = posterior.predict_joint(&points).unwrap();
        assert_close(&format!("{name} f_mean"), &joint.mean, &flat(&expected["f_mean"]), 1e-8);
        assert_close(&format!("{name} f_cov"), &joint.covariance, &flat(&expected["f_cov"]), 1e-8);
        check_posterior(name, &posterior, &points, d);
    }
}

#[test]
fn inducing_inputs_at_the_data_give_the_exact_gp() {
    let known = (0..25).map(|i| 0.01 * i as f64).collect();
    let observations = data(25, 2).with_auxiliary(Some(known)).unwrap();
    let gp = model("matern32(ard)", &observations.x, 2);
    let mut exact = ExactGp::new(gp.process.prior.kernel.clone());
    (exact.prior.mean, exact.likelihood) = (gp.process.prior.mean.clone(), gp.likelihood.clone());
    let batch = observations.batch(&Scope::new(F64).unwrap());
    let (sparse, full) = (fit::evaluate(&gp, F64, &batch).unwrap(), fit::evaluate(&exact, F64, &batch).unwrap());
    assert_close("loss", &[sparse.loss], &[full.loss], 1e-9);
    // The order is kernel and mean, then Z, then the noise.
    let before = full.gradient.len() - 1;
    let (shared, z) = sparse.gradient.split_at(before);
    let (z, noise) = z.split_at(z.len() - 1);
    assert_close("gradient", &[shared, noise].concat(), &full.gradient, 1e-7);
    // The bound is tight here, so Z cannot improve it.
    assert!(z.iter().all(|g| g.abs() < 1e-5), "{z:?}");
    let points = [0.3, -0.2, 1.0, 1.0, -2.0, 0.5, 9.0, 9.0];
    let got = gp.posterior(F64, observations.clone()).unwrap().predict(&points).unwrap();
    let want = exact.posterior(F64, observations).unwrap().predict(&points).unwrap();
    assert_close("mean", &got.mean, &want.mean, 1e-8);
    assert_close("variance", &got.variance, &want.variance, 1e-8);
}

#[test]
fn fewer_inducing_inputs_loosen_the_bound() {
    let observations = data(30, 2);
    let batch = observations.batch(&Scope::new(F64).unwrap());
    let loss = |m: usize| fit::evaluate(&model("rbf(ard)", &observations.x[..2 * m], 2), F64, &batch).unwrap().loss;
    let losses: Vec<f64> = [2, 5, 12, 30].map(loss).to_vec();
    assert!(losses.windows(2).all(|w| w[0] >= w[1] - 1e-9), "{losses:?}");
}

/// With long lengthscales K_ZZ is singular up to rounding, and small noise gives its errors a large weight: the
/// objective must still not exceed the evidence.
#[test]
fn the_bound_stays_one_where_inducing_inputs_are_nearly_redundant() {
    let observations = data(60, 1);
    let batch = observations.batch(&Scope::new(F64).unwrap());
    let z: Vec<f64> = (0..12).map(|i| -2.0 + 0.35 * f64::from(i)).collect();
    for lengthscale in [1.0, 3.0, 10.0, 30.0] {
        for noise in [1e-2, 1e-4, 1e-6] {
            let kernel = Kernel::parse(&format!("rbf(lengthscale={lengthscale})"), 1).unwrap();
            let mut gp = Sgpr::new(kernel.clone(), &z, 1).unwrap();
            let mut exact = ExactGp::new(kernel);
            gp.likelihood.noise.set(&[noise]).unwrap();
            exact.likelihood.noise.set(&[noise]).unwrap();
            let (bound, evidence) =
                (fit::evaluate(&gp, F64, &batch).unwrap(), fit::evaluate(&exact, F64, &batch).unwrap());
            let rounding = 1e-6 * evidence.loss.abs();
            assert!(
                bound.loss >= evidence.loss - rounding,
                "{lengthscale}, {noise}: {} < {}",
                bound.loss,
                evidence.loss
            );
        }
    }
}

#[test]
fn gradients_match_finite_differences() {
    let known = (0..40).map(|i| 0.02 * i as f64).collect();
    let observations = data(40, 2).with_auxiliary(Some(known)).unwrap();
    let z: Vec<f64> = observations.x[..14].iter().map(|x| x + 0.1).collect();
    let texts = [
        "matern52(ard)",
        "matern32(ard) + 0.5 * periodic(period=1.3, dims=[0]) * rbf",
        "rq(dims=[1]) + linear(ard) + white",
        "projection(matern52, dim=1) + constant",
    ];
    for text in texts {
        check_gradient(text, &model(text, &z, 2), &observations, 1e-6);
    }
}

#[test]
fn a_budget_changes_nothing() {
    let observations = data(700, 3);
    let gp = model("matern32(ard) + linear", &observations.x[..60], 3);
    let evaluate = |budget: usize| {
        let scope = Scope::training(F64).unwrap().with_budget(budget);
        let loss = gp.objective(&scope, &observations.batch(&scope)).unwrap();
        scope.gradient(loss, &gp).unwrap()
    };
    let (whole, chunked) = (evaluate(usize::MAX), evaluate(50 * 16 * 20));
    assert_close("loss", &[chunked.0], &[whole.0], 1e-12);
    assert_close("gradient", &chunked.1, &whole.1, 1e-11);
}

#[test]
fn single_precision_follows_double() {
    let observations = data(200, 3);
    // Inducing inputs so close to each other that K_ZZ, rounded to single precision, would be indefinite.
    let z: Vec<f64> = (0..3 * 20).map(|i| 0.1 * i as f64).collect();
    let gp = model("rbf(ard)", &z, 3);
    let batch = |compute| observations.batch(&Scope::new(compute).unwrap());
    let double = fit::evaluate(&gp, F64, &batch(F64)).unwrap();
    let single = fit::evaluate(&gp, F32, &batch(F32)).unwrap();
    assert_close("loss", &[single.loss], &[double.loss], 1e-5);
    let points = [0.1, 0.2, 0.3, -1.0, 1.5, 0.0];
    let predict = |compute| gp.posterior(compute, observations.clone()).unwrap().predict(&points).unwrap();
    let (double, single) = (predict(F64), predict(F32));
    assert_close("mean", &single.mean, &double.mean, 1e-3);
    assert_close("variance", &single.variance, &double.variance, 1e-3);
}

#[test]
fn shapes_are_checked() {
    let kernel = Kernel::parse("rbf", 2).unwrap();
    assert!(Sgpr::new(kernel.clone(), &[1.0, 2.0, 3.0], 2).is_err());
    assert!(Sgpr::new(kernel.clone(), &[], 2).is_err());
    let gp = Sgpr::new(kernel, &[1.0, 2.0], 2).unwrap();
    assert!(gp.posterior(F64, data(10, 3)).is_err());
}

#[test]
fn inducing_inputs_come_from_the_data() {
    let (observations, kernel) = (data(200, 2), Kernel::parse("rbf(0.5)", 2).unwrap());
    let rows: Vec<&[f64]> = observations.x.chunks(2).collect();
    let mut covered = Vec::new();
    for choice in [Choice::Random, Choice::Kmeans, Choice::Greedy] {
        let z = choose(choice, &kernel, &observations.x, 2, 20, 1).unwrap();
        assert_eq!(z, choose(choice, &kernel, &observations.x, 2, 20, 1).unwrap(), "{choice:?}: the same for a seed");
        assert_eq!(z.len(), 40);
        if choice != Choice::Kmeans {
            assert!(z.chunks(2).all(|row| rows.contains(&row)), "{choice:?}: rows of the data");
        }
        let distinct: std::collections::HashSet<Vec<u64>> =
            z.chunks(2).map(|row| row.iter().map(|v| v.to_bits()).collect()).collect();
        assert_eq!(distinct.len(), 20, "{choice:?}");
        // The trace that is left determines how tight the bound is.
        let gp = Sgpr::new(kernel.clone(), &z, 2).unwrap();
        let batch = observations.batch(&Scope::new(F64).unwrap());
        covered.push(fit::evaluate(&gp, F64, &batch).unwrap().loss);
    }
    assert!(covered[1] < covered[0] && covered[2] < covered[0], "better than random: {covered:?}");
    // Fewer distinct rows than inducing inputs.
    let repeated = [1.0, 2.0].repeat(50);
    assert_eq!(choose(Choice::Kmeans, &kernel, &repeated, 2, 5, 0).unwrap(), [1.0, 2.0]);
    assert_eq!(choose(Choice::Greedy, &kernel, &repeated, 2, 5, 0).unwrap(), [1.0, 2.0]);
    assert!(choose(Choice::Random, &kernel, &observations.x, 2, 0, 0).is_err());
    assert!("kmean".parse::<Choice>().is_err());
}
