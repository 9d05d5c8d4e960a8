//! Workloads of models with inducing points.

use std::ops::ControlFlow;
use std::time::Duration;

use cagey::device::Transfers;
use cagey::likelihoods::{Bernoulli, BernoulliLink, Gaussian, Likelihood, Softmax};
use cagey::means::Mean;
use cagey::models::gp_model::{GpModel, Training};
use cagey::models::minibatch::{self, Minibatches};
use cagey::models::posterior::Posterior;
use cagey::models::prior::Prior;
use cagey::models::sgpr::Sgpr;
use cagey::models::sparse_grid::{Domain, SparseGrid, SparseGridOptions};
use cagey::models::svgp::Svgp;
use cagey::models::swsgp::Swsgp;
use cagey::models::{Batch, Observations, fit};
use cagey::scope::Scope;
use cagey::train::{Adam, Observer, Optimizer, Report, TrainConfig};
use cagey::{Error, Result};
use clap::ValueEnum;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, StandardNormal};

use super::{Options, Step, Steps, model_step, observations, trainable};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Targets {
    /// The targets as they are.
    Gaussian,
    /// Whether the targets are positive.
    Bernoulli,
    /// Ten classes, each with its own latent function, kernel and inducing inputs. Classes are the tenths of the
    /// targets, or the targets if these are 0 to 9.
    Softmax,
}

const CLASSES: usize = 10;

/// The class of every target.
fn classes(y: &[f64]) -> Vec<f64> {
    if y.iter().all(|y| (0..CLASSES).any(|class| class as f64 == *y)) {
        return y.to_vec();
    }
    let mut sorted = y.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = |y: &f64| sorted.partition_point(|other| other < y);
    y.iter().map(|y| (CLASSES * rank(y) / sorted.len()) as f64).collect()
}

/// The noise variance at the start of GPyTorch's Gaussian likelihood.
const NOISE: f64 = 0.693_247;

pub fn sgpr(options: &Options) -> Result<Step> {
    let data = observations(options)?;
    let mut model = Sgpr::new(trainable(options)?, first_rows(options, &data)?, options.d)?;
    model.process.prior.mean = Mean::named("constant", options.d)?;
    model_step(options, model, data)
}

pub fn sparse_grid(options: &Options) -> Result<Step> {
    let data = observations(options)?;
    let settings = SparseGridOptions::default().level(options.level);
    let prior = Prior { mean: Mean::named("constant", options.d)?, ..trainable(options)?.into() };
    model_step(options, SparseGrid::new(prior, &Domain::of(&data), settings)?, data)
}

/// The inducing inputs at the start: the first `--m` rows.
fn first_rows<'a>(options: &Options, data: &'a Observations) -> Result<&'a [f64]> {
    let few = || Error::Usage(format!("{} inducing inputs need as many rows, not {}", options.m, data.n()));
    data.x.get(..options.m * data.d).ok_or_else(few)
}

/// The likelihood that the options ask for, and targets of its kind.
pub fn targets(options: &Options) -> Result<(Box<dyn Likelihood>, Observations)> {
    let data = observations(options)?;
    let likelihood: Box<dyn Likelihood> = match options.likelihood {
        Targets::Gaussian => Box::new(Gaussian::new(NOISE)),
        Targets::Bernoulli => Box::new(Bernoulli { link: BernoulliLink::Probit }),
        Targets::Softmax => Box::new(Softmax::new(CLASSES)),
    };
    let y = match options.likelihood {
        Targets::Gaussian => data.y.clone(),
        Targets::Bernoulli => data.y.iter().map(|y| f64::from(u8::from(*y > 0.0))).collect(),
        Targets::Softmax => classes(&data.y),
    };
    Ok((likelihood, data.with_targets(y)?))
}

fn variational(options: &Options) -> Result<(Svgp, Observations)> {
    let (likelihood, data) = targets(options)?;
    let z = first_rows(options, &data)?;
    let mut model = Svgp::boxed(trainable(options)?, z, options.d, likelihood)?;
    model.processes[0].prior.mean = Mean::named("constant", options.d)?;
    Ok((model.separate(), data))
}

/// All transfers up to the end of each step. What a training does before and after its steps is not among them.
#[derive(Debug, Default)]
struct Crossed(Vec<Transfers>);

impl Crossed {
    /// The transfers of all steps but the first.
    fn after_the_first(&self) -> Transfers {
        self.0.first().zip(self.0.last()).map_or_else(Transfers::default, |(first, last)| *last - *first)
    }
}

impl Observer for Crossed {
    fn step(&mut self, _report: &Report) -> ControlFlow<()> {
        self.0.push(Transfers::so_far());
        ControlFlow::Continue(())
    }
}

/// Returns the seconds of each step, and the loss per datum of the first rows at the start.
pub fn svgp(options: &Options) -> Result<Steps> {
    let compute = options.compute();
    let (mut model, data) = variational(options)?;
    let b = options.batch.min(data.n());
    let first = Observations::new(data.x[..b * data.d].to_vec(), data.d, data.y[..b].to_vec(), None)?;
    let scale = data.n() as f64 / b as f64;
    let batch = Batch { scale, ..first.batch(&Scope::new(compute)?) };
    let loss = fit::evaluate(&model, compute, &batch)?.loss / data.n() as f64;
    let steps = options.reps.unwrap_or(1_000_000);
    let config = TrainConfig::new(Optimizer::Adam(Adam::default()), steps).max_time(Duration::from_secs(10));
    let batches = Minibatches { size: b, ..Minibatches::default() };
    let mut crossed = Crossed::default();
    let outcome = minibatch::fit(&mut model, compute, &data, &batches, &config, &mut [&mut crossed])?;
    let at: Vec<f64> = outcome.history.records.iter().map(|record| record.seconds).collect();
    let times = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    Ok(Steps { times, loss, moved: crossed.after_the_first() })
}

/// Returns the seconds of each step, and the last loss. Inducing inputs are drawn like the data and stay fixed.
pub fn swsgp(options: &Options) -> Result<Steps> {
    let compute = options.compute();
    let data = observations(options)?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let z: Vec<f64> = (0..options.m * data.d).map(|_| StandardNormal.sample(&mut rng)).collect();
    let mut model = Swsgp::new(trainable(options)?, &z, data.d, options.neighbors, Gaussian::new(NOISE))?;
    model.process.inducing.fixed = true;
    let config = TrainConfig::new(Optimizer::Adam(Adam::default()), options.reps.unwrap_or(50));
    let batches = Minibatches { size: options.batch, ..Minibatches::default() };
    let training =
        Training { compute, data: &data, rows: &data, batches: Some(&batches), config: &config, spread: None };
    let mut crossed = Crossed::default();
    let outcome = model.train(training, &mut [&mut crossed])?;
    let records = &outcome.history.records;
    let times = records.windows(2).map(|pair| pair[1].seconds - pair[0].seconds).collect();
    let loss = records.last().map_or(f64::NAN, |record| record.loss);
    Ok(Steps { times, loss, moved: crossed.after_the_first() })
}

pub fn predict(options: &Options) -> Result<Step> {
    let compute = options.compute();
    let (model, data) = variational(options)?;
    let posterior = model.posterior(compute)?;
    let x: Vec<f64> = data.x.iter().cycle().take(options.ntest * data.d).map(|x| x + 0.01).collect();
    Ok(Box::new(move || {
        let marginals = posterior.predict(&x)?;
        Ok(("checksum", marginals.mean.iter().chain(&marginals.variance).sum()))
    }))
}
