//! Scores of predicted counts.

use cagey_base::metrics::same_length;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::likelihoods::deviance;
use crate::{Error, Result};

/// The mean Poisson deviance `2 [y ln(y/μ) − (y − μ)]` of counts `y [n]` about means `μ [n]`; 0 is a perfect fit.
///
/// # Errors
/// [`Error::Shape`] for no targets or different lengths, [`Error::Data`] for a negative count or a mean that is not
/// positive.
pub fn poisson_deviance(y: &[f64], mean: &[f64]) -> Result<f64> {
    same_length("predicted means", y, mean)?;
    let mut total = 0.0;
    for (i, (&y, &mu)) in y.iter().zip(mean).enumerate() {
        if !(y >= 0.0 && mu > 0.0) {
            return Err(Error::Data(format!(
                "target {}: a deviance needs a count of 0 or more and a positive mean, got {y} and {mu}",
                i + 1
            )));
        }
        total += deviance::poisson(y, mu);
    }
    Ok(total / y.len() as f64)
}

/// The mean binomial deviance `2 [y ln(y/μ) + (N − y) ln((N − y)/(N − μ))]` of counts `y [n]` of `N [n]` trials about
/// means `μ [n]`; 0 is a perfect fit.
///
/// # Errors
/// [`Error::Shape`] for no targets or different lengths, [`Error::Data`] for a count outside 0 to N, or a mean that
/// rules it out.
pub fn binomial_deviance(y: &[f64], mean: &[f64], trials: &[f64]) -> Result<f64> {
    same_length("predicted means", y, mean)?;
    same_length("numbers of trials", y, trials)?;
    let mut total = 0.0;
    for (i, ((&y, &mu), &n)) in y.iter().zip(mean).zip(trials).enumerate() {
        let deviance = deviance::binomial(y, mu, n);
        if !((0.0..=n).contains(&y) && deviance.is_finite()) {
            return Err(Error::Data(format!(
                "target {}: a deviance needs a count from 0 to {n} and a mean between them, got {y} and {mu}",
                i + 1
            )));
        }
        total += deviance;
    }
    Ok(total / y.len() as f64)
}

/// Pearson's `Σ (y − μ)²/variance / n`: about 1 if targets scatter as predicted, above 1 if they scatter more.
///
/// # Errors
/// [`Error::Shape`] for no targets or different lengths.
pub fn pearson_dispersion(y: &[f64], mean: &[f64], variance: &[f64]) -> Result<f64> {
    same_length("predicted means", y, mean)?;
    same_length("predicted variances", y, variance)?;
    let terms = y.iter().zip(mean).zip(variance).map(|((y, mean), variance)| (y - mean).powi(2) / variance);
    Ok(terms.sum::<f64>() / y.len() as f64)
}

/// The randomised probability integral transform of counts: uniform between `P(count < y)` and `P(count ≤ y)`. If the
/// predictions fit the targets, the values are uniform on (0, 1) (Czado, Gneiting and Held 2009).
///
/// `cdf(i, y)` is the predictive `P(count_i ≤ y)`; the same seed gives the same draws.
pub fn randomised_pit(y: &[f64], seed: u64, cdf: impl Fn(usize, f64) -> f64) -> Vec<f64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let draw = |(i, &y): (usize, &f64)| {
        let (low, high) = (if y >= 1.0 { cdf(i, y - 1.0) } else { 0.0 }, cdf(i, y));
        low + rng.random::<f64>() * (high - low)
    };
    y.iter().enumerate().map(draw).collect()
}

/// The Kolmogorov–Smirnov distance of numbers from the uniform distribution on (0, 1), and the probability of a larger
/// distance for uniform numbers (asymptotic, with the correction of Stephens 1970). `None` without numbers.
pub fn kolmogorov_smirnov(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let gap = |(i, u): (usize, &f64)| f64::max((i + 1) as f64 / n - u, u - i as f64 / n);
    let distance = sorted.iter().enumerate().map(gap).reduce(f64::max)?;
    let t = (n.sqrt() + 0.12 + 0.11 / n.sqrt()) * distance;
    // The series needs many terms only if the probability is 1.
    if t < 0.2 {
        return Some((distance, 1.0));
    }
    let term = |k: i32| f64::from(1 - 2 * ((k + 1) % 2)) * (-2.0 * f64::from(k * k) * t * t).exp();
    let p = 2.0 * (1..=50).map(term).sum::<f64>();
    Some((distance, p.clamp(0.0, 1.0)))
}
