//! Compares the default training with the data's own start, one lengthscale for all columns, and ten random restarts.
//! The data are tables and generated wide tables. Reports the training objective without priors, held-out negative log
//! density, coverage and time.
//!
//! `cargo run --release --example defaults -- --data FOLDER --sets yacht,energy,wide-60-120-0.5 --splits 3`
//!
//! `… --example defaults -- average --data FOLDER --sets autompg,concrete --sizes 40,150` compares averages over
//! kernels with the default kernel.
//!
//! The folder holds NAME.csv.gz, target last. `wide-N-D-NOISE` is generated: N training rows, D columns (six of them
//! matter), and noise NOISE.

mod average;
mod wide;

use std::path::PathBuf;

use cagey::Result;
use cagey::data::{Dataset, ReadOptions, Schema, Split, TargetKind, read_training};
use cagey::fitted::{Calibrate, Fitted, Registry, Settings};
use cagey::metrics::{score, score_classes};
use cagey::models::minibatch::Minibatches;
use cagey::models::race::Starts;
use cagey::models::svgp::SvgpOptions;
use cagey::models::variational::Covariance;
use cagey::train::Restarts;
use clap::{Parser, Subcommand, ValueEnum};

/// Compare ways to start a training.
#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    instead: Option<Instead>,
    /// Folder of the tables
    #[arg(long, default_value = ".")]
    data: PathBuf,
    /// Tables: names of files, or wide-N-D-NOISE
    #[arg(long, value_delimiter = ',', default_value = TABLES)]
    sets: Vec<String>,
    /// Ways to train
    #[arg(long, value_enum, value_delimiter = ',', default_value = "default,race,data,isotropic,restarts")]
    ways: Vec<Way>,
    /// Most rows of a table; the others are left out at random
    #[arg(long, default_value_t = 5000)]
    rows: usize,
    /// Random tenths held out
    #[arg(long, default_value_t = 3)]
    splits: u64,
    /// Likelihood, instead of the one that the target suggests
    #[arg(long)]
    likelihood: Option<String>,
    /// Whether intervals of normal predictions are calibrated
    #[arg(long, value_enum, default_value_t = Calibrate::No)]
    calibrate: Calibrate,
}

#[derive(Subcommand)]
enum Instead {
    Average(average::Averages),
}

const TABLES: &str =
    "autompg,concrete,energy,forest,servo,solar,stock,wine,yacht,diabetes,wine_quality_red,iris,wdbc,wine_cultivars";

/// Tables whose targets are classes.
const CLASSES: [&str; 10] = [
    "iris",
    "wdbc",
    "wine_cultivars",
    "banana",
    "moons",
    "digits",
    "eeg_eye_state",
    "pendigits",
    "letter",
    "credit_default",
];

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Way {
    /// As the library chooses
    Default,
    /// The same without a weak prior
    Race,
    /// From the data's own start, without a weak prior
    Data,
    /// The same with one lengthscale for all columns
    Isotropic,
    /// The same from ten points
    Restarts,
}

/// Results of a fit: objective without priors, held-out negative log density, coverage of 50 and 95 % intervals,
/// seconds.
type Row = [f64; 5];

fn main() -> Result<()> {
    cagey::memory::keep_freed();
    let options = Options::parse();
    cagey::threads::start(None)?;
    if let Some(Instead::Average(averages)) = &options.instead {
        return averages.run();
    }
    println!(
        "{:<24} {:<10} {:>9} {:>9} {:>6} {:>6} {:>8}",
        "", "", "objective", "test NLPD", "50 %", "95 %", "seconds"
    );
    for set in &options.sets {
        for way in &options.ways {
            let rows: Vec<Row> =
                (0..options.splits).map(|seed| run(&options, set, *way, seed)).collect::<Result<_>>()?;
            for (split, row) in rows.iter().enumerate().filter(|_| rows.len() > 1) {
                print(&format!("  {set}, split {split}"), *way, row);
            }
            let mean = |column: usize| rows.iter().map(|row| row[column]).sum::<f64>() / rows.len() as f64;
            print(set, *way, &[mean(0), mean(1), mean(2), mean(3), mean(4)]);
        }
    }
    Ok(())
}

fn print(name: &str, way: Way, [objective, nlpd, half, most, seconds]: &Row) {
    let way = format!("{way:?}").to_lowercase();
    println!("{name:<24} {way:<10} {objective:>9.4} {nlpd:>9.4} {half:>6.3} {most:>6.3} {seconds:>8.2}");
}

/// Training rows and held-out ones.
fn read(options: &Options, set: &str, seed: u64) -> Result<(Schema, Dataset, Dataset)> {
    if let Some(generated) = wide::generated(set, seed)? {
        return Ok(generated);
    }
    let path = options.data.join(format!("{set}.csv.gz"));
    let target_kind = if CLASSES.contains(&set) { TargetKind::Classes } else { TargetKind::default() };
    let (schema, mut data) = read_training(path, &ReadOptions { target_kind, ..ReadOptions::default() })?;
    if data.n > options.rows {
        data = data.subset(&Split::random(data.n, options.rows as f64 / data.n as f64, 0)?.test);
    }
    let split = Split::random(data.n, 0.1, seed)?;
    Ok((schema, data.subset(&split.train), data.subset(&split.test)))
}

fn run(options: &Options, set: &str, way: Way, seed: u64) -> Result<Row> {
    let (schema, train, test) = read(options, set, seed)?;
    let classes = schema.classes.as_ref().map(|classes| classes.len());
    let likelihood = match (&options.likelihood, classes) {
        (Some(likelihood), _) => likelihood.clone(),
        (None, None) => "gaussian".into(),
        (None, Some(2)) => "bernoulli".into(),
        (None, Some(_)) => "softmax".into(),
    };
    let mut settings = Settings { likelihood: likelihood.clone(), calibrate: options.calibrate, ..Settings::default() };
    if likelihood != "gaussian" {
        let batches = Minibatches { natural: Some(0.1), ..Minibatches::default() };
        settings.model = SvgpOptions::default().inducing(512).covariance(Covariance::Full).batches(batches).into();
    }
    settings.weak_prior = way == Way::Default;
    if !matches!(way, Way::Default | Way::Race) {
        settings.starts = Starts::Data;
    }
    if way == Way::Isotropic {
        settings.kernel = "matern32".into();
    }
    let registry = Registry::default();
    let mut config = registry.models.options(&settings.model)?.training(train.n);
    if way == Way::Restarts {
        config = config.restarts(Restarts::new(10, 1.0));
    }
    let fitted = Fitted::fit(schema, &train, settings, &config, &registry, &mut [])?;
    let priors: f64 = fitted.model.parameters().iter().filter_map(|(_, p)| Some(p.neg_log_prior()?.0)).sum();
    let objective = fitted.summary.loss - priors / train.n as f64;
    let y = test.y.as_deref().unwrap_or_default();
    let [nlpd, half, most] = if fitted.is_gaussian() {
        let scores = score(y, &fitted.predict(&test)?)?;
        [scores.nlpd, scores.coverage_50, scores.coverage_95]
    } else {
        let predictions = fitted.predict_targets(&test)?;
        let probabilities: Option<Vec<Vec<f64>>> = predictions.iter().map(|p| p.probabilities()).collect();
        match probabilities {
            Some(probabilities) => {
                let codes: Vec<usize> = y.iter().map(|y| *y as usize).collect();
                let scores = score_classes(&codes, &probabilities)?;
                [scores.log_loss, f64::NAN, f64::NAN]
            }
            None => {
                let scores = cagey::metrics::score_targets(y, &predictions, 0)?;
                [scores.nlpd, scores.coverage_50, scores.coverage_95]
            }
        }
    };
    Ok([objective, nlpd, half, most, fitted.summary.seconds])
}
