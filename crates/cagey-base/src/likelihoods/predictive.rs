//! Integrals over the Gaussian marginals of latent functions.

use super::density::{Density, Marginal};
use super::formula::at_nodes;
use super::quadrature::adaptive;
use super::targets::Row;
use crate::arithmetic::special::LN_TAU;

/// Beyond so many standard deviations the normal density is treated as zero.
const EDGE: f64 = 9.0;
const TOLERANCE: f64 = 1e-9;

/// `E[exp(f)]` for one latent function.
pub(super) fn mean_exp(at: Marginal) -> f64 {
    (at.mean[0] + 0.5 * at.variance[0]).exp()
}

/// `E[g(f)]` for a bounded or slowly growing `g` that may change steeply near `turn`.
pub fn average(mean: f64, variance: f64, turn: f64, g: &dyn Fn(f64) -> f64) -> f64 {
    let sd = variance.max(0.0).sqrt();
    if sd == 0.0 {
        return g(mean);
    }
    let mut breaks = vec![-EDGE, -3.0, 0.0, 3.0, EDGE];
    add_around((turn - mean) / sd, 1.0 / sd, (-EDGE, EDGE), &mut breaks);
    let weighted = |z: f64| g(mean + sd * z) * (-0.5 * (z * z + LN_TAU)).exp();
    let size = breaks.iter().map(|&z| weighted(z).abs()).fold(0.0, f64::max);
    adaptive(&breaks, TOLERANCE * size, &weighted)
}

/// [`average`] for any number of latent functions, of several by the product rule.
pub fn average_of(at: Marginal, turn: f64, g: &dyn Fn(&[f64]) -> f64) -> f64 {
    if let ([mean], [variance]) = (at.mean, at.variance) {
        return average(*mean, *variance, turn, &|f| g(&[f]));
    }
    let mut total = 0.0;
    at_nodes(at, &mut |f, _, weight| total += weight * g(f));
    total
}

/// `ln E[p(y | f)]`, for several latent functions by the product rule.
pub fn log_density<D: Density + ?Sized>(density: &D, row: Row, at: Marginal) -> f64 {
    let log = |f: &[f64]| density.log_density(row, f);
    if let ([mean], [variance]) = (at.mean, at.variance) {
        let slopes = |f: f64| {
            let (mut first, mut second) = ([0.0], [0.0]);
            density.derivatives(row, &[f], &mut first, &mut second);
            [first[0], second[0]]
        };
        return log_average(*mean, *variance, density.peak(row), &|f| log(&[f]), &slopes);
    }
    let mut terms = Vec::new();
    at_nodes(at, &mut |f, _, weight| terms.push(weight.ln() + log(f)));
    let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + terms.iter().map(|term| (term - top).exp()).sum::<f64>().ln()
}

/// `ln E[g(f)]`, given `ln g`, its first two derivatives and a place near its largest value. The integrand is divided
/// by its largest value, so that nothing underflows.
pub fn log_average(
    mean: f64,
    variance: f64,
    peak: f64,
    log_g: &dyn Fn(f64) -> f64,
    slopes: &dyn Fn(f64) -> [f64; 2],
) -> f64 {
    let sd = variance.max(0.0).sqrt();
    if sd == 0.0 {
        return log_g(mean);
    }
    let exponent = |z: f64| log_g(mean + sd * z) - 0.5 * (z * z + LN_TAU);
    // Newton's step upwards, and the width of the peak. Where ln g is convex, the curvature of the normal density alone
    // still leads up.
    let ascent = |z: f64| {
        let [first, second] = slopes(mean + sd * z);
        let curvature = (1.0 - sd * sd * second).max(1.0);
        ((sd * first - z) / curvature, curvature.sqrt().recip())
    };
    let mut breaks = vec![-EDGE, 0.0, EDGE];
    let mut top = f64::NEG_INFINITY;
    // Rounding alone may put the peak of a narrow g on the wrong side of a steep slope.
    let at_peak = [-4.0, 0.0, 4.0].map(|ulps| (peak - mean) / sd * (1.0 + ulps * f64::EPSILON));
    let at_peak = at_peak.into_iter().max_by(|a, b| exponent(*a).total_cmp(&exponent(*b))).unwrap_or_default();
    for start in [0.0, at_peak] {
        let (mode, width) = climb(start, &exponent, &ascent);
        top = top.max(exponent(mode));
        breaks.extend([mode - EDGE * width, mode + EDGE * width]);
        // At a steep slope the mass lies in the tail of the normal density, which falls off within 1/|z|.
        for width in [width, width.min(1.0 / mode.abs().max(1.0))] {
            add_around(mode, width, (f64::NEG_INFINITY, f64::INFINITY), &mut breaks);
        }
    }
    if !top.is_finite() {
        return top;
    }
    top + adaptive(&breaks, TOLERANCE, &|z| (exponent(z) - top).exp()).ln()
}

/// Climbs to a mode of the integrand by Newton's method. Returns it with the width of the peak there.
fn climb(start: f64, exponent: &dyn Fn(f64) -> f64, ascent: &dyn Fn(f64) -> (f64, f64)) -> (f64, f64) {
    let (mut z, mut value) = (start, exponent(start));
    let mut width = 1.0;
    for _ in 0..50 {
        let mut step;
        (step, width) = ascent(z);
        while exponent(z + step) < value && step.abs() > 1e-10 {
            step *= 0.5;
        }
        if exponent(z + step) >= value {
            z += step;
            value = exponent(z);
        }
        if step.abs() < 1e-3 * width {
            break;
        }
    }
    (z, width)
}

/// Adds break points around a place of interest, within bounds, and sorts all of them.
fn add_around(centre: f64, width: f64, (low, high): (f64, f64), breaks: &mut Vec<f64>) {
    let near = [-4.0, -1.0, 0.0, 1.0, 4.0].map(|k| centre + k * width);
    breaks.extend(near.into_iter().filter(|z| low < *z && *z < high));
    breaks.sort_by(f64::total_cmp);
}
