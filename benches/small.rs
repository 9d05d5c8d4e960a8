//! Small models: many together and one after another, and likelihoods given by their log density alone beside the
//! built-in ones: `cargo bench --bench small`. Ratios are what counts.

use cagey::data::Dataset;
use cagey::device::Compute;
use cagey::fitted::{Calibrate, Fit, Fitted, Registry};
use cagey::kernels::Kernel;
use cagey::likelihoods::registry::Row as Entry;
use cagey::likelihoods::{Custom, Support};
use cagey::models::exact::ExactGp;
use cagey::models::svgp::SvgpOptions;
use cagey::models::{Observations, fit};
use cagey::params::{Parameter, Unit};
use cagey::products::stacked::{Member, likelihoods};
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
    let members: Vec<Member> = (models.iter())
        .map(|(model, data)| Member {
            kernel: &model.prior.kernel,
            mean: &model.prior.mean,
            noise: &model.likelihood.noise,
            x: &data.x,
            y: &data.y,
        })
        .collect();
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
}

cagey::log_density!(Waits: Support::Positive, |row, f, own| {
    let shape = own[0];
    shape * (shape.ln() + row.y.ln() - f[0] - (-f[0]).exp() * row.y) - shape.ln_gamma() - row.y.ln()
});

cagey::log_density!(HeavyTails: Support::Real, |row, f, own| {
    let (noise, df) = (own[0], own[1]);
    let t = f[0] - row.y;
    let half = (df + 1.0) * 0.5;
    half.ln_gamma() - (df * 0.5).ln_gamma() - (df * noise * std::f64::consts::PI).ln() * 0.5
        - half * (t * t / (df * noise)).ln_1p()
});

fn positive(name: &str, value: f64) -> Parameter {
    Parameter::positive(name, Unit::None, &[value])
}

/// Trainings of a variational model with built-in likelihoods, and with the same ones by their log densities.
fn likelihoods_of_ones_own(c: &mut Criterion) {
    let waits = || Box::new(Custom::new("waits", Waits, [positive("shape", 1.0)])) as _;
    let heavy = || Box::new(Custom::new("heavy", HeavyTails, [positive("noise", 0.1), positive("df", 4.0)])) as _;
    let registry = Registry::default().with_likelihood(Entry::new("waits", waits));
    let registry = registry.with_likelihood(Entry::new("heavy", heavy));
    let x: Vec<f64> = (0..200).map(|i| 0.02 * f64::from(i)).collect();
    let y = x.iter().enumerate().map(|(i, x)| x.sin() + 0.3 * (0.1 + (7.1 * i as f64).sin().abs()).ln()).collect();
    let real = Dataset::new(["t"], x.clone()).unwrap().with_target("y", y).unwrap();
    let y = real.y.iter().flatten().map(|y| y.exp()).collect();
    let positive = Dataset::new(["t"], x).unwrap().with_target("y", y).unwrap();
    let mut group = c.benchmark_group("100 steps of svgp with 20 inducing inputs and 200 rows");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    for (name, data) in [("gamma", &positive), ("waits", &positive), ("student-t", &real), ("heavy", &real)] {
        let fit = || Fit::new(data).likelihood(name).model(SvgpOptions::default().inducing(20)).registry(&registry);
        group.bench_function(name, |b| b.iter(|| fit().calibrate(Calibrate::No).steps(100).run().unwrap()));
    }
}

criterion_group!(benches, objectives, fits, likelihoods_of_ones_own);
criterion_main!(benches);
