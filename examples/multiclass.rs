//! Handwritten digits: a variational GP with ten latent functions and a softmax likelihood.
//!
//! `cargo run --release --example multiclass [-- --output multiclass.png]`

use std::path::PathBuf;

use cagey::data::{Dataset, ReadOptions, Split, TargetKind, read_training};
use cagey::device::Precision;
use cagey::kernels::{Kernel, initial};
use cagey::likelihoods::{Likelihood, Softmax, Targets};
use cagey::metrics::{ReliabilityBin, confusion, reliability, score_classes};
use cagey::models::Observations;
use cagey::models::inducing::{Choice, choose};
use cagey::models::minibatch::{self, Minibatches};
use cagey::models::posterior::{Marginals, Posterior};
use cagey::models::svgp::Svgp;
use cagey::plot::{Figure, Frame, Reliability};
use cagey::train::{Adam, Optimizer, Progress, Schedule, TrainConfig};
use cagey::{Error, Result};
use clap::Parser;

use cagey_examples::Device;

/// Classify handwritten digits and draw how well the probabilities are calibrated.
#[derive(Parser)]
struct Options {
    /// Pixels and the class of each image
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv.gz"))]
    data: PathBuf,
    /// Where to draw the figure (.png or .svg)
    #[arg(long, default_value = "multiclass.png")]
    output: PathBuf,
    /// Inducing inputs, shared by the latent functions
    #[arg(long, default_value_t = 256)]
    inducing: usize,
    /// Steps of training
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// Rows of a minibatch
    #[arg(long, default_value_t = 512)]
    batch: usize,
    /// Share of images to test on
    #[arg(long, default_value_t = 0.2)]
    test: f64,
    /// Seed of the split, the inducing inputs and the minibatches
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    device: Device,
}

fn main() -> Result<()> {
    cagey::memory::keep_freed();
    let options = Options::parse();
    cagey::threads::start(None)?;
    let read = ReadOptions { target_kind: TargetKind::Classes, ..ReadOptions::default() };
    let (schema, data) = read_training(&options.data, &read)?;
    let labels: Vec<String> = schema.classes.iter().flat_map(|classes| classes.labels().to_vec()).collect();
    let split = Split::random(data.n, options.test, options.seed)?;
    let (train, test) = (data.subset(&split.train), data.subset(&split.test));
    println!("{} images to learn from, {} to test on; {} classes", train.n, test.n, labels.len());

    // Pixels have one unit: they are not standardised one by one, and they share a lengthscale.
    let rows = Observations::new(train.x.clone(), train.d, targets(&train)?.to_vec(), None)?;
    let model = fit(&rows, labels.len(), &options)?;
    let posterior = model.posterior(options.device.compute(Precision::F32))?;
    let latents: Vec<Marginals> = posterior.latents().iter().map(|f| f.predict(&test.x)).collect::<Result<_>>()?;
    let probabilities = (0..test.n)
        .map(|i| {
            let at = |of: fn(&Marginals) -> &Vec<f64>| latents.iter().map(|f| of(f)[i]).collect::<Vec<f64>>();
            let prediction = model.likelihood.predict(&at(|f| &f.mean), &at(|f| &f.variance), None)?;
            prediction.probabilities().ok_or_else(|| Error::Usage("the likelihood has no classes".into()))
        })
        .collect::<Result<Vec<Vec<f64>>>>()?;

    let truth: Vec<usize> = targets(&test)?.iter().map(|y| *y as usize).collect();
    let scores = score_classes(&truth, &probabilities)?;
    println!("accuracy  {:.2} %", 100.0 * scores.accuracy);
    println!("NLL       {:.4}", scores.log_loss);
    println!("Brier     {:.4}", scores.brier);
    println!("ECE       {:.4}", scores.ece);
    println!("true class and predicted class:");
    println!("{:>8} {}", "", labels.iter().map(|label| format!("{label:>5}")).collect::<String>());
    for (label, counts) in labels.iter().zip(confusion(&truth, &probabilities)?) {
        println!("{label:>8} {}", counts.iter().map(|count| format!("{count:>5}")).collect::<String>());
    }
    let frame = Frame { title: "Handwritten digits: confidence and accuracy", ..Frame::default() };
    let bins: Vec<_> = reliability(&truth, &probabilities)?.iter().map(ReliabilityBin::parts).collect();
    Reliability { bins: &bins, frame }.save(&options.output)?;
    println!("figure in {}", options.output.display());
    Ok(())
}

fn targets(data: &Dataset) -> Result<&[f64]> {
    data.y.as_deref().ok_or_else(|| Error::Data("the data have no target".into()))
}

/// Trains q(u) by natural gradients, and kernel and inducing inputs by Adam.
fn fit(rows: &Observations, classes: usize, options: &Options) -> Result<Svgp> {
    let likelihood = Softmax::new(classes);
    let targets = Targets { y: &rows.y, auxiliary: None };
    likelihood.warnings(targets).iter().for_each(|warning| println!("warning: {warning}"));
    let mut kernel = Kernel::parse("matern52", rows.d)?;
    initial::initialise(&mut kernel, &rows.x, rows.d);
    let z = choose(Choice::Kmeans, &kernel, &rows.x, rows.d, options.inducing, options.seed)?;
    let mut model = Svgp::new(kernel, &z, rows.d, likelihood)?;
    let schedule = Schedule::Linear { final_fraction: 0.1 };
    let adam = Adam { rate: 0.1, schedule, ..Adam::default() };
    let config = TrainConfig::new(Optimizer::Adam(adam), options.steps).seed(options.seed);
    let batches = Minibatches { size: options.batch, natural: Some(0.1), ..Minibatches::default() };
    let outcome = minibatch::fit(
        &mut model,
        options.device.compute(Precision::F32),
        rows,
        &batches,
        &config,
        &mut [&mut Progress::new()],
    )?;
    println!("{} after {} steps, {:.1} s", outcome.termination, outcome.iterations, outcome.seconds);
    println!("negative ELBO per image {:.4}; kernel {}", outcome.loss, model.processes[0].prior.kernel);
    Ok(model)
}
