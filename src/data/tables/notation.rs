//! Numbers as people write them: with the sign of a currency, a percent sign, a unit, separated thousands.

use crate::data::Notation;

/// A number with such signs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Written {
    pub(super) value: f64,
    pub(super) notation: Notation,
    /// Whether its only separator, a comma before three digits, could also be a decimal comma.
    pub(super) doubtful: bool,
}

const CURRENCIES: [&str; 26] = [
    "US$", "A$", "C$", "R$", "$", "€", "£", "¥", "₹", "₽", "₩", "₺", "₪", "₴", "zł", "USD", "EUR", "GBP", "CHF", "JPY",
    "AUD", "CAD", "INR", "CNY", "SEK", "NOK",
];
const UNITS: [&str; 40] = [
    "mm", "cm", "dm", "km", "m", "in", "ft", "yd", "mi", "mg", "kg", "g", "lbs", "lb", "oz", "ml", "cl", "l", "L",
    "ms", "s", "min", "h", "°C", "°F", "K", "Hz", "kHz", "MHz", "GHz", "V", "W", "kW", "kWh", "hPa", "kPa", "km/h",
    "mph", "m/s", "bar",
];
const SEPARATORS: [char; 7] = [',', '\'', '’', ' ', '\u{a0}', '\u{202f}', '\u{2009}'];

impl Notation {
    /// The notation of cells of both kinds; none if they contradict each other.
    pub(super) fn with(&self, other: &Self) -> Option<Self> {
        fn one<T: Clone + PartialEq>(a: &Option<T>, b: &Option<T>) -> Option<Option<T>> {
            (a.is_none() || b.is_none() || a == b).then(|| a.clone().or(b.clone()))
        }
        let (currency, thousands) = (one(&self.currency, &other.currency)?, one(&self.thousands, &other.thousands)?);
        let same = self.percent == other.percent && self.unit == other.unit;
        same.then(|| Self { currency, thousands, percent: self.percent, unit: self.unit.clone() })
    }
}

/// A number with signs; none for other cells and for plain numbers.
pub(super) fn written(cell: &str) -> Option<Written> {
    let text = cell.trim();
    // Accountants write negative numbers in brackets.
    let inner = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let (mut sign, mut text) = (if inner.is_some() { -1.0 } else { 1.0 }, inner.unwrap_or(text).trim());
    let mut notation = Notation::default();
    text = signed(text, &mut sign);
    if let Some((currency, rest)) = CURRENCIES.iter().find_map(|c| Some((c, text.strip_prefix(c)?))) {
        (text, notation.currency) = (rest.trim_start(), Some((*currency).into()));
        text = signed(text, &mut sign);
    } else if let Some((currency, rest)) = CURRENCIES.iter().find_map(|c| Some((c, text.strip_suffix(c)?))) {
        (text, notation.currency) = (rest.trim_end(), Some((*currency).into()));
    } else if let Some(rest) = text.strip_suffix('%') {
        (text, notation.percent) = (rest.trim_end(), true);
    } else if let Some((unit, rest)) = unit(text) {
        (text, notation.unit) = (rest, Some(unit.into()));
    }
    let (digits, separator) = without_separators(text)?;
    notation.thousands = separator;
    let doubtful = separator == Some(',') && !text.contains('.') && text.matches(',').count() == 1;
    let value = sign * digits.parse::<f64>().ok()?;
    (inner.is_some() || notation != Notation::default()).then_some(Written { value, notation, doubtful })
}

/// The unit at the end of a text, and the text before it, which ends in a digit or a point.
fn unit(text: &str) -> Option<(&'static str, &str)> {
    let before = |unit: &&'static str| Some((*unit, text.strip_suffix(unit)?.trim_end()));
    UNITS.iter().filter_map(before).find(|(_, rest)| rest.ends_with(|c: char| c.is_ascii_digit() || c == '.'))
}

/// The text after its sign.
fn signed<'a>(text: &'a str, sign: &mut f64) -> &'a str {
    if let Some(rest) = text.strip_prefix(['-', '−']) {
        *sign = -*sign;
        return rest.trim_start();
    }
    text.strip_prefix('+').unwrap_or(text).trim_start()
}

/// Digits with a decimal point, without separators of thousands, and the separator.
fn without_separators(text: &str) -> Option<(String, Option<char>)> {
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if text.len() == text.matches('.').count() || !fraction.is_none_or(digits) {
        return None;
    }
    let Some(separator) = whole.chars().find(|c| SEPARATORS.contains(c)) else {
        return digits(whole).then(|| (text.to_string(), None));
    };
    let groups: Vec<&str> = whole.split(separator).collect();
    let first = (1..=3).contains(&groups[0].len()) && !groups[0].starts_with('0');
    let sound = first && groups[1..].iter().all(|group| group.len() == 3) && groups.iter().all(|group| digits(group));
    // Spaces of every width are one separator.
    let separator = if separator.is_whitespace() { ' ' } else { separator };
    sound.then(|| (groups.concat() + &fraction.map_or(String::new(), |rest| format!(".{rest}")), Some(separator)))
}

/// A number with a decimal comma, with points and commas exchanged; none for other cells.
pub(super) fn exchanged(cell: &str) -> Option<String> {
    if !cell.contains([',', '.']) {
        return None;
    }
    let exchange = |c| match c {
        ',' => '.',
        '.' => ',',
        other => other,
    };
    let text: String = cell.trim().chars().map(exchange).collect();
    (text.parse::<f64>().is_ok() || written(&text).is_some()).then_some(text)
}
