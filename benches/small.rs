//! Small models: many together and one after another, and likelihoods given by their log density alone beside the
//! built-in ones: `cargo bench --bench small`. Ratios are what counts.

use cagey::data::Dataset;
use cagey::device::Compute;
use cagey::fitted::{Fit, Fitted};
use cagey::kernels::Kernel;
use cagey::likelihoods::{Custom, Gamma, Likelihood, Poisson, RateLink, StudentT, Support};
use cagey::models::exact::ExactGp;
use cagey::models::svgp::{Svgp, SvgpOptions};
use cagey::models::{Observations, fit};
use cagey::params::{Parameter, Unit};
use cagey::products::stacked::{Expected, Member, Sparse, bounds, likelihoods};
use cagey::scope::Scope;
use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};

const MODELS: usize = 200;
const ROWS: usize = 50;
const KERNEL: &str = "matern52 + linear";

/// A short series with a frequency and noise of its own.
fn series(k: usize) -> (Vec<f64>, Vec<f64>) {
    let x: Vec<f64> = (0..ROWS).map(|i| 0.1 * i as f64).collect();
    let noise = |i: usize| 0.2 * ((12.9898 * i as f64 + k as f64).sin() * 43_758.545).fract();
    let y = x.iter().enumerate().map(|(i, x)| ((1.0 + 0.01 * k as f64) * x).sin() + noise(i)).collect();
    (x, y)
}

fn objectives(c: &mut Criterion) {
    let (compute, d) = (Compute::default(), 1);
    let model = |k| {
        let (x, y) = series(k);
        (ExactGp::new(Kernel::parse(KERNEL, d).unwrap()), Observations::new(x, d, y, None).unwrap())
    };
    let models: Vec<(ExactGp, Observations)> = (0..MODELS).map(model).collect();
    let members: Vec<Member> = (models.iter()).map(|(model, data)| model.member(&data.x, &data.y)).collect();
    let scope = Scope::new(compute).unwrap();
    let batches: Vec<_> = models.iter().map(|(_, data)| data.batch(&scope)).collect();
    let mut group = c.benchmark_group("200 objectives with gradients");
    group.sample_size(20).sampling_mode(SamplingMode::Flat);
    group.bench_function("one after another", |b| {
        b.iter(|| {
            for ((model, _), batch) in models.iter().zip(&batches) {
                fit::evaluate(model, compute, batch).unwrap();
            }
        });
    });
    group.bench_function("together", |b| b.iter(|| likelihoods(compute, &members, d).unwrap()));
}

/// The same of variational models of counts.
fn bounds_of_counts(c: &mut Criterion) {
    let (compute, d) = (Compute::default(), 1);
    let z: Vec<f64> = (0..20).map(|i| 0.25 * f64::from(i)).collect();
    let model = |k| {
        let (x, y) = series(k);
        let y = y.iter().map(|y| (3.0 * y.abs()).round()).collect();
        let poisson = Poisson { link: RateLink::Exp };
        let model = Svgp::new(Kernel::parse(KERNEL, d).unwrap(), &z, d, poisson).unwrap();
        (model, Observations::new(x, d, y, None).unwrap())
    };
    let models: Vec<(Svgp, Observations)> = (0..MODELS).map(model).collect();
    let members: Vec<Sparse> = (models.iter()).map(|(model, data)| model.member(&data.x)).collect();
    let scope = Scope::new(compute).unwrap();
    let batches: Vec<_> = models.iter().map(|(_, data)| data.batch(&scope)).collect();
    let mut group = c.benchmark_group("200 bounds with gradients");
    group.sample_size(20).sampling_mode(SamplingMode::Flat);
    group.bench_function("one after another", |b| {
        b.iter(|| {
            for ((model, _), batch) in models.iter().zip(&batches) {
                fit::evaluate(model, compute, batch).unwrap();
            }
        });
    });
    let targets: Vec<Vec<f64>> = models.iter().map(|(_, data)| data.y.clone()).collect();
    let expected = move |k: usize, mean: &[f64], variance: &[f64]| {
        let rates = || mean.iter().zip(variance).map(|(m, v)| (m + 0.5 * v).exp());
        Ok(Expected {
            value: targets[k].iter().zip(mean).zip(rates()).map(|((y, m), rate)| y * m - rate).sum(),
            in_means: targets[k].iter().zip(rates()).map(|(y, rate)| y - rate).collect(),
            in_variances: rates().map(|rate| -0.5 * rate).collect(),
        })
    };
    group.bench_function("together", |b| {
        b.iter(|| bounds(compute, &members, d, 1e-12, expected.clone()).unwrap());
    });
}

fn fits(c: &mut Criterion) {
    let table = |k| {
        let (x, y) = series(k);
        Dataset::new(["t"], x).unwrap().with_target("y", y).unwrap()
    };
    let tables: Vec<Dataset> = (0..MODELS).map(table).collect();
    let mut group = c.benchmark_group("200 fits");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    for steps in [1, 100] {
        let fits = || tables.iter().map(|data| Fit::new(data).kernel(KERNEL).steps(steps)).collect::<Vec<_>>();
        group.bench_function(BenchmarkId::new("one after another", steps), |b| {
            b.iter(|| fits().into_iter().for_each(|fit| drop(fit.run().unwrap())));
        });
        group.bench_function(BenchmarkId::new("together", steps), |b| b.iter(|| Fitted::fit_many(fits())));
    }
    group.finish();
    let counts = |data: &Dataset| {
        let y = data.y.iter().flatten().map(|y| (3.0 * y.abs()).round()).collect();
        Dataset::new(["t"], data.x.clone()).unwrap().with_target("y", y).unwrap()
    };
    let tables: Vec<Dataset> = tables.iter().map(counts).collect();
    let mut group = c.benchmark_group("200 fits of counts by svgp");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    let of = |data| {
        let model = SvgpOptions::default().inducing(20);
        Fit::new(data).kernel(KERNEL).likelihood("poisson").model(model).steps(20)
    };
    let fits = || tables.iter().map(of).collect::<Vec<_>>();
    group.bench_function("one after another", |b| {
        b.iter(|| fits().into_iter().for_each(|fit| drop(fit.run().unwrap())));
    });
    group.bench_function("together", |b| b.iter(|| Fitted::fit_many(fits())));
}

cagey::log_density!(Waits: Support::Positive, |row, f, own| {
    -(own[0] * (f[0] + (-f[0]).exp() * row.y))
}, |row, own| own[0] * (own[0].ln() + row.y.ln()) - own[0].ln_gamma() - row.y.ln());

cagey::log_density!(HeavyTails: Support::Real, |row, f, own| {
    let t = f[0] - row.y;
    (t * t / (own[0] * own[1])).ln_1p() * (own[1] + 1.0) * -0.5
}, |_row, own| {
    let half = own[1] * 0.5;
    (half + 0.5).ln_gamma() - half.ln_gamma() - (own[1] * own[0] * std::f64::consts::PI).ln() * 0.5
});

fn positive(name: &str, value: f64) -> Parameter {
    Parameter::positive(name, Unit::None, &[value])
}

/// The objective of a variational model with its gradient: what a step of its training costs, with built-in likelihoods
/// and with the same ones by their log densities.
fn likelihoods_of_ones_own(c: &mut Criterion) {
    let x: Vec<f64> = (0..200).map(|i| 0.02 * f64::from(i)).collect();
    let y = x.iter().enumerate().map(|(i, x)| x.sin() + 0.3 * (0.1 + (7.1 * i as f64).sin().abs()).ln());
    let real = Observations::new(x.clone(), 1, y.collect(), None).unwrap();
    let waiting = real.y.iter().map(|y| y.exp()).collect();
    let waiting = Observations::new(x, 1, waiting, None).unwrap();
    let heavy = Custom::new("heavy", HeavyTails, [positive("noise", 0.1), positive("df", 4.0)]);
    let own: [(&str, Box<dyn Likelihood>, &Observations); 4] = [
        ("gamma", Box::new(Gamma::new(1.0)), &waiting),
        ("gamma by its log density", Box::new(Custom::new("waits", Waits, [positive("shape", 1.0)])), &waiting),
        ("student-t", Box::new(StudentT::new(0.1, 4.0)), &real),
        ("student-t by its log density", Box::new(heavy), &real),
    ];
    let (compute, z) = (Compute::default(), (0..20).map(|i| 0.2 * f64::from(i)).collect::<Vec<_>>());
    let scope = Scope::new(compute).unwrap();
    let mut group = c.benchmark_group("svgp, 20 inducing inputs, 200 rows");
    group.sample_size(20).sampling_mode(SamplingMode::Flat);
    for (name, likelihood, data) in own {
        let model = Svgp::boxed(Kernel::parse("matern52", 1).unwrap(), &z, 1, likelihood).unwrap();
        let batch = data.batch(&scope);
        group.bench_function(name, |b| b.iter(|| fit::evaluate(&model, compute, &batch).unwrap()));
    }
}

criterion_group!(benches, objectives, bounds_of_counts, fits, likelihoods_of_ones_own);
criterion_main!(benches);
