//! Checks of option values. They run in clap, which reports a problem with the option's name.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;

/// The largest number of steps.
pub const MOST: u64 = 1_000_000_000;

/// A whole number in a range.
pub fn count(range: RangeInclusive<u64>) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(range)
}

/// The separator of cells.
pub fn separator(text: &str) -> Result<u8, String> {
    match (text, text.as_bytes()) {
        ("tab" | "\\t", _) => Ok(b'\t'),
        (_, &[byte]) if !byte.is_ascii_alphanumeric() && byte.is_ascii() && !b"\"\n\r.+-".contains(&byte) => Ok(byte),
        _ => Err("must be one character such as `;` or `|`, or `tab`".into()),
    }
}

/// A number between 0 and 1, both ends excluded.
pub fn share(text: &str) -> Result<f64, String> {
    match number(text)? {
        value if value > 0.0 && value < 1.0 => Ok(value),
        _ => Err("must be above 0 and below 1".into()),
    }
}

/// A number from 0 to 1.
pub fn rate(text: &str) -> Result<f64, String> {
    match number(text)? {
        value if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err("must lie within 0 and 1".into()),
    }
}

/// A positive number.
pub fn positive(text: &str) -> Result<f64, String> {
    match number(text)? {
        value if value > 0.0 => Ok(value),
        _ => Err("must be above 0".into()),
    }
}

/// A length of time such as `90s`, `15m` or `2h`; without a unit, in seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        unit => return Err(format!("unknown unit `{unit}`; use s, m or h")),
    };
    let value = number(digits)?;
    Duration::try_from_secs_f64(value * factor).map_err(|_| "must be a time from 0 up, such as 90s, 15m or 2h".into())
}

/// A size of memory such as `500MB`, `8GB` or `2GiB`; without a unit, in bytes.
pub fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "mib" => f64::from(1 << 20),
        "gib" => f64::from(1 << 30),
        _ => return Err(format!("unknown unit `{}`; use MB or GB", &text[digits.len()..])),
    };
    match number(digits)? * factor {
        bytes if bytes >= 1.0 => Ok(bytes as u64),
        _ => Err("must be a size above 0, such as 500MB or 8GB".into()),
    }
}

/// A name whose case does not matter.
pub fn lower_case(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(text.trim().to_ascii_lowercase())
}

/// A finite number.
pub fn number(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
    value.ok_or_else(|| format!("`{}` is not a finite number", text.trim()))
}
