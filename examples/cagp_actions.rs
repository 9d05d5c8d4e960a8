//! Compares the actions of computation-aware GPs with the best ones, the top eigenvectors of K̂ (Wenger et al. 2024,
//! Figure 2), for learned, CG and random actions: draws the first actions over the data after training, and the
//! Grassmann distance between the spans during training.
//!
//! `cargo run --release --example cagp_actions [-- --output actions.png]`

use std::ops::ControlFlow;
use std::path::PathBuf;

use burn::tensor::Tensor;
use cagey::Result;
use cagey::device::Compute;
use cagey::kernels::Kernel;
use cagey::linalg::{cholesky, eigh, solve_lower};
use cagey::models::cagp::{Actions, Cagp, IterativeCagp, Layout};
use cagey::models::ordering::RowOrder;
use cagey::models::{Batch, Model, Observations, fit};
use cagey::params::Parameters;
use cagey::plot::{Fields, Figure, Frame, LearningCurve, Points, Row, Run};
use cagey::products::BlockSparse;
use cagey::scope::{Scope, to_f64};
use cagey::solvers::Probes;
use cagey::solvers::itergp::{Basis, IterGpOptions};
use cagey::solvers::policies::{Eigenvector, Random};
use cagey::train::{Adam, Observer, Optimizer, Report, TrainConfig};
use clap::Parser;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

/// Compare the actions of computation-aware GPs with top eigenvectors over training.
#[derive(Parser)]
struct Options {
    /// Where to draw the distances (.png or .svg)
    #[arg(long, default_value = "actions.png")]
    output: PathBuf,
    /// Where to draw the actions (.png or .svg)
    #[arg(long, default_value = "actions_over_data.png")]
    fields: PathBuf,
    /// Observations, with two inputs
    #[arg(long, default_value_t = 400)]
    rows: usize,
    /// Actions
    #[arg(long, default_value_t = 10)]
    actions: usize,
    /// Steps of Adam
    #[arg(long, default_value_t = 150)]
    steps: usize,
    /// Seed of data and actions
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

const KERNEL: &str = "matern32(ard)";
/// Actions of each kind that are drawn.
const DRAWN: usize = 5;

fn main() -> Result<()> {
    let options = Options::parse();
    let data = generate(&options)?;
    let data = data.permuted(&RowOrder::Tree.rows(&data, options.actions)?)?;
    let scope = Scope::new(Compute::default())?;
    let batch = data.batch(&scope);
    let i = options.actions;
    let kernel = || Kernel::parse(KERNEL, 2);

    let mut opt = Cagp::new(kernel()?, Actions::random(data.n(), i, options.seed)?);
    let of_learned = |gp: &Cagp| -> Result<(Tensor<2>, Tensor<2>)> {
        let Layout::Blocks(offsets) = &gp.actions.layout else { unreachable!("block-sparse by construction") };
        let own = Scope::new(Compute::default())?;
        let blocks = BlockSparse::new(own.value(&gp.actions.values), offsets.clone())?;
        let top = top(&gp.priors[0].kernel, gp.likelihood.noise().unwrap_or_default(), i, &batch)?;
        Ok((Basis::sparse(blocks).into_dense()?, top))
    };
    let learned = distances(&mut opt, &data, &options, of_learned)?;
    let by_policy = |gp: &IterativeCagp| {
        let own = Scope::new(Compute::default())?;
        Ok((
            gp.chosen(&own, &batch)?.actions,
            top(&gp.priors[0].kernel, gp.likelihood.noise().unwrap_or_default(), i, &batch)?,
        ))
    };
    let mut by_cg = IterativeCagp::cg(kernel()?, i);
    let cg = distances(&mut by_cg, &data, &options, by_policy)?;
    let random = Random { probes: Probes::Gaussian, seed: options.seed };
    let mut random = IterativeCagp::new(kernel()?, Box::new(random), IterGpOptions::budget(i));
    let random = distances(&mut random, &data, &options, by_policy)?;

    let farthest = (i as f64).sqrt() * std::f64::consts::FRAC_PI_2;
    println!("Grassmann distance of {i} actions from the top {i} eigenvectors; at most {farthest:.3}");
    let runs = [("CaGP-CG", &cg), ("CaGP-Opt", &learned), ("random", &random)];
    for (name, distance) in runs {
        println!("{name:<9} {:.3} at the start, {:.3} at the end", distance[0], distance[distance.len() - 1]);
    }
    let frame =
        Frame { title: "actions against top eigenvectors", x: "step", y: "Grassmann distance", ..Frame::default() };
    let runs = runs.map(|(name, loss)| Run { name, loss, seconds: &[] });
    LearningCurve { runs: &runs, frame, ..LearningCurve::default() }.save(&options.output)?;
    let (actions, eigenvectors) = of_learned(&opt)?;
    draw(&options, &data, &[("CaGP-Opt", actions), ("CaGP-CG", by_policy(&by_cg)?.0), ("eigenvectors", eigenvectors)])?;
    println!("figures in {} and {}", options.output.display(), options.fields.display());
    Ok(())
}

/// Draws the magnitudes of the first columns of each matrix over the inputs.
fn draw(options: &Options, data: &Observations, kinds: &[(&str, Tensor<2>)]) -> Result<()> {
    let [across, up]: [Vec<f64>; 2] = [0, 1].map(|c| data.x.iter().skip(c).step_by(2).copied().collect());
    let first = |actions: &Tensor<2>| -> Result<Vec<Vec<f64>>> {
        let [n, i] = actions.dims();
        let values = to_f64(actions.clone().transpose())?;
        Ok(values.chunks_exact(n).take(DRAWN.min(i)).map(<[f64]>::to_vec).collect())
    };
    let vectors: Vec<Vec<Vec<f64>>> = kinds.iter().map(|(_, actions)| first(actions)).collect::<Result<_>>()?;
    let rows: Vec<Row> = kinds.iter().zip(&vectors).map(|((name, _), vectors)| Row { name, vectors }).collect();
    let frame = Frame { title: "first actions after training", ..Frame::default() };
    Fields { points: Points { x: &across, y: &up }, rows: &rows, frame }.save(&options.fields)
}

/// A smooth function of two inputs with noise.
fn generate(options: &Options) -> Result<Observations> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(options.seed);
    let x: Vec<f64> = (0..2 * options.rows).map(|_| rng.random_range(-2.0..2.0)).collect();
    let mut noise = || 0.1 * Distribution::<f64>::sample(&StandardNormal, &mut rng);
    let y = x.chunks(2).map(|p| (2.0 * p[0]).sin() * (1.5 * p[1]).cos() + noise()).collect();
    Observations::new(x, 2, y, None)
}

/// The points of a training.
#[derive(Default)]
struct Path(Vec<Vec<f64>>);

impl Observer for Path {
    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        self.0.push(report.x.to_vec());
        ControlFlow::Continue(())
    }
}

/// Trains a model and measures the distance of its actions from the eigenvectors after each step.
fn distances<M: Model + Parameters>(
    model: &mut M,
    data: &Observations,
    options: &Options,
    spans: impl Fn(&M) -> Result<(Tensor<2>, Tensor<2>)>,
) -> Result<Vec<f64>> {
    let mut path = Path::default();
    let adam = Adam { rate: 0.05, ..Adam::default() };
    let config = TrainConfig::new(Optimizer::Adam(adam), options.steps);
    fit::fit(model, Compute::default(), data, &config, &mut [&mut path])?;
    path.0
        .iter()
        .map(|raw| {
            model.set_free_raw(raw)?;
            let (actions, top) = spans(model)?;
            grassmann(actions, top)
        })
        .collect()
}

/// The top eigenvectors of K̂ `[n, i]`: the actions of the eigenvector policy.
fn top(kernel: &Kernel, noise: f64, i: usize, batch: &Batch) -> Result<Tensor<2>> {
    let mut gp = IterativeCagp::new(kernel.clone(), Box::new(Eigenvector), IterGpOptions::budget(i));
    gp.find_mut("likelihood.noise")?[0].set_internal(&[noise])?;
    Ok(gp.chosen(&Scope::new(Compute::default())?, batch)?.actions)
}

/// ‖θ‖ for the principal angles θ between two spans (eq. S26). cos²θ are the eigenvalues of (QₐᵀQ_b)ᵀ(QₐᵀQ_b). Q = A
/// L⁻ᵀ is an orthonormal basis of the span of A, and L the Cholesky factor of AᵀA.
fn grassmann(a: Tensor<2>, b: Tensor<2>) -> Result<f64> {
    let factor = |a: &Tensor<2>| cholesky(a.clone().transpose().matmul(a.clone()), "AᵀA");
    let half = solve_lower(factor(&a)?, a.transpose().matmul(b.clone()))?;
    let cosines = solve_lower(factor(&b)?, half.transpose())?.transpose();
    let (squares, _) = eigh(cosines.clone().transpose().matmul(cosines), "QᵀQ")?;
    let angles = to_f64(squares)?.into_iter().map(|c| c.clamp(0.0, 1.0).sqrt().acos());
    Ok(angles.map(|angle| angle * angle).sum::<f64>().sqrt())
}
