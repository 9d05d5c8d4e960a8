//! Sparse within sparse GPs (Tran et al. 2021) against SVGP: there are many inducing inputs M, but each row uses only
//! the H nearest. Every combination of M and H is trained alike and scored on the same rows, as in Figure 3 of the
//! paper.
//!
//! `cargo run --release --example swsgp [-- --inducing 16,64,256 --neighbors 4,16,all]`
//!
//! Without `--data` the rows are those of a rough surface drawn here. With it, the folder holds NAME.csv.gz (target
//! last). If there are published splits, it also holds splits/NAME.csv.gz with 0/1 columns `split0`, `split1`, … With
//! `--mnist` the model separates odd from even digits in the four IDX files of that folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cagey::data::{Dataset, ReadOptions, Schema, Split, read_training};
use cagey::device::{Compute, DeviceKind, Precision};
use cagey::fitted::{Fitted, Registry, Settings};
use cagey::metrics::{Predictive, score, score_classes};
use cagey::models::minibatch::Minibatches;
use cagey::models::posterior::Marginals;
use cagey::models::svgp::SvgpOptions;
use cagey::models::swsgp::SwsgpOptions;
use cagey::models::variational::Covariance;
use cagey::plot::{Against, Figure, Frame, LearningCurve, Run};
use cagey::train::{Adam, Optimizer, Record, Schedule, TrainConfig};
use cagey::{Error, Result};
use clap::Parser;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

/// Train sparse-within-sparse and variational GPs alike and print a table of test scores.
#[derive(Parser)]
struct Options {
    /// Folder of the data sets [default: a generated surface]
    #[arg(long)]
    data: Option<PathBuf>,
    /// Name of the data set
    #[arg(long, default_value = "power_plant")]
    set: String,
    /// Classify the digits of MNIST as odd or even
    #[arg(long, requires = "data", conflicts_with = "within")]
    mnist: bool,
    /// Leave out rows with an input that is further from its median than this many median absolute deviations
    #[arg(long, requires = "data")]
    within: Option<f64>,
    /// Number of splits, from number 0 up
    #[arg(long, default_value_t = 1)]
    splits: u64,
    /// Inducing inputs M
    #[arg(long, value_delimiter = ',', default_value = "16,64,256")]
    inducing: Vec<usize>,
    /// Neighbours H of a row; `all` means SVGP
    #[arg(long, value_delimiter = ',', value_parser = neighbours, default_value = "4,16,all")]
    neighbors: Vec<Neighbours>,
    /// Give S a row for each inducing input instead of only one number
    #[arg(long)]
    full: bool,
    /// Weight of the divergence from the prior: 1 as published; `M/H` ties each inducing value to the prior about once
    #[arg(long, default_value_t = 1.0)]
    divergence: f64,
    /// Let all rows of a minibatch use the neighbours of each of them (SWSGP-U), and as many test rows at once; test
    /// rows of classes use all inducing inputs
    #[arg(long)]
    union: bool,
    /// `gaussian` or, for targets 0 and 1, `bernoulli`
    #[arg(long, default_value = "gaussian")]
    likelihood: String,
    /// Kernel, as `cagey fit` takes it
    #[arg(long, default_value = "matern52(ard)")]
    kernel: String,
    /// Learning rate of Adam
    #[arg(long, default_value_t = 1e-3)]
    rate: f64,
    /// Let the rate fall to a tenth during training
    #[arg(long)]
    falling: bool,
    /// Rows of a minibatch
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// Steps of a training
    #[arg(long, default_value_t = 10_000)]
    steps: usize,
    /// End a training after this many minutes
    #[arg(long)]
    minutes: Option<f64>,
    /// Where to draw the learning curves (.png or .svg)
    #[arg(long, default_value = "swsgp.png")]
    output: PathBuf,
}

/// How many neighbours a row has.
#[derive(Clone, Copy)]
enum Neighbours {
    Nearest(usize),
    All,
}

fn neighbours(text: &str) -> std::result::Result<Neighbours, String> {
    match text {
        "all" => Ok(Neighbours::All),
        number => number.parse().map(Neighbours::Nearest).map_err(|_| "give a number or `all`".into()),
    }
}

/// Test scores of one training.
struct Scored {
    /// RMSE, or the share of wrong classes.
    error: f64,
    nlpd: f64,
    milliseconds: f64,
}

fn main() -> Result<()> {
    cagey::memory::keep_freed();
    let options = Options::parse();
    cagey::threads::start(None)?;
    let cases: Vec<(Schema, Dataset, Dataset)> =
        (0..options.splits).map(|k| load(&options, k)).collect::<Result<_>>()?;
    if let Some((_, train, test)) = cases.first() {
        println!("{} training rows, {} test rows, {} inputs, {} splits", train.n, test.n, train.d, cases.len());
    }
    let wrong = if options.likelihood.starts_with("bernoulli") { "error" } else { "RMSE" };
    println!("{:<22} {wrong:>17} {:>17} {:>12}", "", "NLPD", "ms a step");
    let mut curves = Vec::new();
    for m in &options.inducing {
        for h in &options.neighbors {
            let name = match h {
                Neighbours::Nearest(h) if h > m => continue,
                Neighbours::Nearest(h) if options.union => format!("SWSGP-U-{m}M-{h}H"),
                Neighbours::Nearest(h) => format!("SWSGP-{m}M-{h}H"),
                Neighbours::All => format!("SVGP-{m}M"),
            };
            let mut scores = Vec::new();
            for (seed, (schema, train, test)) in cases.iter().enumerate() {
                let fitted = fit(&options, *m, *h, schema, train, seed as u64)?;
                scores.push(scored(&options, &fitted, test)?);
                if seed == 0 {
                    curves.push((name.clone(), curve(&fitted)));
                }
            }
            let column = |of: fn(&Scored) -> f64| spread(&scores.iter().map(of).collect::<Vec<_>>());
            let (error, nlpd) = (column(|s| s.error), column(|s| s.nlpd));
            println!("{name:<22} {error:>17} {nlpd:>17} {:>12}", column(|s| s.milliseconds));
        }
    }
    let runs: Vec<Run> = curves.iter().map(|(name, (loss, seconds))| Run { name, loss, seconds }).collect();
    let frame = Frame { title: "sparse within sparse", x: "", y: "objective per row", ..Frame::default() };
    LearningCurve { runs: &runs, against: Against::Seconds, frame, ..LearningCurve::default() }
        .save(&options.output)?;
    println!("figure in {}", options.output.display());
    Ok(())
}

/// Means of the noisy objective over intervals of the training, and the times at which these intervals ended.
fn curve(fitted: &Fitted) -> (Vec<f64>, Vec<f64>) {
    let records = &fitted.summary.history.records;
    let stretch = records.len().div_ceil(200).max(1);
    let mean = |part: &[Record]| part.iter().map(|r| r.loss).sum::<f64>() / part.len() as f64;
    records.chunks(stretch).map(|part| (mean(part), part[part.len() - 1].seconds)).unzip()
}

/// The mean, and for several numbers the standard deviation.
fn spread(values: &[f64]) -> String {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if values.len() == 1 {
        return format!("{mean:.4}");
    }
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    format!("{mean:.4} ± {:.4}", (squares / (n - 1.0)).sqrt())
}

fn fit(options: &Options, m: usize, h: Neighbours, schema: &Schema, train: &Dataset, seed: u64) -> Result<Fitted> {
    let batches = Minibatches { size: options.batch, ..Minibatches::default() };
    let model = match h {
        Neighbours::Nearest(neighbours) => {
            let covariance = if options.full { Covariance::Full } else { Covariance::Diagonal };
            let (divergence, union) = (options.divergence, options.union);
            SwsgpOptions { inducing: m, neighbours, divergence, union, covariance, batches, ..SwsgpOptions::default() }
                .into()
        }
        Neighbours::All => SvgpOptions { inducing: m, covariance: Covariance::Full, batches }.into(),
    };
    let settings = Settings {
        kernel: options.kernel.clone(),
        likelihood: options.likelihood.clone(),
        model,
        standardize: !options.mnist,
        compute: Compute { kind: DeviceKind::Flex, precision: Precision::F32 },
        ..Settings::default()
    };
    let schedule = if options.falling { Schedule::Linear { final_fraction: 0.1 } } else { Schedule::Constant };
    let adam = Adam { rate: options.rate, schedule, ..Adam::default() };
    let mut config = TrainConfig::new(Optimizer::Adam(adam), options.steps).seed(seed);
    let limit = options.minutes.map(|minutes| Duration::try_from_secs_f64(60.0 * minutes)).transpose();
    config.max_time = limit.map_err(|e| Error::Usage(format!("--minutes: {e}")))?;
    Fitted::fit(schema.clone(), train, settings, &config, &Registry::default(), &mut [])
}

/// Predicts as many rows at a time as a minibatch has, with the union of their neighbours.
fn jointly(fitted: &Fitted, test: &Dataset, batch: usize) -> Result<Vec<Predictive>> {
    let (x, _) = fitted.standardise(test)?;
    let mut all = Marginals::default();
    for rows in x.chunks(batch * test.d) {
        let joint = fitted.posterior().predict_joint(rows)?;
        let variances = joint.covariance.iter().step_by(joint.mean.len() + 1);
        all.variance.extend(variances.map(|variance| variance + fitted.noise().unwrap_or(0.0)));
        all.mean.extend(joint.mean);
    }
    Ok(fitted.in_user_units(&all))
}

fn scored(options: &Options, fitted: &Fitted, test: &Dataset) -> Result<Scored> {
    let y = test.y.as_deref().ok_or_else(|| Error::Data("the test rows have no target".into()))?;
    let milliseconds = 1e3 * fitted.summary.seconds / fitted.summary.iterations.max(1) as f64;
    if fitted.is_gaussian() {
        let predictions = if options.union { jointly(fitted, test, options.batch)? } else { fitted.predict(test)? };
        let scores = score(y, &predictions)?;
        return Ok(Scored { error: scores.rmse, nlpd: scores.nlpd, milliseconds });
    }
    let predictions = fitted.predict_targets(test)?;
    let probabilities: Option<Vec<_>> = predictions.iter().map(|p| p.probabilities()).collect();
    let Some(probabilities) = probabilities else {
        return Err(Error::Usage("choose the gaussian or the bernoulli likelihood".into()));
    };
    let codes: Vec<usize> = y.iter().map(|y| *y as usize).collect();
    let scores = score_classes(&codes, &probabilities)?;
    Ok(Scored { error: 1.0 - scores.accuracy, nlpd: scores.log_loss, milliseconds })
}

/// Training and test rows of a split.
fn load(options: &Options, split: u64) -> Result<(Schema, Dataset, Dataset)> {
    let Some(folder) = &options.data else {
        let folder = tempfile::tempdir().map_err(|e| Error::io("a temporary folder", &e))?;
        let path = folder.path().join("surface.csv");
        std::fs::write(&path, surface(4000)).map_err(|e| Error::io(&path, &e))?;
        let (schema, data) = read_training(&path, &ReadOptions::default())?;
        return Ok(divided(schema, &data, &Split::random(data.n, 0.1, split)?));
    };
    if options.mnist {
        let (schema, train) = odd(folder, "train")?;
        let (_, test) = odd(folder, "test")?;
        return Ok((schema, train, test));
    }
    let set = &options.set;
    let (schema, data) = read_training(folder.join(format!("{set}.csv.gz")), &ReadOptions::default())?;
    let masks = folder.join("splits").join(format!("{set}.csv.gz"));
    let mut split = if masks.exists() {
        Split::from_mask_file(masks, Some(&format!("split{split}")), &data)?
    } else {
        Split::random(data.n, 0.1, split)?
    };
    if let Some(most) = options.within {
        let near = near(&data, most);
        split.train.retain(|row| near.binary_search(row).is_ok());
        split.test.retain(|row| near.binary_search(row).is_ok());
    }
    Ok(divided(schema, &data, &split))
}

/// The rows whose inputs are all within `most` median absolute deviations of their medians. Inputs without deviation
/// do not count.
fn near(data: &Dataset, most: f64) -> Vec<usize> {
    let median = |mut values: Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let column = |j: usize| data.x[j..].iter().step_by(data.d);
    let bounds: Vec<(f64, f64)> = (0..data.d)
        .map(|j| {
            let middle = median(column(j).copied().collect());
            let deviation = median(column(j).map(|x| (x - middle).abs()).collect());
            (middle, if deviation > 0.0 { most * deviation } else { f64::INFINITY })
        })
        .collect();
    let inside = |row: &[f64]| row.iter().zip(&bounds).all(|(x, (middle, reach))| (x - middle).abs() <= *reach);
    (0..data.n).filter(|&i| inside(data.row(i))).collect()
}

fn divided(schema: Schema, data: &Dataset, split: &Split) -> (Schema, Dataset, Dataset) {
    (schema, data.subset(&split.train), data.subset(&split.test))
}

/// Images with pixels in 0..1, and whether their digits are odd.
fn odd(folder: &Path, part: &str) -> Result<(Schema, Dataset)> {
    let images = folder.join(format!("mnist_{part}_images.idx3.gz"));
    let (schema, mut data) = read_training(images, &ReadOptions::default())?;
    data.x.iter_mut().for_each(|pixel| *pixel /= 255.0);
    data.y.iter_mut().flatten().for_each(|digit| *digit %= 2.0);
    Ok((schema, data))
}

/// A surface with detail on every scale down to a twentieth of its width, as a table.
fn surface(rows: usize) -> String {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(0);
    let waves: Vec<[f64; 4]> = (0..60)
        .map(|k| {
            let frequency = 2.0 + 0.6 * f64::from(k);
            let angle = rng.random_range(0.0..std::f64::consts::TAU);
            let phase = rng.random_range(0.0..std::f64::consts::TAU);
            [frequency * angle.cos(), frequency * angle.sin(), phase, 2.0 / frequency]
        })
        .collect();
    let mut text = String::from("a,b,y\n");
    for _ in 0..rows {
        let (a, b) = (rng.random_range(0.0..1.0), rng.random_range(0.0..1.0));
        let height: f64 = waves.iter().map(|[u, v, phase, size]| size * (u * a + v * b + phase).sin()).sum();
        let noise = 0.1 * Distribution::<f64>::sample(&StandardNormal, &mut rng);
        text += &format!("{a},{b},{}\n", height + noise);
    }
    text
}
