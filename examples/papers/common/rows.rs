//! Rows to train and to test on: from tables, or drawn.

use cagey::data::{Dataset, InputScale, ReadOptions, Split, TargetScale, TargetTransform, read_training};
use cagey::device::Compute;
use cagey::kernels::Kernel;
use cagey::linalg::Factor;
use cagey::models::Observations;
use cagey::products::Covariance;
use cagey::scope::{Scope, to_f64};
use cagey::{Error, Result};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

use super::command::Job;

/// Rows to train and to test on.
pub struct Task {
    pub train: Observations,
    pub test: Observations,
    /// The standard deviation of the target, 1 if it is not standardised.
    pub sd: f64,
}

impl<O> Job<O> {
    /// A split of a table of the folder of tables: a published one, or a random tenth to test on. Without a folder, the
    /// rows of a rough surface. Inputs are standardised, and targets if `target` says so.
    pub fn table(&self, set: &str, split: u64, rows: usize, target: bool) -> Result<Task> {
        let (data, masks) = match &self.common.data {
            Some(folder) => {
                let (_, data) = read_training(folder.join(format!("{set}.csv.gz")), &ReadOptions::default())?;
                (data, Some(folder.join("splits").join(format!("{set}.csv.gz"))).filter(|path| path.exists()))
            }
            None => (surface(rows)?, None),
        };
        let split = match masks {
            Some(path) => Split::from_mask_file(path, Some(&format!("split{split}")), &data)?,
            None => Split::random(data.n, 0.1, split)?,
        };
        standardised(&data.subset(&split.train), &data.subset(&split.test), target)
    }

    /// The sets that are asked for, or with a folder of tables the usual ones.
    pub fn sets(&self, given: &[String], usual: &[&str]) -> Vec<String> {
        match (&self.common.data, given.is_empty()) {
            (None, _) => vec!["surface".into()],
            (_, false) => given.to_vec(),
            _ => usual.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Rows in units of the training rows.
pub fn standardised(train: &Dataset, test: &Dataset, target: bool) -> Result<Task> {
    let inputs = InputScale::fit(&train.x, train.d)?;
    let targets = if target { Some(TargetScale::fit(TargetTransform::Identity, train)?) } else { None };
    let of = |data: &Dataset| {
        let y = match &targets {
            Some(scale) => scale.forward(data)?,
            None => data.y.clone().unwrap_or_default(),
        };
        Observations::new(inputs.apply(&data.x)?, data.d, y, None)
    };
    let sd = targets.map_or(1.0, |scale| scale.inverse(1.0) - scale.inverse(0.0));
    Ok(Task { train: of(train)?, test: of(test)?, sd })
}

/// A table of a surface with detail on every scale down to a twentieth of its width.
pub fn surface(rows: usize) -> Result<Dataset> {
    let mut rng = generator(0);
    let waves: Vec<[f64; 4]> = (0..60)
        .map(|k| {
            let frequency = 2.0 + 0.6 * f64::from(k);
            let [angle, phase] = [(); 2].map(|()| rng.random_range(0.0..std::f64::consts::TAU));
            [frequency * angle.cos(), frequency * angle.sin(), phase, 2.0 / frequency]
        })
        .collect();
    let x: Vec<f64> = (0..2 * rows).map(|_| rng.random::<f64>()).collect();
    let height =
        |p: &[f64]| -> f64 { waves.iter().map(|[u, v, phase, size]| size * (u * p[0] + v * p[1] + phase).sin()).sum() };
    let y = x.chunks(2).map(|p| height(p) + 0.1 * standard(&mut rng)).collect();
    Dataset::new(["a", "b"], x)?.with_target("y", y)
}

/// The generator of a seed.
pub fn generator(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// A standard normal number.
pub fn standard(rng: &mut Xoshiro256PlusPlus) -> f64 {
    StandardNormal.sample(rng)
}

/// Numbers uniform between two ends.
pub fn uniform(count: usize, from: f64, to: f64, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    (0..count).map(|_| rng.random_range(from..to)).collect()
}

/// A draw from N(0, K(X, X) + v I), with `v` added to the diagonal, at inputs `[n, d]`.
pub fn sample(kernel: &Kernel, x: &[f64], d: usize, v: f64, rng: &mut Xoshiro256PlusPlus) -> Result<Vec<f64>> {
    let (scope, n) = (Scope::new(Compute::default())?, x.len() / d);
    let mut covariance = to_f64(Covariance::new(kernel, &scope, &scope.matrix(x, n, d)).matrix()?)?;
    covariance.iter_mut().step_by(n + 1).for_each(|k| *k += v);
    let lower = Factor::new(covariance, "the covariance of a function to draw")?.lower();
    let z: Vec<f64> = (0..n).map(|_| standard(rng)).collect();
    Ok(lower.chunks(n).map(|row| row.iter().zip(&z).map(|(l, z)| l * z).sum()).collect())
}

/// The first rows to train on and the others to test on.
pub fn halves(x: &[f64], d: usize, y: &[f64], train: usize) -> Result<Task> {
    let part = |rows: std::ops::Range<usize>| {
        Observations::new(x[rows.start * d..rows.end * d].to_vec(), d, y[rows].to_vec(), None)
    };
    if train == 0 || train >= y.len() {
        return Err(Error::Usage("--rows: at least one".into()));
    }
    Ok(Task { train: part(0..train)?, test: part(train..y.len())?, sd: 1.0 })
}
