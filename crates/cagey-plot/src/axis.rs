//! The range of an axis, its ticks and how their numbers are written.

use crate::data::Ticks;

/// Larger values are treated as not finite, so that no difference of two values overflows.
const HUGE: f64 = 1e300;
/// Smaller ranges are treated as empty, so that no division by a range overflows.
const TINY: f64 = 1e-290;

/// Values below this on an axis of small steps are written with a power of ten.
const SMALL: f64 = 1e-3;
/// The last decimal of a tick label.
const FINEST: i32 = -9;

/// Whether `value` can be drawn.
pub(super) fn drawable(value: f64) -> bool {
    value.abs() <= HUGE
}

/// A mapping of values to the unit interval.
#[derive(Clone)]
pub(super) struct Axis {
    /// The ends in drawn units: the values themselves, or their logarithms to base ten.
    low: f64,
    high: f64,
    logarithmic: bool,
    /// Whether only whole numbers have a meaning.
    whole: bool,
    /// Other ticks than round numbers.
    own: Option<Ticks>,
}

impl Axis {
    /// An axis over all drawable `values`, wider by the share `pad` at each end; none if nothing can be drawn.
    pub fn linear(values: impl IntoIterator<Item = f64>, pad: f64) -> Option<Self> {
        let (low, high) = range(values)?;
        Some(Self::padded(low, high, pad, false))
    }

    /// A logarithmic axis over all positive `values`.
    pub fn logarithmic(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (low, high) = range(values.into_iter().filter(|&value| value > 0.0).map(f64::log10))?;
        Some(Self::padded(low, high, 0.01, true))
    }

    /// The same axis for whole numbers, such as counts of steps.
    pub fn whole(self) -> Self {
        Self { whole: true, ..self }
    }

    /// The same axis with other ticks, if there are some.
    pub fn with_ticks(self, own: Option<Ticks>) -> Self {
        Self { own, ..self }
    }

    /// An axis from `low` to `high`.
    pub fn exact(low: f64, high: f64) -> Self {
        Self::padded(low, high, 0.0, false)
    }

    fn padded(low: f64, high: f64, pad: f64, logarithmic: bool) -> Self {
        let size = low.abs().max(high.abs());
        let constant = high - low <= (1e-12 * size).max(TINY);
        let margin = match constant {
            false => pad * (high - low),
            true if logarithmic || 0.1 * size < TINY => 1.0,
            true => 0.1 * size,
        };
        Self { low: low - margin, high: high + margin, logarithmic, whole: false, own: None }
    }

    /// Where `value` lies between the ends, 0 to 1; none if it cannot be drawn.
    pub fn place(&self, value: f64) -> Option<f64> {
        let drawn = if self.logarithmic { value.log10() } else { value };
        drawable(drawn).then(|| (drawn - self.low) / (self.high - self.low))
    }

    /// About `count` round values within the range, or fewer, as places from 0 to 1, with their labels.
    pub fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        let own = self.own.map(|own| own(self.low, self.high, count)).filter(|own| !own.is_empty());
        let numbers = || if self.logarithmic { self.decades(count) } else { self.round_values(count) };
        own.unwrap_or_else(numbers)
            .into_iter()
            .map(|(drawn, label)| ((drawn - self.low) / (self.high - self.low), label))
            .collect()
    }

    fn round_values(&self, count: usize) -> Vec<(f64, String)> {
        let raw = (self.high - self.low) / count.max(1) as f64;
        let magnitude = 10_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0].into_iter().map(|digit| digit * magnitude).find(|&step| step >= raw * 0.999);
        let step = step.unwrap_or(10.0 * magnitude);
        let step = if self.whole { step.max(1.0) } else { step };
        // A tick that lies just outside because of rounding belongs to the range.
        let (first, last) = ((self.low / step - 1e-6).ceil(), (self.high / step + 1e-6).floor());
        let size = self.low.abs().max(self.high.abs());
        (0..=(last - first).clamp(0.0, 100.0) as usize)
            .map(|i| (first + i as f64) * step)
            .map(|value| (value, number(value, step, size)))
            .collect()
    }

    fn decades(&self, count: usize) -> Vec<(f64, String)> {
        let (first, last) = (self.low.ceil() as i32, self.high.floor() as i32);
        let decades = (last - first).max(0) as usize + 1;
        let stride = decades.div_ceil(count.max(1)) as i32;
        let digits: &[u8] = match decades {
            0..=1 => &[1, 2, 3, 5],
            2 => &[1, 2, 5],
            3 if count > 8 => &[1, 3],
            _ => &[1],
        };
        (first - 1..=last)
            .filter(|decade| decade.rem_euclid(stride) == 0)
            .flat_map(|decade| {
                digits.iter().map(move |&digit| (f64::from(decade) + f64::from(digit).log10(), digit, decade))
            })
            .filter(|&(drawn, ..)| drawn >= self.low - 1e-9 && drawn <= self.high + 1e-9)
            .map(|(drawn, digit, decade)| (drawn, power(digit, decade)))
            .collect()
    }
}

/// The least and the greatest drawable value.
fn range(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let grow = |ends: Option<(f64, f64)>, value: f64| {
        Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    };
    values.into_iter().filter(|&value| drawable(value)).fold(None, grow)
}

/// A multiple of `step` with as many digits as the step has, on an axis whose values reach `size`.
fn number(value: f64, step: f64, size: f64) -> String {
    let value = if value.abs() < step * 1e-6 { 0.0 } else { value };
    let step_decade = (step * 1.0001).log10().floor() as i32;
    // Values that hardly differ need many digits, but no power of ten.
    let fine = size >= SMALL && step_decade >= FINEST;
    if size < 99_999.5 && (step_decade >= -4 || fine) {
        return typeset(&format!("{value:.*}", (-step_decade).max(0) as usize));
    }
    if value == 0.0 {
        return "0".into();
    }
    let decade = size.log10().floor() as i32;
    // Divides twice, since a single power of ten may be out of range although the quotient is not.
    let half = decade / 2;
    let mantissa = value / 10_f64.powi(half) / 10_f64.powi(decade - half);
    typeset(&format!("{mantissa:.*}×10{}", (decade - step_decade).max(0) as usize, superscript(decade)))
}

/// `digit` times ten to the power of `decade`.
fn power(digit: u8, decade: i32) -> String {
    match decade {
        0..=4 => format!("{}", u32::from(digit) * 10_u32.pow(decade.unsigned_abs())),
        -3..0 => format!("{:.*}", decade.unsigned_abs() as usize, f64::from(digit) * 10_f64.powi(decade)),
        _ if digit == 1 => format!("10{}", superscript(decade)),
        _ => format!("{digit}×10{}", superscript(decade)),
    }
}

fn superscript(exponent: i32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raised = |c: char| c.to_digit(10).map_or('⁻', |digit| DIGITS[digit as usize]);
    exponent.to_string().chars().map(raised).collect()
}

/// With a minus sign in place of the hyphen.
fn typeset(number: &str) -> String {
    number.replace('-', "−")
}
