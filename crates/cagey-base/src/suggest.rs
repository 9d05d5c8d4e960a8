//! Guesses which name was meant by a misspelt one.

/// A hint for a message about a name that is none of these: the most similar one or, after `others`, all of them.
#[doc(hidden)]
pub fn hint(name: &str, names: &[impl AsRef<str>], others: &str) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("{others} {}", names.join(", ")),
    }
}

/// The name most similar to `name`, regardless of case, if one is similar enough.
#[doc(hidden)]
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    names
        .into_iter()
        .map(|other| (strsim::jaro_winkler(&wanted, &other.to_lowercase()), other))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, other)| other)
}
