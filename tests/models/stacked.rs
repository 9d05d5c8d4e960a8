//! Objectives of many models as one graph, against those of each.

use cagey::device::{Compute, Precision};
use cagey::kernels::Kernel;
use cagey::likelihoods::{Poisson, RateLink};
use cagey::means::Mean;
use cagey::models::exact::ExactGp;
use cagey::models::posterior::VARIANCE_FLOOR;
use cagey::models::svgp::Svgp;
use cagey::models::variational::Covariance;
use cagey::models::{Observations, fit};
use cagey::params::Parameters;
use cagey::products::stacked::{Expected, Member, Sparse, bounds, likelihoods};
use cagey::scope::Scope;

#[test]
fn losses_and_gradients_are_those_of_single_models() {
    let (d, compute) = (2, Compute::default());
    for text in [
        "matern52",
        "rbf(ard) + linear(ard)",
        "periodic(ard) * rq + white",
        "spectral_mixture(components=2)",
        "matern32(dims=[1]) + cosine_sum + constant",
        "polynomial(power=2) + periodic_norm(dims=[0])",
    ] {
        let mut models = Vec::new();
        for k in 0..5 {
            let mut model = ExactGp::new(Kernel::parse(text, d).unwrap());
            model.prior.mean = Mean::named(["zero", "linear", "constant"][k % 3], d).unwrap();
            let raw: Vec<f64> =
                model.free_raw().iter().enumerate().map(|(i, raw)| raw + 0.1 * ((i + k) as f64).sin()).collect();
            model.set_free_raw(&raw).unwrap();
            let n = 20 + 7 * k;
            let x: Vec<f64> = (0..n * d).map(|i| (0.9 * i as f64 + k as f64).sin() * 2.0).collect();
            let y: Vec<f64> = x.chunks(d).map(|x| x[0].sin() + 0.3 * x[1]).collect();
            models.push((model, Observations::new(x, d, y, None).unwrap()));
        }
        // Models of one mean at a time.
        for name in ["zero", "linear", "constant"] {
            let some: Vec<_> = models.iter().filter(|(model, _)| model.prior.mean.name() == name).collect();
            let member = |(model, data): &&'_ (ExactGp, Observations)| -> (ExactGp, Observations) {
                (model.clone(), data.clone())
            };
            let own: Vec<_> = some.iter().map(member).collect();
            let members: Vec<Member> = own.iter().map(|(model, data)| model.member(&data.x, &data.y)).collect();
            let found = likelihoods(compute, &members, d).unwrap();
            for ((model, data), found) in own.iter().zip(found) {
                let batch = data.batch(&Scope::new(compute).unwrap());
                let want = fit::evaluate(model, compute, &batch).unwrap();
                assert!((found.loss - want.loss).abs() < 1e-9 * want.loss.abs().max(1.0), "{text}");
                let parameters = model.parameters();
                let free = parameters.iter().zip(found.slopes).filter(|((_, p), _)| !p.fixed);
                let gradient: Vec<f64> = free.flat_map(|((_, p), slope)| p.raw_slope(slope)).collect();
                assert_eq!(gradient.len(), want.gradient.len());
                for (a, b) in gradient.iter().zip(&want.gradient) {
                    assert!((a - b).abs() < 1e-8 * b.abs().max(1.0), "{text}: {gradient:?} {:?}", want.gradient);
                }
            }
        }
    }
}

/// E[ln p(y | f)] of counts with the rate e^f, in closed form.
fn of_counts(y: &[f64], mean: &[f64], variance: &[f64]) -> Expected {
    let rates: Vec<f64> = mean.iter().zip(variance).map(|(m, v)| (m + 0.5 * v).exp()).collect();
    let factorials = |y: f64| (1..=y as u32).map(|k| f64::from(k).ln()).sum::<f64>();
    Expected {
        value: y.iter().zip(mean).zip(&rates).map(|((y, m), rate)| y * m - rate - factorials(*y)).sum(),
        in_means: y.iter().zip(&rates).map(|(y, rate)| y - rate).collect(),
        in_variances: rates.iter().map(|rate| -0.5 * rate).collect(),
    }
}

#[test]
fn bounds_and_gradients_are_those_of_single_models() {
    for precision in [Precision::F64, Precision::F32] {
        bounds_are_those_of_single_models(Compute { precision, ..Compute::default() });
    }
}

fn bounds_are_those_of_single_models(compute: Compute) {
    let d = 2;
    // Single models of f32 round their marginals and results, and gradients by a share of the largest entry: models
    // together may err twice as much.
    let rounding = if compute.precision == Precision::F64 { 1e-9 } else { 2e-5 };
    for (text, mean) in [
        ("matern52", "constant"),
        ("rbf(ard) + linear(ard)", "zero"),
        ("periodic(ard) * rq + white", "linear"),
        ("polynomial(power=2) + constant", "constant"),
        ("linear", "linear"),
    ] {
        let mut models = Vec::new();
        for k in 0..5 {
            let (n, m) = (20 + 7 * k, 6 + k);
            let x: Vec<f64> = (0..n * d).map(|i| (0.9 * i as f64 + k as f64).sin() * 2.0).collect();
            let y: Vec<f64> = (0..n).map(|i| ((i * i + k) % 5) as f64).collect();
            let z: Vec<f64> = (0..m * d).map(|i| (1.7 * i as f64 - k as f64).cos() * 2.0).collect();
            let kernel = Kernel::parse(text, d).unwrap();
            let covariance = if k == 3 { Covariance::Diagonal } else { Covariance::Full };
            let mut model = Svgp::new(kernel, &z, d, Poisson { link: RateLink::Exp }).unwrap().covariance(covariance);
            model.processes[0].prior.mean = Mean::named(mean, d).unwrap();
            let raw = model.free_raw();
            let raw: Vec<f64> = raw.iter().enumerate().map(|(i, raw)| raw + 0.1 * ((i + k) as f64).sin()).collect();
            model.set_free_raw(&raw).unwrap();
            models.push((model, Observations::new(x, d, y, None).unwrap()));
        }
        let members: Vec<Sparse> = models.iter().map(|(model, data)| model.member(&data.x)).collect();
        let targets: Vec<Vec<f64>> = models.iter().map(|(_, data)| data.y.clone()).collect();
        let expected = move |k: usize, mean: &[f64], variance: &[f64]| Ok(of_counts(&targets[k], mean, variance));
        let found = bounds(compute, &members, d, VARIANCE_FLOOR, expected).unwrap();
        for ((model, data), found) in models.iter().zip(found) {
            let batch = data.batch(&Scope::new(compute).unwrap());
            let want = fit::evaluate(model, compute, &batch).unwrap();
            let exact = Compute { precision: Precision::F64, ..compute };
            let exact_batch = data.batch(&Scope::new(exact).unwrap());
            let exact = fit::evaluate(model, exact, &exact_batch).unwrap();
            let near = |a: f64, want: f64, exact: f64, size: f64| {
                (a - exact).abs() <= 2.0 * (want - exact).abs() + rounding * size
            };
            assert!(near(found.loss, want.loss, exact.loss, want.loss.abs().max(1.0)), "{text}");
            let parameters = model.parameters();
            let free = parameters.iter().zip(found.slopes).filter(|((_, p), _)| !p.fixed);
            let gradient: Vec<f64> = free.flat_map(|((_, p), slope)| p.raw_slope(slope)).collect();
            assert_eq!(gradient.len(), want.gradient.len());
            let largest = want.gradient.iter().fold(1.0, |largest: f64, b| largest.max(b.abs()));
            for ((a, b), exact) in gradient.iter().zip(&want.gradient).zip(&exact.gradient) {
                let size = if compute.precision == Precision::F64 { b.abs().max(1.0) } else { largest };
                assert!(near(*a, *b, *exact, 10.0 * size), "{text}: {gradient:?} {:?}", want.gradient);
            }
        }
    }
}
