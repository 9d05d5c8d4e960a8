//! Two classes in the plane: a variational GP with a Bernoulli likelihood and a computation-aware one. Draws the
//! decision boundary and the uncertainty of the latent function.
//!
//! `cargo run --release --example classification [-- --data banana.csv]`
//!
//! Two half moons come with the crate. The banana data (5,300 points) of Rätsch's IDA benchmarks, from KEEL or OpenML,
//! are a harder case: two columns of coordinates and one of labels, with any names.

use std::path::PathBuf;

use cagey::data::{Dataset, InputScale, ReadOptions, Split, TargetKind, read_training};
use cagey::device::Precision;
use cagey::kernels::{Kernel, initial};
use cagey::likelihoods::{Bernoulli, BernoulliLink, Likelihood, Targets};
use cagey::means::Mean;
use cagey::metrics::score_classes;
use cagey::models::cagp::IterativeCagp;
use cagey::models::inducing::{Choice, choose};
use cagey::models::minibatch::{self, Minibatches};
use cagey::models::posterior::{Marginals, Posterior};
use cagey::models::svgp::Svgp;
use cagey::models::{Observations, fit};
use cagey::plot::{Decision, Figure, Frame, Points};
use cagey::train::{Adam, Optimizer, Outcome, Progress, Schedule, TrainConfig};
use cagey::{Error, Result};
use clap::Parser;

use cagey_examples::Device;

/// Classify points in the plane and draw the decision boundary and its uncertainty.
#[derive(Parser)]
struct Options {
    /// Two coordinates and the label of each point
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/data/moons.csv.gz"))]
    data: PathBuf,
    /// Where to draw the figure (.png or .svg)
    #[arg(long, default_value = "classification.png")]
    output: PathBuf,
    /// Inducing inputs of the variational model
    #[arg(long, default_value_t = 64)]
    inducing: usize,
    /// Actions of the computation-aware model
    #[arg(long, default_value_t = 64)]
    actions: usize,
    /// The model that is drawn
    #[arg(long, value_enum, default_value_t = Kind::Variational)]
    draw: Kind,
    /// Steps of training
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// Share of points to test on
    #[arg(long, default_value_t = 0.1)]
    test: f64,
    /// Seed of the split, the inducing inputs and the minibatches
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

/// Most points in the figure: more would hide what is below them.
const DRAWN: usize = 1000;

fn main() -> Result<()> {
    let options = Options::parse();
    let read = ReadOptions { target_kind: TargetKind::Classes, ..ReadOptions::default() };
    let (schema, data) = read_training(&options.data, &read)?;
    let labels: Vec<String> = schema.classes.iter().flat_map(|classes| classes.labels().to_vec()).collect();
    let [first, second] = labels.as_slice() else {
        return Err(Error::Data(format!("this example takes two classes, not {}", labels.len())));
    };
    if data.d != 2 {
        return Err(Error::Data(format!("this example takes two coordinates, not {}", data.d)));
    }
    let split = Split::random(data.n, options.test, options.seed)?;
    let (train, test) = (data.subset(&split.train), data.subset(&split.test));
    println!("{} points to learn from, {} to test on; classes {first} and {second}", train.n, test.n);

    let scale = InputScale::fit(&train.x, 2)?;
    let rows = Observations::new(scale.apply(&train.x)?, 2, targets(&train).to_vec(), None)?;
    let likelihood = Bernoulli { link: BernoulliLink::Logit };
    likelihood
        .warnings(Targets { y: &rows.y, auxiliary: None })
        .iter()
        .for_each(|warning| println!("warning: {warning}"));
    let predict = |posterior: &dyn Posterior, x: &[f64]| -> Result<(Vec<f64>, Marginals)> {
        let latent = posterior.predict(&scale.apply(x)?)?;
        let one = |(mean, variance): (&f64, &f64)| Ok(likelihood.predict(&[*mean], &[*variance], None)?.mean());
        Ok((latent.mean.iter().zip(&latent.variance).map(one).collect::<Result<_>>()?, latent))
    };
    let mut drawn = None;
    for kind in [Kind::Variational, Kind::ComputationAware] {
        let posterior = match kind {
            Kind::Variational => variational(&rows, &scale, &options)?,
            Kind::ComputationAware => computation_aware(&rows, &scale, &options)?,
        };
        let (probability, _) = predict(&*posterior, &test.x)?;
        let probabilities: Vec<Vec<f64>> = probability.iter().map(|p| vec![1.0 - p, *p]).collect();
        let truth: Vec<usize> = targets(&test).iter().map(|y| *y as usize).collect();
        let scores = score_classes(&truth, &probabilities)?;
        println!("accuracy  {:.2} %", 100.0 * scores.accuracy);
        println!("log loss  {:.4}", scores.log_loss);
        println!("Brier     {:.4}", scores.brier);
        println!("ECE       {:.4}", scores.ece);
        println!("AUC       {}", scores.auc.map_or("–".into(), |auc| format!("{auc:.4}")));
        if kind == options.draw {
            drawn = Some(posterior);
        }
    }
    let Some(posterior) = drawn else { return Ok(()) };

    let axis = |column: usize| -> Vec<f64> {
        let values = data.x.iter().skip(column).step_by(2);
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
        (-15..=115).map(|i| low + (high - low) * f64::from(i) / 100.0).collect()
    };
    let (x, y) = (axis(0), axis(1));
    let grid: Vec<f64> = y.iter().flat_map(|y| x.iter().flat_map(move |x| [*x, *y])).collect();
    let (probability, latent) = predict(&*posterior, &grid)?;
    let sd: Vec<f64> = latent.variance.iter().map(|v| v.sqrt()).collect();
    let every = train.n.div_ceil(DRAWN);
    let of = |class: f64, column: usize| -> Vec<f64> {
        let own = targets(&train).iter().enumerate().step_by(every).filter(|(_, y)| **y == class);
        own.map(|(i, _)| train.row(i)[column]).collect()
    };
    let points = [[of(0.0, 0), of(0.0, 1)], [of(1.0, 0), of(1.0, 1)]];
    let classes = [
        (first.as_str(), Points { x: &points[0][0], y: &points[0][1] }),
        (second.as_str(), Points { x: &points[1][0], y: &points[1][1] }),
    ];
    let title = format!("{second} against {first}");
    let names = &data.feature_names;
    let frame = Frame { title: &title, x: &names[0], y: &names[1], ..Frame::default() };
    Decision { x: &x, y: &y, probability: &probability, sd: &sd, of: None, classes, frame }.save(&options.output)?;
    println!("figure in {}", options.output.display());
    Ok(())
}

fn targets(data: &Dataset) -> &[f64] {
    data.y.as_deref().unwrap_or_default()
}

/// The kernel and the level of the latent function where training starts.
fn start(rows: &Observations, scale: &InputScale) -> Result<(Kernel, Mean)> {
    let mut kernel = Kernel::parse("matern52(ard)", rows.d)?;
    kernel.set_units(&scale.sd, 1.0);
    initial::initialise(&mut kernel, &rows.x, rows.d);
    let level = Bernoulli { link: BernoulliLink::Logit }.initialise(Targets { y: &rows.y, auxiliary: None });
    let mut mean = Mean::named("constant", rows.d)?;
    if let Mean::Constant(constant) = &mut mean {
        constant.set(&level)?;
    }
    Ok((kernel, mean))
}

/// Trains q(u) by natural gradients, and kernel, mean and inducing inputs by Adam.
fn variational(rows: &Observations, scale: &InputScale, options: &Options) -> Result<Box<dyn Posterior>> {
    let (kernel, mean) = start(rows, scale)?;
    let z = choose(Choice::Kmeans, &kernel, &rows.x, rows.d, options.inducing, options.seed)?;
    let mut model = Svgp::new(kernel, &z, rows.d, Bernoulli { link: BernoulliLink::Logit })?;
    model.processes[0].prior.mean = mean;
    let schedule = Schedule::Linear { final_fraction: 0.1 };
    let adam = Adam { rate: 0.05, schedule, ..Adam::default() };
    let config = TrainConfig::new(Optimizer::Adam(adam), options.steps).seed(options.seed);
    let batches = Minibatches { natural: Some(0.2), ..Minibatches::default() };
    let outcome = minibatch::fit(
        &mut model,
        options.device.compute(Precision::F64),
        rows,
        &batches,
        &config,
        &mut [&mut Progress::new()],
    )?;
    told("variational", &outcome, &model.processes[0].prior.kernel);
    Ok(Box::new(model.posterior(options.device.compute(Precision::F64))?))
}

/// Trains kernel and mean by L-BFGS; every ten steps it chooses actions and sites again.
fn computation_aware(rows: &Observations, scale: &InputScale, options: &Options) -> Result<Box<dyn Posterior>> {
    let (kernel, mean) = start(rows, scale)?;
    let likelihood = Bernoulli { link: BernoulliLink::Logit };
    let mut model = IterativeCagp::newton(kernel, likelihood, options.actions.min(rows.n()));
    (model.priors[0].mean, model.refresh) = (mean, 10);
    let config = TrainConfig { steps: options.steps, seed: options.seed, ..TrainConfig::default() };
    let outcome =
        fit::fit(&mut model, options.device.compute(Precision::F64), rows, &config, &mut [&mut Progress::new()])?;
    told("computation-aware", &outcome, &model.priors[0].kernel);
    let (posterior, report) = model.posterior(options.device.compute(Precision::F64), rows.clone())?;
    println!("{report}");
    Ok(Box::new(posterior))
}

fn told(what: &str, outcome: &Outcome, kernel: &Kernel) {
    println!("{what}: {} after {} steps, {:.1} s", outcome.termination, outcome.iterations, outcome.seconds);
    println!("negative ELBO per point {:.4}; kernel {kernel}", outcome.loss);
}
