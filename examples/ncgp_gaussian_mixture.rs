//! Ten overlapping classes in three dimensions, many rows (Tatzel et al. 2025, Figure 6). Compares Newton's method in
//! the span of actions, with and without compression, with dense approximations of subsets, a variational model in the
//! same time, and Bayes' rule, which knows the mixture.
//!
//! `cargo run --release --example ncgp_gaussian_mixture [-- --rows 20000 --output mixture.png]`

use std::path::PathBuf;

use cagey::device::{Compute, DeviceKind, Precision};
use cagey::kernels::Kernel;
use cagey::models::Observations;
use cagey::solvers::policies::Gradient;
use cagey::{Error, Result};
use clap::Parser;
use faer::{Mat, Side};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

#[path = "common/classes.rs"]
mod classes;

use classes::{Scores, Task, draw, show};

/// Classify draws from a mixture of normal distributions.
#[derive(Parser)]
struct Options {
    /// Where to draw the figure (.png or .svg)
    #[arg(long, default_value = "mixture.png")]
    output: PathBuf,
    /// Rows to learn from
    #[arg(long, default_value_t = 20_000)]
    rows: usize,
    /// Rows to score on
    #[arg(long, default_value_t = 2_000)]
    test: usize,
    /// Seed of the mixture
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Numbers of actions in total, one run for each
    #[arg(long, value_delimiter = ',', default_value = "5,10,20,40")]
    actions: Vec<usize>,
    /// Actions in one Newton step
    #[arg(long, default_value_t = 5)]
    per_step: usize,
    /// Directions that the compressed run keeps
    #[arg(long, default_value_t = 10)]
    kept: usize,
    /// Rows of dense approximations
    #[arg(long, value_delimiter = ',', default_value = "250,500,1000")]
    subsets: Vec<usize>,
    /// Numbers of preconditioned actions in total, one run for each
    #[arg(long, value_delimiter = ',', default_value = "100")]
    preconditioned: Vec<usize>,
    /// Rank of the preconditioner
    #[arg(long, default_value_t = 256)]
    rank: usize,
    /// Inducing inputs of the variational model
    #[arg(long, default_value_t = 256)]
    inducing: usize,
    /// Lengthscale
    #[arg(long, default_value_t = 0.05)]
    lengthscale: f64,
    /// Prior variance
    #[arg(long, default_value_t = 0.05)]
    variance: f64,
    /// Rows from which the kernel's parameters are learned by the bound, instead of the two numbers above
    #[arg(long)]
    learn: Option<usize>,
    /// Actions of the model that learns them
    #[arg(long, default_value_t = 300)]
    learn_actions: usize,
}

const CLASSES: usize = 10;

/// A normal distribution in three dimensions.
struct Normal {
    mean: [f64; 3],
    /// Standard deviations along the axes.
    sd: [f64; 3],
    axes: Mat<f64>,
}

impl Normal {
    /// Mean from U[−1, 1]³, eigenvalues from U[0.001, 0.1], eigenvectors of A Aᵀ, A from U[0, 1].
    fn new(rng: &mut Xoshiro256PlusPlus) -> Result<Self> {
        let mean = [(); 3].map(|()| 2.0 * rng.random::<f64>() - 1.0);
        let sd = [(); 3].map(|()| (0.001 + 0.099 * rng.random::<f64>()).sqrt());
        let a = Mat::from_fn(3, 3, |_, _| rng.random::<f64>());
        let eigen = (&a * a.transpose())
            .self_adjoint_eigen(Side::Lower)
            .map_err(|_| Error::NotFinite("the axes of a normal distribution".into()))?;
        Ok(Self { mean, sd, axes: eigen.U().to_owned() })
    }

    fn sample(&self, rng: &mut Xoshiro256PlusPlus) -> [f64; 3] {
        let z: [f64; 3] = self.sd.map(|sd| sd * Distribution::<f64>::sample(&StandardNormal, rng));
        std::array::from_fn(|i| self.mean[i] + (0..3).map(|k| self.axes[(i, k)] * z[k]).sum::<f64>())
    }

    /// The log density, up to a constant.
    fn log_density(&self, x: &[f64]) -> f64 {
        let along = |k: usize| (0..3).map(|i| self.axes[(i, k)] * (x[i] - self.mean[i])).sum::<f64>() / self.sd[k];
        (0..3).map(|k| -0.5 * along(k).powi(2) - self.sd[k].ln()).sum()
    }
}

fn main() -> Result<()> {
    cagey::memory::keep_freed();
    let options = Options::parse();
    cagey::threads::start(None)?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(options.seed);
    let parts = (0..CLASSES).map(|_| Normal::new(&mut rng)).collect::<Result<Vec<_>>>()?;
    let mut rows = |count: usize| {
        let (mut x, mut y) = (Vec::with_capacity(3 * count), Vec::with_capacity(count));
        for _ in 0..count {
            let class = rng.random_range(0..CLASSES);
            x.extend(parts[class].sample(&mut rng));
            y.push(class as f64);
        }
        Observations::new(x, 3, y, None)
    };
    let (train, test) = (rows(options.rows)?, rows(options.test)?);
    let text = format!("matern32(lengthscale={}, variance={})", options.lengthscale, options.variance);
    let compute = Compute { kind: DeviceKind::Flex, precision: Precision::F32 };
    let task = Task { kernel: Kernel::parse(&text, 3)?, classes: CLASSES, train, test, compute };
    let task = match options.learn {
        Some(rows) => task.with_learned_kernel(rows, options.learn_actions)?,
        None => task,
    };

    let bayes: Vec<Vec<f64>> = task
        .test
        .x
        .chunks(3)
        .map(|x| {
            let logs: Vec<f64> = parts.iter().map(|part| part.log_density(x)).collect();
            let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = logs.iter().map(|log| (log - top).exp()).sum();
            logs.iter().map(|log| (log - top).exp() / total).collect()
        })
        .collect();
    show("Bayes' rule", task.scores(0.0, &bayes)?);

    let mut all: Vec<(String, Vec<Scores>)> = Vec::new();
    for (name, kept, per_class) in [
        ("actions, all kept", None, false),
        ("actions, compressed", Some(options.kept), false),
        ("actions a class", None, true),
    ] {
        let mut scores = Vec::new();
        for &actions in &options.actions {
            let (found, report) = task.newton(actions, options.per_step, kept, Gradient { per_class })?;
            show(&format!("{actions} {name}"), found);
            println!("    {report}");
            scores.push(found);
        }
        all.push((name.into(), scores));
    }
    all.push(task.preconditioned(&options.preconditioned, options.rank)?);
    let longest = all.iter().flat_map(|(_, scores)| scores).map(|s| s.seconds).fold(0.0, f64::max);
    let mut subsets = Vec::new();
    for &rows in &options.subsets {
        let found = task.subset(rows.min(options.rows))?;
        show(&format!("dense, {rows} rows"), found);
        subsets.push(found);
    }
    all.push(("dense subsets".into(), subsets));
    let found = task.svgp(options.inducing, longest, 0.01)?;
    show(&format!("variational, {} inducing inputs", options.inducing), found);
    all.push(("variational".into(), vec![found]));
    draw("ten classes in three dimensions", &all, &options.output)
}
