//! Handwritten digits of MNIST (Tatzel et al. 2025, Figure 7): three Newton steps with one and with five actions each,
//! compared with a variational model with the same kernel in the same time.
//!
//! `cargo run --release --example ncgp_mnist -- --data FOLDER`, a folder with the four files of MNIST.

use std::path::{Path, PathBuf};

use cagey::data::{ReadOptions, TargetKind, read_training};
use cagey::device::{Compute, DeviceKind, Precision};
use cagey::kernels::Kernel;
use cagey::models::Observations;
use cagey::solvers::policies::Gradient;
use cagey::{Error, Result};
use clap::Parser;

#[path = "common/classes.rs"]
mod classes;

use classes::{Task, draw, show};

/// Classify handwritten digits.
#[derive(Parser)]
struct Options {
    /// Folder with training and test images and labels, each as an IDX file, gzipped or not
    #[arg(long)]
    data: PathBuf,
    /// Where to draw the figure (.png or .svg)
    #[arg(long, default_value = "mnist.png")]
    output: PathBuf,
    /// Images to learn from
    #[arg(long, default_value_t = 20_000)]
    rows: usize,
    /// Images to score on
    #[arg(long, default_value_t = 10_000)]
    test: usize,
    /// Newton steps
    #[arg(long, default_value_t = 3)]
    steps: usize,
    /// Numbers of preconditioned actions in total, one run for each
    #[arg(long, value_delimiter = ',', default_value = "100")]
    preconditioned: Vec<usize>,
    /// Rank of the preconditioner
    #[arg(long, default_value_t = 256)]
    rank: usize,
    /// Inducing inputs of the variational model
    #[arg(long, default_value_t = 512)]
    inducing: usize,
    /// Lengthscale, for pixels from 0 to 1
    #[arg(long, default_value_t = 1.550934)]
    lengthscale: f64,
    /// Prior variance
    #[arg(long, default_value_t = 0.451591)]
    variance: f64,
    /// Rows from which the kernel's parameters are learned by the bound, instead of the two numbers above
    #[arg(long)]
    learn: Option<usize>,
    /// Actions of the model that learns them
    #[arg(long, default_value_t = 300)]
    learn_actions: usize,
}

/// The file of images with `word` in its name.
fn images(folder: &Path, word: &str) -> Result<PathBuf> {
    let read = |e: std::io::Error| Error::Data(format!("{}: {e}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.contains("mnist") | name.contains("-ubyte") && name.contains("images") && name.contains(word) {
            return Ok(path);
        }
    }
    Err(Error::Data(format!("{}: no file of images with `{word}` in its name", folder.display())))
}

fn rows(path: &Path, count: usize) -> Result<Observations> {
    let options = ReadOptions { target_kind: TargetKind::Classes, ..ReadOptions::default() };
    let (_, data) = read_training(path, &options)?;
    let count = count.min(data.n);
    let x = data.x[..count * data.d].iter().map(|pixel| pixel / 255.0).collect();
    Observations::new(x, data.d, data.y.unwrap_or_default()[..count].to_vec(), None)
}

fn main() -> Result<()> {
    cagey::memory::keep_freed();
    let options = Options::parse();
    cagey::threads::start(None)?;
    let train = rows(&images(&options.data, "train")?, options.rows)?;
    let test = rows(&images(&options.data, "test").or_else(|_| images(&options.data, "t10k"))?, options.test)?;
    let text = format!("matern32(lengthscale={}, variance={})", options.lengthscale, options.variance);
    let compute = Compute { kind: DeviceKind::Flex, precision: Precision::F32 };
    let task = Task { kernel: Kernel::parse(&text, train.d)?, classes: 10, train, test, compute };
    let task = match options.learn {
        Some(rows) => task.with_learned_kernel(rows, options.learn_actions)?,
        None => task,
    };
    let mut all = Vec::new();
    for (per_class, name) in [(false, "actions"), (true, "actions a class")] {
        for per_step in [1, 5] {
            let mut scores = Vec::new();
            for step in 1..=options.steps {
                let (found, report) = task.newton(step * per_step, per_step, None, Gradient { per_class })?;
                show(&format!("{step} × {per_step} {name}"), found);
                println!("    {report}");
                scores.push(found);
            }
            all.push((format!("{per_step} {name} a step"), scores));
        }
    }
    all.push(task.preconditioned(&options.preconditioned, options.rank)?);
    let longest = all.iter().flat_map(|(_, scores)| scores).map(|s| s.seconds).fold(0.0, f64::max);
    let mut scores = Vec::new();
    for share in [0.3, 1.0] {
        let found = task.svgp(options.inducing, share * longest, 0.01)?;
        show(&format!("variational, {} inducing inputs", options.inducing), found);
        scores.push(found);
    }
    all.push(("variational".into(), scores));
    draw("handwritten digits", &all, &options.output)
}
