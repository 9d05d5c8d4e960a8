//! Errors and messages in the words of Python: exceptions by kind, parameters in place of options.

use cagey::cli::request::{self, Message};
use cagey::{Error, ErrorKind};
use pyo3::exceptions::{PyMemoryError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(cagey, TrainingError, PyRuntimeError, "A training or a solve did not end at finite numbers.");

/// The exception for an error.
pub fn raised(error: &Error) -> PyErr {
    let text = in_parameters(&request::problem(error));
    match error.kind() {
        ErrorKind::Training => TrainingError::new_err(text),
        ErrorKind::File => PyOSError::new_err(text),
        ErrorKind::Device => PyRuntimeError::new_err(text),
        _ if text.contains("GB of memory and") => PyMemoryError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// Messages as pairs: whether it is a warning, and its text.
pub fn told(messages: Vec<Message>) -> Vec<(bool, String)> {
    let pair = |message| match message {
        Message::Note(text) => (false, in_parameters(&text)),
        Message::Warning(text) => (true, in_parameters(&text)),
    };
    messages.into_iter().map(pair).collect()
}

/// Parameters of the estimators whose names are not those of the options.
const RENAMED: [(&str, &str); 3] = [("restarts", "n_restarts"), ("seed", "random_state"), ("noise-column", "noise_sd")];
/// Options that are parameters of the estimators, or of their `fit`, by the same name.
const OWN: [&str; 12] = [
    "kernel",
    "model",
    "likelihood",
    "mean",
    "calibrate",
    "starts",
    "max-time",
    "threads",
    "device",
    "dtype",
    "exposure",
    "trials",
];

/// A text that names options of the command, with parameters in their place: `--restarts 5` becomes `n_restarts=5`, and
/// an option that is no parameter is `options["inducing"]`.
pub fn in_parameters(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("--") {
        let (before, from) = rest.split_at(at);
        shown += before;
        let length = from[2..].find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
        let (name, after) = from[2..].split_at(length.unwrap_or(from.len() - 2));
        let of_cargo = before.ends_with("build with `");
        let inside = before.ends_with(|c: char| c.is_alphanumeric() || c == '-');
        if of_cargo || inside || !name.starts_with(char::is_alphabetic) {
            shown += "--";
            shown += name;
            rest = after;
            continue;
        }
        shown += &parameter(name);
        rest = after;
        // A value belongs to the option if both stand between the same marks.
        if before.ends_with('`')
            && let Some((value, more)) = after.strip_prefix([' ', '=']).and_then(|after| after.split_once('`'))
        {
            let number = value.parse::<f64>().is_ok();
            shown += &if number { format!("={value}`") } else { format!("='{value}'`") };
            rest = more;
        }
    }
    shown + rest
}

fn parameter(option: &str) -> String {
    if let Some((_, own)) = RENAMED.iter().find(|(name, _)| *name == option) {
        return (*own).to_string();
    }
    let name = option.replace('-', "_");
    if OWN.contains(&option) { name } else { format!("options[\"{name}\"]") }
}
