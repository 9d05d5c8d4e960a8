//! Names the settings in messages of the library by the options of the command.

use cagey::Error;
use cagey::advice::{Advice, Setting};

/// Advice in the words of the command.
pub fn words(advice: &Advice) -> String {
    advice.shown(option)
}

/// An error in the words of the command.
pub fn error(error: &Error) -> String {
    words(&error.advice())
}

/// The option for a setting. Most options have the name of the field.
pub fn option(Setting { field, value }: &Setting) -> String {
    let own = field.rsplit("::").next().unwrap_or_default().replace('_', "-");
    let (name, value) = match (&**field, value.as_deref()) {
        ("CagpOptions::objective", value) => ("loss", value),
        ("CagpOptions::unrolled", value) => ("unroll", value),
        ("CgGpOptions::rank", value) => ("rank", value),
        ("LabelRegressionOptions::rows", value) => ("most-rows", value),
        ("Compute::precision", value) => ("dtype", value),
        ("Federation::share", value) => ("clients", value),
        ("ReadOptions::decimal_comma", _) => ("decimal", Some("comma")),
        ("NearestOptions::neighbours", value) => ("neighbors", value),
        ("Settings::priors", value) => ("prior", value),
        ("SwsgpOptions::covariance", _) => ("mean-field", None),
        (_, value) => (&*own, value),
    };
    match value {
        Some(value) => format!("--{name} {value}"),
        None => format!("--{name}"),
    }
}
