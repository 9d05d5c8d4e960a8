//! How Newton's method chooses actions for two classes (Tatzel et al. 2025, Figures 1, 3, 4 and 8). Shows the
//! uncertainty that is left after 1, 10 and 19 actions by each policy, and with compression to few directions, over a
//! line and over the plane.
//!
//! `cargo run --release --example ncgp_policies [-- --output policies.png]`

use std::path::PathBuf;

use cagey::Result;
use cagey::device::Compute;
use cagey::kernels::Kernel;
use cagey::likelihoods::{Bernoulli, BernoulliLink, Likelihood};
use cagey::models::Observations;
use cagey::models::cagp::{IterativeCagp, NewtonOptions};
use cagey::models::laplace::LaplaceGp;
use cagey::models::posterior::{Marginals, Posterior};
use cagey::plot::{Fields, Figure, Frame, Points, Row};
use cagey::solvers::Probes;
use cagey::solvers::policies::{Gradient, Lanczos, LanczosSeed, Pivots, Policy, Random, Residual, UnitVector};
use clap::Parser;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// Compare policies.
#[derive(Parser)]
struct Options {
    /// Where to draw the figure of the plane (.png or .svg)
    #[arg(long, default_value = "policies.png")]
    output: PathBuf,
    /// Rows of each problem
    #[arg(long, default_value_t = 60)]
    rows: usize,
    /// Seed of the data
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn policies() -> [(&'static str, Box<dyn Policy>); 5] {
    [
        ("gradient", Box::new(Gradient::default())),
        ("residual", Box::new(Residual)),
        ("unit vector", Box::new(UnitVector { pivots: Pivots::Gradient })),
        ("Lanczos", Box::new(Lanczos { seed: LanczosSeed::Targets })),
        ("random", Box::new(Random { probes: Probes::Gaussian, seed: 1 })),
    ]
}

const ACTIONS: [usize; 3] = [1, 10, 19];
const KEPT: [usize; 3] = [2, 3, 10];

/// Two classes, separated by a wave along the first of `d` inputs.
fn problem(rows: usize, d: usize, seed: u64) -> Result<Observations> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let x: Vec<f64> = (0..rows * d).map(|_| 4.0 * rng.random::<f64>() - 2.0).collect();
    let density = Bernoulli { link: BernoulliLink::Logit }.density();
    let f = |row: &[f64]| 4.0 * (2.0 * row[0] + row.get(1).map_or(0.0, |x| x * x)).sin();
    let y = x.chunks(d).map(|row| density.sample(&[f(row)], 1.0, &mut rng)).collect();
    Observations::new(x, d, y, None)
}

/// Predictions with one action a step, of which at most `kept` directions are kept.
fn after(
    data: &Observations,
    points: &[f64],
    kernel: Kernel,
    policy: Box<dyn Policy>,
    actions: usize,
    kept: Option<usize>,
) -> Result<Marginals> {
    let gp = IterativeCagp::newton(kernel, Bernoulli { link: BernoulliLink::Logit }, actions);
    let newton = NewtonOptions { per_step: 1, kept, ..gp.newton };
    let gp = IterativeCagp { policy, newton, ..gp };
    gp.posterior(Compute::default(), data.clone())?.0.predict(points)
}

/// Mean differences of the latent means and standard deviations from those of the dense approximation.
fn distance(a: &Marginals, b: &Marginals) -> [f64; 2] {
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / a.mean.len() as f64;
    [
        mean(&mut a.mean.iter().zip(&b.mean).map(|(a, b)| (a - b).abs())),
        mean(&mut a.variance.iter().zip(&b.variance).map(|(a, b)| a.sqrt() - b.sqrt())),
    ]
}

fn main() -> Result<()> {
    let options = Options::parse();
    let line: Vec<f64> = (0..200).map(|i| -3.0 + 0.03 * f64::from(i)).collect();
    let side: Vec<f64> = (0..36).map(|i| -2.6 + 5.2 * f64::from(i) / 35.0).collect();
    let plane: Vec<f64> = side.iter().flat_map(|y| side.iter().flat_map(move |x| [*x, *y])).collect();
    let kernel = |d| Kernel::parse("4.0 * matern52(0.8)", d);
    for (name, d, points) in [("line", 1, &line), ("plane", 2, &plane)] {
        let data = problem(options.rows, d, options.seed)?;
        let dense = LaplaceGp::new(kernel(d)?, Bernoulli { link: BernoulliLink::Logit });
        let dense = dense.posterior(Compute::default(), data.clone())?.predict(points)?;
        println!("{name}: mean |mean − dense mean|, mean of sd − dense sd");
        print!("{:>14}", "actions");
        ACTIONS.iter().for_each(|actions| print!("{actions:>20}"));
        println!();
        let mut fields = Vec::new();
        for (policy_name, policy) in policies() {
            print!("{policy_name:>14}");
            let mut vectors = Vec::new();
            for actions in ACTIONS {
                let found = after(&data, points, kernel(d)?, policy.clone(), actions, None)?;
                let [mean, sd] = distance(&found, &dense);
                print!("{:>20}", format!("{mean:.3}, {sd:.3}"));
                vectors.push(found.variance.iter().map(|v| v.sqrt()).collect());
            }
            println!();
            fields.push((policy_name.to_string(), vectors));
        }
        println!("compressed to this many directions, 19 actions by the gradient policy");
        let mut vectors = Vec::new();
        for kept in KEPT {
            let found = after(&data, points, kernel(d)?, Box::new(Gradient::default()), 19, Some(kept))?;
            let [mean, sd] = distance(&found, &dense);
            println!("{:>14}{:>20}", format!("{kept} kept"), format!("{mean:.3}, {sd:.3}"));
            vectors.push(found.variance.iter().map(|v| v.sqrt()).collect());
        }
        fields.push((KEPT.map(|kept| kept.to_string()).join(", ") + " kept", vectors));
        if d == 2 {
            let columns: [Vec<f64>; 2] = [0, 1].map(|c| points.iter().skip(c).step_by(2).copied().collect());
            let rows: Vec<Row> = fields.iter().map(|(name, vectors)| Row { name, vectors }).collect();
            let frame = Frame {
                title: "latent standard deviation after 1, 10 and 19 actions",
                size: Some((900, 1500)),
                ..Frame::default()
            };
            let points = Points { x: &columns[0], y: &columns[1] };
            Fields { points, rows: &rows, frame }.save(&options.output)?;
            println!("figure in {}", options.output.display());
        }
    }
    Ok(())
}
