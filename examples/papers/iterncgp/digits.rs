//! Figure 7: handwritten digits, of MNIST with its files, or else the small ones of this repository.

use std::path::{Path, PathBuf};

use cagey::data::{ReadOptions, TargetKind, read_training};
use cagey::device::Precision;
use cagey::kernels::Kernel;
use cagey::models::Observations;
use cagey::{Error, Result};
use serde_json::json;

use crate::Options;
use crate::classes::{Task, longest};
use crate::common::command::Job;
use crate::common::rows::halves;

/// The file of images with `word` in its name.
fn images(folder: &Path, word: &str) -> Result<PathBuf> {
    let read = |e: std::io::Error| Error::io(folder, &e);
    for entry in std::fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.contains("images") && name.contains(word) && (name.contains("mnist") || name.contains("-ubyte")) {
            return Ok(path);
        }
    }
    Err(Error::Data(format!("{}: no file of images with `{word}` in its name", folder.display())))
}

fn rows(path: &Path, count: usize, most: f64) -> Result<Observations> {
    let options = ReadOptions { target_kind: TargetKind::Classes, ..ReadOptions::default() };
    let (_, data) = read_training(path, &options)?;
    let count = count.min(data.n);
    let x = data.x[..count * data.d].iter().map(|pixel| pixel / most).collect();
    Observations::new(x, data.d, data.y.unwrap_or_default()[..count].to_vec(), None)
}

/// Images to learn from and to score on, with the kernel's lengthscale and variance.
fn data(job: &Job<Options>) -> Result<(Observations, Observations, [f64; 2])> {
    let Some(folder) = &job.common.data else {
        let table = concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv.gz");
        let all = rows(Path::new(table), usize::MAX, 16.0)?;
        let count = job.size(&job.own.rows, [200, 1297, 1297]);
        let test = job.size(&job.own.test, [40, 500, 500]).min(all.n() - count.min(all.n()));
        let task = halves(&all.x[..(count + test) * all.d], all.d, &all.y[..count + test], count)?;
        return Ok((task.train, task.test, [1.0, 3.0]));
    };
    let train = rows(&images(folder, "train")?, job.size(&job.own.rows, [500, 20_000, 20_000]), 255.0)?;
    let test = images(folder, "test").or_else(|_| images(folder, "t10k"))?;
    Ok((train, rows(&test, job.size(&job.own.test, [300, 10_000, 10_000]), 255.0)?, [1.550934, 0.451591]))
}

pub fn figure(job: &Job<Options>) -> Result<()> {
    let (own, compute) = (&job.own, job.compute(Precision::F32));
    let (train, test, [lengthscale, variance]) = data(job)?;
    let text = format!("matern32(lengthscale={lengthscale}, variance={variance})");
    let base =
        json!({ "rows": train.n(), "test": test.n(), "columns": train.d, "compute": compute, "learn": own.learn });
    let task = Task { kernel: Kernel::parse(&text, train.d)?, classes: 10, train, test, compute };
    let task = match own.learn {
        Some(rows) => task.with_learned_kernel(rows, own.learn_actions)?,
        None => task,
    };
    let tasks = [task];
    let (tasks, mut all) = ((tasks.as_slice(), &base), Vec::new());
    let steps = job.pick([1, 3, 3]);
    for per_step in [1, 5] {
        let sizes: Vec<[usize; 2]> = (1..=steps).map(|step| [step * per_step, per_step]).collect();
        let name = |what: &str| format!("{what}, {per_step} a step");
        all.push(job.over(&name("residuals"), tasks, &sizes, |task, size, _| task.residuals(size, None))?);
        all.push(job.over(&name("gradients"), tasks, &sizes, |task, size, _| task.gradients(false, size, None))?);
        all.push(job.over(&name("by class"), tasks, &sizes, |task, size, _| task.gradients(true, size, None))?);
    }
    let actions = job.size(&own.actions, [vec![20], vec![100], vec![100, 300]]);
    all.push(job.over("preconditioned", tasks, &actions, |task, size, _| task.preconditioned(size, own.rank))?);
    let seconds = own.seconds.unwrap_or(longest(&all));
    let inducing = job.size(&own.inducing, [vec![500], vec![5000], vec![1000, 2500, 5000, 10_000]]);
    let rates = job.size(&own.rates, [vec![0.01], vec![0.01], vec![0.001, 0.01, 0.05]]);
    for rate in rates {
        let run = |task: &Task, inducing: usize, seed| task.svgp(inducing / 10, rate, seconds, seed);
        all.push(job.over(&format!("SVGP, rate {rate}"), tasks, &inducing, run)?);
    }
    job.against_seconds("handwritten digits", &all, false)
}
