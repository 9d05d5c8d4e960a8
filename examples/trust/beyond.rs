//! Error bars beyond and between the rows of data with little or no noise, as the model gives them and calibrated.

use std::path::PathBuf;

use cagey::Result;
use cagey::data::{Dataset, ReadOptions, Schema, Split, TargetKind, read_training};
use cagey::fitted::{Fitted, Registry, Settings};
use cagey::metrics::{Scores, score};
use cagey::train::TrainConfig;
use clap::Args;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

#[derive(Args)]
pub struct Beyond {
    /// Kernels
    #[arg(long, value_delimiter = ';', default_value = "rbf(ard);matern32(ard)")]
    kernels: Vec<String>,
    /// Draws of each case
    #[arg(long, default_value_t = 1)]
    draws: u64,
    /// Names of cases begin so
    #[arg(long, default_value = "")]
    only: String,
    /// Folder of tables (NAME.csv.gz, target last) whose rows at an end of a column are held out
    #[arg(long)]
    data: Option<PathBuf>,
    /// Tables
    #[arg(long, value_delimiter = ',', default_value = "autompg,concrete,energy,servo,stock,yacht,mcycle,power_plant")]
    sets: Vec<String>,
    /// Most rows of a table
    #[arg(long, default_value_t = 500)]
    rows: usize,
}

/// Training rows, and rows to predict.
struct Case {
    name: String,
    train: Dataset,
    test: Dataset,
}

fn case(
    name: &str,
    train: Vec<f64>,
    test: Vec<f64>,
    d: usize,
    f: impl Fn(&[f64]) -> f64,
    noise: f64,
    seed: u64,
) -> Result<Case> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut table = |x: Vec<f64>| {
        let mut error = || -> f64 {
            if noise > 0.0 { noise * Distribution::<f64>::sample(&StandardNormal, &mut rng) } else { 0.0 }
        };
        let y = x.chunks(d).map(|row| f(row) + error()).collect();
        Dataset::new((0..d).map(|column| format!("x{column}")), x)?.with_target("y", y)
    };
    Ok(Case { name: name.into(), train: table(train)?, test: table(test)? })
}

fn evenly(low: f64, high: f64, n: usize) -> Vec<f64> {
    (0..n).map(|i| low + (high - low) * i as f64 / (n - 1) as f64).collect()
}

fn generated(seed: u64) -> Result<Vec<Case>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1000 + seed);
    let mut uniform =
        |low: f64, high: f64, n: usize| -> Vec<f64> { (0..n).map(|_| rng.random_range(low..high)).collect() };
    let phase = 0.7 * seed as f64;
    type Line = (&'static str, fn(f64) -> f64);
    let lines: [Line; 4] = [
        ("sine", |x| (3.0 * x).sin()),
        ("bump", |x| (-2.0 * x * x).exp() + 0.3 * x),
        ("chirp", |x| (2.0 * x + 1.5 * x * x).cos()),
        ("rational", |x| 1.0 / (1.0 + 4.0 * x * x) + x * x),
    ];
    let mut cases = Vec::new();
    for (name, f) in lines {
        let f = |row: &[f64]| f(row[0] + 0.1 * phase.sin());
        let far: Vec<f64> = uniform(0.04, 1.0, 60).into_iter().flat_map(|by| [-1.0 - by, 1.0 + by]).collect();
        cases.push(case(&format!("{name}: 600 rows, beyond"), evenly(-1.0, 1.0, 600), far.clone(), 1, f, 0.0, seed)?);
        cases.push(case(
            &format!("{name}: 600 rows, between"),
            evenly(-1.0, 1.0, 600),
            uniform(-1.0, 1.0, 200),
            1,
            f,
            0.0,
            seed,
        )?);
        cases.push(case(&format!("{name}: 51 rows, noise .01, beyond"), evenly(-1.0, 1.0, 51), far, 1, f, 0.01, seed)?);
        cases.push(case(
            &format!("{name}: 51 rows, noise .01, between"),
            evenly(-1.0, 1.0, 51),
            uniform(-1.0, 1.0, 200),
            1,
            f,
            0.01,
            seed,
        )?);
    }
    type Surface = (&'static str, fn(&[f64]) -> f64);
    let surfaces: [Surface; 3] = [
        ("plane", |x| x[0] + x[1]),
        ("quadratic", |x| x[0] * x[0] + 0.5 * x[0] * x[1] - x[1]),
        ("waves", |x| (2.0 * x[0]).sin() + (3.0 * x[1]).cos()),
    ];
    for (name, f) in surfaces {
        let rows = uniform(-1.0, 1.0, 200);
        let far: Vec<f64> = uniform(-2.0, 2.0, 400);
        let far = far.chunks(2).filter(|row| row.iter().any(|x| x.abs() > 1.05)).flatten().copied().collect();
        cases.push(case(&format!("{name}: 100 rows, beyond"), rows, far, 2, f, 0.0, seed)?);
        for side in [8, 16, 28] {
            let axis = evenly(-1.0, 1.0, side);
            let grid = axis.iter().flat_map(|a| axis.iter().flat_map(move |b| [*a, *b])).collect();
            cases.push(case(
                &format!("{name}: {} rows, between", side * side),
                grid,
                uniform(-1.0, 1.0, 800),
                2,
                f,
                0.0,
                seed,
            )?);
        }
    }
    Ok(cases)
}

/// A table without the rows at the upper end of its most varied column, and these rows.
fn end_of(path: PathBuf, name: &str, rows: usize) -> Result<(Schema, Case)> {
    let options = ReadOptions { target_kind: TargetKind::Numbers, ..ReadOptions::default() };
    let (schema, mut data) = read_training(path, &options)?;
    if data.n > rows {
        data = data.subset(&Split::random(data.n, rows as f64 / data.n as f64, 0)?.test);
    }
    let distinct = |column: usize| {
        let mut values: Vec<u64> = (0..data.n).map(|row| data.row(row)[column].to_bits()).collect();
        values.sort_unstable();
        values.dedup();
        values.len()
    };
    let column = (0..data.d).max_by_key(|column| distinct(*column)).unwrap_or_default();
    let mut order: Vec<usize> = (0..data.n).collect();
    order.sort_by(|a, b| data.row(*a)[column].total_cmp(&data.row(*b)[column]));
    let (inside, end) = order.split_at(4 * data.n / 5);
    let name = format!("{name}: beyond in {}", data.feature_names[column]);
    Ok((schema, Case { name, train: data.subset(inside), test: data.subset(end) }))
}

impl Beyond {
    pub fn run(&self) -> Result<()> {
        println!("{:<38} {:<14} {:>34} {:>34}", "", "", "50, 95 %, NLPD, width as model says", "calibrated");
        for seed in 0..self.draws {
            for case in generated(seed)?.into_iter().filter(|case| case.name.starts_with(&self.only)) {
                self.one(&Schema::numeric(&case.train), &case)?;
            }
        }
        if let Some(folder) = &self.data {
            for set in &self.sets {
                let (schema, case) = end_of(folder.join(format!("{set}.csv.gz")), set, self.rows)?;
                self.one(&schema, &case)?;
            }
        }
        Ok(())
    }

    fn one(&self, schema: &Schema, case: &Case) -> Result<()> {
        for kernel in &self.kernels {
            let settings = Settings { kernel: kernel.clone(), ..Settings::default() };
            let config = TrainConfig::while_it_pays();
            let fitted = Fitted::fit(schema.clone(), &case.train, settings, &config, &Registry::default(), &mut [])?;
            let y = case.test.y.as_deref().unwrap_or_default();
            let of = |fitted: &Fitted| -> Result<Scores> { score(y, &fitted.predict(&case.test)?) };
            let shown = |s: &Scores| {
                format!(
                    "{:>5.1} {:>6.1} {:>10.3} {:>9.2e}",
                    100.0 * s.coverage_50,
                    100.0 * s.coverage_95,
                    s.nlpd,
                    s.width_95
                )
            };
            println!(
                "{:<38} {:<14} {:>34} {:>34}  evidence {:.2}",
                case.name,
                kernel,
                shown(&of(&fitted.uncalibrated())?),
                shown(&of(&fitted)?),
                -fitted.summary.loss
            );
        }
        Ok(())
    }
}
