//! The tables: those that come with the examples, and generated ones of kinds that these lack.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use cagey::data::{Dataset, ReadOptions, Schema, TargetKind, read_training};
use cagey::{Error, Result};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Gamma, Poisson, StandardNormal, StudentT};

/// One row in so many is held out.
const HELD_OUT: usize = 5;

/// A table by its name: its training rows, in an order that the seed determines, and the held-out ones. Generated
/// tables are written to the folder.
pub fn read(name: &str, classes: bool, folder: &Path, seed: u64) -> Result<(Schema, Dataset, Dataset)> {
    let target_kind = if classes { TargetKind::Classes } else { TargetKind::default() };
    let (schema, data) = read_training(file(name, folder)?, &ReadOptions { target_kind, ..ReadOptions::default() })?;
    let (test, mut train): (Vec<usize>, Vec<usize>) = (0..data.n).partition(|row| row % HELD_OUT == HELD_OUT - 1);
    if seed > 0 {
        train.shuffle(&mut StdRng::seed_from_u64(seed));
    }
    Ok((schema, data.subset(&train), data.subset(&test)))
}

fn file(name: &str, folder: &Path) -> Result<PathBuf> {
    for ending in ["csv.gz", "csv"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("data/{name}.{ending}"));
        if path.exists() {
            return Ok(path);
        }
    }
    let path = folder.join(format!("{name}.csv"));
    if !path.exists() {
        let text = generated(name).ok_or_else(|| Error::Usage(format!("there is no table {name}")))?;
        std::fs::write(&path, text).map_err(|e| Error::io(&path, &e))?;
    }
    Ok(path)
}

/// Draws one row of a table: its inputs and its target.
type Draw = fn(&mut StdRng) -> (Vec<f64>, f64);

fn generated(name: &str) -> Option<String> {
    let (rows, draw): (usize, Draw) = match name {
        "friedman" => (1_000, friedman),
        "wide" => (125, wide),
        "tails" => (600, tails),
        "surface" => (2_500, surface),
        "series" => (400, series),
        "hours" => (10_000, hours),
        "visits" => (5_000, visits),
        "rings" => (5_000, rings),
        "sectors" => (4_000, sectors),
        _ => return None,
    };
    let mut rng = StdRng::seed_from_u64(rows as u64);
    let mut text = String::new();
    for row in 0..rows {
        let (x, y) = draw(&mut rng);
        if row == 0 {
            (0..x.len()).for_each(|column| _ = write!(text, "x{column},"));
            text += "y\n";
        }
        x.iter().for_each(|x| _ = write!(text, "{x},"));
        _ = writeln!(text, "{y}");
    }
    Some(text)
}

fn normal(rng: &mut StdRng) -> f64 {
    StandardNormal.sample(rng)
}

fn uniform(rng: &mut StdRng, columns: usize) -> Vec<f64> {
    (0..columns).map(|_| rng.random()).collect()
}

/// A count with this mean; overdispersed if a shape is given.
fn count(rng: &mut StdRng, mean: f64, shape: Option<f64>) -> f64 {
    let share = shape.and_then(|shape| Gamma::new(shape, 1.0 / shape).ok()).map_or(1.0, |gamma| gamma.sample(rng));
    Poisson::new((mean * share).max(1e-12)).map_or(0.0, |poisson| poisson.sample(rng))
}

/// Five of ten columns matter (Friedman 1991, *Multivariate adaptive regression splines*).
fn friedman(rng: &mut StdRng) -> (Vec<f64>, f64) {
    let x = uniform(rng, 10);
    let f = 10.0 * (std::f64::consts::PI * x[0] * x[1]).sin() + 20.0 * (x[2] - 0.5).powi(2) + 10.0 * x[3] + 5.0 * x[4];
    (x, f + normal(rng))
}

/// More columns than a hundred rows can tell apart.
fn wide(rng: &mut StdRng) -> (Vec<f64>, f64) {
    let x: Vec<f64> = (0..60).map(|_| normal(rng)).collect();
    let f = (1.5 * x[0]).sin() + 0.8 * x[1] + 0.5 * x[2] * x[2];
    (x, f + 0.5 * normal(rng))
}

/// Errors with heavy tails.
fn tails(rng: &mut StdRng) -> (Vec<f64>, f64) {
    let x = uniform(rng, 2);
    let error = StudentT::new(2.5).map_or(0.0, |t| t.sample(rng));
    let f = (6.0 * x[0]).sin() + x[1];
    (x, f + 0.2 * error)
}

/// A surface with little noise.
fn surface(rng: &mut StdRng) -> (Vec<f64>, f64) {
    let x = uniform(rng, 2);
    let f = (8.0 * x[0]).sin() * (5.0 * x[1]).cos() + (3.0 * (x[0] + x[1])).sin();
    (x, f + 0.02 * normal(rng))
}

/// Many waves along one column.
fn series(rng: &mut StdRng) -> (Vec<f64>, f64) {
    let x = uniform(rng, 1);
    let f = 2.0 * x[0] + (150.0 * x[0]).sin();
    (x, f + 0.1 * normal(rng))
}

/// Counts up to hundreds that depend on the hour, the day and the weather, and scatter far more than a Poisson
/// distribution says.
fn hours(rng: &mut StdRng) -> (Vec<f64>, f64) {
    let x = vec![rng.random_range(0..24) as f64, rng.random_range(0..7) as f64, rng.random(), rng.random()];
    let peak = |at: f64, width: f64| (-((x[0] - at) / width).powi(2)).exp();
    let weekend = if x[1] > 4.0 { 0.3 } else { 1.0 };
    let f = 2.0 + 2.0 * weekend * (peak(8.0, 1.5) + peak(17.0, 2.0)) + 1.5 * peak(13.0, 4.0) + x[2] - x[3] * x[2];
    let y = count(rng, f.exp(), Some(3.0));
    (x, y)
}

/// Mostly zeros.
fn visits(rng: &mut StdRng) -> (Vec<f64>, f64) {
    let mut x: Vec<f64> = (0..4).map(|_| f64::from(rng.random::<f64>() < 0.3)).collect();
    x.extend((0..6).map(|_| normal(rng)));
    let f = -1.8 + 0.8 * x[0] + 0.5 * x[1] * x[2] + 0.4 * x[4] + 0.3 * (2.0 * x[5]).sin();
    let y = count(rng, f.exp(), Some(1.0));
    (x, y)
}

/// Two classes in rings that overlap.
fn rings(rng: &mut StdRng) -> (Vec<f64>, f64) {
    let x: Vec<f64> = (0..2).map(|_| 2.0 * normal(rng)).collect();
    let f = 2.0 * (2.0 * x[0].hypot(x[1])).sin() + 0.5 * x[0];
    let y = f64::from(rng.random::<f64>() < 1.0 / (1.0 + (-f).exp()));
    (x, y)
}

/// Five classes in bent sectors of a disc.
fn sectors(rng: &mut StdRng) -> (Vec<f64>, f64) {
    let x: Vec<f64> = (0..3).map(|_| normal(rng)).collect();
    let angle = x[1].atan2(x[0]) + x[0].hypot(x[1]) + 0.3 * normal(rng);
    let turn = (angle / std::f64::consts::TAU).rem_euclid(1.0);
    (x, (5.0 * turn).floor().min(4.0))
}
