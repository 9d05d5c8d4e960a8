//! Sparse grids on the Griewank function (Figure 1): optimal coefficients, the combination technique, the best of the
//! partial grids, and one sparse model with the points of all grids.
//!
//! The paper gives neither the domain nor the noise. Here the inputs are uniform in [−5, 5]^d, which is the unit cube
//! of the grids; lengthscales are in units of this cube. Targets are standardised, with noise of variance 0.01. Errors
//! are root mean squares with respect to the noise-free standardised function, averaged over the lengthscales.

use std::time::Instant;

use cagey::Result;
use cagey::device::{Compute, Precision};
use cagey::kernels::Kernel;
use cagey::models::Observations;
use cagey::models::posterior::Posterior;
use cagey::models::sparse_grid::{Domain, SparseGrid, SparseGridOptions};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::drawing::{line, pane};
use crate::common::rows::{generator, standard, uniform};
use crate::common::scores::{rmse, spread};

const NAMES: [&str; 4] = ["optimal coefficients", "combination technique", "best partial grid", "union of the grids"];
/// The noise variance of standardised targets.
const NOISE: f64 = 0.01;

pub fn figure(job: &Job<Options>) -> Result<()> {
    let own = &job.own;
    let levels = job.size(&own.levels, [vec![3, 2], vec![6, 5], vec![7, 5]]);
    let lengths = job.pick([vec![0.4, 1.0], tenths(), tenths()]);
    let lengths = own.lengthscales.clone().unwrap_or(lengths);
    let rows = job.size(&own.rows, [200, 2000, 2000]);
    for (d, most) in [2, 3].into_iter().zip(levels) {
        let problem = Problem::new(rows, job.pick([100, 1000, 1000]), d, job.compute(Precision::F64))?;
        println!(
            "d = {d}: RMSE, mean over {} lengthscales: {}; s of grids, of coefficients, of union",
            lengths.len(),
            NAMES.join(", ")
        );
        let (mut errors, mut seconds): ([Vec<f64>; 4], [Vec<f64>; 3]) = Default::default();
        for level in 1..=most {
            let key = json!({ "d": d, "level": level, "rows": rows, "lengthscales": lengths });
            let found = job.once(key, || problem.at(level, &lengths))?;
            println!(
                "level {level}: {} grids, {} points, {:.4?}, {:.4?} s",
                found.grids, found.points, found.errors, found.seconds
            );
            errors.iter_mut().zip(found.errors).for_each(|(own, error)| own.push(error.log10()));
            seconds.iter_mut().zip(found.seconds).for_each(|(own, s)| own.push(s.max(1e-6).log10()));
        }
        let at: Vec<f64> = (1..=most).map(|level| level as f64).collect();
        let panes = [
            pane("log10 RMSE", errors.iter().zip(NAMES).map(|(y, name)| line(name, &at, y)).collect()),
            pane(
                "log10 seconds",
                [NAMES[1], NAMES[0], NAMES[3]].iter().zip(&seconds).map(|(n, y)| line(*n, &at, y)).collect(),
            ),
        ];
        job.panels(&format!("-{d}"), [&format!("Griewank function over {d} inputs"), "level", ""], false, &panes)?;
    }
    Ok(())
}

fn tenths() -> Vec<f64> {
    (1..=10).map(|k| 0.2 * f64::from(k)).collect()
}

/// Rows of the function in the unit cube, and test points with the function's values.
struct Problem {
    data: Observations,
    points: Vec<f64>,
    truth: Vec<f64>,
    compute: Compute,
}

/// Results, as means over lengthscales.
#[derive(Serialize, Deserialize)]
struct Found {
    grids: usize,
    points: usize,
    errors: [f64; 4],
    /// Seconds to solve and predict by all partial grids, which the combination technique needs; by them with optimal
    /// coefficients; and by the model of the union.
    seconds: [f64; 3],
}

fn griewank(x: &[f64]) -> f64 {
    let sum: f64 = x.iter().map(|x| x * x / 4000.0).sum();
    let product: f64 = x.iter().enumerate().map(|(i, x)| (x / (i as f64 + 1.0).sqrt()).cos()).product();
    1.0 + sum - product
}

impl Problem {
    fn new(rows: usize, test: usize, d: usize, compute: Compute) -> Result<Self> {
        let mut rng = generator(1);
        let (x, points) = (uniform(rows * d, 0.0, 1.0, &mut rng), uniform(test * d, 0.0, 1.0, &mut rng));
        let values = |x: &[f64]| -> Vec<f64> {
            x.chunks(d).map(|row| griewank(&row.iter().map(|t| 10.0 * t - 5.0).collect::<Vec<_>>())).collect()
        };
        let (f, truth) = (values(&x), values(&points));
        let (mean, sd) = spread(&f);
        let y = f.iter().map(|f| (f - mean) / sd + NOISE.sqrt() * standard(&mut rng)).collect();
        let truth = truth.iter().map(|f| (f - mean) / sd).collect();
        Ok(Self { data: Observations::new(x, d, y, None)?, points, truth, compute })
    }

    fn at(&self, level: usize, lengths: &[f64]) -> Result<Found> {
        let d = self.data.d;
        let mut found = Found { grids: 0, points: 0, errors: [0.0; 4], seconds: [0.0; 3] };
        let share = 1.0 / lengths.len() as f64;
        for lengthscale in lengths {
            let kernel = Kernel::parse(&format!("matern32({lengthscale:?})"), d)?;
            let settings = SparseGridOptions::default().level(level);
            let mut model = SparseGrid::new(kernel.into(), &Domain::unit(d), settings)?;
            model.likelihood.noise.set(&[NOISE])?;
            let grids = model.grids();
            (found.grids, found.points) = (grids.all.len(), grids.distinct());
            let mut time = |which: usize, start: Instant| found.seconds[which] += share * start.elapsed().as_secs_f64();

            // The combination technique: a sparse model of each grid.
            let start = Instant::now();
            for grid in &grids.all {
                let mut part = model.union()?;
                part.process =
                    cagey::models::process::Process::new(part.process.prior.kernel.clone(), &grids.points_of(grid), d)?;
                part.posterior(self.compute, self.data.clone())?.mean(&self.points)?;
            }
            time(0, start);
            let start = Instant::now();
            let posterior = model.posterior(self.compute, self.data.clone())?;
            let means = posterior.partial_means(&self.points)?;
            time(1, start);
            let start = Instant::now();
            let union = model.union()?.posterior(self.compute, self.data.clone())?.mean(&self.points)?;
            time(2, start);

            let singles = || means.chunks(self.truth.len());
            let combined = |coefficients: &[f64]| {
                let sum = |at: usize| coefficients.iter().zip(singles()).map(|(c, own)| c * own[at]).sum();
                rmse(&(0..self.truth.len()).map(sum).collect::<Vec<f64>>(), &self.truth)
            };
            let technique: Vec<f64> = model.grids().all.iter().map(|grid| grid.technique).collect();
            let best = singles().map(|own| rmse(own, &self.truth)).fold(f64::INFINITY, f64::min);
            let errors = [combined(posterior.coefficients()), combined(&technique), best, rmse(&union, &self.truth)];
            found.errors.iter_mut().zip(errors).for_each(|(sum, error)| *sum += share * error);
        }
        Ok(found)
    }
}
