//! Rows left out in closed form, and left out of the training too, beside trainings without each row.

use std::path::PathBuf;

use cagey::Result;
use cagey::data::{ReadOptions, Split, TargetKind, read_training};
use cagey::fitted::{Calibrate, Fitted, Registry, Settings};
use cagey::models::Observations;
use cagey::models::gp_model::Training;
use cagey::models::minibatch::Rows;
use cagey::models::posterior::Marginals;
use cagey::models::race::Starts;
use cagey::train::TrainConfig;
use clap::Args;

#[derive(Args)]
pub struct LeftOut {
    /// Folder of the tables
    #[arg(long, default_value = ".")]
    data: PathBuf,
    /// Tables (NAME.csv.gz or NAME.csv, target last)
    #[arg(long, value_delimiter = ',', default_value = "concrete,autompg,yacht,servo,energy")]
    sets: Vec<String>,
    /// Rows, chosen at random
    #[arg(long, default_value_t = 100)]
    rows: usize,
    /// Seed of the choice
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Kernel
    #[arg(long, default_value = "matern32(ard)")]
    kernel: String,
    /// Without trainings on all rows but one
    #[arg(long)]
    quick: bool,
}

impl LeftOut {
    pub fn run(&self) -> Result<()> {
        println!("{:<16} {:>4} {:>4}  {:>22}  RMSE, NLPD, rms z; standardised", "", "rows", "par.", "");
        for set in &self.sets {
            if let Err(error) = self.one(set) {
                println!("{set:<16} {error}");
            }
        }
        Ok(())
    }

    fn one(&self, set: &str) -> Result<()> {
        let options = ReadOptions { target_kind: TargetKind::Numbers, ..ReadOptions::default() };
        let packed = self.data.join(format!("{set}.csv.gz"));
        let path = if packed.exists() { packed } else { self.data.join(format!("{set}.csv")) };
        let (schema, mut data) = read_training(path, &options)?;
        if data.n > self.rows {
            data = data.subset(&Split::random(data.n, self.rows as f64 / data.n as f64, self.seed)?.test);
        }
        let settings = Settings {
            kernel: self.kernel.clone(),
            calibrate: Calibrate::No,
            weak_prior: false,
            starts: Starts::Data,
            ..Settings::default()
        };
        let config = TrainConfig::default();
        let fitted = Fitted::fit(schema, &data, settings, &config, &Registry::default(), &mut [])?;
        let rows = fitted.data();
        let Some(closed) = fitted.posterior().leave_one_out() else { return Ok(()) };
        let none = closed.left_out(rows)?;
        let began = std::time::Instant::now();
        let influence = closed.influence()?.cloned().unwrap_or_default();
        let seconds = began.elapsed().as_secs_f64();
        let moved = influence.applied(&none);
        let head = format!("{set:<16} {:>4} {:>4}", rows.n(), fitted.model.free_raw().len());
        println!("{head}  {:>22}  {}", "parameters as trained", scores(&rows.y, &none));
        let said = influence.unknown.unwrap_or_default();
        println!(
            "{head}  {:>22}  {}  {seconds:.2} s of {:.2} s {said}",
            "first order",
            scores(&rows.y, &moved),
            fitted.summary.seconds
        );
        if !self.quick {
            println!("{head}  {:>22}  {}", "trained without", scores(&rows.y, &refits(&fitted, rows)?));
        }
        Ok(())
    }
}

fn scores(y: &[f64], left: &Marginals) -> String {
    let n = y.len() as f64;
    let of = |f: &dyn Fn(f64, f64) -> f64| {
        y.iter().zip(&left.mean).zip(&left.variance).map(|((y, mean), variance)| f(y - mean, *variance)).sum::<f64>()
            / n
    };
    let nlpd = of(&|error, variance| 0.5 * (std::f64::consts::TAU * variance).ln() + 0.5 * error * error / variance);
    let (rmse, z) = (of(&|error, _| error * error).sqrt(), of(&|error, variance| error * error / variance).sqrt());
    format!("{rmse:.3}  {nlpd:>6.3}  {z:.2}")
}

/// Predictions of each row by a training on all others, from the parameters of the training on all rows.
fn refits(fitted: &Fitted, rows: &Observations) -> Result<Marginals> {
    let (compute, mut all) = (fitted.settings.compute, Marginals::default());
    for row in 0..rows.n() {
        let others = rows.gather(&(0..rows.n()).filter(|other| *other != row).collect::<Vec<_>>())?;
        let mut model = fitted.model.clone();
        let config = TrainConfig::default();
        let training = Training { compute, data: &others, rows: &others, batches: None, config: &config, spread: None };
        model.train(training, &mut [])?;
        let noise = model.likelihood().noise().unwrap_or_default();
        let found = model.condition(compute, others)?.predict(&rows.x[row * rows.d..][..rows.d])?;
        all.mean.push(found.mean[0]);
        all.variance.push(found.variance[0] + noise);
    }
    Ok(all)
}
