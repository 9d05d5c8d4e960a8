//! Predictions under likelihoods other than the Gaussian, in the units of the target.

use super::Temperature;
use crate::likelihoods::quadrature::adaptive;
use crate::likelihoods::{Prediction, Support};
use crate::scale::TargetScale;

/// The predictive distribution of a target in its own units: `y = origin + unit z`, where the likelihood gives z.
#[derive(Debug, Clone)]
pub struct TargetPrediction {
    /// The distribution of z.
    pub standardised: Prediction,
    /// The value of z = 0 in the target's units; 0 for targets that are not standardised.
    pub origin: f64,
    /// The value of a difference of 1 in z; 1 for targets that are not standardised.
    pub unit: f64,
}

impl TargetPrediction {
    /// The distribution of a target in its units, at the temperature of its classes if there is one.
    #[doc(hidden)]
    pub fn of(standardised: Prediction, scale: &TargetScale, temperature: Option<Temperature>) -> Self {
        let standardised = match temperature {
            Some(temperature) => standardised.tempered(temperature.exponent),
            None => standardised,
        };
        Self { standardised, origin: scale.mean, unit: scale.sd }
    }

    /// The mixture of distributions of one target in the same units, with weights whose sum is 1.
    #[doc(hidden)]
    pub fn mixture(parts: Vec<(f64, Self)>) -> Self {
        let Self { origin, unit, .. } = parts[0].1;
        let parts = parts.into_iter().map(|(weight, part)| (weight, part.standardised));
        Self { standardised: Prediction::mixture(parts.collect()), origin, unit }
    }

    /// The standardised target.
    #[doc(hidden)]
    pub fn z(&self, y: f64) -> f64 {
        (y - self.origin) / self.unit
    }

    /// `E[y]`.
    pub fn mean(&self) -> f64 {
        self.origin + self.unit * self.standardised.mean()
    }

    /// The standard deviation of `y`.
    pub fn sd(&self) -> f64 {
        self.unit * self.standardised.variance().sqrt()
    }

    /// The quantile `p`: the smallest `y` that is not exceeded with probability `p`.
    pub fn quantile(&self, p: f64) -> f64 {
        self.origin + self.unit * self.standardised.quantile(p)
    }

    /// The quantile `p` of `E[y | f]`, such as of a rate.
    pub fn response_quantile(&self, p: f64) -> f64 {
        self.origin + self.unit * self.standardised.response_quantile(p)
    }

    /// `P(target ≤ y)`.
    pub fn cdf(&self, y: f64) -> f64 {
        self.standardised.cdf(self.z(y))
    }

    /// `ln p(y)`; for a count, its log probability.
    pub fn log_density(&self, y: f64) -> f64 {
        self.standardised.log_density(self.z(y)) - self.unit.ln()
    }

    /// The continuous ranked probability score at `y`, in units of `y`. Not for classes, whose codes are not distances.
    pub fn crps(&self, y: f64) -> f64 {
        self.unit * crps(&self.standardised, self.z(y))
    }

    /// The probability of each class, if targets are classes.
    pub fn probabilities(&self) -> Option<Vec<f64>> {
        self.standardised.probabilities()
    }

    /// Whether targets are counts.
    #[doc(hidden)]
    pub fn is_count(&self) -> bool {
        matches!(self.standardised.support(), Support::Counts(_))
    }

    /// Whether `y` is in the central interval of this probability.
    #[doc(hidden)]
    pub fn covers(&self, y: f64, level: f64) -> bool {
        let (tail, upper) = (0.5 * (1.0 - level), self.cdf(y));
        let below = if self.is_count() { upper - self.log_density(y).exp() } else { upper };
        upper >= tail && below < 1.0 - tail
    }
}

/// The score is integrated between these quantiles; outside them the integrand is the square of a small probability.
const QUANTILES: [f64; 5] = [1e-5, 0.025, 0.5, 0.975, 1.0 - 1e-5];

/// Error of an integral as a share of the width of the 95 % interval.
const TOLERANCE: f64 = 1e-6;

/// Blocks of whole numbers between two of the quantiles.
const BLOCKS: f64 = 64.0;

/// `∫ (P(target ≤ t) − [y ≤ t])² dt`; for whole numbers, the sum over them.
fn crps(prediction: &Prediction, y: f64) -> f64 {
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
