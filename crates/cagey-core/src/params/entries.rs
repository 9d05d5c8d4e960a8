//! Values that a file has once for all entries of a parameter, once for each, or not at all.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes nothing, one value for all, or a list.
pub(super) fn serialize<T: Serialize, S: Serializer>(values: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    match values {
        [] => serializer.serialize_none(),
        [one] => one.serialize(serializer),
        each => each.serialize(serializer),
    }
}

/// Reads the same.
pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Entries<T> {
        Each(Vec<T>),
        One(T),
    }
    Ok(match Option::deserialize(deserializer)? {
        None => Vec::new(),
        Some(Entries::Each(each)) => each,
        Some(Entries::One(one)) => vec![one],
    })
}
