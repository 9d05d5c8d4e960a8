//! What leaving a row out of the training changes in its left-out prediction.
//!
//! Leaving a row out in closed form takes the parameters θ as known, but they were trained on this row too. With F the
//! objective, priors included, and ℓᵢ(θ) = −log p(yᵢ | y₋ᵢ, θ), the objective without row i is F − ℓᵢ. To first order,
//! its minimum is at θ + H⁻¹∇ℓᵢ, where H is the Hessian of F (the infinitesimal jackknife; Giordano et al. 2019, *A
//! Swiss army infinitesimal jackknife*). The left-out mean and log variance move along their gradients.

use super::ExactGp;
use super::leverage::leverages;
use crate::device::Compute;
use crate::error::Result;
use crate::linalg::Factor;
use crate::linalg::dense::decompositions::Eigen;
use crate::linalg::real::dot;
use crate::models::leave_one_out::Influence;
use crate::models::posterior::Marginals;
use crate::models::{Observations, fit};
use crate::params::Parameters;
use crate::scope::Scope;

/// With so many rows for each parameter, the changes are below a hundredth of a residual, and are left out.
const ENOUGH: usize = 100;
/// Most parameters, and most derivatives of left-out predictions, with which the Hessian takes less time than a
/// training.
const MOST_PARAMETERS: usize = 100;
const MOST_SLOPES: usize = 20_000;
/// The step of central differences in the raw parameters, which are mostly logarithms: their error is about a
/// hundredth. Shorter steps would measure rounding errors where a variance is large beside the noise.
const STEP: f64 = 0.1;
/// The largest share of a derivative's information that may be the difference between steps up and down.
const ROUNDING: f64 = 0.1;
/// The information of rounding errors that cannot matter.
const NOTHING: f64 = 1e-3;
/// A training that could lower its objective by more nats than this did not end at a minimum.
const LEFT: f64 = 0.5;
/// The least curvature of a direction in which a row moves the parameters, relative to the information that left-out
/// predictions have about them.
const LEAST: f64 = 0.01;
/// The largest change, of a mean in standard deviations and of the logarithm of a variance. More is not of first order.
const MOST: f64 = 2.0;

/// The derivatives of left-out predictions in a parameter.
struct Slope {
    /// The position of the parameter among the free ones.
    place: usize,
    /// Derivatives of the means `[n]`.
    mean: Vec<f64>,
    /// Derivatives of the log variances `[n]`.
    log_variance: Vec<f64>,
}

/// Whether so many rows leave the changes out, for so many parameters.
pub(in crate::models) fn changes_little(rows: usize, parameters: usize) -> bool {
    ENOUGH * parameters <= rows
}

/// The changes for all rows, given their left-out predictions, the factor of K̂ and `weights` = K̂⁻¹(y − m).
///
/// # Errors
/// What kernels and factorisations report.
pub(super) fn influence(
    model: &ExactGp,
    data: &Observations,
    left: &Marginals,
    (factor, weights): (&Factor<f64>, &[f64]),
) -> Result<Influence> {
    let (n, raw) = (data.n(), model.free_raw());
    if changes_little(n, raw.len()) {
        return Ok(Influence::default());
    }
    if raw.len() > MOST_PARAMETERS || n * raw.len() > MOST_SLOPES {
        let leverages = leverages(model, data, factor, weights)?;
        let errors = data.y.iter().zip(&left.mean).map(|(y, mean)| y - mean);
        let mean = errors.zip(leverages).map(|(error, q)| error - error / (1.0 - q)).collect();
        return Ok(Influence { mean, ..Influence::default() });
    }
    let Some(slopes) = slopes(model, data, left, &raw)? else {
        return Ok(Influence::unknown("small steps of the hyperparameters do not change predictions evenly"));
    };
    let count = slopes.len();
    if count == 0 {
        return Ok(Influence::default());
    }
    let unit: Vec<f64> = slopes.iter().map(|slope| slope.information(left).sqrt().recip()).collect();
    let (mut hessian, at) = curvature(model, data, &raw, &slopes)?;
    for (a, row) in hessian.chunks_mut(count).enumerate() {
        row.iter_mut().enumerate().for_each(|(b, value)| *value *= unit[a] * unit[b]);
    }
    let eigen = Eigen::new(&hessian, count, "the curvature of the objective")?;
    let (mut found, mut remains) = (Influence { mean: vec![0.0; n], log_variance: vec![0.0; n], unknown: None }, 0.0);
    for (curvature, vector) in eigen.pairs() {
        let direction: Vec<f64> = vector.iter().zip(&unit).map(|(u, unit)| u * unit).collect();
        let flat = curvature < LEAST;
        remains += 0.5 * dot(&direction, &at).powi(2) / if flat { 1.0 } else { curvature };
        if flat {
            continue;
        }
        let along = |of: fn(&Slope) -> &[f64]| {
            let columns: Vec<&[f64]> = slopes.iter().map(of).collect();
            (0..n)
                .map(|row| direction.iter().zip(&columns).map(|(d, column)| d * column[row]).sum())
                .collect::<Vec<f64>>()
        };
        let (mean, log_variance) = (along(|slope| &slope.mean), along(|slope| &slope.log_variance));
        for row in 0..n {
            // ∇ℓᵢ along the direction.
            let (error, variance) = (data.y[row] - left.mean[row], left.variance[row]);
            let pull = 0.5 * log_variance[row] * (1.0 - error * error / variance) - error / variance * mean[row];
            found.mean[row] += pull / curvature * mean[row];
            found.log_variance[row] += pull / curvature * log_variance[row];
        }
    }
    for ((mean, log_variance), variance) in found.mean.iter_mut().zip(&mut found.log_variance).zip(&left.variance) {
        let most = MOST * variance.sqrt();
        if mean.abs() > most {
            *mean = most.copysign(*mean);
        }
        *log_variance = log_variance.clamp(-MOST, MOST);
    }
    let finite = found.mean.iter().chain(&found.log_variance).all(|value| value.is_finite());
    if remains <= LEFT && finite {
        return Ok(found);
    }
    Ok(Influence::unknown("that training did not end at a minimum"))
}

/// Derivatives of left-out predictions; none if steps up and down differ, by rounding or by curvature. Parameters at a
/// bound, and those that change nothing, cannot move.
fn slopes(model: &ExactGp, data: &Observations, left: &Marginals, raw: &[f64]) -> Result<Option<Vec<Slope>>> {
    let bound: Vec<bool> =
        model.parameters().into_iter().flat_map(|(_, parameter)| parameter.free_at_bound()).collect();
    let mut all = Vec::new();
    for place in (0..raw.len()).filter(|place| !bound[*place]) {
        let moved = |step: f64| -> Result<Marginals> {
            Ok(shifted(model, raw, place, step)?.posterior(Compute::default(), data.clone())?.leave_one_out())
        };
        let (above, below) = (moved(STEP)?, moved(-STEP)?);
        let slope = Slope::between(place, &below, &above, 2.0 * STEP);
        let (up, down) = (Slope::between(place, left, &above, STEP), Slope::between(place, &below, left, STEP));
        let doubt = up.minus(&down).information(left);
        if doubt < ROUNDING * slope.information(left) {
            all.push(slope);
        } else if doubt > NOTHING {
            return Ok(None);
        }
    }
    Ok(Some(all))
}

impl Slope {
    /// The change from one prediction to another that is a `step` away.
    fn between(place: usize, from: &Marginals, to: &Marginals, step: f64) -> Self {
        let pairs = |from: &[f64], to: &[f64], of: fn(f64) -> f64| -> Vec<f64> {
            from.iter().zip(to).map(|(from, to)| (of(*to) - of(*from)) / step).collect()
        };
        let mean = pairs(&from.mean, &to.mean, |mean| mean);
        Self { place, mean, log_variance: pairs(&from.variance, &to.variance, f64::ln) }
    }

    fn minus(&self, other: &Self) -> Self {
        let less = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect();
        let (mean, log_variance) = (less(&self.mean, &other.mean), less(&self.log_variance, &other.log_variance));
        Self { place: self.place, mean, log_variance }
    }

    /// The Fisher information that the left-out predictions have about the parameter.
    fn information(&self, left: &Marginals) -> f64 {
        let rows = self.mean.iter().zip(&self.log_variance).zip(&left.variance);
        rows.map(|((mean, log_variance), variance)| mean * mean / variance + 0.5 * log_variance * log_variance).sum()
    }
}

/// The Hessian of the objective in these parameters, from differences of its gradient, and this gradient.
fn curvature(model: &ExactGp, data: &Observations, raw: &[f64], slopes: &[Slope]) -> Result<(Vec<f64>, Vec<f64>)> {
    let compute = Compute::default();
    let batch = data.batch(&Scope::new(compute)?);
    let gradient = |model: &ExactGp| -> Result<Vec<f64>> {
        let all = fit::evaluate(model, compute, &batch)?.gradient;
        Ok(slopes.iter().map(|slope| all[slope.place]).collect())
    };
    let count = slopes.len();
    let mut hessian = vec![0.0; count * count];
    for (a, slope) in slopes.iter().enumerate() {
        let moved = |step: f64| gradient(&shifted(model, raw, slope.place, step)?);
        let (up, down) = (moved(STEP)?, moved(-STEP)?);
        for (b, (up, down)) in up.iter().zip(&down).enumerate() {
            let change = 0.5 * (up - down) / (2.0 * STEP);
            hessian[a * count + b] += change;
            hessian[b * count + a] += change;
        }
    }
    Ok((hessian, gradient(model)?))
}

fn shifted(model: &ExactGp, raw: &[f64], place: usize, step: f64) -> Result<ExactGp> {
    let (mut moved, mut raw) = (model.clone(), raw.to_vec());
    raw[place] += step;
    moved.set_free_raw(&raw)?;
    Ok(moved)
}
