//! Figure S3: where SVGP puts its inducing inputs, and how certain it is there, in 1 to 25 dimensions.

use cagey::Result;
use cagey::device::Precision;
use cagey::kernels::Kernel;
use cagey::likelihoods::Gaussian;
use cagey::models::Observations;
use cagey::models::exact::ExactGp;
use cagey::models::inducing::{self, Choice};
use cagey::models::minibatch::{self, Minibatches};
use cagey::models::posterior::Posterior;
use cagey::models::svgp::Svgp;
use cagey::params::Parameters;
use cagey::train::{Adam, Optimizer, Schedule, TrainConfig};
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::drawing::{mean, pane};
use crate::common::rows::{generator, sample, uniform};
use crate::common::scores::spread;

/// The variance of the noise; the paper does not give it.
const NOISE: f64 = 0.01;

/// Distances to the nearest row in lengthscales, of inducing inputs and of random points, and shares of the posterior
/// in the predictive variance at the inducing inputs, by SVGP and by the exact GP that generated the data.
type Found = [f64; 4];

pub fn figure(job: &Job<Options>) -> Result<()> {
    let dimensions = job.pick([vec![1, 4], vec![1, 2, 3, 4, 6, 10, 15, 25], (1..=25).collect()]);
    let mut columns: [Vec<Vec<f64>>; 4] = Default::default();
    for &d in &dimensions {
        let mut runs: Vec<Found> = Vec::new();
        for seed in job.seeds([1, 3, 10]) {
            let rows = job.size(&job.own.rows, [200, 500, 500]);
            let (inducing, epochs) =
                (job.size(&job.own.inducing, [64, 64, 64]), job.size(&job.own.epochs, [30, 300, 300]));
            let key = json!({ "d": d, "seed": seed, "rows": rows, "inducing": inducing, "epochs": epochs });
            runs.push(job.once(key, || found(job, d, seed, [rows, inducing, epochs]))?);
        }
        for (k, column) in columns.iter_mut().enumerate() {
            column.push(runs.iter().map(|run| run[k]).collect());
        }
        let [z, random, svgp, exact] = [0, 1, 2, 3].map(|k| spread(&columns[k][columns[k].len() - 1]).0);
        println!(
            "d = {d:>2}: distance {z:.3} (random points {random:.3}), share of variance {svgp:.4} (exact {exact:.4})"
        );
    }
    let x: Vec<f64> = dimensions.iter().map(|d| f64::from(*d)).collect();
    let names = ["inducing inputs", "random points", "SVGP", "exact GP that generated the data"];
    let series = |k: usize| mean(names[k], &x, &columns[k]);
    let panes = [
        pane("distance to the nearest row, in lengthscales", vec![series(0), series(1)]),
        pane("share of the posterior in the predictive variance", vec![series(2), series(3)]),
    ];
    job.panels("", ["SVGP at its inducing inputs", "input columns", ""], false, &panes)
}

fn found(job: &Job<Options>, d: i32, seed: u64, [rows, count, epochs]: [usize; 3]) -> Result<Found> {
    let (mut rng, columns, compute) = (generator(seed), d as usize, job.compute(Precision::F64));
    let x = uniform(rows * columns, 0.0, 1.0, &mut rng);
    let known = || Kernel::parse(&format!("matern32({:?})", vec![1.0; columns]), columns);
    let y = sample(&known()?, &x, columns, NOISE, &mut rng)?;
    let data = Observations::new(x, columns, y, None)?;
    let z = inducing::choose(Choice::Random, &known()?, &data.x, columns, count, seed)?;
    let mut svgp = Svgp::new(known()?, &z, columns, Gaussian::new(0.1))?;
    let schedule = Schedule::Linear { final_fraction: 0.1 };
    let adam = Optimizer::Adam(Adam { rate: 0.1, schedule, ..Adam::default() });
    let batches = Minibatches { size: rows, ..Minibatches::default() };
    minibatch::fit(&mut svgp, compute, &data, &batches, &TrainConfig::new(adam, epochs), &mut [])?;
    let z = svgp.processes[0].inducing.internal();
    let kernel = &svgp.processes[0].prior.kernel;
    let parameters = kernel.parameters();
    let lengths = parameters.iter().find(|(path, _)| path.ends_with("lengthscale")).map(|(_, p)| p.internal());
    let lengths = lengths.unwrap_or_else(|| vec![1.0; columns]);
    let share = |variance: &[f64], noise: f64| variance.iter().map(|v| v / (v + noise)).sum::<f64>() / count as f64;
    let own = svgp.posterior(compute)?.predict(&z)?.variance;
    let mut exact = ExactGp::new(known()?);
    exact.likelihood.noise.set(&[NOISE])?;
    let exact = exact.posterior(compute, data.clone())?.predict(&z)?.variance;
    let random = uniform(count * columns, 0.0, 1.0, &mut rng);
    let nearest = |points: &[f64]| {
        let distance = |a: &[f64], b: &[f64]| {
            a.iter().zip(b).zip(&lengths).map(|((a, b), l)| ((a - b) / l).powi(2)).sum::<f64>().sqrt()
        };
        let near = |p: &[f64]| data.x.chunks(columns).map(|x| distance(p, x)).fold(f64::INFINITY, f64::min);
        points.chunks(columns).map(near).sum::<f64>() / count as f64
    };
    let noise = svgp.likelihood.noise().unwrap_or_default();
    Ok([nearest(&z), nearest(&random), share(&own, noise), share(&exact, NOISE)])
}
