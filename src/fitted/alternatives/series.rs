//! Rows that are a series along one input: which input that is, and the periods that its target may have.

use std::f64::consts::TAU;

use crate::data::{Encoding, Schema};

/// Fewer values are no series.
const FEW: usize = 24;
/// Most frequencies of the spectrum that are looked at.
const MOST: usize = 4000;
/// Periods whose power is at least this share of the highest one fit as well.
const TIE: f64 = 0.97;
/// A season is seen at least so many times.
const SEEN: f64 = 3.0;

/// Whether rows `x`, row-major `[n, d]`, are a series: in the order of their only input, which has dates or evenly
/// spaced values.
pub fn is_series(schema: &Schema, x: &[f64], d: usize) -> bool {
    let dates = matches!(schema.features.as_slice(), [column] if column.encoding == Encoding::Date);
    let ordered = x.windows(2).all(|pair| pair[0] <= pair[1]);
    d == 1 && ordered && (dates || is_even(x))
}

/// Whether values are evenly spaced: no gap differs from the median gap by half of it.
pub fn is_even(values: &[f64]) -> bool {
    let sorted = distinct(values);
    let mut gaps: Vec<f64> = sorted.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let (Some(least), Some(most)) = (gaps.first(), gaps.last()) else { return false };
    let median = gaps[gaps.len() / 2];
    sorted.len() >= FEW && *least > 0.5 * median && *most < 1.5 * median
}

/// The periods of the largest waves in `y` along `x`, apart from a trend, with the double of the first: a season may
/// have two waves. None if `x` has few values, or shows no wave three times.
pub fn periods(x: &[f64], y: &[f64]) -> Vec<f64> {
    let n = x.len() as f64;
    let (low, high) = x.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
    let span = high - low;
    if x.len() < FEW || span <= 0.0 {
        return Vec::new();
    }
    let t: Vec<f64> = x.iter().map(|x| 2.0 * (x - low) / span - 1.0).collect();
    let rest = without_trend(&t, y);
    // Frequencies in waves a span; four of them for each that is independent of the others.
    let finest = 0.45 * n;
    let step = ((finest - SEEN) / MOST as f64).max(0.25);
    let count = ((finest - SEEN) / step).max(0.0) as usize;
    let power = |waves: f64| {
        let (mut cos, mut sin) = (0.0, 0.0);
        for (t, rest) in t.iter().zip(&rest) {
            let angle = TAU * waves * 0.5 * (t + 1.0);
            (cos, sin) = (cos + rest * angle.cos(), sin + rest * angle.sin());
        }
        (cos * cos + sin * sin) / n
    };
    let spectrum: Vec<(f64, f64)> = (0..=count).map(|k| SEEN + step * k as f64).map(|f| (f, power(f))).collect();
    let Some((peak, _)) = spectrum.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)) else { return Vec::new() };
    let near = (-20..=20).map(|k| peak + step * f64::from(k) / 20.0);
    let Some((fine, height)) = near.map(|f| (f, power(f))).max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return Vec::new();
    };
    // A peak is broad. A whole number of units (a year), or of rows, is as good if the spectrum hardly differs there.
    let apart = span / (distinct(x).len().max(2) - 1) as f64;
    let whole = [1.0, apart].map(|unit| (span / fine / unit).round() * unit);
    let as_high = |period: &f64| *period > 0.0 && power(span / period) > TIE * height;
    let period = whole.into_iter().find(as_high).unwrap_or(span / fine);
    let period = rounded(period);
    [period, 2.0 * period].into_iter().filter(|period| SEEN * period <= span).collect()
}

/// Four digits of a number.
fn rounded(period: f64) -> f64 {
    let unit = 10f64.powf(period.log10().floor() - 3.0);
    (period / unit).round() * unit
}

/// The distinct values, the smallest first.
fn distinct(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.dedup();
    sorted
}

/// What is left of `y` beside a parabola in `t`, which runs from −1 to 1: three steps of Gram–Schmidt.
fn without_trend(t: &[f64], y: &[f64]) -> Vec<f64> {
    let mut rest = y.to_vec();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for power in 0..3 {
        let mut column: Vec<f64> = t.iter().map(|t| t.powi(power)).collect();
        let take = |from: &mut Vec<f64>, part: &[f64]| {
            let share = dot(from, part) / dot(part, part).max(f64::MIN_POSITIVE);
            from.iter_mut().zip(part).for_each(|(value, part)| *value -= share * part);
        };
        basis.iter().for_each(|earlier| take(&mut column, earlier));
        take(&mut rest, &column);
        basis.push(column);
    }
    rest
}
