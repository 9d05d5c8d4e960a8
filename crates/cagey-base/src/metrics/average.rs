//! Weighted averages of predictive distributions: p(y) = Σ w p(y) of several predictions of one target.

use super::Predictive;
use crate::arithmetic::ends;
use crate::likelihoods::quadrature::adaptive;

/// A weight and the distribution that it belongs to. Weights sum to 1.
type Weighted = (f64, Predictive);

/// Σ w f.
fn weighted(parts: &[Weighted], f: impl Fn(&Predictive) -> f64) -> f64 {
    parts.iter().map(|(weight, part)| weight * f(part)).sum()
}

/// `E[y]`.
pub fn mean(parts: &[Weighted]) -> f64 {
    weighted(parts, Predictive::mean)
}

/// The standard deviation of y: that within the parts, and that of their means.
pub fn sd(parts: &[Weighted]) -> f64 {
    let centre = mean(parts);
    weighted(parts, |part| part.sd().powi(2) + (part.mean() - centre).powi(2)).sqrt()
}

/// `P(target ≤ y)`.
pub fn cdf(parts: &[Weighted], y: f64) -> f64 {
    weighted(parts, |part| part.cdf(y))
}

/// `P(target > y)`, accurate to all digits where it is small.
pub fn above(parts: &[Weighted], y: f64) -> f64 {
    weighted(parts, |part| part.above(y))
}

/// `ln Σ w p(y)`.
pub fn log_density(parts: &[Weighted], y: f64) -> f64 {
    let logs: Vec<f64> = parts.iter().map(|(weight, part)| weight.ln() + part.log_density(y)).collect();
    let top = logs.iter().fold(f64::NEG_INFINITY, |top, log| top.max(*log));
    if top == f64::NEG_INFINITY { top } else { top + logs.iter().map(|log| (log - top).exp()).sum::<f64>().ln() }
}

/// Rounding errors of a place at which a quantile is found.
const FINE: f64 = 4.0 * f64::EPSILON;

/// The quantile `p`. It lies between the smallest and the largest quantile of the parts, where Newton's method finds
/// it, or bisection where a step of that leaves the bracket.
pub fn quantile(parts: &[Weighted], p: f64) -> f64 {
    let (mut low, mut high) = ends(parts.iter().map(|(_, part)| part.quantile(p)));
    if !(low.is_finite() && high.is_finite()) {
        return if p < 0.5 { low } else { high };
    }
    let mut y = weighted(parts, |part| part.quantile(p)).clamp(low, high);
    // Beyond some 60 halvings a bracket has no number inside; most searches take a few steps.
    for _ in 0..200 {
        if high - low <= FINE * low.abs().max(high.abs()) {
            break;
        }
        // In the upper half from the upper tail, which keeps its digits.
        let excess = if p <= 0.5 { cdf(parts, y) - p } else { (1.0 - p) - above(parts, y) };
        if excess >= 0.0 {
            high = y
        } else {
            low = y
        }
        let next = y - excess / log_density(parts, y).exp();
        let step = if low < next && next < high { next } else { 0.5 * (low + high) };
        if (step - y).abs() <= FINE * y.abs() {
            return step;
        }
        y = step;
    }
    y
}

/// Probabilities whose quantiles part the integral of the score.
const KNOTS: [f64; 9] = [1e-7, 1e-3, 0.025, 0.25, 0.5, 0.75, 0.975, 1.0 - 1e-3, 1.0 - 1e-7];

/// Error of the score as a share of the width of the 95 % interval.
const TOLERANCE: f64 = 1e-9;

/// The continuous ranked probability score `∫ (P(target ≤ t) − [y ≤ t])² dt`, by quadrature.
pub fn crps(parts: &[Weighted], y: f64) -> f64 {
    let knots = KNOTS.map(|p| quantile(parts, p));
    let mut breaks: Vec<f64> = knots.into_iter().chain([y]).collect();
    breaks.sort_by(f64::total_cmp);
    let square = |t: f64| if t < y { cdf(parts, t).powi(2) } else { above(parts, t).powi(2) };
    adaptive(&breaks, TOLERANCE * (knots[6] - knots[2]), &square)
}
