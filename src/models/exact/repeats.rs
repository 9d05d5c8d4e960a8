//! Trains on rows with the same inputs as one row: their mean with a share of the noise has the same likelihood.
//!
//! For k targets at one input with mean ȳ, Π N(yᵢ; f, σ²) = N(ȳ; f, σ²/k) · (2πσ²)^(−(k−1)/2) k^(−1/2) exp(−Σ(yᵢ −
//! ȳ)²/2σ²).

use std::f64::consts::TAU;

use burn::tensor::Tensor;

use super::{ExactGp, ExactObjective};
use crate::error::Result;
use crate::linalg::mvn_nll;
use crate::models::gp_model::Training;
use crate::models::{Batch, Model, Observations, fit};
use crate::params::{Parameter, Parameters};
use crate::scope::{Scope, to_f64};
use crate::train::{Observer, Outcome};

/// Repeats are averaged only if distinct rows are less than this share of all.
const DISTINCT: f64 = 0.95;

/// A model on the means of repeated rows.
struct Averaged<'a> {
    model: &'a mut ExactGp,
    /// How many rows each mean stands for.
    counts: Vec<f64>,
    /// Sum of the squared distances of the targets from their means.
    within: f64,
}

/// Trains on the distinct rows of the data. Does nothing if few rows are repeated, or if something other than the noise
/// distinguishes them.
///
/// # Errors
/// What training reports.
pub(super) fn train(
    model: &mut ExactGp,
    training: &Training,
    observers: &mut [&mut dyn Observer],
) -> Option<Result<Outcome>> {
    let data = training.data;
    if model.objective != ExactObjective::MarginalLikelihood || data.auxiliary.is_some() {
        return None;
    }
    let (means, counts, within) = distinct(data);
    if means.n() as f64 > DISTINCT * data.n() as f64 || !alike(model, training, &means, &counts).unwrap_or(false) {
        return None;
    }
    let mut averaged = Averaged { model, counts, within };
    Some(fit::fit_for(&mut averaged, training.compute, (&means, data.n()), training.config, observers))
}

/// The distinct inputs of data with the means of their targets, how often each occurs, and the sum of the squared
/// distances of the targets from their means.
fn distinct(data: &Observations) -> (Observations, Vec<f64>, f64) {
    let of_rows = data.groups();
    let (mut x, mut counts, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    for ((row, y), group) in data.x.chunks(data.d).zip(&data.y).zip(&of_rows) {
        if *group == counts.len() {
            x.extend_from_slice(row);
            counts.push(0.0);
            sums.push(0.0);
        }
        counts[*group] += 1.0;
        sums[*group] += y;
    }
    let y: Vec<f64> = sums.iter().zip(&counts).map(|(sum, count): (&f64, &f64)| sum / count).collect();
    let within = of_rows.iter().zip(&data.y).map(|(place, value)| (value - y[*place]).powi(2)).sum();
    (Observations::unchecked(x, data.d, y, None), counts, within)
}

/// Whether the kernel gives a row and its repeat the same value as the row and itself. White noise in the kernel does
/// not.
fn alike(model: &ExactGp, training: &Training, means: &Observations, counts: &[f64]) -> Result<bool> {
    let repeated = counts.iter().position(|count| *count > 1.0).unwrap_or_default();
    let row = &means.x[repeated * means.d..][..means.d];
    let scope = Scope::new(training.compute)?;
    let gram = to_f64(model.prior.covariance(&scope, &scope.matrix(&[row, row].concat(), 2, means.d)).matrix()?)?;
    Ok((gram[0] - gram[1]).abs() <= 1e-6 * gram[0].abs())
}

impl Model for Averaged<'_> {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        let rows = self.counts.iter().sum::<f64>();
        let repeats = rows - self.counts.len() as f64;
        let prior = &self.model.prior;
        let noise = scope.value(&self.model.likelihood.noise);
        let residual = prior.residuals(scope, batch)?;
        let shares = noise.clone().expand([self.counts.len()]) / scope.vector(&self.counts);
        let means = mvn_nll(prior.covariance(scope, &batch.x).matrix()?, shares, residual)?;
        let logs = repeats * TAU.ln() + self.counts.iter().map(|count| count.ln()).sum::<f64>();
        Ok(means + (noise.clone().log() * repeats + noise.recip() * self.within + logs) * 0.5)
    }
}

impl Parameters for Averaged<'_> {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        self.model.parameters()
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        self.model.parameters_mut()
    }
}
