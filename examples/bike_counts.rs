//! Bicycles hired in an hour, by weather and time: compares the intervals of Poisson and negative binomial counts.
//!
//! `cargo run --release --example bike_counts -- --data hour.csv`
//!
//! The data are the hourly table of *Bike Sharing* (Fanaee-T and Gama 2013, UCI Machine Learning Repository, CC BY
//! 4.0): one row an hour with numeric columns, the count last. Leave out the columns that add up to the count
//! (`casual`, `registered`) and the running number. If you keep the date, give it as a number (`t_hours`, hours since
//! the first day).

use std::path::PathBuf;

use cagey::data::{Dataset, InputScale, ReadOptions, Split, read_training};
use cagey::device::{Compute, Precision};
use cagey::kernels::{Kernel, initial};
use cagey::likelihoods::{Likelihood, NegativeBinomial, Poisson, Prediction, RateLink, Targets};
use cagey::means::Mean;
use cagey::metrics::{kolmogorov_smirnov, pearson_dispersion, poisson_deviance, randomised_pit};
use cagey::models::Observations;
use cagey::models::inducing::{Choice, choose};
use cagey::models::minibatch::{self, Minibatches};
use cagey::models::posterior::Posterior;
use cagey::models::svgp::Svgp;
use cagey::plot::{Component, Components, Curve, Figure, Frame, Points};
use cagey::train::{Adam, Optimizer, Progress, Schedule, TrainConfig};
use cagey::{Error, Result};
use clap::Parser;

use cagey_examples::Device;

/// Model hourly counts with two likelihoods and compare their predictions.
#[derive(Parser)]
struct Options {
    /// Covariates and counts, one row an hour
    #[arg(long)]
    data: PathBuf,
    /// Where to draw the figure (.png or .svg)
    #[arg(long, default_value = "bike_counts.png")]
    output: PathBuf,
    /// First row of the part to draw
    #[arg(long, default_value_t = 12_000)]
    from: usize,
    /// Inducing inputs
    #[arg(long, default_value_t = 256)]
    inducing: usize,
    /// Steps of training
    #[arg(long, default_value_t = 500)]
    steps: usize,
    /// Share of rows to test on
    #[arg(long, default_value_t = 0.1)]
    test: f64,
    /// Seed of the split, the inducing inputs and the minibatches
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    device: Device,
}

/// Rows in the figure: five days.
const HOURS: usize = 120;
/// Dispersion above which Poisson counts are called overdispersed.
const OVERDISPERSED: f64 = 1.5;

fn main() -> Result<()> {
    let options = Options::parse();
    let (_, data) = read_training(&options.data, &ReadOptions::default())?;
    let poisson = Poisson { link: RateLink::Exp };
    poisson.check(Targets { y: targets(&data)?, auxiliary: None }, Some(&data.rows))?;
    let split = Split::random(data.n, options.test, options.seed)?;
    let (train, test) = (data.subset(&split.train), data.subset(&split.test));
    println!("{} hours to learn from, {} to test on, {} inputs", train.n, test.n, data.d);
    let from = options.from.min(data.n.saturating_sub(HOURS));
    let drawn: Vec<usize> = (from..data.n.min(from + HOURS)).collect();
    let shown = data.subset(&drawn);

    let mut curves = Vec::new();
    let likelihoods: [Box<dyn Likelihood>; 2] = [Box::new(poisson), Box::new(NegativeBinomial::new(0.1))];
    for (title, likelihood) in ["Poisson", "negative binomial"].into_iter().zip(likelihoods) {
        println!("{title}");
        let fitted = Fitted::new(&train, likelihood, &options)?;
        let dispersion = report(targets(&test)?, &fitted.predict(&test.x)?, options.seed)?;
        if title == "Poisson" && dispersion > OVERDISPERSED {
            println!(
                "  warning: the counts are overdispersed: they scatter {dispersion:.1} times as much as this \
                 likelihood allows, so its intervals are too narrow; use the negative binomial"
            );
        }
        curves.push((title, curve(&fitted.predict(&shown.x)?)));
    }
    let held_out: Vec<bool> = drawn.iter().map(|i| split.test.binary_search(i).is_ok()).collect();
    let pick = |test: bool| -> (Vec<f64>, Vec<f64>) {
        let counts = shown.y.iter().flatten().zip(&held_out).enumerate().filter(|(_, (_, held))| **held == test);
        counts.map(|(hour, (y, _))| (hour as f64, *y)).unzip()
    };
    let (training, held_out) = (pick(false), pick(true));
    Components {
        total: Component { title: curves[1].0, curve: &curves[1].1 },
        parts: &[Component { title: curves[0].0, curve: &curves[0].1 }],
        training: Points { x: &training.0, y: &training.1 },
        held_out: Points { x: &held_out.0, y: &held_out.1 },
        mark: None,
        frame: Frame {
            title: "Predicted counts",
            x: "hour",
            y: "bicycles hired",
            size: Some((1000, 800)),
            ..Frame::default()
        },
    }
    .save(&options.output)?;
    println!("figure in {}", options.output.display());
    Ok(())
}

fn targets(data: &Dataset) -> Result<&[f64]> {
    data.y.as_deref().ok_or_else(|| Error::Data("the data have no target".into()))
}

/// A fitted rate.
struct Fitted {
    scale: InputScale,
    model: Svgp,
    compute: Compute,
}

impl Fitted {
    /// Trains q(u) by natural gradients, and kernel, likelihood, mean and inducing inputs by Adam.
    fn new(data: &Dataset, mut likelihood: Box<dyn Likelihood>, options: &Options) -> Result<Self> {
        let (scale, d) = (InputScale::fit(&data.x, data.d)?, data.d);
        let rows = Observations::new(scale.apply(&data.x)?, d, targets(data)?.to_vec(), None)?;
        let level = likelihood.initialise(Targets { y: &rows.y, auxiliary: None });
        let mut kernel = Kernel::parse("matern32(ard)", d)?;
        kernel.set_units(&scale.sd, 1.0);
        initial::initialise(&mut kernel, &rows.x, d);
        let z = choose(Choice::Kmeans, &kernel, &rows.x, d, options.inducing, options.seed)?;
        let mut model = Svgp::boxed(kernel, &z, d, likelihood)?;
        let mut mean = Mean::named("constant", d)?;
        if let Mean::Constant(constant) = &mut mean {
            constant.set(&level)?;
        }
        model.processes[0].prior.mean = mean;
        let schedule = Schedule::Linear { final_fraction: 0.1 };
        let adam = Adam { rate: 0.03, schedule, ..Adam::default() };
        let config = TrainConfig::new(Optimizer::Adam(adam), options.steps).seed(options.seed);
        let batches = Minibatches { natural: Some(0.1), ..Minibatches::default() };
        let mut progress = Progress::new();
        let compute = options.device.compute(Precision::F64);
        let outcome = minibatch::fit(&mut model, compute, &rows, &batches, &config, &mut [&mut progress])?;
        println!("  {} after {} steps, {:.1} s", outcome.termination, outcome.iterations, outcome.seconds);
        println!("  likelihood                    {}", model.likelihood.text());
        println!("  kernel                        {}", model.processes[0].prior.kernel);
        Ok(Self { scale, model, compute })
    }

    fn predict(&self, x: &[f64]) -> Result<Vec<Prediction>> {
        let latent = self.model.posterior(self.compute)?.predict(&self.scale.apply(x)?)?;
        let pairs = latent.mean.iter().zip(&latent.variance);
        pairs.map(|(mean, variance)| self.model.likelihood.predict(&[*mean], &[*variance], None)).collect()
    }
}

/// Prints how well counts were predicted and returns Pearson's dispersion.
fn report(y: &[f64], predictions: &[Prediction], seed: u64) -> Result<f64> {
    let mean: Vec<f64> = predictions.iter().map(Prediction::mean).collect();
    let variance: Vec<f64> = predictions.iter().map(Prediction::variance).collect();
    let n = y.len() as f64;
    let average =
        |f: &dyn Fn(f64, &Prediction) -> f64| y.iter().zip(predictions).map(|(y, p)| f(*y, p)).sum::<f64>() / n;
    let squares: f64 = y.iter().zip(&mean).map(|(y, mean)| (y - mean).powi(2)).sum();
    let dispersion = pearson_dispersion(y, &mean, &variance)?;
    println!("  NLPD                          {:.4}", average(&|y, p| -p.log_density(y)));
    println!("  RMSE                          {:.1}", (squares / n).sqrt());
    println!("  Poisson deviance              {:.3}", poisson_deviance(y, &mean)?);
    println!("  Pearson dispersion            {dispersion:.2} (1: as predicted)");
    let ends: Vec<(f64, f64)> = predictions.iter().map(|p| (p.quantile(0.05), p.quantile(0.95))).collect();
    let inside = y.iter().zip(&ends).filter(|(y, (low, high))| (*low..=*high).contains(*y)).count();
    let width = ends.iter().map(|(low, high)| high - low).sum::<f64>() / n;
    println!("  coverage of 90 % intervals    {:.1} %, mean width {width:.0}", 100.0 * inside as f64 / n);
    let pit = randomised_pit(y, seed, |i, y| predictions[i].cdf(y));
    if let Some((distance, p)) = kolmogorov_smirnov(&pit) {
        println!("  Kolmogorov–Smirnov distance   {distance:.3} of the randomised PIT from uniform, p = {p:.2}");
    }
    Ok(dispersion)
}

/// Means and intervals of counts, against the number of the row.
fn curve(predictions: &[Prediction]) -> Curve {
    let at = |p: f64| predictions.iter().map(|prediction| prediction.quantile(p)).collect();
    Curve {
        x: (0..predictions.len()).map(|hour| hour as f64).collect(),
        mean: predictions.iter().map(Prediction::mean).collect(),
        band95: [at(0.025), at(0.975)],
        band50: [at(0.25), at(0.75)],
    }
}
