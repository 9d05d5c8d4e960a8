//! Integrals of a density over the Gaussian marginal of one latent function.

use super::density::{Density, Marginal};
use super::quadrature::adaptive;
use super::special::LN_TAU;
use super::targets::Row;

/// The normal density is taken for zero beyond so many standard deviations.
const EDGE: f64 = 9.0;
const TOLERANCE: f64 = 1e-9;

/// `E[g(f)]` for a bounded or slowly growing `g` that may turn sharply near `turn`.
pub(super) fn average(at: Marginal, turn: f64, g: &dyn Fn(f64) -> f64) -> f64 {
    let (mean, sd) = (at.mean[0], at.variance[0].max(0.0).sqrt());
    if sd == 0.0 {
        return g(mean);
    }
    let mut breaks = vec![-EDGE, -3.0, 0.0, 3.0, EDGE];
    add_around((turn - mean) / sd, 1.0 / sd, (-EDGE, EDGE), &mut breaks);
    let weighted = |z: f64| g(mean + sd * z) * (-0.5 * (z * z + LN_TAU)).exp();
    let size = breaks.iter().map(|&z| weighted(z).abs()).fold(0.0, f64::max);
    adaptive(&breaks, TOLERANCE * size, &weighted)
}

/// `ln E[p(y | f)]`, the integrand divided by its largest value so that nothing underflows.
pub(super) fn log_density<D: Density + ?Sized>(density: &D, row: Row, at: Marginal) -> f64 {
    let (mean, sd) = (at.mean[0], at.variance[0].max(0.0).sqrt());
    if sd == 0.0 {
        return density.log_density(row, &[mean]);
    }
    let exponent = |z: f64| density.log_density(row, &[mean + sd * z]) - 0.5 * (z * z + LN_TAU);
    let peak = (density.peak(row) - mean) / sd;
    let starts = [0.0, peak];
    let mut breaks = vec![-EDGE, 0.0, EDGE];
    let mut top = f64::NEG_INFINITY;
    for start in starts {
        let (mode, width) = climb(density, row, mean, sd, start, &exponent);
        top = top.max(exponent(mode));
        breaks.extend([mode - EDGE * width, mode + EDGE * width]);
        add_around(mode, width, (f64::NEG_INFINITY, f64::INFINITY), &mut breaks);
    }
    if !top.is_finite() {
        return top;
    }
    top + adaptive(&breaks, TOLERANCE, &|z| (exponent(z) - top).exp()).ln()
}

/// `ln E[exp(log_g(f))]` for a `log_g` that varies on the scale of the marginal's standard deviation.
pub(super) fn log_average(mean: f64, variance: f64, log_g: &dyn Fn(f64) -> f64) -> f64 {
    let sd = variance.max(0.0).sqrt();
    let exponent = |z: f64| log_g(mean + sd * z) - 0.5 * (z * z + LN_TAU);
    let grid: Vec<f64> = (-36..=36).map(|k| 0.25 * f64::from(k)).collect();
    let (mode, top) =
        grid.iter().map(|&z| (z, exponent(z))).fold((0.0, f64::NEG_INFINITY), |a, b| if b.1 > a.1 { b } else { a });
    if !top.is_finite() {
        return top;
    }
    let mut breaks = vec![-EDGE, 0.0, EDGE];
    add_around(mode, 0.5, (-EDGE, EDGE), &mut breaks);
    top + adaptive(&breaks, TOLERANCE, &|z| (exponent(z) - top).exp()).ln()
}

/// Newton's ascent in `z` to a mode of the integrand, with the width of the peak there.
fn climb<D: Density + ?Sized>(
    density: &D,
    row: Row,
    mean: f64,
    sd: f64,
    start: f64,
    exponent: &dyn Fn(f64) -> f64,
) -> (f64, f64) {
    let (mut z, mut value) = (start, exponent(start));
    let mut width = 1.0;
    let (mut first, mut second) = ([0.0], [0.0]);
    for _ in 0..50 {
        density.derivatives(row, &[mean + sd * z], &mut first, &mut second);
        let slope = sd * first[0] - z;
        // Where the density is convex in f, the prior's curvature alone still gives an ascent.
        let curvature = (1.0 - sd * sd * second[0]).max(1.0);
        width = curvature.sqrt().recip();
        let mut step = slope / curvature;
        while exponent(z + step) < value && step.abs() > 1e-10 {
            step *= 0.5;
        }
        z += step;
        value = exponent(z);
        if step.abs() < 1e-3 * width {
            break;
        }
    }
    (z, width)
}

/// Adds break points around a place of interest, within bounds, and sorts.
fn add_around(centre: f64, width: f64, (low, high): (f64, f64), breaks: &mut Vec<f64>) {
    let near = [-4.0, -1.0, 0.0, 1.0, 4.0].map(|k| centre + k * width);
    breaks.extend(near.into_iter().filter(|z| low < *z && *z < high));
    breaks.sort_by(f64::total_cmp);
}
