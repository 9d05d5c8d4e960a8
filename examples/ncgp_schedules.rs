//! How to share a budget of actions out among Newton steps for counts (Tatzel et al. 2025, Figure 5): few steps with
//! many actions each, or many steps with one action each, compared with the dense Laplace approximation. The latent
//! function is drawn from the prior itself.
//!
//! `cargo run --release --example ncgp_schedules [-- --output schedules.png]`

use std::path::PathBuf;

use cagey::Result;
use cagey::device::Compute;
use cagey::kernels::Kernel;
use cagey::likelihoods::{Likelihood, Poisson, RateLink};
use cagey::models::Observations;
use cagey::models::cagp::IterativeCagp;
use cagey::models::laplace::LaplaceGp;
use cagey::plot::{Against, Figure, Frame, LearningCurve, Run};
use clap::Parser;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

#[path = "common/latent.rs"]
mod latent;

/// Compare schedules of Newton steps and actions.
#[derive(Parser)]
struct Options {
    /// Where to draw the figure (.png or .svg)
    #[arg(long, default_value = "schedules.png")]
    output: PathBuf,
    /// Rows to train on, and as many again to score
    #[arg(long, default_value_t = 100)]
    rows: usize,
    /// Number of draws of the counts
    #[arg(long, default_value_t = 10)]
    draws: u64,
}

/// Number of Newton steps, and of actions in each.
const SCHEDULES: [(usize, usize); 4] = [(5, 20), (10, 10), (20, 5), (100, 1)];
/// Numbers of actions in total after which the posteriors are scored.
const SCORED: [usize; 8] = [5, 10, 15, 20, 40, 60, 80, 100];

fn main() -> Result<()> {
    let options = Options::parse();
    let kernel = Kernel::parse("rbf(lengthscale=0.1, variance=5.0)", 1)?;
    let poisson = Poisson { link: RateLink::Exp };
    let compute = Compute::default();
    let mut excess = vec![vec![Vec::new(); SCORED.len()]; SCHEDULES.len()];
    let mut steps = vec![(0, 0); SCHEDULES.len()];
    for draw in 0..options.draws {
        let (train, test) = counts(&kernel, options.rows, draw)?;
        let dense = LaplaceGp::new(kernel.clone(), poisson.clone()).posterior(compute, train.clone())?;
        let dense = latent::nll(&dense, &poisson, &test)?;
        for (schedule, (_, per_step)) in SCHEDULES.into_iter().enumerate() {
            for (place, actions) in SCORED.into_iter().enumerate().filter(|(_, actions)| *actions >= per_step) {
                let mut gp = IterativeCagp::newton(kernel.clone(), poisson.clone(), actions.min(options.rows));
                gp.newton.per_step = per_step;
                let (posterior, report) = gp.posterior(compute, train.clone())?;
                excess[schedule][place].push(latent::nll(&posterior, &poisson, &test)? - dense);
                steps[schedule] = (steps[schedule].0 + report.steps, steps[schedule].1 + report.halvings);
            }
        }
    }
    println!("excess test NLL a row over the dense Laplace approximation, median of {} draws", options.draws);
    print!("{:>9}", "actions");
    SCORED.iter().for_each(|actions| print!("{actions:>10}"));
    println!("{:>18}", "steps, halvings");
    let mut curves = Vec::new();
    for (schedule, (count, per_step)) in SCHEDULES.into_iter().enumerate() {
        let name = format!("{count}×{per_step}");
        print!("{name:>9}");
        let mut curve = (Vec::new(), Vec::new());
        for (values, actions) in excess[schedule].iter_mut().zip(SCORED) {
            values.sort_by(f64::total_cmp);
            match values.get(values.len() / 2) {
                Some(median) => {
                    print!("{median:>10.5}");
                    curve.0.push(actions as f64);
                    curve.1.push(*median);
                }
                None => print!("{:>10}", ""),
            }
        }
        println!("{:>18}", format!("{}, {}", steps[schedule].0, steps[schedule].1));
        curves.push((name, curve));
    }
    let runs: Vec<Run> = curves.iter().map(|(name, (seconds, loss))| Run { name, loss, seconds }).collect();
    let frame = Frame {
        title: "schedules of Newton steps × actions",
        x: "actions in all",
        y: "excess test NLL",
        ..Frame::default()
    };
    LearningCurve { runs: &runs, against: Against::Seconds, frame, ..LearningCurve::default() }
        .save(&options.output)?;
    println!("figure in {}", options.output.display());
    Ok(())
}

/// Draws a function from the prior at random places, and counts with its exponential as rate, to train on and to score.
fn counts(kernel: &Kernel, rows: usize, seed: u64) -> Result<(Observations, Observations)> {
    let (mut rng, n) = (Xoshiro256PlusPlus::seed_from_u64(seed), 2 * rows);
    let x: Vec<f64> = (0..n).map(|_| rng.random::<f64>()).collect();
    let f = latent::sample(kernel, &x, 1, 1e-8, &mut rng)?;
    let density = Poisson { link: RateLink::Exp }.density();
    let y: Vec<f64> = f.into_iter().map(|f| density.sample(&[f], 1.0, &mut rng)).collect();
    let part = |rows: std::ops::Range<usize>| Observations::new(x[rows.clone()].to_vec(), 1, y[rows].to_vec(), None);
    Ok((part(0..rows)?, part(rows..n)?))
}
