//! Coal-mining disasters in Great Britain, 1851 to 1962: the yearly rate, by a variational GP with a Poisson likelihood
//! or by a computation-aware one.
//!
//! `cargo run --release --example poisson [-- --output poisson.png]`

use std::path::PathBuf;

use cagey::data::{Dataset, InputScale, ReadOptions, Split, read_training};
use cagey::device::Precision;
use cagey::kernels::{Kernel, initial};
use cagey::likelihoods::{Likelihood, Poisson, Prediction, RateLink, Targets};
use cagey::means::Mean;
use cagey::metrics::{kolmogorov_smirnov, pearson_dispersion, poisson_deviance, randomised_pit};
use cagey::models::cagp::IterativeCagp;
use cagey::models::gp_model::GpModel;
use cagey::models::inducing::{Choice, choose};
use cagey::models::minibatch::{self, Minibatches};
use cagey::models::posterior::Posterior;
use cagey::models::svgp::Svgp;
use cagey::models::{Observations, fit};
use cagey::plot::{Curve, Figure, Frame, Points, Posterior1d};
use cagey::train::{Adam, Optimizer, TrainConfig};
use cagey::{Error, Result};
use clap::Parser;

use cagey_examples::Device;

/// Learn the rate of coal-mining disasters and draw it with its credible band.
#[derive(Parser)]
struct Options {
    /// Years and counts
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/data/coal_yearly.csv"))]
    data: PathBuf,
    /// Where to draw the figure (.png or .svg)
    #[arg(long, default_value = "poisson.png")]
    output: PathBuf,
    /// Inducing inputs of the variational model
    #[arg(long, default_value_t = 30)]
    inducing: usize,
    /// Actions of the computation-aware model
    #[arg(long, default_value_t = 30)]
    actions: usize,
    /// The model that is drawn
    #[arg(long, value_enum, default_value_t = Kind::Variational)]
    draw: Kind,
    /// Steps of training
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// Folds of the calibration test; 0 leaves it out
    #[arg(long, default_value_t = 10)]
    folds: usize,
    /// Seed of folds and inducing inputs
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    device: Device,
}

/// How the posterior is approximated.
#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
enum Kind {
    /// By inducing inputs
    Variational,
    /// Through actions, by Newton's method
    ComputationAware,
}

/// A fitted rate.
struct Fitted {
    scale: InputScale,
    model: Box<dyn GpModel>,
    posterior: Box<dyn Posterior>,
    /// The negative ELBO per row.
    loss: f64,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let (_, data) = read_training(&options.data, &ReadOptions::default())?;
    if data.d != 1 {
        return Err(Error::Data(format!("this example takes one input, not {}", data.d)));
    }
    Poisson { link: RateLink::Exp }.check(Targets { y: targets(&data), auxiliary: None }, Some(&data.rows))?;
    println!("{} rows, {} events", data.n, targets(&data).iter().sum::<f64>());
    for kind in [Kind::Variational, Kind::ComputationAware] {
        let fitted = Fitted::new(kind, &data, &options)?;
        println!("{}", fitted.model.title());
        println!("negative ELBO per row {:.4}; kernel {}", fitted.loss, fitted.model.prior().kernel);
        if options.folds > 0 {
            calibration(kind, &data, &options)?;
        }
        if kind == options.draw {
            draw(&fitted, &data, &options)?;
        }
    }
    println!("figure in {}", options.output.display());
    Ok(())
}

fn targets(data: &Dataset) -> &[f64] {
    data.y.as_deref().unwrap_or_default()
}

impl Fitted {
    /// Trains a variational model with all rows in every step: q(u) by natural gradients, and kernel, mean and inducing
    /// inputs by Adam. Trains a computation-aware model by L-BFGS.
    fn new(kind: Kind, data: &Dataset, options: &Options) -> Result<Self> {
        let scale = InputScale::fit(&data.x, 1)?;
        let rows = Observations::new(scale.apply(&data.x)?, 1, targets(data).to_vec(), None)?;
        let compute = options.device.compute(Precision::F64);
        let mut likelihood = Poisson { link: RateLink::Exp };
        let level = likelihood.initialise(Targets { y: &rows.y, auxiliary: None });
        let mut kernel = Kernel::parse("matern52", 1)?;
        kernel.set_units(&scale.sd, 1.0);
        initial::initialise(&mut kernel, &rows.x, 1);
        let mut mean = Mean::named("constant", 1)?;
        if let Mean::Constant(constant) = &mut mean {
            constant.set(&level)?;
        }
        let (model, loss): (Box<dyn GpModel>, f64) = match kind {
            Kind::Variational => {
                let z = choose(Choice::Kmeans, &kernel, &rows.x, 1, options.inducing, options.seed)?;
                let mut model = Svgp::new(kernel, &z, 1, likelihood)?;
                model.processes[0].prior.mean = mean;
                let adam = Adam { rate: 0.05, ..Adam::default() };
                let config = TrainConfig::new(Optimizer::Adam(adam), options.steps).seed(options.seed);
                let batches = Minibatches { size: rows.n(), natural: Some(0.3), ..Minibatches::default() };
                let outcome = minibatch::fit(&mut model, compute, &rows, &batches, &config, &mut [])?;
                (Box::new(model), outcome.loss)
            }
            Kind::ComputationAware => {
                let mut model = IterativeCagp::newton(kernel, likelihood, options.actions.min(rows.n()));
                (model.priors[0].mean, model.refresh) = (mean, 10);
                let config = TrainConfig { steps: options.steps, seed: options.seed, ..TrainConfig::default() };
                let outcome = fit::fit(&mut model, compute, &rows, &config, &mut [])?;
                (Box::new(model), outcome.loss)
            }
        };
        let posterior = model.condition(compute, rows)?;
        Ok(Self { scale, model, posterior, loss })
    }

    fn predict(&self, x: &[f64]) -> Result<Vec<Prediction>> {
        let latent = self.posterior.predict(&self.scale.apply(x)?)?;
        let pairs = latent.mean.iter().zip(&latent.variance);
        pairs.map(|(mean, variance)| self.model.likelihood().predict(&[*mean], &[*variance], None)).collect()
    }
}

/// Scores counts that were held out, fold by fold.
fn calibration(kind: Kind, data: &Dataset, options: &Options) -> Result<()> {
    let (mut y, mut predictions) = (Vec::new(), Vec::new());
    for split in Split::folds(data.n, options.folds, options.seed)? {
        let test = data.subset(&split.test);
        let fitted = Fitted::new(kind, &data.subset(&split.train), options)?;
        y.extend_from_slice(targets(&test));
        predictions.extend(fitted.predict(&test.x)?);
    }
    let mean: Vec<f64> = predictions.iter().map(Prediction::mean).collect();
    let variance: Vec<f64> = predictions.iter().map(Prediction::variance).collect();
    let n = y.len() as f64;
    let nlpd = -y.iter().zip(&predictions).map(|(y, p)| p.log_density(*y)).sum::<f64>() / n;
    println!("held out in {} folds:", options.folds);
    println!("  NLPD                {nlpd:.4}");
    println!("  Poisson deviance    {:.4}", poisson_deviance(&y, &mean)?);
    println!("  Pearson dispersion  {:.3} (1: as predicted)", pearson_dispersion(&y, &mean, &variance)?);
    let pit = randomised_pit(&y, options.seed, |i, y| predictions[i].cdf(y));
    if let Some((distance, p)) = kolmogorov_smirnov(&pit) {
        let verdict = if p < 0.05 { "rejected" } else { "not rejected" };
        println!("  calibration         Kolmogorov–Smirnov distance {distance:.3}, p = {p:.2}: {verdict} at 5 %");
    }
    Ok(())
}

fn draw(fitted: &Fitted, data: &Dataset, options: &Options) -> Result<()> {
    let (low, high) = data.x.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
    let grid: Vec<f64> = (0..=400).map(|i| low + (high - low) * f64::from(i) / 400.0).collect();
    let predictions = fitted.predict(&grid)?;
    let at = |p: f64| predictions.iter().map(|prediction| prediction.response_quantile(p)).collect();
    let mean = predictions.iter().map(Prediction::mean).collect();
    let curve = Curve { x: grid.clone(), mean, band95: [at(0.025), at(0.975)], band50: [at(0.25), at(0.75)] };
    let training = Points { x: &data.x, y: targets(data) };
    let frame = Frame {
        title: "Coal-mining disasters: rate with credible bands, and counts",
        x: &data.feature_names[0],
        y: "disasters a year",
        ..Frame::default()
    };
    Posterior1d { training, frame, ..Posterior1d::new(&curve) }.save(&options.output)
}
