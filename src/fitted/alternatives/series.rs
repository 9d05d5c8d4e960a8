//! Rows that are a series along one input: which input that is, and the periods that its target may have.

use std::f64::consts::TAU;

use crate::arithmetic::ends;
use crate::data::Schema;

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
/// A further season stands out of the spectrum about it by this factor, is so many waves a span away from the first
/// harmonics of others, and has this share of what they leave.
const OUT: f64 = 30.0;
const APART: f64 = 4.0;
const SHARE: f64 = 0.02;
/// A season of fewer times another is a whole number of these, if its wave is so many waves a span away.
const NESTED: u32 = 10;
const NEARBY: f64 = 0.3;
/// Other waves than the first are taken for those of such a season where the shorter one is seen so many times: chance
/// would hardly bring a wave as near to one.
const OFTEN: f64 = 50.0;
/// Waves that are looked at for one that stands out.
const LOOKS: usize = 60;
/// A wave is a harmonic of a season of up to so many times its period.
const TIMES: u32 = 8;
/// Of more rows, the spectrum is that of the last ones.
const LAST: usize = 8192;
/// The share of a period within which it is another, and the share of the largest power that is hardly any.
const NEAR: f64 = 0.02;
const HARDLY: f64 = 0.02;

/// Whether rows `x`, row-major `[n, d]`, are a series: in the order of their only input, which has dates or evenly
/// spaced values.
pub fn is_series(schema: &Schema, x: &[f64], d: usize) -> bool {
    let dates = matches!(schema.features.as_slice(), [column] if column.encoding.is_date());
    let ordered = x.windows(2).all(|pair| pair[0] <= pair[1]);
    d == 1 && ordered && (dates || is_even(x))
}

/// Whether values are evenly spaced, apart from a few that are missing: no gap is shorter than half the median gap, and
/// nine of ten are shorter than 1.5 times it.
pub fn is_even(values: &[f64]) -> bool {
    let gaps = gaps(values);
    let Some(least) = gaps.first() else { return false };
    let (median, most) = (gaps[gaps.len() / 2], gaps[(gaps.len() - 1) * 9 / 10]);
    gaps.len() + 1 >= FEW && *least > 0.5 * median && most < 1.5 * median
}

/// Whether hardly any value occurs twice, as times do and sizes or prices do not.
pub fn is_single(values: &[f64]) -> bool {
    10 * distinct(values).len() >= 9 * values.len()
}

/// The numbers of `n` rows in the order of a value.
pub fn in_order(n: usize, value: impl Fn(usize) -> f64) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..n).collect();
    rows.sort_by(|a, b| value(*a).total_cmp(&value(*b)));
    rows
}

/// The distance between the least and the largest value.
pub fn span(values: &[f64]) -> f64 {
    let (low, high) = ends(values);
    high - low
}

/// The median distance between values that follow one another; none for a single one.
pub fn median_gap(values: &[f64]) -> Option<f64> {
    let gaps = gaps(values);
    gaps.get(gaps.len() / 2).copied()
}

/// The distances between values that follow one another, the smallest first.
fn gaps(values: &[f64]) -> Vec<f64> {
    let mut gaps: Vec<f64> = distinct(values).windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable_by(f64::total_cmp);
    gaps
}

/// The periods of the largest waves in `y` along `x`, apart from a trend, with the double of the first: a season may
/// have two waves. None if `x` has few values, or shows no wave three times.
pub fn periods(x: &[f64], y: &[f64]) -> Vec<f64> {
    let (x, y) = last(x, y);
    let Some(waves) = Waves::of(&x, &y) else { return Vec::new() };
    let Some((fine, _)) = waves.largest() else { return Vec::new() };
    let period = waves.whole(fine, &x);
    [period, 2.0 * period].into_iter().filter(|period| SEEN * period <= waves.span).collect()
}

/// The period of a season of `y` along `x` beside those that are known: of the largest wave in what they leave that
/// stands out of the spectrum about it. If that is a harmonic of a longer season, its own wave stands out too.
pub fn further(x: &[f64], y: &[f64], known: &[f64]) -> Option<f64> {
    let (x, y) = last(x, y);
    let waves = Waves::of(&x, &y)?;
    let (span, finest) = (waves.span, waves.finest());
    let harmonics = known.iter().flat_map(|period| (1..=HARMONICS).map(move |k| f64::from(k) * span / period));
    let harmonics: Vec<f64> = harmonics.filter(|wave| *wave < finest).collect();
    let rest = waves.without(harmonics.iter().copied());
    let spectrum = rest.spectrum();
    let total: f64 = rest.rest.iter().map(|rest| rest * rest).sum();
    let stands_out = |wave: f64| {
        let about = spectrum.iter().filter(|(other, _)| (wave / 1.5..wave * 1.5).contains(other));
        let mut about: Vec<f64> = about.map(|(_, power)| *power).collect();
        about.sort_unstable_by(f64::total_cmp);
        let middle = about.get(about.len() / 2).copied().unwrap_or(f64::INFINITY);
        harmonics.iter().all(|known| (known - wave).abs() >= APART) && rest.power(wave) > OUT * middle
    };
    let mut peaks = spectrum.clone();
    peaks.sort_by(|a, b| b.1.total_cmp(&a.1));
    let large = peaks.iter().take(LOOKS).filter(|(_, power)| 2.0 * power > SHARE * total);
    let (peak, _) = large.into_iter().find(|(wave, _)| stands_out(*wave))?;
    let fine = rest.refined(*peak).0;
    let longer = (2..=TIMES).rev().map(|times| fine / f64::from(times));
    let own = longer.filter(|wave| *wave >= SEEN).find(|wave| stands_out(*wave)).unwrap_or(fine);
    let season = longer_season(own, known, span).unwrap_or_else(|| rest.whole(own, &x));
    Some(season).filter(|season| SEEN * season <= 1.001 * span)
}

/// The longer season, a few times one that is known, of which a wave is the first or another harmonic. Of a few waves,
/// the peak is broad, and the shorter season fits in a whole number of times. Of many, other harmonics may be larger:
/// a week whose days differ has waves of 21 and 28 hours.
fn longer_season(wave: f64, known: &[f64], span: f64) -> Option<f64> {
    let several = known.iter().flat_map(|period| (2..NESTED).map(move |times| (f64::from(times), *period)));
    let harmonic = |(times, period): (f64, f64)| {
        let first = span / (times * period);
        let number = (wave / first).round();
        let other = span / period >= OFTEN && number > 0.0 && number % times != 0.0;
        ((number == 1.0 || other) && (number * first - wave).abs() < NEARBY).then_some(times * period)
    };
    several.filter_map(harmonic).next()
}

/// The last rows along an input, if there are many.
fn last(x: &[f64], y: &[f64]) -> (Vec<f64>, Vec<f64>) {
    if x.len() <= LAST {
        return (x.to_vec(), y.to_vec());
    }
    in_order(x.len(), |row| x[row])[x.len() - LAST..].iter().map(|row| (x[*row], y[*row])).unzip()
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
        let (low, high) = ends(x);
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

    /// The highest frequency that rows show.
    fn finest(&self) -> f64 {
        0.45 * self.t.len() as f64
    }

    /// Frequencies in waves a span, four of them for each that is independent of the others if rows are few, and their
    /// powers.
    fn spectrum(&self) -> Vec<(f64, f64)> {
        let room = self.finest() - SEEN;
        let step = (room / MOST as f64).max(0.25);
        let count = (room / step).max(0.0) as usize;
        (0..=count).map(|k| SEEN + step * k as f64).map(|wave| (wave, self.power(wave))).collect()
    }

    /// The highest power near a frequency.
    fn refined(&self, peak: f64) -> (f64, f64) {
        let step = ((self.finest() - SEEN) / MOST as f64).max(0.25);
        let near = (-20..=20).map(|k| peak + step * f64::from(k) / 20.0).map(|wave| (wave, self.power(wave)));
        near.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((peak, 0.0))
    }

    /// The frequency of the largest wave and its power.
    fn largest(&self) -> Option<(f64, f64)> {
        let (peak, _) = self.spectrum().into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(self.refined(peak))
    }

    /// The period of a wave. A peak is broad: a whole number of units (a year), or of rows, is as good if the spectrum
    /// hardly differs there.
    fn whole(&self, fine: f64, x: &[f64]) -> f64 {
        let apart = self.span / (distinct(x).len().max(2) - 1) as f64;
        let height = self.power(fine);
        let whole = [1.0, apart].map(|unit| (self.span / fine / unit).round() * unit);
        let as_high = |period: &f64| *period > 0.0 && self.power(self.span / period) > TIE * height;
        rounded(whole.into_iter().find(as_high).unwrap_or(self.span / fine))
    }
}

/// Four digits of a number.
fn rounded(period: f64) -> f64 {
    let unit = 10f64.powf(period.log10().floor() - 3.0);
    (period / unit).round() * unit
}

/// The distinct values, the smallest first.
pub fn distinct(values: &[f64]) -> Vec<f64> {
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
