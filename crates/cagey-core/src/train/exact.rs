//! Numbers in JSON that can be read back bit for bit. Infinities and NaN, which JSON does not have, are written as
//! text.

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

/// `#[serde(with = "exact::vector")]` for a `Vec<f64>`: a list of numbers, or a list of such texts if one is not
/// finite.
#[doc(hidden)]
pub mod vector {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize, Serialize)]
    #[serde(untagged)]
    enum List {
        Numbers(Vec<f64>),
        Texts(Vec<Exact>),
    }

    #[derive(Deserialize, Serialize)]
    #[serde(transparent)]
    struct Exact(#[serde(with = "super::number")] f64);

    #[doc(hidden)]
    pub fn serialize<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
        match crate::params::all_finite(values) {
            true => values.serialize(serializer),
            false => serializer.collect_seq(values.iter().map(|value| Exact(*value))),
        }
    }

    #[doc(hidden)]
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        Ok(match List::deserialize(deserializer)? {
            List::Numbers(numbers) => numbers,
            List::Texts(texts) => texts.into_iter().map(|text| text.0).collect(),
        })
    }
}
