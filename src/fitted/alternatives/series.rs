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
/// Waves of a season that are looked at.
const HARMONICS: u32 = 6;
/// The share of a period within which it is another, and the share of the largest power that is hardly any.
const NEAR: f64 = 0.02;
const HARDLY: f64 = 0.02;

/// Whether rows `x`, row-major `[n, d]`, are a series: in the order of their only input, which has dates or evenly
/// spaced values.
pub fn is_series(schema: &Schema, x: &[f64], d: usize) -> bool {
    let dates = matches!(schema.features.as_slice(), [column] if column.encoding == Encoding::Date);
    let ordered = x.windows(2).all(|pair| pair[0] <= pair[1]);
    d == 1 && ordered && (dates || is_even(x))
}

/// Whether values are evenly spaced, apart from a few that are missing: no gap is shorter than half the median gap, and
/// nine of ten are shorter than 1.5 times it.
pub fn is_even(values: &[f64]) -> bool {
    let sorted = distinct(values);
    let mut gaps: Vec<f64> = sorted.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let Some(least) = gaps.first() else { return false };
    let (median, most) = (gaps[gaps.len() / 2], gaps[(gaps.len() - 1) * 9 / 10]);
    sorted.len() >= FEW && *least > 0.5 * median && most < 1.5 * median
}

/// The median distance between values that follow one another; none for a single one.
pub fn median_gap(values: &[f64]) -> Option<f64> {
    let sorted = distinct(values);
    let mut gaps: Vec<f64> = sorted.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable_by(f64::total_cmp);
    gaps.get(gaps.len() / 2).copied()
}

/// The periods of the largest waves in `y` along `x`, apart from a trend, with the double of the first: a season may
/// have two waves. None if `x` has few values, or shows no wave three times.
pub fn periods(x: &[f64], y: &[f64]) -> Vec<f64> {
    let Some(waves) = Waves::of(x, y) else { return Vec::new() };
    let (Some((fine, height)), span) = (waves.largest(), waves.span) else { return Vec::new() };
    // A peak is broad. A whole number of units (a year), or of rows, is as good if the spectrum hardly differs there.
    let apart = span / (distinct(x).len().max(2) - 1) as f64;
    let whole = [1.0, apart].map(|unit| (span / fine / unit).round() * unit);
    let as_high = |period: &f64| *period > 0.0 && waves.power(span / period) > TIE * height;
    let period = whole.into_iter().find(as_high).unwrap_or(span / fine);
    let period = rounded(period);
    [period, 2.0 * period].into_iter().filter(|period| SEEN * period <= span).collect()
}

/// How many times a `period` has the largest wave of `y` along `x`, if it has that wave several times and no other:
/// then it is a multiple of the period of `y`.
pub fn repeats(x: &[f64], y: &[f64], period: f64) -> Option<u32> {
    let waves = Waves::of(x, y).filter(|_| x.len() <= MOST)?;
    let (fine, height) = waves.largest()?;
    let ratio = fine * period / waves.span;
    let times = ratio.round();
    if !(2.0..=f64::from(HARMONICS)).contains(&times) || (ratio / times - 1.0).abs() > NEAR {
        return None;
    }
    let times = times as u32;
    // A wave has power at near frequencies too.
    let rest = waves.without((1..=HARMONICS).map(|wave| f64::from(wave) * fine));
    let mut others = (1..=2 * HARMONICS).filter(|wave| wave % times != 0);
    others.all(|wave| rest.power(f64::from(wave) * rest.span / period) < HARDLY * height).then_some(times)
}

/// What is left of a target beside its trend, as a sum of waves along an input.
struct Waves {
    /// Places along the input, from −1 to 1.
    t: Vec<f64>,
    rest: Vec<f64>,
    /// The range of the input, in its own units.
    span: f64,
}

impl Waves {
    /// None for few values.
    fn of(x: &[f64], y: &[f64]) -> Option<Self> {
        let (low, high) = x.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
        let span = high - low;
        if x.len() < FEW || span <= 0.0 {
            return None;
        }
        let t: Vec<f64> = x.iter().map(|x| 2.0 * (x - low) / span - 1.0).collect();
        let parabola = (0..3).map(|power| t.iter().map(|t| t.powi(power)).collect());
        let rest = without(y, parabola);
        Some(Self { t, rest, span })
    }

    /// What is left beside waves of these frequencies.
    fn without(self, waves: impl Iterator<Item = f64>) -> Self {
        let wave = |waves: f64, of: fn(f64) -> f64| self.t.iter().map(|t| of(TAU * waves * 0.5 * (t + 1.0))).collect();
        let columns = waves.flat_map(|waves| [wave(waves, f64::cos), wave(waves, f64::sin)]);
        Self { rest: without(&self.rest, columns), ..self }
    }

    /// The power of a frequency in `waves` a span.
    fn power(&self, waves: f64) -> f64 {
        let (mut cos, mut sin) = (0.0, 0.0);
        for (t, rest) in self.t.iter().zip(&self.rest) {
            let angle = TAU * waves * 0.5 * (t + 1.0);
            (cos, sin) = (cos + rest * angle.cos(), sin + rest * angle.sin());
        }
        (cos * cos + sin * sin) / self.t.len() as f64
    }

    /// The frequency of the largest wave and its power.
    fn largest(&self) -> Option<(f64, f64)> {
        // Frequencies in waves a span; four of them for each that is independent of the others.
        let finest = 0.45 * self.t.len() as f64;
        let step = ((finest - SEEN) / MOST as f64).max(0.25);
        let count = ((finest - SEEN) / step).max(0.0) as usize;
        let highest =
            |found: &mut dyn Iterator<Item = f64>| found.map(|f| (f, self.power(f))).max_by(|a, b| a.1.total_cmp(&b.1));
        let (peak, _) = highest(&mut (0..=count).map(|k| SEEN + step * k as f64))?;
        highest(&mut (-20..=20).map(|k| peak + step * f64::from(k) / 20.0))
    }
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

/// What is left of `y` beside a sum of columns, by steps of Gram–Schmidt.
fn without(y: &[f64], columns: impl Iterator<Item = Vec<f64>>) -> Vec<f64> {
    let mut rest = y.to_vec();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for mut column in columns {
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
