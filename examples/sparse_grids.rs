//! Sparse grids on the Griewank function (Chen and Tuo 2024, Figure 1): optimal coefficients, the combination
//! technique, the best of the partial grids, and one sparse model with the points of all grids.
//!
//! The paper gives neither the domain nor the noise. Here the inputs are uniform in [−5, 5]^d, which is the unit cube
//! of the grids; lengthscales are in units of this cube. Targets are standardised, with noise of variance 0.01. Errors
//! are root mean squares with respect to the noise-free standardised function, averaged over the lengthscales.
//!
//! `cargo run --release --example sparse_grids [-- --output sparse_grids.png]`

use std::path::PathBuf;
use std::time::Instant;

use cagey::Result;
use cagey::device::Compute;
use cagey::kernels::Kernel;
use cagey::models::Observations;
use cagey::models::posterior::Posterior;
use cagey::models::sparse_grid::{Domain, SparseGrid, SparseGridOptions};
use cagey::plot::{Figure, Frame, LearningCurve, Run};
use clap::Parser;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

/// Errors of combinations of partial grids by level.
#[derive(Parser)]
struct Options {
    /// Where to draw (.png or .svg); `-2` or `-3`, the number of inputs, is added before the extension
    #[arg(long, default_value = "sparse_grids.png")]
    output: PathBuf,
    /// Training rows
    #[arg(long, default_value_t = 2000)]
    rows: usize,
    /// Test rows
    #[arg(long, default_value_t = 1000)]
    test: usize,
    /// Highest level over two inputs, and over three
    #[arg(long, num_args = 2, default_values_t = [6, 5])]
    levels: Vec<usize>,
    /// Lengthscales, in units of the unit cube
    #[arg(long, value_delimiter = ',', default_values_t = [0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0])]
    lengthscales: Vec<f64>,
    /// Noise variance of standardised targets
    #[arg(long, default_value_t = 0.01)]
    noise: f64,
    /// Seed of inputs and noise
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const NAMES: [&str; 4] = ["optimal coefficients", "combination technique", "best partial grid", "union of the grids"];

fn main() -> Result<()> {
    let options = Options::parse();
    cagey::threads::start(None)?;
    for (d, most) in [2, 3].into_iter().zip(&options.levels) {
        println!("d = {d}: RMSE, mean over {} lengthscales", options.lengthscales.len());
        println!(
            "{:>5} {:>6} {:>6}  {}  {:>9} {:>9}",
            "level",
            "grids",
            "points",
            NAMES.join("  "),
            "s, grids",
            "s, union"
        );
        let problem = Problem::new(&options, d)?;
        let mut curves = [const { Vec::new() }; 4];
        for level in 1..=*most {
            let found = problem.at(&options, level)?;
            let cells: Vec<String> =
                found.errors.iter().zip(NAMES).map(|(e, name)| format!("{e:>width$.4}", width = name.len())).collect();
            let Found { grids, points, seconds: [combined, union], .. } = found;
            println!("{level:>5} {grids:>6} {points:>6}  {}  {combined:>9.3} {union:>9.3}", cells.join("  "));
            curves.iter_mut().zip(found.errors).for_each(|(curve, error)| curve.push(error));
        }
        let runs: Vec<Run> = curves.iter().zip(NAMES).map(|(loss, name)| Run { name, loss, seconds: &[] }).collect();
        let title = format!("Griewank function over {d} inputs");
        let frame = Frame { title: &title, x: "level of the sparse grid", y: "RMSE", ..Frame::default() };
        let stem = options.output.file_stem().unwrap_or_default().to_string_lossy();
        let extension = options.output.extension().unwrap_or_default().to_string_lossy();
        let path = options.output.with_file_name(format!("{stem}-{d}.{extension}"));
        LearningCurve { runs: &runs, frame, ..LearningCurve::default() }.save(&path)?;
        println!("figure in {}", path.display());
    }
    Ok(())
}

/// Rows of the function in the unit cube, and test points with the function's values.
struct Problem {
    data: Observations,
    points: Vec<f64>,
    truth: Vec<f64>,
}

/// Results, as means over lengthscales.
struct Found {
    grids: usize,
    points: usize,
    errors: [f64; 4],
    /// Seconds to solve and predict: by all partial grids with their coefficients, and by the model of the union.
    seconds: [f64; 2],
}

fn griewank(x: &[f64]) -> f64 {
    let sum: f64 = x.iter().map(|x| x * x / 4000.0).sum();
    let product: f64 = x.iter().enumerate().map(|(i, x)| (x / (i as f64 + 1.0).sqrt()).cos()).product();
    1.0 + sum - product
}

impl Problem {
    fn new(options: &Options, d: usize) -> Result<Self> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(options.seed);
        let mut draw = |rows: usize| (0..rows * d).map(|_| rng.random_range(0.0..1.0)).collect::<Vec<f64>>();
        let (x, points) = (draw(options.rows), draw(options.test));
        let values = |x: &[f64]| -> Vec<f64> {
            x.chunks(d).map(|row| griewank(&row.iter().map(|t| 10.0 * t - 5.0).collect::<Vec<_>>())).collect()
        };
        let (f, truth) = (values(&x), values(&points));
        let mean = f.iter().sum::<f64>() / f.len() as f64;
        let sd = (f.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / f.len() as f64).sqrt();
        let standardised = |f: &f64| (f - mean) / sd;
        let mut noisy =
            |f: &f64| standardised(f) + options.noise.sqrt() * Distribution::<f64>::sample(&StandardNormal, &mut rng);
        let y = f.iter().map(&mut noisy).collect();
        let truth = truth.iter().map(standardised).collect();
        Ok(Self { data: Observations::new(x, d, y, None)?, points, truth })
    }

    fn rmse(&self, predicted: &[f64]) -> f64 {
        let squares: f64 = predicted.iter().zip(&self.truth).map(|(p, t)| (p - t).powi(2)).sum();
        (squares / self.truth.len() as f64).sqrt()
    }

    fn at(&self, options: &Options, level: usize) -> Result<Found> {
        let d = self.data.d;
        let mut found = Found { grids: 0, points: 0, errors: [0.0; 4], seconds: [0.0; 2] };
        let share = 1.0 / options.lengthscales.len() as f64;
        for lengthscale in &options.lengthscales {
            let kernel = Kernel::parse(&format!("matern32({lengthscale})"), d)?;
            let settings = SparseGridOptions::default().level(level);
            let mut model = SparseGrid::new(kernel.into(), &Domain::unit(d), settings)?;
            model.likelihood.noise.set(&[options.noise])?;
            (found.grids, found.points) = (model.grids().all.len(), model.grids().distinct());

            let start = Instant::now();
            let posterior = model.posterior(Compute::default(), self.data.clone())?;
            let means = posterior.partial_means(&self.points)?;
            found.seconds[0] += share * start.elapsed().as_secs_f64();
            let start = Instant::now();
            let union = model.union()?.posterior(Compute::default(), self.data.clone())?.mean(&self.points)?;
            found.seconds[1] += share * start.elapsed().as_secs_f64();

            let singles = || means.chunks(self.truth.len());
            let combined = |coefficients: &[f64]| {
                let sum = |at: usize| coefficients.iter().zip(singles()).map(|(c, own)| c * own[at]).sum();
                self.rmse(&(0..self.truth.len()).map(sum).collect::<Vec<f64>>())
            };
            let technique: Vec<f64> = model.grids().all.iter().map(|grid| grid.technique).collect();
            let best = singles().map(|own| self.rmse(own)).fold(f64::INFINITY, f64::min);
            let errors = [combined(posterior.coefficients()), combined(&technique), best, self.rmse(&union)];
            found.errors.iter_mut().zip(errors).for_each(|(sum, error)| *sum += share * error);
        }
        Ok(found)
    }
}
