//! Times one workload on this machine and prints one line of JSON, for comparison with other libraries.
//!
//! `cargo run --release --example workload -- matvec --n 20000 --d 9 --rhs 1 --backward`

mod inducing;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use burn::tensor::{Distribution, Tensor};
use cagey::device::{Algebra, Compute, DeviceKind, Precision, Transfers, set_algebra};
use cagey::kernels::Kernel;
use cagey::means::Mean;
use cagey::models::cagp::{Actions, Cagp, IterativeCagp};
use cagey::models::cggp::CgGp;
use cagey::models::exact::ExactGp;
use cagey::models::experts::aggregation::Rule;
use cagey::models::experts::{Experts, Partition, Shared};
use cagey::models::laplace::LaplaceGp;
use cagey::models::prior::Prior;
use cagey::models::state_space::StateSpaceGp;
use cagey::models::{Model, Observations, fit};
use cagey::products::{self, BlockSparse};
use cagey::scope::{Scope, scalar};
use cagey::solvers::itergp::IterGpOptions;
use cagey::solvers::policies::Gradient;
use cagey::{Error, Result};
use clap::{Parser, ValueEnum};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution as _, StandardNormal};
use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// K(X, X) V; with `--backward` also the gradient in X and V.
    Matvec,
    /// Sᵀ K S for `--m` block-sparse actions, with the gradient in X, S and the kernel.
    Projected,
    /// K(X, X) as a matrix; with `--backward` also the gradient in X.
    Gram,
    /// Exact GP: negative log marginal likelihood and its gradient.
    Exact,
    /// `--m` exact experts, each with a part of the rows: the sum of their objectives and its gradient.
    Experts,
    /// Computation-aware GP with `--m` learned block-sparse actions: negative ELBO and its gradient.
    Cagp,
    /// Exact GP by conjugate gradients: estimates of the negative log marginal likelihood and its gradient.
    Cggp,
    /// Laplace's approximation: negative log evidence and its gradient.
    Laplace,
    /// Computation-aware GP by Newton's method with `--m` actions: the solve, the negative ELBO and its gradient.
    Ncgp,
    /// The same with learned block-sparse actions.
    NcgpLearned,
    /// Sparse GP regression with `--m` inducing inputs: negative collapsed bound and its gradient, inducing inputs
    /// included.
    Sgpr,
    /// Exact GP over one input (`--d 1`) by its state space: negative log marginal likelihood and its gradient.
    StateSpace,
    /// Sparse grid of `--level` over `--d` inputs: negative bound of all its points, and its gradient.
    SparseGrid,
    /// Variational GP with `--m` inducing inputs: negative ELBO of a minibatch of `--batch` rows, its gradient and a
    /// step of Adam.
    Svgp,
    /// Sparse within sparse GP: a step with `--m` fixed inducing inputs, `--neighbors` for each row, and `--batch`
    /// rows.
    Swsgp,
    /// Means and variances of `--ntest` rows by a variational GP.
    Predict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Matern32,
    Rbf,
}

#[derive(Debug, Parser)]
struct Options {
    workload: Workload,
    /// Rows.
    #[arg(long, default_value_t = 20_000)]
    n: usize,
    /// Input columns.
    #[arg(long, default_value_t = 9)]
    d: usize,
    /// Right-hand sides.
    #[arg(long, default_value_t = 1)]
    rhs: usize,
    /// Actions, inducing inputs or experts.
    #[arg(long, default_value_t = 512)]
    m: usize,
    /// Level of a sparse grid.
    #[arg(long, default_value_t = 5)]
    level: usize,
    /// Rows of a minibatch.
    #[arg(long, default_value_t = 1024)]
    batch: usize,
    /// Neighbours of a row.
    #[arg(long, default_value_t = 100)]
    neighbors: usize,
    /// Rows to predict.
    #[arg(long, default_value_t = 10_000)]
    ntest: usize,
    /// Likelihood of the variational GP, of Laplace's approximation and of Newton's method.
    #[arg(long, value_enum, default_value_t = inducing::Targets::Gaussian)]
    likelihood: inducing::Targets,
    #[arg(long, value_enum, default_value_t = Form::Matern32)]
    kernel: Form,
    /// Kernel of a model in place of `--kernel`, with its parameters as they are given.
    #[arg(long, value_name = "KERNEL")]
    expression: Option<String>,
    /// Computes gradients, too.
    #[arg(long)]
    backward: bool,
    /// f32 or f64.
    #[arg(long, default_value = "f32")]
    dtype: Precision,
    /// flex, ndarray, wgpu, cuda or rocm.
    #[arg(long, default_value = "flex")]
    device: DeviceKind,
    /// Where a GPU without f64 leaves the factorisations of matrices: auto, host or device.
    #[arg(long, value_enum, default_value_t)]
    algebra: Algebra,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Repetitions [default: as many as fit ten seconds, at least three].
    #[arg(long)]
    reps: Option<usize>,
    /// Reads inputs from `PREFIX-X.npy` instead of drawing them.
    #[arg(long, value_name = "PREFIX")]
    data: Option<PathBuf>,
    /// Widest vector instructions to use: portable, avx2 or avx512.
    #[arg(long)]
    instructions: Option<products::lanes::Instructions>,
    /// Prints JSON only (the default and only format; accepted for symmetry with other tools).
    #[arg(long)]
    json: bool,
}

impl Options {
    fn compute(&self) -> Compute {
        Compute { kind: self.device, precision: self.dtype }
    }
}

/// Seconds of each training step after the first, the loss, and what these steps moved between host and device.
struct Steps {
    times: Vec<f64>,
    loss: f64,
    moved: Transfers,
}

/// Computes one repetition, and returns the name and the value of its result.
type Step = Box<dyn Fn() -> Result<(&'static str, f64)>>;

fn main() -> Result<()> {
    cagey::memory::keep_freed();
    let mut options = Options::parse();
    if options.reps == Some(0) {
        return Err(Error::Usage("--reps 0: nothing would be timed".into()));
    }
    if let Some(prefix) = &options.data {
        (_, options.n, options.d) = npy(&part(prefix, "-X.npy"))?;
    }
    cagey::threads::start(Some(options.threads))?;
    set_algebra(options.algebra);
    if let Some(instructions) = options.instructions {
        products::lanes::limit(instructions);
    }
    let steps = match options.workload {
        Workload::Svgp => Some(inducing::svgp(&options)?),
        Workload::Swsgp => Some(inducing::swsgp(&options)?),
        _ => None,
    };
    if let Some(Steps { times, loss, moved }) = steps {
        if times.is_empty() {
            return Err(Error::Usage("no second step ended within ten seconds: choose a smaller workload".into()));
        }
        println!("{}", report(&options, times, ("loss", loss), moved));
        return Ok(());
    }
    let step = match options.workload {
        Workload::Matvec => matvec(&options)?,
        Workload::Projected => projected(&options)?,
        Workload::Gram => gram(&options)?,
        Workload::Exact => exact(&options)?,
        Workload::Experts => experts(&options)?,
        Workload::Cagp => cagp(&options)?,
        Workload::Cggp => cggp(&options)?,
        Workload::Laplace => laplace(&options)?,
        Workload::Ncgp => ncgp(&options)?,
        Workload::NcgpLearned => ncgp_learned(&options)?,
        Workload::Sgpr => inducing::sgpr(&options)?,
        Workload::StateSpace => state_space(&options)?,
        Workload::SparseGrid => inducing::sparse_grid(&options)?,
        Workload::Predict | Workload::Svgp | Workload::Swsgp => inducing::predict(&options)?,
    };
    println!("{}", measure(&options, &step)?);
    Ok(())
}

fn matvec(options: &Options) -> Result<Step> {
    let compute = options.compute();
    let (rhs, backward) = (options.rhs, options.backward);
    let x = inputs(options, &Scope::new(compute)?)?;
    let n = x.dims()[0];
    let normal =
        |scope: &Scope| Tensor::<2>::random([n, rhs], Distribution::Normal(0.0, 1.0), (scope.device(), scope.dtype()));
    let (v, weights) = (normal(&Scope::new(compute)?), normal(&Scope::new(compute)?));
    let kernel = kernel(options)?;
    let host = (x.into_data(), v.into_data(), weights.into_data());
    Ok(Box::new(move || {
        let scope = if backward { Scope::training(compute)? } else { Scope::new(compute)? };
        let load =
            |data: &burn::tensor::TensorData| Tensor::<2>::from_data(data.clone(), (scope.device(), scope.dtype()));
        let (x, v, weights) = (load(&host.0), load(&host.1), load(&host.2));
        if !backward {
            let product = products::Covariance::new(&kernel, &scope, &x).times(&v)?;
            return Ok(("checksum", scalar(product.sum())?));
        }
        let (x, v) = (x.require_grad(), v.require_grad());
        let total = (products::Covariance::new(&kernel, &scope, &x).times(&v)? * weights).sum();
        let gradients = total.backward();
        let sum = |tensor: Option<Tensor<2>>| tensor.map_or(Ok(0.0), |t| scalar(t.sum()));
        let in_x = sum(x.grad(&gradients).map(Tensor::abs))?;
        Ok(("checksum", scalar(total)? + in_x + sum(v.grad(&gradients))?))
    }))
}

fn projected(options: &Options) -> Result<Step> {
    let compute = options.compute();
    let scope = Scope::new(compute)?;
    let x = inputs(options, &scope)?;
    let n = x.dims()[0];
    let normal = || Tensor::<1>::random([n], Distribution::Normal(0.0, 1.0), (scope.device(), scope.dtype()));
    let host = (x.into_data(), normal().into_data());
    let (kernel, actions) = (kernel(options)?, options.m);
    Ok(Box::new(move || {
        let scope = Scope::training(compute)?;
        let at = (scope.device(), scope.dtype());
        let x = Tensor::<2>::from_data(host.0.clone(), at).require_grad();
        let s = Tensor::<1>::from_data(host.1.clone(), at).require_grad();
        let blocks = BlockSparse::new(s.clone(), BlockSparse::even(n, actions))?;
        let total = products::Covariance::new(&kernel, &scope, &x).projected(&blocks)?.sum();
        let gradients = total.backward();
        let in_x = x.grad(&gradients).map_or(Ok(0.0), |t| scalar(t.abs().sum()))?;
        let in_s = s.grad(&gradients).map_or(Ok(0.0), |t| scalar(t.abs().sum()))?;
        Ok(("checksum", scalar(total)? + in_x + in_s))
    }))
}

fn gram(options: &Options) -> Result<Step> {
    let compute = options.compute();
    let x = inputs(options, &Scope::new(compute)?)?.into_data();
    let (kernel, backward) = (kernel(options)?, options.backward);
    Ok(Box::new(move || {
        let scope = if backward { Scope::training(compute)? } else { Scope::new(compute)? };
        let x = Tensor::<2>::from_data(x.clone(), (scope.device(), scope.dtype()));
        if !backward {
            let k = products::Covariance::new(&kernel, &scope, &x).matrix()?;
            return Ok(("checksum", scalar(k.narrow(0, 0, 1).sum())?));
        }
        let x = x.require_grad();
        let gradients = products::Covariance::new(&kernel, &scope, &x).matrix()?.sum().backward();
        Ok(("checksum", x.grad(&gradients).map_or(Ok(0.0), |t| scalar(t.abs().sum()))?))
    }))
}

fn exact(options: &Options) -> Result<Step> {
    let mut model = ExactGp::new(trainable(options)?);
    model.prior.mean = Mean::named("constant", options.d)?;
    model_step(options, model, observations(options)?)
}

fn state_space(options: &Options) -> Result<Step> {
    let mut model = StateSpaceGp::new(trainable(options)?)?;
    model.prior.mean = Mean::named("constant", options.d)?;
    model_step(options, model, observations(options)?)
}

fn experts(options: &Options) -> Result<Step> {
    let data = observations(options)?;
    let mut model = ExactGp::new(trainable(options)?);
    model.prior.mean = Mean::named("constant", options.d)?;
    let parts = Partition::Random.split(&data, &[], options.m, 0)?;
    model_step(options, Experts::new(Shared::Exact(model), Rule::Grbcm, parts, vec![0])?, data)
}

fn cagp(options: &Options) -> Result<Step> {
    let data = observations(options)?;
    let mut model = Cagp::new(trainable(options)?, Actions::random(data.n(), options.m, 0)?);
    model.priors[0].mean = Mean::named("constant", options.d)?;
    model_step(options, model, data)
}

fn cggp(options: &Options) -> Result<Step> {
    let data = observations(options)?;
    let mut model = CgGp::new(trainable(options)?);
    model.prior.mean = Mean::named("constant", options.d)?;
    model_step(options, model, data)
}

fn laplace(options: &Options) -> Result<Step> {
    let (likelihood, data) = inducing::targets(options)?;
    let mean = Mean::named("constant", options.d)?;
    model_step(options, LaplaceGp::boxed(Prior { kernel: trainable(options)?, mean }, likelihood), data)
}

fn ncgp(options: &Options) -> Result<Step> {
    let (likelihood, data) = inducing::targets(options)?;
    let prior = Prior { kernel: trainable(options)?, mean: Mean::named("constant", options.d)? };
    let solve = IterGpOptions { relative: 1e-6, ..IterGpOptions::budget(options.m) };
    model_step(options, IterativeCagp::boxed(prior, likelihood, Box::new(Gradient::default()), solve), data)
}

fn ncgp_learned(options: &Options) -> Result<Step> {
    let (likelihood, data) = inducing::targets(options)?;
    let prior = Prior { kernel: trainable(options)?, mean: Mean::named("constant", options.d)? };
    let actions = Actions::start(&*likelihood, &data, options.m)?;
    model_step(options, Cagp::boxed(prior, likelihood, actions), data)
}

/// A model's loss per datum with its gradient, at lengthscales √d, output scale 1 and noise variance 0.1, or at
/// `--expression`.
fn model_step(options: &Options, model: impl Model + 'static, data: Observations) -> Result<Step> {
    let compute = options.compute();
    let batch = data.batch(&Scope::new(compute)?);
    Ok(Box::new(move || Ok(("loss", fit::evaluate(&model, compute, &batch)?.loss / data.n() as f64))))
}

fn trainable(options: &Options) -> Result<Kernel> {
    if let Some(expression) = &options.expression {
        return Kernel::parse(expression, options.d);
    }
    let name = options.kernel.to_possible_value().map(|v| v.get_name().to_string()).unwrap_or_default();
    let lengthscales = vec![(options.d as f64).sqrt(); options.d];
    Kernel::parse(&format!("{name}(ard)"), options.d)?.with("lengthscale", &lengthscales)
}

/// The rows of `--data`, or normal inputs with a smooth function of them and noise of standard deviation 0.1.
fn observations(options: &Options) -> Result<Observations> {
    let (n, d) = (options.n, options.d);
    let Some(prefix) = &options.data else {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(0);
        let mut normal = |count: usize| -> Vec<f64> { (0..count).map(|_| StandardNormal.sample(&mut rng)).collect() };
        let (x, direction, noise) = (normal(n * d), normal(d), normal(n));
        let value = |row: &[f64]| {
            row.iter().zip(&direction).map(|(a, b)| a * b).sum::<f64>().sin() + 0.5 * (2.0 * row[0]).cos()
        };
        let y = x.chunks(d).zip(noise).map(|(row, e)| value(row) + 0.1 * e).collect();
        return Observations::new(x, d, y, None);
    };
    let ((x, _, d), (y, ..)) = (npy(&part(prefix, "-X.npy"))?, npy(&part(prefix, "-y.npy"))?);
    Observations::new(x, d, y, None)
}

fn kernel(options: &Options) -> Result<Kernel> {
    let name = options.kernel.to_possible_value().map(|v| v.get_name().to_string()).unwrap_or_default();
    let lengthscale = (options.d as f64).sqrt();
    let text = format!("{name}(lengthscale={lengthscale}, variance=1.0, fix=[lengthscale, variance])");
    Kernel::parse(&text, options.d)
}

fn inputs(options: &Options, scope: &Scope) -> Result<Tensor<2>> {
    match &options.data {
        None => {
            scope.device().seed(0);
            let normal = Distribution::Normal(0.0, 1.0);
            Ok(Tensor::random([options.n, options.d], normal, (scope.device(), scope.dtype())))
        }
        Some(prefix) => {
            let (values, n, d) = npy(&part(prefix, "-X.npy"))?;
            Ok(scope.matrix(&values, n, d))
        }
    }
}

/// The path of the array with this prefix and suffix.
fn part(prefix: &Path, suffix: &str) -> PathBuf {
    let mut path = prefix.to_path_buf().into_os_string();
    path.push(suffix);
    path.into()
}

fn npy(path: &Path) -> Result<(Vec<f64>, usize, usize)> {
    let bytes = std::fs::read(path).map_err(|e| Error::io(path, &e))?;
    let file = npyz::NpyFile::new(&bytes[..]).map_err(|e| Error::io(path, &e))?;
    let shape = file.shape().to_vec();
    let (n, d) = match shape[..] {
        [n] => (n, 1),
        [n, d] => (n, d),
        _ => return Err(Error::shape("an array", "[n] or [n, d]", format!("{shape:?}"))),
    };
    Ok((file.into_vec::<f64>().map_err(|e| Error::io(path, &e))?, n as usize, d as usize))
}

fn measure(options: &Options, step: &Step) -> Result<Value> {
    step()?;
    let (mut times, mut result) = (Vec::new(), ("checksum", 0.0));
    let (begin, before) = (Instant::now(), Transfers::so_far());
    let enough = |done: usize| match options.reps {
        Some(reps) => done >= reps.max(1),
        None => done >= 3 && begin.elapsed() > Duration::from_secs(10),
    };
    while !enough(times.len()) {
        let start = Instant::now();
        result = step()?;
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(report(options, times, result, Transfers::so_far() - before))
}

fn report(options: &Options, mut times: Vec<f64>, result: (&'static str, f64), moved: Transfers) -> Value {
    times.sort_by(f64::total_cmp);
    let each = |count: u64| count / times.len() as u64;
    let mut line = json!({
        "workload": format!("{:?}", options.workload).to_lowercase(),
        "params": {
            "n": options.n, "d": options.d, "rhs": options.rhs, "m": options.m, "batch": options.batch,
            "dtype": options.dtype.name(), "backward": options.backward,
            "kernel": format!("{:?}", options.kernel).to_lowercase(),
            "instructions": format!("{:?}", products::lanes::instructions()).to_lowercase(),
        },
        "threads": options.threads,
        "median_s": times[times.len() / 2],
        "min_s": times[0],
        "reps": times.len(),
        "peak_rss_mb": peak_rss_mb(),
        "device": options.device.name(),
        "bytes_up": each(moved.up), "bytes_down": each(moved.down), "syncs": each(moved.syncs),
    });
    line[result.0] = json!(result.1);
    line
}

/// The most memory that this process has held, if the system reports it.
fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kb| kb / 1024.0)
}
