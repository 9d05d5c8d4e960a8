//! How often intervals are said to hold: in forecasts, in tables where they fail, and in well-behaved tables.

use std::f64::consts::TAU;

use cagey::Result;
use cagey::data::{Dataset, Schema, Split};
use cagey::fitted::{Fitted, Registry, Settings};
use cagey::metrics::diagnosis::Verdict;
use cagey::metrics::score;
use cagey::train::TrainConfig;
use clap::ValueEnum;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

/// Generated tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Tables {
    /// Series with a trend, a season, steps or a random walk, positive or not; the last fifth is held out
    Forecasts,
    /// Tables whose 50 % intervals are too narrow by a factor of three or more
    Failing,
    /// Smooth functions of one to six columns with normal errors, 100 rows or more held out
    Well,
}

/// What was said of a table, and what is so.
pub struct Seen {
    pub verdict: Verdict,
    /// Whether the rows left out in turn led to the words "they hold".
    pub left_out: Option<Verdict>,
    /// The share in 50 % intervals of held-out rows.
    pub half: f64,
    pub r2: f64,
    /// Whether it was said that predictions are worse than the mean.
    pub below: bool,
}

/// Fits the default model to a table and looks at its held-out rows.
pub fn verdict(tables: Tables, seed: u64) -> Result<Seen> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (data, settings) = match tables {
        Tables::Forecasts => (series(&mut rng)?, Settings::default()),
        _ => table(tables, &mut rng)?,
    };
    let split = match tables {
        Tables::Forecasts => Split::last(data.n, 0.2)?,
        _ => Split::random(data.n, 0.4, seed)?,
    };
    let (train, test) = (data.subset(&split.train), data.subset(&split.test));
    let schema = Schema::numeric(&data);
    let fitted = Fitted::fit(schema, &train, settings, &TrainConfig::default(), &Registry::default(), &mut [])?;
    let y = test.y.as_deref().unwrap_or_default();
    let predictions = fitted.predict(&test)?;
    let found = fitted.diagnose(&test, y, &predictions)?;
    let left = fitted.left_out()?.map(|left| fitted.diagnose_left_out(&left)).transpose()?;
    let scores = score(y, &predictions)?;
    let below = found.findings.iter().any(|f| matches!(f, cagey::metrics::diagnosis::Finding::BelowMean { .. }));
    let r2 = scores.r2.unwrap_or(0.0);
    Ok(Seen { verdict: found.verdict, left_out: left.map(|left| left.verdict), half: scores.coverage_50, r2, below })
}

fn series(rng: &mut Xoshiro256PlusPlus) -> Result<Dataset> {
    let n = rng.random_range(60..300);
    let normal = |rng: &mut Xoshiro256PlusPlus| -> f64 { StandardNormal.sample(rng) };
    let (slope, bend, season) = (2.0 * normal(rng), 2.0 * normal(rng), rng.random_range(0.0..2.0));
    let (period, noise) = (rng.random_range(6.0..30.0), rng.random_range(0.02..0.5));
    let (walk, growth) = (rng.random_range(0.0..0.3), rng.random_range(0..3) == 0);
    let mut level = 0.0;
    let value = |i: usize, level: f64, error: f64| {
        let t = i as f64 / n as f64;
        let f = slope * t + bend * t * t + season * (TAU * i as f64 / period).sin() + level + noise * error;
        if growth { (0.5 * f).exp() } else { f }
    };
    let y = (0..n)
        .map(|i| {
            level += walk * normal(rng);
            value(i, level, normal(rng))
        })
        .collect();
    Dataset::new(["time"], (0..n).map(|i| i as f64).collect())?.with_target("y", y)
}

fn table(tables: Tables, rng: &mut Xoshiro256PlusPlus) -> Result<(Dataset, Settings)> {
    let well = tables == Tables::Well;
    let n = if well { rng.random_range(250..500) } else { rng.random_range(60..400) };
    let d = rng.random_range(1..7_usize);
    let noise = rng.random_range(0.05..0.6);
    let weights: Vec<f64> = (0..d).map(|_| rng.random_range(0.5..2.5)).collect();
    let phase: f64 = rng.random_range(0.0..6.0);
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let row: Vec<f64> = (0..d).map(|_| rng.random_range(0.0..1.0)).collect();
        let sum: f64 = row.iter().zip(&weights).map(|(x, w)| x * w).sum();
        let error: f64 = StandardNormal.sample(rng);
        y.push((2.0 * sum + phase).sin() + row[0] * row[d - 1] + noise * error);
        x.extend(row);
    }
    let names: Vec<String> = (0..d).map(|at| format!("x{at}")).collect();
    let data = Dataset::new(names, x)?.with_target("y", y)?;
    let settings = match well {
        true => Settings::default(),
        // A noise that is said to be known and is far too small, and a function too smooth to follow the errors.
        false => Settings {
            calibrate: cagey::fitted::Calibrate::No,
            init: vec![
                ("noise".into(), vec![(noise / rng.random_range(5.0..12.0)).powi(2)]),
                ("lengthscale".into(), vec![rng.random_range(20.0..60.0)]),
                ("variance".into(), vec![1.0]),
            ],
            fix: ["noise", "lengthscale", "variance"].map(String::from).to_vec(),
            ..Settings::default()
        },
    };
    Ok((data, settings))
}
