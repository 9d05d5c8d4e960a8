//! One cell of a table: number, date, category or missing.

use jiff::{Timestamp, civil::DateTime, tz::Offset};

use crate::data::dataset::LARGEST;

const MISSING: [&str; 16] = [
    "",
    "na",
    "n/a",
    "#n/a",
    "nan",
    "+nan",
    "-nan",
    "nat",
    "null",
    "none",
    "?",
    "inf",
    "+inf",
    "-inf",
    "infinity",
    "-infinity",
];

/// A cell as in its file.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cell<'a> {
    /// From a binary file.
    Number(f64),
    /// From a text file, or text in a binary one.
    Text(&'a str),
}

/// The meaning of a cell when nothing is known about its column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    Number(f64),
    Missing,
    TooLarge,
    /// A date, as a decimal year.
    Date(f64),
    Label,
}

impl Cell<'_> {
    /// The number in the cell, or the reason why there is none.
    pub(super) fn value(&self) -> Value {
        let number = match *self {
            Self::Number(number) => Some(number),
            Self::Text(text) => text.trim().parse::<f64>().ok(),
        };
        match (number, *self) {
            (Some(number), _) if number.abs() <= LARGEST => Value::Number(number),
            (_, cell) if cell.is_missing() => Value::Missing,
            (Some(_), _) => Value::TooLarge,
            (None, Self::Text(text)) => decimal_year(text).map_or(Value::Label, Value::Date),
            (None, Self::Number(_)) => Value::Missing,
        }
    }

    pub(super) fn is_missing(&self) -> bool {
        match *self {
            Self::Number(number) => !number.is_finite(),
            Self::Text(text) => {
                let text = text.trim();
                !text.starts_with(|first: char| first.is_ascii_digit())
                    && MISSING.iter().any(|missing| text.eq_ignore_ascii_case(missing))
            }
        }
    }

    /// The text of the cell, trimmed, for categories.
    pub(super) fn label(&self) -> String {
        match *self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.trim().to_owned(),
        }
    }

    /// The cell as shown in a message: one line, not too long, in backquotes.
    pub(super) fn quoted(&self) -> String {
        let text = self.label();
        let mut shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
        if text.chars().nth(40).is_some() {
            shown.push('…');
        }
        format!("`{shown}`")
    }
}

/// An ISO 8601 date or date-time as a year with a fraction. Times with an offset from UTC are converted to UTC.
///
/// `year + (days since 1 January) / (365 or 366)`.
pub(super) fn decimal_year(text: &str) -> Option<f64> {
    let text = text.trim();
    let when: DateTime = match text.parse::<Timestamp>() {
        Ok(instant) => Offset::UTC.to_datetime(instant),
        Err(_) => text.parse().ok()?,
    };
    let seconds = f64::from(when.hour()) * 3600.0
        + f64::from(when.minute()) * 60.0
        + f64::from(when.second())
        + f64::from(when.subsec_nanosecond()) * 1e-9;
    let days = f64::from(when.day_of_year() - 1) + seconds / 86_400.0;
    Some(f64::from(when.year()) + days / f64::from(when.days_in_year()))
}
