//! Compares trainings of experts with equal numbers of gradients: where each training ends, and how good the result is
//! for the model of all rows (Chen and Tuo 2024, *Aggregation models with optimal weights for distributed Gaussian
//! processes*, section 5.1.1).
//!
//! `cargo run --release --example experts_training [-- --rows 2000 --experts 2,8,20 --inducing 64 --rounds 100]`
//!
//! The paper has `--rows 10000 --inducing 128 --rounds 200 --experts 2,4,8,10,20,40,80,100`, seeds 1 to 10. Rows are
//! drawn from the prior with an RBF kernel and (ℓ₁, ℓ₂, σ_ε, σ_f) = (0.3, 1.3, 0.1, 0.2); training starts at (2, 0.3,
//! 1, √1.5).

use std::path::PathBuf;

use cagey::device::Compute;
use cagey::kernels::Kernel;
use cagey::likelihoods::Gaussian;
use cagey::models::experts::aggregation::Rule;
use cagey::models::experts::{Algorithm, Experts, Federation, Partition, Shared};
use cagey::models::gp_model::{GpModel, Training};
use cagey::models::inducing::{self, Choice};
use cagey::models::sgpr::Sgpr;
use cagey::models::{Observations, fit};
use cagey::params::Parameters;
use cagey::plot::{Figure, Frame, LearningCurve, Run};
use cagey::scope::Scope;
use cagey::train::{Adam, Optimizer, TrainConfig};
use cagey::{Error, Result};
use clap::Parser;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

#[path = "common/latent.rs"]
mod latent;

/// Compare trainings of experts.
#[derive(Parser)]
struct Options {
    /// Rows, drawn from the prior: the memory grows with the square of their number
    #[arg(long, default_value_t = 2000)]
    rows: usize,
    /// Numbers of experts
    #[arg(long, value_delimiter = ',', default_value = "2,8,20")]
    experts: Vec<usize>,
    /// Inducing inputs that all experts share
    #[arg(long, default_value_t = 64)]
    inducing: usize,
    /// Number of gradients of each expert
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// Local steps of FedAvg and FedProx
    #[arg(long, default_value_t = 5)]
    local_steps: usize,
    /// Seeds of the data
    #[arg(long, value_delimiter = ',', default_value = "1")]
    seeds: Vec<u64>,
    /// Where to draw the bound of all rows against rounds, for the last number of experts
    #[arg(long, default_value = "experts_training.png")]
    output: PathBuf,
}

/// ℓ₁, ℓ₂, σ_ε, σ_f of the data.
const TRUTH: [f64; 4] = [0.3, 1.3, 0.1, 0.2];
/// The start of training.
const START: [f64; 4] = [2.0, 0.3, 1.0, 1.224_744_871_391_589];
/// The learning rate of Adam.
const RATE: f64 = 0.1;

fn kernel([first, second, _, scale]: [f64; 4]) -> Result<Kernel> {
    Kernel::parse(&format!("{} * rbf(lengthscale=[{first}, {second}])", scale * scale), 2)
}

/// Draws rows from the prior.
fn rows(options: &Options, seed: u64) -> Result<Observations> {
    let (mut rng, n) = (Xoshiro256PlusPlus::seed_from_u64(seed), options.rows);
    let x: Vec<f64> = (0..2 * n).map(|_| rng.random_range(-1.0..1.0)).collect();
    let y = latent::sample(&kernel(TRUTH)?, &x, 2, TRUTH[2] * TRUTH[2], &mut rng)?;
    Observations::new(x, 2, y, None)
}

/// The sparse model of all rows, with parameters at `at`.
fn model(at: [f64; 4], options: &Options, data: &Observations, seed: u64) -> Result<Sgpr> {
    let kernel = kernel(at)?;
    let z = inducing::choose(Choice::Kmeans, &kernel, &data.x, 2, options.inducing, seed)?;
    let mut model = Sgpr::new(kernel, &z, 2)?;
    model.likelihood = Gaussian::new(at[2] * at[2]);
    Ok(model)
}

/// Where training of the sparse model of all rows ends, from the start or from the truth: the better one.
fn optimum(options: &Options, data: &Observations, seed: u64) -> Result<End> {
    let from = |at| -> Result<End> {
        let mut full = model(at, options, data, seed)?;
        fit::fit(&mut full, Compute::default(), data, &TrainConfig::while_it_pays(), &mut [])?;
        let bound = whole(&full, &full.free_raw(), data)?;
        Ok(End { name: "sgpr of all rows, L-BFGS", experts: 1, values: found(&full), bound })
    };
    let (start, truth) = (from(START)?, from(TRUTH)?);
    Ok(if truth.bound < start.bound { truth } else { start })
}

/// ℓ₁, ℓ₂, σ_ε, σ_f of a model.
fn found(model: &dyn GpModel) -> [f64; 4] {
    let of = |name: &str| {
        let parameters = model.parameters();
        parameters.iter().find(|(path, _)| path.ends_with(name)).map(|(_, p)| p.internal()).unwrap_or_default()
    };
    let lengths = of("rbf.lengthscale");
    let sd = |name: &str| of(name).first().map_or(f64::NAN, |variance| variance.sqrt());
    [lengths[0], lengths[1], sd("noise"), sd("rbf.variance")]
}

/// Minus the bound of all rows, per row.
fn whole(model: &Sgpr, at: &[f64], data: &Observations) -> Result<f64> {
    let mut model = model.clone();
    model.set_free_raw(at)?;
    let compute = Compute::default();
    Ok(fit::evaluate(&model, compute, &data.batch(&Scope::new(compute)?))?.loss / data.n() as f64)
}

/// A training: its name and number of experts, and where it ended.
struct End {
    name: &'static str,
    experts: usize,
    /// ℓ₁, ℓ₂, σ_ε, σ_f.
    values: [f64; 4],
    /// Minus the bound of all rows, per row.
    bound: f64,
}

fn show(name: &str, [first, second, noise, scale]: [f64; 4], bound: f64) {
    println!("  {name:<28} {first:>7.3} {second:>7.3} {noise:>7.4} {scale:>7.3}   {bound:>9.4}");
}

/// The trainings that are compared, each with its number of rounds. Each expert computes as many gradients in each of
/// them, on average.
fn trainings(options: &Options) -> [(&'static str, Federation, usize); 5] {
    let plain = |algorithm| Federation { algorithm, ..Federation::default() };
    let local = |algorithm| Federation { local_steps: Some(options.local_steps), ..plain(algorithm) };
    let half = |algorithm| Federation { share: 0.5, ..local(algorithm) };
    let admm = Federation { penalty: Some(500.0), ..local(Algorithm::Admm) };
    let averaged = 2 * options.rounds / options.local_steps;
    [
        ("FACT", plain(Algorithm::Fact), options.rounds),
        ("FedAvg", half(Algorithm::Fedavg), averaged),
        ("FedProx", half(Algorithm::Fedprox), averaged),
        ("ADMM, ρ = 500", admm, options.rounds / options.local_steps),
        ("pxADMM", plain(Algorithm::Pxadmm), options.rounds),
    ]
}

/// Trains `count` experts in each way. Also returns the losses of each training by round.
fn train(options: &Options, data: &Observations, count: usize, seed: u64) -> Result<Vec<(End, Vec<f64>)>> {
    let (compute, start) = (Compute::default(), model(START, options, data, seed)?);
    let parts = Partition::Random.split(data, &[], count, seed)?;
    let train = |(name, federation, rounds)| {
        let mut experts = Experts::new(Shared::Sparse(start.clone()), Rule::Grbcm, parts.clone(), vec![0])?;
        experts.federation = federation;
        let adam = Optimizer::Adam(Adam { rate: RATE, ..Adam::default() });
        let config = TrainConfig::new(adam, rounds).seed(seed);
        let training = Training { compute, data, rows: data, batches: None, config: &config, spread: None };
        let outcome = experts.train(training, &mut [])?;
        let bound = whole(&start, &experts.free_raw(), data)?;
        let losses = outcome.history.records.iter().map(|record| record.loss).collect();
        Ok((End { name, experts: count, values: found(&experts), bound }, losses))
    };
    trainings(options).into_iter().map(train).collect()
}

/// Prints, for each training, the means over seeds of |ln θ/θ*| for each parameter, where θ* is the optimum of the
/// model of all rows, and of the distance of the bound from its optimum.
fn summarise(options: &Options, optima: &[End], ends: &[End]) {
    println!("means over {} seeds of |ln θ/θ*|; of the distance to the optimum's bound, per row", optima.len());
    for count in &options.experts {
        println!(" M = {count}");
        for (name, ..) in trainings(options) {
            let (mut errors, mut bound) = ([0.0; 4], 0.0);
            let own = ends.iter().filter(|end| end.experts == *count && end.name == name);
            for (end, optimum) in own.zip(optima) {
                let far = end.values.iter().zip(optimum.values).map(|(at, best)| (at / best).ln().abs());
                errors.iter_mut().zip(far).for_each(|(sum, far)| *sum += far / optima.len() as f64);
                bound += (end.bound - optimum.bound) / optima.len() as f64;
            }
            show(name, errors, bound);
        }
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    if options.rounds < options.local_steps || options.local_steps == 0 {
        return Err(Error::Usage("--local-steps: at least one, and no more than --rounds".into()));
    }
    cagey::memory::keep_freed();
    cagey::threads::start(None)?;
    let (mut optima, mut ends, mut curves) = (Vec::new(), Vec::new(), Vec::new());
    for &seed in &options.seeds {
        let data = rows(&options, seed)?;
        let full = optimum(&options, &data, seed)?;
        println!("seed {seed}                             ℓ₁      ℓ₂     σ_ε     σ_f   bound of all rows, per row");
        show("truth", TRUTH, f64::NAN);
        show(full.name, full.values, full.bound);
        optima.push(full);
        for &count in &options.experts {
            println!(" M = {count}");
            curves.clear();
            for (end, losses) in train(&options, &data, count, seed)? {
                show(end.name, end.values, end.bound);
                curves.push((end.name, losses));
                ends.push(end);
            }
        }
    }
    summarise(&options, &optima, &ends);
    let runs: Vec<Run> = curves.iter().map(|(name, loss)| Run { name, loss, seconds: &[] }).collect();
    let frame = Frame { x: "round", y: "objective of the experts, per row", ..Frame::default() };
    LearningCurve { runs: &runs, frame, ..LearningCurve::default() }.save(&options.output)
}
