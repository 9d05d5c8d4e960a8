//! What the user gives by name or as text: the mean, and initial values, priors and bounds of parameters.

use cagey::params::Belief;
use cagey::{Error, Result};
use clap::ValueEnum;

use crate::values;

/// The prior mean; the names are those of settings.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum MeanName {
    /// Zero for standardised targets and several classes; a constant where the latent function has a level of its own,
    /// such as a logarithmic rate or the log odds of two classes
    Auto,
    /// 0 as the model sees the target: the mean of the training targets where these are standardised
    Zero,
    /// A learned constant
    Constant,
    /// Learned slopes and a constant: the mean at the average of all inputs
    Linear,
}

/// The texts on both sides of `=`.
fn pair<'a>(option: &str, text: &'a str) -> Result<(String, &'a str)> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| Error::Usage(format!("--{option} {text}: write it as NAME=…")))?;
    Ok((name.trim().to_string(), value.trim()))
}

fn number(option: &str, text: &str) -> Result<f64> {
    values::number(text).map_err(|problem| Error::Usage(format!("--{option}: {problem}")))
}

/// The prior of a parameter.
pub fn belief(text: &str) -> Result<(String, Belief)> {
    let (name, prior) = pair("prior", text)?;
    Ok((name, prior.parse()?))
}

/// Initial values of a parameter.
pub fn initial(text: &str) -> Result<(String, Vec<f64>)> {
    let (name, values) = pair("init", text)?;
    let values = values.split(',').map(|v| number("init", v)).collect::<Result<_>>()?;
    Ok((name, values))
}

/// Bounds of a parameter.
pub fn interval(text: &str) -> Result<(String, f64, f64)> {
    let (name, range) = pair("bounds", text)?;
    let (low, high) = range
        .split_once("..")
        .ok_or_else(|| Error::Usage(format!("--bounds {text}: write the interval as LOW..HIGH, e.g. noise=0.01..2")))?;
    Ok((name, number("bounds", low)?, number("bounds", high)?))
}
