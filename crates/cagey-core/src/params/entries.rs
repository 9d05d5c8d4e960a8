//! Values that a file has once for all entries of a parameter, or once for each.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Prior;

/// Writes offsets to files: one number for all, or a list.
pub(super) fn as_one_or_each<S: Serializer>(offsets: &[f64], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    match offsets {
        [offset] => offset.serialize(serializer),
        offsets => offsets.serialize(serializer),
    }
}

/// Reads the same.
pub(super) fn one_or_each<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Vec<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Offsets {
        One(f64),
        Each(Vec<f64>),
    }
    Ok(match Offsets::deserialize(deserializer)? {
        Offsets::One(offset) => vec![offset],
        Offsets::Each(offsets) => offsets,
    })
}

/// Writes priors to files: one for all or none, or a list.
pub(super) fn as_all_or_each<S: Serializer>(
    priors: &[Option<Prior>],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    match priors {
        [] => serializer.serialize_none(),
        [prior] => prior.serialize(serializer),
        priors => priors.serialize(serializer),
    }
}

/// Reads the same.
pub(super) fn all_or_each<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Vec<Option<Prior>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Priors {
        Each(Vec<Option<Prior>>),
        All(Option<Prior>),
    }
    Ok(match Priors::deserialize(deserializer)? {
        Priors::All(prior) => prior.map(Some).into_iter().collect(),
        Priors::Each(priors) => priors,
    })
}
