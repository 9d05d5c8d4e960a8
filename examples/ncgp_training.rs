//! How many Newton steps, and how many actions in each, does one step of the hyperparameters need? Tatzel et al. 2025
//! leave this open. Each setting trains for at most the same time. Then a full solve gives the bound of the kernel that
//! it found, and the score on test rows. The functions are drawn from a prior whose kernel is known.
//!
//! `cargo run --release --example ncgp_training [-- --rows 1500 --seconds 20]`

use std::time::Duration;

use cagey::Result;
use cagey::device::Compute;
use cagey::kernels::Kernel;
use cagey::likelihoods::{Bernoulli, BernoulliLink, Likelihood, Poisson, RateLink};
use cagey::models::cagp::{IterativeCagp, NewtonOptions, SiteRule};
use cagey::models::{Observations, fit};
use cagey::scope::Scope;
use cagey::solvers::itergp::IterGpOptions;
use cagey::solvers::policies::Gradient;
use cagey::train::TrainConfig;
use clap::Parser;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

#[path = "common/latent.rs"]
mod latent;

/// Compare Newton steps and actions in a step of the hyperparameters.
#[derive(Parser)]
struct Options {
    /// Rows to train on, and as many again to score
    #[arg(long, default_value_t = 1500)]
    rows: usize,
    /// Most seconds of each training
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// Newton steps in a step of the hyperparameters; 0 for as many as there are actions, and until they settle
    #[arg(long, value_delimiter = ',', default_value = "1,2,5,0")]
    steps: Vec<usize>,
    /// New actions in each Newton step
    #[arg(long, value_delimiter = ',', default_value = "1,5,20,100")]
    actions: Vec<usize>,
    /// Actions of the final solve, and of trainings until the steps settle
    #[arg(long, default_value_t = 200)]
    budget: usize,
    /// Draws of the data
    #[arg(long, value_delimiter = ',', default_value = "1")]
    seeds: Vec<u64>,
}

/// The kernel of the data, and the start of training.
const TRUTH: &str = "matern52(lengthscale=0.15, variance=3.0)";
const START: &str = "matern52(lengthscale=0.6, variance=1.0)";

fn main() -> Result<()> {
    let options = Options::parse();
    cagey::memory::keep_freed();
    cagey::threads::start(None)?;
    for likelihood in [
        Box::new(Bernoulli { link: BernoulliLink::Logit }) as Box<dyn Likelihood>,
        Box::new(Poisson { link: RateLink::Exp }),
    ] {
        let draws = options.seeds.iter().map(|seed| rows(&*likelihood, options.rows, *seed));
        let draws = draws.collect::<Result<Vec<_>>>()?;
        println!("{}: means over {} draws, at most {} s a training", likelihood.text(), draws.len(), options.seconds);
        println!("{:>8} {:>10} {:>12} {:>12} {:>10}", "Newton", "actions", "evaluations", "bound / row", "test NLL");
        let known = |(train, test): &(Observations, Observations)| {
            let (bound, nll) = solved(&options, &*likelihood, Kernel::parse(TRUTH, 2)?, train, test)?;
            Ok([0.0, bound, nll])
        };
        show("truth", "", &draws.iter().map(known).collect::<Result<Vec<_>>>()?);
        for &steps in &options.steps {
            for &actions in options.actions.iter().filter(|actions| steps > 0 || **actions <= options.budget) {
                let budget = if steps == 0 { options.budget } else { steps * actions };
                let usual = NewtonOptions { per_step: actions, ..NewtonOptions::spread(budget) };
                let newton = if steps == 0 { usual } else { NewtonOptions { steps, ..usual } };
                let run = |(train, test): &(Observations, Observations)| {
                    let mut gp = model(&*likelihood, Kernel::parse(START, 2)?, budget, newton);
                    let config = TrainConfig::while_it_pays().max_time(Duration::from_secs_f64(options.seconds));
                    let outcome = fit::fit(&mut gp, Compute::default(), train, &config, &mut [])?;
                    let kernel = gp.priors.swap_remove(0).kernel;
                    let (bound, nll) = solved(&options, &*likelihood, kernel, train, test)?;
                    Ok([outcome.evaluations as f64, bound, nll])
                };
                let name = if steps == 0 { "settled".into() } else { steps.to_string() };
                show(&name, &actions.to_string(), &draws.iter().map(run).collect::<Result<Vec<_>>>()?);
            }
        }
    }
    Ok(())
}

fn show(steps: &str, actions: &str, all: &[[f64; 3]]) {
    let [evaluations, bound, nll] =
        std::array::from_fn(|at| all.iter().map(|row| row[at]).sum::<f64>() / all.len() as f64);
    println!("{steps:>8} {actions:>10} {evaluations:>12.0} {bound:>12.4} {nll:>10.4}");
}

fn model(likelihood: &dyn Likelihood, kernel: Kernel, actions: usize, newton: NewtonOptions) -> IterativeCagp {
    let options = IterGpOptions { relative: 1e-6, ..IterGpOptions::budget(actions) };
    let gp = IterativeCagp::boxed(kernel.into(), likelihood.boxed(), Box::new(Gradient::default()), options);
    IterativeCagp { sites: SiteRule::Expectation, newton, ..gp }
}

/// The bound per row at a kernel, and the negative log predictive probability of a test row, with all actions.
fn solved(
    options: &Options,
    likelihood: &dyn Likelihood,
    kernel: Kernel,
    train: &Observations,
    test: &Observations,
) -> Result<(f64, f64)> {
    let gp = model(likelihood, kernel, options.budget, NewtonOptions::spread(options.budget));
    let compute = Compute::default();
    let batch = train.batch(&Scope::new(compute)?);
    let bound = fit::evaluate(&gp, compute, &batch)?.loss / train.n() as f64;
    let posterior = gp.posterior(compute, train.clone())?.0;
    Ok((bound, latent::nll(&posterior, likelihood, test)?))
}

/// Targets of a function drawn from the prior, at random places of the unit square, to train on and to score.
fn rows(likelihood: &dyn Likelihood, rows: usize, seed: u64) -> Result<(Observations, Observations)> {
    let (mut rng, n) = (Xoshiro256PlusPlus::seed_from_u64(seed), 2 * rows);
    let x: Vec<f64> = (0..2 * n).map(|_| rng.random::<f64>()).collect();
    let f = latent::sample(&Kernel::parse(TRUTH, 2)?, &x, 2, 1e-8, &mut rng)?;
    let density = likelihood.density();
    let y: Vec<f64> = f.into_iter().map(|f| density.sample(&[f], 1.0, &mut rng)).collect();
    Ok((
        Observations::new(x[..2 * rows].to_vec(), 2, y[..rows].to_vec(), None)?,
        Observations::new(x[2 * rows..].to_vec(), 2, y[rows..].to_vec(), None)?,
    ))
}
