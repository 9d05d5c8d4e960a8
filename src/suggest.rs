//! Guessing what a misspelt name was meant to be.

/// The name most like `name`, whatever the case, if one is close enough to be meant.
pub(crate) fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    names
        .into_iter()
        .map(|other| (strsim::jaro_winkler(&wanted, &other.to_lowercase()), other))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, other)| other)
}
