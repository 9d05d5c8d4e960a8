//! Averages over the targets that a density gives for latent values: moments and probabilities of densities without
//! closed forms.

use rand::{Rng, RngExt};

use super::density::{Density, Support};
use super::quadrature::adaptive;
use super::targets::Row;
use crate::arithmetic::special::{logistic, softplus};

/// Where the density has fallen by this exponent, sums and integrals end.
const END: f64 = 40.0;

/// Counts with their mode beyond this number are treated as a continuum.
const MANY: f64 = 1e5;

/// All numbers.
const ALL: [f64; 2] = [f64::NEG_INFINITY, f64::INFINITY];

/// `E[g(y) | f]` over the targets up to `last`, for one latent vector `f`. Densities are taken to have one peak.
pub fn average<D: Density + ?Sized>(d: &D, f: &[f64], auxiliary: f64, last: f64, g: &dyn Fn(f64) -> f64) -> f64 {
    let log = |y: f64| d.log_density(Row { y, auxiliary }, f);
    let weighed = |y: f64| g(y) * log(y).exp();
    match d.support(auxiliary) {
        Support::Classes(classes) => (0..classes).map(|c| c as f64).take_while(|c| *c <= last).map(weighed).sum(),
        Support::Counts(most) => {
            let most = most.unwrap_or(f64::INFINITY);
            let top = highest(&|y| if y < 0.0 || y > most { f64::NEG_INFINITY } else { log(y.floor()) }, 0.0);
            let top = top.floor().clamp(0.0, most);
            if top > MANY {
                return integral(&log, [-0.5, most + 0.5], top, last.floor() + 0.5, g);
            }
            let (least, last) = (log(top) - END, last.min(most));
            let counted = |y: &f64| log(*y) > least;
            let down = std::iter::successors(Some(top), |y| Some(y - 1.0)).take_while(|y| *y >= 0.0 && counted(y));
            let up = std::iter::successors(Some(top + 1.0), |y| Some(y + 1.0)).take_while(|y| *y <= last && counted(y));
            down.filter(|y| *y <= last).chain(up).map(weighed).sum()
        }
        Support::Real => integral(&log, ALL, 0.0, last, g),
        Support::Positive | Support::Unit if last <= 0.0 => 0.0,
        // On an unbounded scale, with the slope of the way back.
        Support::Positive => integral(&|t| log(t.exp()) + t, ALL, 0.0, last.ln(), &|t| g(t.exp())),
        Support::Unit => {
            let density =
                |t: f64| log(logistic(t).clamp(f64::MIN_POSITIVE, 1.0 - f64::EPSILON)) - softplus(t) - softplus(-t);
            let end = if last >= 1.0 { f64::INFINITY } else { (last / (1.0 - last)).ln() };
            integral(&density, ALL, 0.0, end, &|t| g(logistic(t)))
        }
    }
}

/// Draws a target by inversion of the distribution function.
pub fn draw<D: Density + ?Sized>(d: &D, f: &[f64], auxiliary: f64, rng: &mut dyn Rng) -> f64 {
    let u = rng.random::<f64>();
    let enough = |y: f64| d.cdf(Row { y, auxiliary }, f) >= u;
    let (to, whole): (fn(f64) -> f64, bool) = match d.support(auxiliary) {
        Support::Real => (|t| t, false),
        Support::Positive => (f64::exp, false),
        Support::Unit => (logistic, false),
        Support::Counts(_) | Support::Classes(_) => (|t| t, true),
    };
    let (mut low, mut high) = (-1.0, 1.0);
    while !whole && low > -1e15 && enough(to(low)) {
        low *= 2.0;
    }
    while high < 1e15 && !enough(to(high)) {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..100 {
        let middle = if whole { (0.5 * (low + high)).floor() } else { 0.5 * (low + high) };
        if middle <= low || middle >= high || high - low < 1e-9 * high.abs().max(1e-9) {
            break;
        }
        if enough(to(middle)) { high = middle } else { low = middle }
    }
    to(high.min(d.support(auxiliary).last()))
}

/// `∫ g exp(log)` between two ends, up to `last`. The search for the peak begins at `start`.
fn integral(log: &dyn Fn(f64) -> f64, [low, high]: [f64; 2], start: f64, last: f64, g: &dyn Fn(f64) -> f64) -> f64 {
    let peak = highest(log, start).clamp(low, high);
    let top = log(peak);
    if !top.is_finite() {
        return f64::NAN;
    }
    // Pieces that grow with the distance from the peak, as far as the density counts.
    let side = |sign: f64| {
        let reach = |distance: &f64| top - log(peak + sign * distance) < END;
        let mut near = 1.0;
        while near > 1e-12 * peak.abs().max(1e-150) && top - log(peak + sign * near) > 0.5 {
            near *= 0.5;
        }
        let places = std::iter::successors(Some(near), |distance| Some(2.0 * distance)).take(2000);
        let inside: Vec<f64> = places.take_while(reach).collect();
        let end = inside.last().map_or(near, |last| 2.0 * last);
        inside.into_iter().chain([end]).map(move |distance| peak + sign * distance)
    };
    let mut breaks: Vec<f64> =
        side(-1.0).chain([peak]).chain(side(1.0)).map(|t| t.clamp(low, high.min(last))).collect();
    breaks.sort_by(f64::total_cmp);
    let weighed = |t: f64| g(t) * (log(t) - top).exp();
    let piece = |pair: &[f64]| (pair[1] - pair[0]) * weighed(pair[0]).abs().max(weighed(pair[1]).abs());
    let size: f64 = breaks.windows(2).map(piece).sum();
    top.exp() * adaptive(&breaks, 1e-9 * size, &weighed)
}

/// A place near the peak, from `start` on: steps grow while they lead up, and then become small.
fn highest(log: &dyn Fn(f64) -> f64, start: f64) -> f64 {
    let (mut place, mut value, mut step) = (start, log(start), 1.0_f64);
    for _ in 0..400 {
        let next = [place + step, place - step].into_iter().map(|t| (t, log(t))).find(|(_, next)| *next > value);
        match next {
            Some((to, next)) => (place, value, step) = (to, next, 2.0 * step),
            None => step *= 0.25,
        }
        if step.abs() < 1e-3 && next.is_none() {
            break;
        }
    }
    place
}
