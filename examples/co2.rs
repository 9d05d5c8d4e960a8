//! The Mauna Loa CO₂ record: a trend, a season that changes slowly, and irregularities of a year or so. The model
//! learns them from the first 34 years and forecasts the next ten.
//!
//! `cargo run --release --example co2 [-- --output co2.png]`

use std::path::PathBuf;

use cagey::data::{Dataset, ReadOptions, Split, read_training};
use cagey::device::Precision;
use cagey::fitted::{Calibrate, Fitted, Registry, Settings};
use cagey::metrics::{Predictive, score};
use cagey::params::Prior;
use cagey::plot::{Component, Components, Curve, Figure, Frame, Points};
use cagey::train::{Progress, TrainConfig};
use cagey::{Error, Result};
use clap::Parser;

use cagey_examples::Device;

/// Fit the CO₂ record, forecast its last ten years, draw the components.
#[derive(Parser)]
struct Options {
    /// The record: decimal year and ppm
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/data/mauna_loa_co2.csv.gz"))]
    data: PathBuf,
    /// Where to draw the figure (.png or .svg)
    #[arg(long, default_value = "co2.png")]
    output: PathBuf,
    /// Where to save the model
    #[arg(long, default_value = "co2.cagey")]
    model: PathBuf,
    /// Years held out at the end
    #[arg(long, default_value_t = 10.0)]
    years: f64,
    #[command(flatten)]
    device: Device,
}

/// A smooth trend, a season of one year whose shape drifts over centuries, and irregularities of years (El Niño) and of
/// weeks (weather). The numbers are starting values, in years.
const KERNEL: &str = "matern52(50) + periodic(period=1, fix=period) * matern32(90) + rq(1.2) + matern12(0.1)";

const TITLES: [&str; 4] = ["trend", "season", "irregularities of years", "irregularities of weeks"];

/// Priors that separate years from weeks: without them the two irregularities could swap or merge.
const PRIORS: [(&str, Prior); 3] = [
    ("rq.lengthscale", Prior::LogNormal(0.2, 0.5)),
    ("rq.alpha", Prior::LogNormal(0.0, 1.0)),
    ("matern12.lengthscale", Prior::LogNormal(-2.5, 0.5)),
];

fn main() -> Result<()> {
    let options = Options::parse();
    let (schema, record) = read_training(&options.data, &ReadOptions::default())?;
    let last = record.x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let from = last - options.years;
    let mask: Vec<bool> = record.x.iter().map(|year| *year > from).collect();
    let split = Split::from_mask(&mask)?;
    let (train, test) = (record.subset(&split.train), record.subset(&split.test));
    println!("{} weeks to learn from, {} to forecast, from {from:.1} to {last:.1}", train.n, test.n);

    let compute = options.device.compute(Precision::F64);
    let priors = PRIORS.iter().map(|(name, prior)| (name.to_string(), (*prior).into())).collect();
    let settings = Settings { kernel: KERNEL.into(), priors, calibrate: Calibrate::No, compute, ..Settings::default() };
    let mut progress = Progress::new();
    let config = TrainConfig::default();
    let fitted = Fitted::fit(schema, &train, settings, &config, &Registry::default(), &mut [&mut progress])?;
    fitted.save(&options.model)?;
    println!(
        "{} after {} steps, {:.1} s",
        fitted.summary.termination, fitted.summary.iterations, fitted.summary.seconds
    );
    println!("{}", fitted.kernel());

    let scores = score(targets(&test)?, &fitted.predict(&test)?)?;
    println!("RMSE                  {:.3} ppm", scores.rmse);
    println!("NLPD                  {:.3}", scores.nlpd);
    println!("CRPS                  {:.3} ppm", scores.crps);
    println!("95 % coverage         {:.1} %", 100.0 * scores.coverage_95);
    println!("95 % interval, width  {:.2} ppm", scores.width_95);

    draw(&fitted, &train, &test, from, &options)?;
    println!("figure in {}, model in {}", options.output.display(), options.model.display());
    Ok(())
}

fn targets(data: &Dataset) -> Result<&[f64]> {
    data.y.as_deref().ok_or_else(|| Error::Data("the record has no target".into()))
}

fn draw(fitted: &Fitted, train: &Dataset, test: &Dataset, from: f64, options: &Options) -> Result<()> {
    let (first, last) = (train.x[0], test.x[test.n - 1]);
    let grid: Vec<f64> = (0..=1500).map(|i| first + (last - first) * f64::from(i) / 1500.0).collect();
    let standardised = fitted.input_scale.apply(&grid)?;
    let noise = fitted.noise().unwrap_or(0.0);
    let mut total = fitted.posterior().predict(&standardised)?;
    total.variance.iter_mut().for_each(|v| *v += noise);
    let total = fitted.in_user_units(&total);
    let mean: Vec<f64> = total.iter().map(Predictive::mean).collect();
    let sd: Vec<f64> = total.iter().map(Predictive::sd).collect();
    let total = Curve::gaussian(&grid, &mean, &sd);

    let scale = fitted.target_scale.sd;
    let parts = (0..TITLES.len())
        .map(|i| {
            let part = fitted.exact("components")?.predict_component(i, &standardised)?;
            let mean: Vec<f64> = part.mean.iter().map(|m| m * scale).collect();
            let sd: Vec<f64> = part.variance.iter().map(|v| v.sqrt() * scale).collect();
            Ok(Curve::gaussian(&grid, &mean, &sd))
        })
        .collect::<Result<Vec<Curve>>>()?;
    let parts: Vec<Component> = TITLES.iter().zip(&parts).map(|(title, curve)| Component { title, curve }).collect();
    Components {
        total: Component { title: "CO₂ at Mauna Loa", curve: &total },
        parts: &parts,
        training: Points { x: &train.x, y: targets(train)? },
        held_out: Points { x: &test.x, y: targets(test)? },
        mark: Some((from, "forecast")),
        frame: Frame { title: "", x: "year", y: "CO₂ (ppm)", ..Frame::default() },
    }
    .save(&options.output)
}
