//! A computation-aware GP on many rows: a rough surface with noise, n = 400,000 by default. Memory is linear in n, and
//! no covariance is ever stored. The training is saved after every step. If it is killed, the same command continues to
//! the same numbers.
//!
//! `cargo run --release --example rough_surface [-- --rows 20000 --steps 20]`

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use cagey::Result;
use cagey::device::Precision;
use cagey::kernels::Kernel;
use cagey::models::cagp::{Actions, Cagp};
use cagey::models::ordering::RowOrder;
use cagey::models::posterior::Posterior;
use cagey::models::{Observations, fit};
use cagey::params::Parameters;
use cagey::scope::Scope;
use cagey::train::{Adam, CheckpointPlan, Observer, Optimizer, Report, Schedule, TrainConfig};
use clap::Parser;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

use cagey_examples::Device;

/// Train a computation-aware GP on a large generated surface.
#[derive(Parser)]
struct Options {
    /// Training rows
    #[arg(long, default_value_t = 400_000)]
    rows: usize,
    /// Actions
    #[arg(long, default_value_t = 512)]
    actions: usize,
    /// Steps of Adam
    #[arg(long, default_value_t = 10)]
    steps: usize,
    /// First learning rate; it falls to a tenth during training
    #[arg(long, default_value_t = 0.1)]
    rate: f64,
    /// File in which the state is saved; if it exists, training continues from it
    #[arg(long, default_value = "rough_surface.checkpoint")]
    checkpoint: PathBuf,
    /// Seed of the data
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    device: Device,
}

const NOISE: f64 = 0.2;
/// Number of rows that test the predictions.
const TEST: usize = 2000;

fn main() -> Result<()> {
    cagey::memory::keep_freed();
    let options = Options::parse();
    cagey::threads::start(None)?;
    let compute = options.device.compute(Precision::F32);
    let (x, height, y) = surface(options.rows + TEST, options.seed);
    let train = Observations::new(x[2 * TEST..].to_vec(), 2, y[TEST..].to_vec(), None)?;
    let train = train.permuted(&RowOrder::Tree.rows(&train, options.actions)?)?;
    let kernel = Kernel::parse("matern32([0.1, 0.1])", 2)?;
    let mut model = Cagp::new(kernel, Actions::averages(train.n(), options.actions)?);

    let start = Instant::now();
    fit::evaluate(&model, compute, &train.batch(&Scope::new(compute)?))?;
    let step = start.elapsed().as_secs_f64();
    let minutes = step * options.steps as f64 / 60.0;
    println!("{} rows, {} actions: {step:.1} s a step, {minutes:.1} min in all", train.n(), options.actions);

    let adam = Adam { rate: options.rate, schedule: Schedule::Linear { final_fraction: 0.1 }, ..Adam::default() };
    let mut config = TrainConfig::new(Optimizer::Adam(adam), options.steps)
        .seed(options.seed)
        .checkpoint(CheckpointPlan::every_steps(&options.checkpoint, 1))
        .fingerprint(format!("rough surface {} {} {}", options.rows, options.actions, options.seed));
    config.resume = options.checkpoint.exists().then(|| options.checkpoint.clone());
    let outcome = fit::fit(&mut model, compute, &train, &config, &mut [&mut Losses])?;

    println!("{}; objective per row {}", outcome.termination, outcome.loss);
    for (path, parameter) in model.parameters().into_iter().filter(|(path, _)| path != "actions") {
        println!("{path:<24} {:?}", parameter.values());
    }
    let found = model.posterior(compute, train)?.predict(&x[..2 * TEST])?;
    let squares = found.mean.iter().zip(&height).map(|(mean, f)| (mean - f).powi(2)).sum::<f64>();
    let within = |((mean, variance), f): ((&f64, &f64), &f64)| (mean - f).abs() < 1.96 * variance.sqrt();
    let covered = found.mean.iter().zip(&found.variance).zip(&height).filter(|pair| within(*pair)).count();
    println!("RMSE of f on {TEST} other points {:.4}", (squares / TEST as f64).sqrt());
    println!("95 % intervals hold f at {:.1} % of them", 100.0 * covered as f64 / TEST as f64);
    Ok(())
}

struct Losses;

impl Observer for Losses {
    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        println!("step {:>4}  {:>7.1} s  objective per row {}", report.iteration, report.seconds, report.loss);
        ControlFlow::Continue(())
    }
}

/// Points of the unit square, the heights of a surface with detail on every scale down to a hundredth of its width, and
/// these heights with noise.
fn surface(rows: usize, seed: u64) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut turn = || rng.random_range(0.0..std::f64::consts::TAU);
    let waves: Vec<[f64; 4]> = (1..=100)
        .map(|k| {
            let (frequency, angle, phase) = (6.0 * f64::from(k), turn(), turn());
            [frequency * angle.cos(), frequency * angle.sin(), phase, f64::from(k).powf(-1.2)]
        })
        .collect();
    let x: Vec<f64> = (0..2 * rows).map(|_| rng.random_range(0.0..1.0)).collect();
    let height = |p: &[f64]| waves.iter().map(|[u, v, phase, size]| size * (u * p[0] + v * p[1] + phase).sin()).sum();
    let heights: Vec<f64> = x.chunks_exact(2).map(height).collect();
    let noisy = |f: &f64| f + NOISE * Distribution::<f64>::sample(&StandardNormal, &mut rng);
    let y = heights.iter().map(noisy).collect();
    (x, heights, y)
}
