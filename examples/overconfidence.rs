//! How certain approximations are where there are no data (Wenger et al. 2024, Figure 1): the exact GP, SVGP, CaGP-CG
//! and CaGP-Opt on data with a gap, each with hyperparameters from its own training.
//!
//! `cargo run --release --example overconfidence [-- --output overconfidence.png]`

use std::path::PathBuf;

use cagey::device::Compute;
use cagey::kernels::Kernel;
use cagey::likelihoods::Gaussian;
use cagey::models::cagp::{Actions, Cagp, IterativeCagp};
use cagey::models::exact::ExactGp;
use cagey::models::gp_model::GpModel;
use cagey::models::inducing::{self, Choice};
use cagey::models::minibatch::{self, Minibatches};
use cagey::models::ordering::RowOrder;
use cagey::models::posterior::{Marginals, Posterior};
use cagey::models::svgp::Svgp;
use cagey::models::{Model, Observations, fit};
use cagey::plot::{Component, Components, Curve, Figure, Frame, Points};
use cagey::train::{Adam, Optimizer, TrainConfig};
use cagey::{Error, Result};
use clap::Parser;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

/// Fit exact and computation-aware GPs to data with a gap and draw their uncertainty.
#[derive(Parser)]
struct Options {
    /// Where to draw the figure (.png or .svg)
    #[arg(long, default_value = "overconfidence.png")]
    output: PathBuf,
    /// Observations
    #[arg(long, default_value_t = 100)]
    rows: usize,
    /// Actions of the computation-aware GPs, and inducing inputs of the variational one
    #[arg(long, default_value_t = 8)]
    actions: usize,
    /// Seed of the data and of the first inducing inputs
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

const KERNEL: &str = "matern32(1.0)";
const NOISE: f64 = 0.2;
/// The inputs lie in 0..10, outside this interval.
const GAP: (f64, f64) = (4.5, 7.0);

fn main() -> Result<()> {
    let options = Options::parse();
    let (data, truth) = generate(&options)?;
    let compute = Compute::default();
    let kernel = || Kernel::parse(KERNEL, 1);
    let config = TrainConfig::default();

    let mut exact = ExactGp::new(kernel()?);
    train(&mut exact, &data, &config)?;
    let svgp = variational(kernel()?, &data, &options)?;
    let mut cg = IterativeCagp::cg(kernel()?, options.actions);
    train(&mut cg, &data, &config)?;
    let ordered = data.permuted(&RowOrder::Tree.rows(&data, options.actions)?)?;
    let mut learned = Cagp::new(kernel()?, Actions::averages(ordered.n(), options.actions)?);
    train(&mut learned, &ordered, &config)?;

    let grid: Vec<f64> = (0..=600).map(|i| f64::from(i) / 60.0).collect();
    let fits = [
        ("exact GP", exact.posterior(compute, data.clone())?.predict(&grid)?, noise(&exact)),
        ("SVGP", svgp.posterior(compute)?.predict(&grid)?, svgp.likelihood.noise().unwrap_or_default().sqrt()),
        ("CaGP-CG", cg.posterior(compute, data.clone())?.0.predict(&grid)?, noise(&cg)),
        ("CaGP-Opt", learned.posterior(compute, ordered.clone())?.predict(&grid)?, noise(&learned)),
    ];
    println!("{:<10} {:>8} {:>14} {:>13} {:>9}", "", "noise sd", "sd at the data", "sd in the gap", "coverage");
    for (name, marginals, noise) in &fits {
        report(name, marginals, *noise, &grid, &truth);
    }
    println!("with the hyperparameters of the exact GP, where no approximation may be more certain:");
    (cg.priors[0].kernel, cg.likelihood) = (exact.prior.kernel.clone(), Box::new(exact.likelihood.clone()));
    (learned.priors[0].kernel, learned.likelihood) = (exact.prior.kernel.clone(), Box::new(exact.likelihood.clone()));
    for (name, marginals) in [
        ("CaGP-CG", cg.posterior(compute, data.clone())?.0.predict(&grid)?),
        ("CaGP-Opt", learned.posterior(compute, ordered)?.predict(&grid)?),
    ] {
        report(name, &marginals, noise(&exact), &grid, &truth);
    }
    let curves: Vec<Curve> = fits.iter().map(|(_, marginals, _)| curve(&grid, marginals)).collect();
    let parts: Vec<Component> =
        fits.iter().zip(&curves).map(|((title, ..), curve)| Component { title, curve }).collect();
    Components {
        total: parts[0],
        parts: &parts[1..],
        training: Points { x: &data.x, y: &data.y },
        held_out: Points::default(),
        mark: None,
        frame: Frame { title: "posterior of f", x: "x", y: "y", ..Frame::default() },
    }
    .save(&options.output)?;
    println!("figure in {}", options.output.display());
    Ok(())
}

/// Data from the prior with known hyperparameters, and their noise-free function on the grid of the figure.
fn generate(options: &Options) -> Result<(Observations, Vec<f64>)> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(options.seed);
    let mut x: Vec<f64> = (0..=600).map(|i| f64::from(i) / 60.0).collect();
    let grid = x.len();
    while x.len() < grid + options.rows {
        let candidate = rng.random_range(0.0..10.0);
        if !(GAP.0..GAP.1).contains(&candidate) {
            x.push(candidate);
        }
    }
    // A posterior with only one observation, far away, is the prior.
    let prior = ExactGp::new(Kernel::parse(KERNEL, 1)?);
    let far = Observations::new(vec![1e6], 1, vec![0.0], None)?;
    let f = prior.posterior(Compute::default(), far)?.sample(&x, 1, options.seed)?.swap_remove(0);
    let mut noisy = |f: &f64| f + NOISE * Distribution::<f64>::sample(&StandardNormal, &mut rng);
    let y = f[grid..].iter().map(&mut noisy).collect();
    Ok((Observations::new(x.split_off(grid), 1, y, None)?, f[..grid].to_vec()))
}

fn train(model: &mut impl Model, data: &Observations, config: &TrainConfig) -> Result<()> {
    let outcome = fit::fit(model, Compute::default(), data, config, &mut [])?;
    if !outcome.loss.is_finite() {
        return Err(Error::NotFinite("the loss".into()));
    }
    Ok(())
}

/// An SVGP whose inducing inputs start at random rows, trained on minibatches as usual.
fn variational(kernel: Kernel, data: &Observations, options: &Options) -> Result<Svgp> {
    let z = inducing::choose(Choice::Random, &kernel, &data.x, 1, options.actions, options.seed)?;
    let mut model = Svgp::new(kernel, &z, 1, Gaussian::new(0.1))?;
    let adam = Optimizer::Adam(Adam { rate: 0.02, ..Adam::default() });
    let batches = Minibatches { size: data.n(), ..Minibatches::default() };
    minibatch::fit(&mut model, Compute::default(), data, &batches, &TrainConfig::new(adam, 2000), &mut [])?;
    Ok(model)
}

fn noise(model: &dyn GpModel) -> f64 {
    model.likelihood().noise().unwrap_or_default().sqrt()
}

fn curve(x: &[f64], marginals: &Marginals) -> Curve {
    let sd: Vec<f64> = marginals.variance.iter().map(|v| v.sqrt()).collect();
    Curve::gaussian(x, &marginals.mean, &sd)
}

fn report(name: &str, marginals: &Marginals, noise: f64, grid: &[f64], truth: &[f64]) {
    let mean_sd = |gap: bool| {
        let inside = grid.iter().zip(&marginals.variance).filter(|(x, _)| (GAP.0..GAP.1).contains(*x) == gap);
        let sds: Vec<f64> = inside.map(|(_, v)| v.sqrt()).collect();
        sds.iter().sum::<f64>() / sds.len() as f64
    };
    let errors = marginals.mean.iter().zip(truth).map(|(m, f)| (m - f).abs());
    let covered = errors.zip(&marginals.variance).filter(|(e, v)| *e < 1.96 * v.sqrt()).count();
    let coverage = 100.0 * covered as f64 / grid.len() as f64;
    println!("{name:<10} {noise:>8.3} {:>14.3} {:>13.3} {coverage:>7.1} %", mean_sd(false), mean_sd(true));
}
