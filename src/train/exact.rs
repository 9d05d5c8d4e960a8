//! Numbers as text that reads back bit for bit, infinities and NaN included. JSON numbers do neither: they have no
//! non-finite values, and `serde_json` may be one unit in the last place off when it reads them.

/// `#[serde(with = "exact::number")]` for an `f64`.
pub(crate) mod number {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{value:e}"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| D::Error::custom(format!("\"{text}\" is not a number")))
    }
}

/// `#[serde(with = "exact::vector")]` for a `Vec<f64>`: one string with the numbers separated by spaces.
pub(crate) mod vector {
    use std::fmt::Write;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(24 * values.len());
        for value in values {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "{value:e} ");
        }
        serializer.serialize_str(text.trim_end())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        String::deserialize(deserializer)?
            .split_ascii_whitespace()
            .map(|word| word.parse().map_err(|_| D::Error::custom(format!("\"{word}\" is not a number"))))
            .collect()
    }
}
