//! Ten overlapping classes in three dimensions, many rows: Figures 6, 9 and 10. Compares Newton's method in the span of
//! actions with dense approximations of subsets, variational models, and Bayes' rule, which knows the mixture.

use cagey::device::Precision;
use cagey::kernels::Kernel;
use cagey::models::Observations;
use cagey::{Error, Result};
use faer::{Mat, Side};
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use serde_json::json;

use crate::Options;
use crate::classes::{Runs, Task, longest};
use crate::common::command::Job;
use crate::common::rows::{generator, standard};
use crate::common::scores::of_classes;

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
        let z: [f64; 3] = self.sd.map(|sd| sd * standard(rng));
        std::array::from_fn(|i| self.mean[i] + (0..3).map(|k| self.axes[(i, k)] * z[k]).sum::<f64>())
    }

    /// The log density, up to a constant.
    fn log_density(&self, x: &[f64]) -> f64 {
        let along = |k: usize| (0..3).map(|i| self.axes[(i, k)] * (x[i] - self.mean[i])).sum::<f64>() / self.sd[k];
        (0..3).map(|k| -0.5 * along(k).powi(2) - self.sd[k].ln()).sum()
    }
}

/// The mixture, the same for all runs.
fn mixture() -> Result<Vec<Normal>> {
    let mut rng = generator(0);
    (0..CLASSES).map(|_| Normal::new(&mut rng)).collect()
}

/// Rows of a run; the classes take turns, in random order.
fn drawn(parts: &[Normal], count: usize, seed: u64) -> Result<Observations> {
    let mut rng = generator(1000 + seed);
    let (mut x, mut y) = (Vec::with_capacity(3 * count), Vec::with_capacity(count));
    for _ in 0..count {
        let class = rng.random_range(0..CLASSES);
        x.extend(parts[class].sample(&mut rng));
        y.push(class as f64);
    }
    Observations::new(x, 3, y, None)
}

fn bayes(parts: &[Normal], x: &[f64]) -> Vec<Vec<f64>> {
    x.chunks(3)
        .map(|x| {
            let logs: Vec<f64> = parts.iter().map(|part| part.log_density(x)).collect();
            let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = logs.iter().map(|log| (log - top).exp()).sum();
            logs.iter().map(|log| (log - top).exp() / total).collect()
        })
        .collect()
}

/// All results. The paper does not say the kernel's values; these are Matérn-3/2's with 0.05 each.
fn results(job: &Job<Options>) -> Result<Vec<Runs>> {
    let (own, parts, compute) = (&job.own, mixture()?, job.compute(Precision::F32));
    let (rows, test) = (job.size(&own.rows, [600, 20_000, 100_000]), job.size(&own.test, [40, 2_000, 10_000]));
    let mut tasks = Vec::new();
    for seed in job.seeds([1, 1, 5]) {
        let kernel = Kernel::parse("matern32(lengthscale=0.05, variance=0.05)", 3)?;
        let (train, test) = (drawn(&parts, rows, 2 * seed)?, drawn(&parts, test, 2 * seed + 1)?);
        let known = of_classes(&test.y, &bayes(&parts, &test.x))?;
        println!("Bayes' rule, run {seed}: accuracy {:.4}, NLL {:.4}", 1.0 - known.error, known.nlpd);
        let task = Task { kernel, classes: CLASSES, train, test, compute };
        tasks.push(match own.learn {
            Some(rows) => task.with_learned_kernel(rows, own.learn_actions)?,
            None => task,
        });
    }
    let base = json!({ "item": "mixture", "rows": rows, "test": test, "compute": compute, "learn": own.learn });
    let (tasks, per_step) = ((tasks.as_slice(), &base), job.size(&own.per_step, [5, 5, 5]));
    let actions = job.size(&own.actions, [vec![5, 10], vec![5, 10, 20, 40], vec![5, 10, 20, 40, 80]]);
    let sizes: Vec<[usize; 2]> = actions.iter().map(|actions| [*actions, per_step]).collect();
    let kept = Some(own.kept);
    let mut all = vec![
        job.over("residuals", tasks, &sizes, |task, size, _| task.residuals(size, None))?,
        job.over("gradients", tasks, &sizes, |task, size, _| task.gradients(false, size, None))?,
        job.over("gradients, compressed", tasks, &sizes, |task, size, _| task.gradients(false, size, kept))?,
        job.over("gradients by class", tasks, &sizes, |task, size, _| task.gradients(true, size, None))?,
    ];
    if own.learn.is_some() {
        let actions = job.pick([vec![20], vec![100], vec![100, 300]]);
        all.push(job.over("preconditioned", tasks, &actions, |task, size, _| task.preconditioned(size, own.rank))?);
    }
    let seconds = own.seconds.unwrap_or(longest(&all));
    let subsets = job.size(&own.subsets, [vec![60], vec![250, 500, 1000], vec![250, 500, 1000, 2000]]);
    all.push(job.over("dense subsets", tasks, &subsets, |task, rows, _| task.subset(rows))?);
    let inducing = job.size(&own.inducing, [vec![200], vec![1000, 2500], vec![1000, 2500, 5000, 10_000]]);
    let rates = job.size(&own.rates, [vec![0.01], vec![0.01], vec![0.001, 0.01, 0.05]]);
    for rate in rates {
        let name = format!("SVGP, rate {rate}");
        let run = |task: &Task, inducing: usize, seed| task.svgp(inducing / CLASSES, rate, seconds, seed);
        all.push(job.over(&name, tasks, &inducing, run)?);
    }
    Ok(all)
}

/// Figure 6.
pub fn means(job: &Job<Options>) -> Result<()> {
    job.against_seconds("ten classes in three dimensions", &results(job)?, false)
}

/// Figure 10.
pub fn runs(job: &Job<Options>) -> Result<()> {
    job.against_seconds("ten classes in three dimensions, each run", &results(job)?, true)
}

/// Figure 9: the first two coordinates of the rows of each class, and the density of their distribution.
pub fn rows(job: &Job<Options>) -> Result<()> {
    let (parts, count) = (mixture()?, job.pick([500, 3000, 10_000]));
    let data = drawn(&parts, count, 0)?;
    let places: Vec<f64> = data.x.chunks(3).flat_map(|row| [row[0], row[1]]).collect();
    let of_class = |class: usize| data.y.iter().map(|y| if *y as usize == class { 1.0 } else { 0.0 }).collect();
    let fields: Vec<_> = [0, 5]
        .iter()
        .map(|first| (format!("classes {first} to {}", first + 4), (*first..first + 5).map(of_class).collect()))
        .collect();
    let wrong = of_classes(&data.y, &bayes(&parts, &data.x))?;
    println!("{count} rows; Bayes' rule has accuracy {:.4}, NLL {:.4}", 1.0 - wrong.error, wrong.nlpd);
    job.fields("", "first two coordinates of the rows, class by class", &places, &fields)
}
