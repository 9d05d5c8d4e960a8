//! Generated data with known faults, and whether the library reports these faults.

use cagey::Result;
use cagey::data::{Dataset, Schema, Split};
use cagey::fitted::{Calibrate, Fitted, Registry, Settings};
use cagey::metrics::diagnosis::{Diagnosis, Finding, Remedy};
use cagey::models::race::Starts;
use cagey::train::TrainConfig;
use clap::ValueEnum;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal, StudentT};

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Kind {
    /// Normal errors of one size
    Well,
    /// The same with little noise
    WellPrecise,
    /// The same errors, in a series with its last fifth held out
    WellForecast,
    /// Student-t errors with three degrees of freedom
    Heavy,
    /// One error in twenty is eight times as large
    Outliers,
    /// The size of errors grows tenfold along an input
    VariesByInput,
    /// Errors in proportion to the target
    VariesByMean,
    /// A slow change along the rows that no input shows
    Drift,
    /// A trend with a season along one input, among other inputs
    Season,
    /// A trend with a season along one input, with its last fifth held out
    Trend,
    /// A third of the rows are copies of others
    Copies,
}

/// Whether the right remedy is named, and whether nothing is reported: for held-out rows, then for leave-one-out.
pub fn look(kind: Kind, rows: usize, seed: u64) -> Result<[bool; 4]> {
    let data = generated(kind, rows, seed)?;
    let split = kind.split(rows, seed)?;
    let (train, test) = (data.subset(&split.train), data.subset(&split.test));
    let settings = plain();
    let schema = Schema::numeric(&data);
    let fitted = Fitted::fit(schema, &train, settings, &TrainConfig::default(), &Registry::default(), &mut [])?;
    if kind == Kind::Copies {
        let copies = fitted.copies(&test)?.unwrap_or_default();
        let told = 2 * copies.whole.len() >= copies.inputs.len() && 20 * copies.whole.len() >= test.n;
        return Ok([told, copies.inputs.is_empty(), true, false]);
    }
    let held = fitted.diagnose(&test, test.y.as_deref().unwrap_or_default(), &fitted.predict(&test)?)?;
    let left = fitted.left_out()?.map(|left| fitted.diagnose_left_out(&left)).transpose()?;
    let positive = data.y.iter().flatten().all(|y| *y > 0.0);
    // That rows lie beyond the others is true of every forecast.
    let detected = |found: &&Finding| !matches!(found, Finding::Beyond { .. });
    let right = |d: &Diagnosis| {
        d.findings.iter().filter(detected).any(|found| kind.remedies().contains(&found.remedy(positive)))
    };
    let (right_left, well_left) = left.as_ref().map_or((false, false), |left| (right(left), left.is_well()));
    Ok([right(&held), held.is_well(), right_left, well_left])
}

/// Settings of the model without calibration or a race.
pub fn plain() -> Settings {
    Settings { calibrate: Calibrate::No, starts: Starts::Data, ..Settings::default() }
}

impl Kind {
    /// Holds out the last fifth of a series, otherwise two rows of five at random.
    pub fn split(self, rows: usize, seed: u64) -> Result<Split> {
        match self {
            Self::Trend | Self::WellForecast => Split::last(rows, 0.2),
            _ => Split::random(rows, 0.4, seed),
        }
    }

    /// The remedies for its errors.
    fn remedies(self) -> &'static [Remedy] {
        match self {
            Self::Well | Self::WellPrecise | Self::WellForecast | Self::Copies => &[],
            Self::Heavy | Self::Outliers => &[Remedy::HeavyTails],
            Self::VariesByInput => &[Remedy::Heteroscedastic],
            Self::VariesByMean => &[Remedy::LogTarget],
            Self::Drift => &[Remedy::OrderAsInput],
            Self::Trend | Self::Season => &[Remedy::Trend],
        }
    }
}

/// A series with the covariance of the default kernel and a lengthscale of a tenth of the series: f″ + 2λf′ + λ²f is
/// white noise.
fn matern32(rows: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    let (lambda, parts) = (3f64.sqrt() / 0.1, 50);
    let step = 1.0 / (rows * parts) as f64;
    let (mut f, mut slope): (f64, f64) = (StandardNormal.sample(rng), StandardNormal.sample(rng));
    slope *= lambda;
    let mut series = Vec::new();
    for _ in 0..rows {
        series.push(f);
        for _ in 0..parts {
            let white: f64 = StandardNormal.sample(rng);
            f += slope * step;
            slope +=
                (-2.0 * lambda * slope - lambda * lambda * f) * step + (4.0 * lambda.powi(3) * step).sqrt() * white;
        }
    }
    series
}

pub fn generated(kind: Kind, rows: usize, seed: u64) -> Result<Dataset> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let heavy = StudentT::new(3.0).expect("three is positive");
    let (mut x, mut y) = (Vec::new(), Vec::new());
    let names = match kind {
        Kind::Season => vec!["a", "b", "c", "time"],
        Kind::Trend | Kind::WellForecast => vec!["time"],
        _ => vec!["a", "b", "c"],
    };
    let series = matern32(rows, &mut rng);
    let phase: f64 = rng.random_range(0.0..6.0);
    for i in 0..rows {
        let row: [f64; 3] = std::array::from_fn(|_| rng.random_range(0.0..1.0));
        let time = i as f64 / rows as f64;
        let shape = (5.0 * row[0] + phase).sin() + 2.0 * row[1] * row[1] - row[2];
        let f = if names.len() == 1 { 0.0 } else { shape };
        let normal: f64 = StandardNormal.sample(&mut rng);
        let error = match kind {
            Kind::WellPrecise => 0.02 * normal,
            Kind::Heavy => 0.3 * heavy.sample(&mut rng),
            Kind::Outliers => 0.2 * normal * if rng.random_range(0.0..1.0) < 0.05 { 8.0 } else { 1.0 },
            Kind::Trend => 0.1 * normal,
            Kind::VariesByInput => 0.1 * (2.3 * row[0]).exp() * normal,
            _ => 0.3 * normal,
        };
        let season = (2.0 * std::f64::consts::PI * (12.0 * time + phase)).sin();
        let drift = match kind {
            Kind::Drift => 0.6 * (3.0 * std::f64::consts::PI * time + phase).sin(),
            Kind::Trend => 20.0 * time.powi(3) + season,
            Kind::Season => 3.0 * time + season,
            Kind::WellForecast => series[i],
            _ => 0.0,
        };
        let target = f + error + drift;
        x.extend(row.into_iter().chain([time]).skip(if names.len() == 1 { 3 } else { 0 }).take(names.len()));
        y.push(if kind == Kind::VariesByMean { (f + 0.35 * normal).exp() } else { target });
        if kind == Kind::Copies && i % 3 == 2 {
            let (from, d) = (rng.random_range(0..i), names.len());
            x.truncate(i * d);
            x.extend_from_within(from * d..(from + 1) * d);
            y[i] = y[from];
        }
    }
    Dataset::new(names, x)?.with_target("y", y)
}
