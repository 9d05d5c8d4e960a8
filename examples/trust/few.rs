//! Error bars of few rows, as the model gives them and by default.

use std::path::PathBuf;

use cagey::Result;
use cagey::data::{ReadOptions, Split, TargetKind, TargetTransform, read_training};
use cagey::fitted::{Fitted, Registry, Settings};
use cagey::metrics::score;
use cagey::train::TrainConfig;
use clap::Args;

#[derive(Args)]
pub struct Few {
    /// Folder of the tables
    #[arg(long, default_value = ".")]
    data: PathBuf,
    /// Tables (NAME.csv.gz, target last)
    #[arg(long, value_delimiter = ',', default_value = TABLES)]
    sets: Vec<String>,
    /// Numbers of training rows
    #[arg(long, value_delimiter = ',', default_value = "3,6,10,20,40")]
    rows: Vec<usize>,
    /// Random choices of these rows
    #[arg(long, default_value_t = 3)]
    draws: u64,
    /// Model the logarithm of positive targets
    #[arg(long)]
    log: bool,
}

const TABLES: &str = "autompg,concrete,energy,forest,servo,solar,stock,wine,yacht,diabetes,wine_quality_red,mcycle,\
                      skillcraft,kin8nm,power_plant,cal_housing,diamonds,nyc_flights,vic_elec,sunspots_yearly";

/// Coverage of 50 and 95 % intervals, and NLPD.
type Row = [f64; 3];

impl Few {
    pub fn run(&self) -> Result<()> {
        println!("{:>5} {:>6} {:>30} {:>30}  better  worst", "rows", "tables", "50, 95 %, NLPD: normal", "by default");
        for rows in &self.rows {
            let mut all: Vec<[Row; 2]> = Vec::new();
            for set in &self.sets {
                let draws = (0..self.draws).filter_map(|seed| self.one(set, *rows, seed).transpose());
                let draws = draws.collect::<Result<Vec<[Row; 2]>>>()?;
                if !draws.is_empty() {
                    let mean = |way: usize, k: usize| draws.iter().map(|d| d[way][k]).sum::<f64>() / draws.len() as f64;
                    all.push([0, 1].map(|way| [0, 1, 2].map(|k| mean(way, k))));
                }
            }
            let median = |way: usize, k: usize| {
                let mut values: Vec<f64> = all.iter().map(|table| table[way][k]).collect();
                values.sort_by(f64::total_cmp);
                values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
            };
            let shown = |way| format!("{:>8.1} {:>8.1} {:>10.3}", median(way, 0), median(way, 1), median(way, 2));
            let gains: Vec<f64> = all.iter().map(|[before, after]| before[2] - after[2]).collect();
            let better = gains.iter().filter(|gain| **gain > 0.0).count();
            let worst = gains.iter().copied().fold(0.0, f64::min);
            println!("{rows:>5} {:>6} {:>30} {:>30} {better:>7} {worst:>6.3}", all.len(), shown(0), shown(1));
        }
        Ok(())
    }

    fn one(&self, set: &str, rows: usize, seed: u64) -> Result<Option<[Row; 2]>> {
        let options = ReadOptions { target_kind: TargetKind::Numbers, ..ReadOptions::default() };
        let (schema, data) = read_training(self.data.join(format!("{set}.csv.gz")), &options)?;
        if self.log && data.y.iter().flatten().any(|y| *y <= 0.0) {
            return Ok(None);
        }
        let Split { test: chosen, train: others } = Split::random(data.n, rows as f64 / data.n as f64, seed)?;
        let others: Vec<usize> = others.iter().step_by(others.len().div_ceil(500)).copied().collect();
        let (train, test) = (data.subset(&chosen), data.subset(&others));
        let target_transform = if self.log { TargetTransform::Log } else { TargetTransform::Identity };
        let settings = Settings { target_transform, ..Settings::default() };
        let config = TrainConfig::while_it_pays();
        let fitted = Fitted::fit(schema, &train, settings, &config, &Registry::default(), &mut [])?;
        let y = test.y.as_deref().unwrap_or_default();
        let mean = y.iter().sum::<f64>() / y.len() as f64;
        let sd = (y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / y.len() as f64).sqrt();
        let of = |fitted: &Fitted| -> Result<Row> {
            let scores = score(y, &fitted.predict(&test)?)?;
            Ok([100.0 * scores.coverage_50, 100.0 * scores.coverage_95, scores.nlpd - sd.ln()])
        };
        Ok(Some([of(&fitted.uncalibrated())?, of(&fitted)?]))
    }
}
