//! The continuous ranked probability score of predictions that have no closed form.

use crate::likelihoods::quadrature::adaptive;
use crate::likelihoods::{Prediction, Support};

/// The score is integrated between these quantiles; outside them the integrand is the square of a small probability.
const QUANTILES: [f64; 5] = [1e-5, 0.025, 0.5, 0.975, 1.0 - 1e-5];

/// Error of an integral as a share of the width of the 95 % interval.
const TOLERANCE: f64 = 1e-6;

/// Blocks of whole numbers between two of the quantiles.
const BLOCKS: f64 = 64.0;

/// `∫ (P(target ≤ t) − [y ≤ t])² dt`; for whole numbers, the sum over them.
pub(super) fn crps(prediction: &Prediction, y: f64) -> f64 {
    let quantiles = QUANTILES.map(|p| prediction.quantile(p));
    let counts = matches!(prediction.support(), Support::Counts(_));
    let mut breaks: Vec<f64> = quantiles.into_iter().chain([y]).collect();
    if counts {
        breaks.push(quantiles[4] + 1.0);
    }
    breaks.sort_by(f64::total_cmp);
    let square = |t: f64| (prediction.cdf(t) - f64::from(u8::from(y <= t))).powi(2);
    if counts {
        return breaks.windows(2).map(|pair| blocks(pair[0], pair[1], &square)).sum();
    }
    let tolerance = TOLERANCE * (quantiles[3] - quantiles[1]);
    // The step at y lies between two pieces.
    adaptive(&breaks, tolerance, &square)
}

/// The sum of a function over the whole numbers from `low` to below `high`, with the value in the middle of each of
/// many equal blocks.
fn blocks(low: f64, high: f64, g: &dyn Fn(f64) -> f64) -> f64 {
    // A block of odd size has a middle.
    let size = 2.0 * ((high - low) / (2.0 * BLOCKS)).floor() + 1.0;
    let block = |k: f64| {
        let from = low + size * k;
        let size = size.min(high - from);
        size * g(from + (0.5 * (size - 1.0)).floor())
    };
    (0..((high - low) / size).ceil() as u32).map(|k| block(f64::from(k))).sum()
}
