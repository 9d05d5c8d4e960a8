//! One cell of a table: number, date, category or missing.

use super::dates::{When, when};
use super::notation::{Written, written};
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
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(f64),
    /// A number with signs.
    Written(Written),
    Missing,
    TooLarge,
    Date(When),
    /// `True` or `False`.
    Flag(bool),
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
            (None, Self::Text(text)) => meaning(text),
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

/// The meaning of a text that is neither a number nor missing.
fn meaning(text: &str) -> Value {
    let text = text.trim();
    if let Some(flag) = flag(text) {
        return Value::Flag(flag);
    }
    match written(text) {
        Some(number) if number.value.abs() <= LARGEST => Value::Written(number),
        Some(_) => Value::TooLarge,
        None => when(text).map_or(Value::Label, Value::Date),
    }
}

/// The truth value that a text spells.
pub(super) fn flag(text: &str) -> Option<bool> {
    let spelled = |word: &str| text.trim().eq_ignore_ascii_case(word);
    if spelled("true") { Some(true) } else { spelled("false").then_some(false) }
}
