//! Held-out scores, as the model gives them and calibrated.

use std::path::PathBuf;

use cagey::Result;
use cagey::data::{ReadOptions, Split, TargetKind, read_training};
use cagey::fitted::{Calibrate, Fitted, Registry, Settings};
use cagey::metrics::{Scores, score};
use cagey::models::options::ModelChoice;
use cagey::train::TrainConfig;
use clap::Args;

#[derive(Args)]
pub struct Calibrated {
    /// Folder of the tables
    #[arg(long, default_value = ".")]
    data: PathBuf,
    /// Tables
    #[arg(long, value_delimiter = ',', default_value = TABLES)]
    sets: Vec<String>,
    /// Most rows of a table; the others are left out at random
    #[arg(long, default_value_t = 5000)]
    rows: usize,
    /// Random fifths held out
    #[arg(long, default_value_t = 1)]
    splits: u64,
    /// Model with its options as JSON, such as {"sgpr":{"inducing":200}}; exact by default
    #[arg(long)]
    model: Option<String>,
}

const TABLES: &str = "autompg,concrete,energy,forest,servo,solar,stock,wine,yacht,diabetes,wine_quality_red,mcycle,\
                      parkinsons,skillcraft,sml,gas,kin8nm,pumadyn32nm,power_plant,pol,bike,naval,protein,\
                      cal_housing,diamonds,kin40k,nyc_flights,vic_elec,keggundirected";

impl Calibrated {
    pub fn run(&self) -> Result<()> {
        println!(
            "{:<17} {:>5}  {:<27} {:<27} {:>8} {:>8} {:>7} {:>7}",
            "", "rows", "50, 80, 95 % as model says", "50, 80, 95 % calibrated", "NLPD", "calib.", "CRPS %", "width %"
        );
        for set in &self.sets {
            for seed in 0..self.splits {
                if let Err(error) = self.one(set, seed) {
                    println!("{set:<17} {error}");
                }
            }
        }
        Ok(())
    }

    fn one(&self, set: &str, seed: u64) -> Result<()> {
        let path = self.data.join(format!("{set}.csv.gz"));
        let options =
            ReadOptions { target_kind: TargetKind::Numbers, dates: true, one_hot: true, ..ReadOptions::default() };
        let (schema, mut data) = read_training(path, &options)?;
        if data.n > self.rows {
            data = data.subset(&Split::random(data.n, self.rows as f64 / data.n as f64, 0)?.test);
        }
        let split = Split::random(data.n, 0.2, seed)?;
        let (train, test) = (data.subset(&split.train), data.subset(&split.test));
        let mut settings = Settings { calibrate: Calibrate::No, ..Settings::default() };
        if let Some(model) = &self.model {
            settings.model =
                serde_json::from_str::<ModelChoice>(model).map_err(|e| cagey::Error::Usage(e.to_string()))?;
        }
        let plain =
            Fitted::fit(schema, &train, settings, &TrainConfig::while_it_pays(), &Registry::default(), &mut [])?;
        let calibrated = plain.calibrated_by_leaving_out()?;
        let y = test.y.as_deref().unwrap_or_default();
        let [before, after] = [score(y, &plain.predict(&test)?)?, score(y, &calibrated.predict(&test)?)?];
        let shares = |s: &Scores| {
            let shown = |share: f64, level: f64| {
                let off = (share - level) / (level * (1.0 - level) / s.n as f64).sqrt();
                format!("{:.1}{}", 100.0 * share, if off.abs() > 2.0 { "*" } else { "" })
            };
            format!(
                "{:>7} {:>7} {:>7}",
                shown(s.coverage_50, 0.5),
                shown(s.coverage_80, 0.8),
                shown(s.coverage_95, 0.95)
            )
        };
        let shape = calibrated.calibration.map(|c| c.shape);
        println!(
            "{set:<17} {:>5}  {:<27} {:<27} {:>8.4} {:>8.4} {:>7.2} {:>7.1}  {}",
            train.n,
            shares(&before),
            shares(&after),
            before.nlpd,
            after.nlpd,
            100.0 * (after.crps / before.crps - 1.0),
            100.0 * (after.width_50 / before.width_50 - 1.0),
            shape.map_or(String::new(), |shape| {
                let [part, wide] = shape.parts;
                let df = part.df.unwrap_or(f64::INFINITY);
                format!("df {df:.1} scale {:.3}, {:.3} for {:.3}", part.scale, wide.scale, shape.share)
            }),
        );
        Ok(())
    }
}
