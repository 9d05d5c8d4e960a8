//! Prior densities of parameters, as users give them: in the data's units, or in standard deviations of input columns.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use statrs::function::gamma::ln_gamma;

use crate::error::{Error, Result};

/// A prior density on the user value. Its negative logarithm is added to the objective. There is no Jacobian: the mode
/// is sought in the constrained space.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Prior {
    /// Normal with mean and standard deviation.
    Normal(f64, f64),
    /// Log-normal: ln value is normal with this mean and standard deviation.
    LogNormal(f64, f64),
    /// Gamma with shape and rate.
    Gamma(f64, f64),
    /// Half-Cauchy with scale.
    HalfCauchy(f64),
    /// ln value has Student's t distribution with these degrees of freedom, location and scale. The density is that of
    /// ln value, so that its mode is sought there: the density of the value itself has its only mode at zero.
    LogStudent(f64, f64, f64),
}

impl Prior {
    /// The prior of `unit` times a value that has this prior.
    pub fn scaled(self, unit: f64) -> Self {
        match self {
            Self::Normal(mean, sd) => Self::Normal(unit * mean, unit * sd),
            Self::LogNormal(mean, sd) => Self::LogNormal(mean + unit.ln(), sd),
            Self::Gamma(shape, rate) => Self::Gamma(shape, rate / unit),
            Self::HalfCauchy(scale) => Self::HalfCauchy(unit * scale),
            Self::LogStudent(df, location, scale) => Self::LogStudent(df, location + unit.ln(), scale),
        }
    }

    /// −log density at `x`, and its derivative.
    pub fn neg_log_density(&self, x: f64) -> (f64, f64) {
        use std::f64::consts::PI;
        match *self {
            Self::Normal(mean, sd) => {
                let z = (x - mean) / sd;
                (0.5 * z * z + sd.ln() + 0.5 * (2.0 * PI).ln(), z / sd)
            }
            Self::LogNormal(mean, sd) => {
                let z = (x.ln() - mean) / sd;
                (0.5 * z * z + (sd * x).ln() + 0.5 * (2.0 * PI).ln(), (z / sd + 1.0) / x)
            }
            Self::Gamma(shape, rate) => {
                (rate * x - (shape - 1.0) * x.ln() - shape * rate.ln() + ln_gamma(shape), rate - (shape - 1.0) / x)
            }
            Self::HalfCauchy(scale) => {
                let z = x / scale;
                ((1.0 + z * z).ln() + (0.5 * PI * scale).ln(), 2.0 * z / (scale * (1.0 + z * z)))
            }
            Self::LogStudent(df, location, scale) => {
                let z = (x.ln() - location) / scale;
                let (half, heavy) = (0.5 * (df + 1.0), 1.0 + z * z / df);
                let normaliser = ln_gamma(0.5 * df) - ln_gamma(half) + 0.5 * (df * PI).ln() + scale.ln();
                (half * heavy.ln() + normaliser, (df + 1.0) * z / (df * heavy * scale * x))
            }
        }
    }

    /// The curvature in `x` of a parabola, in x or in ln x, that stands for −log density around `x`. It is not
    /// negative: for heavy tails it is the second derivative without the part that comes from the changing weight of a
    /// distance.
    pub fn curvature(&self, x: f64) -> f64 {
        match *self {
            Self::Normal(_, sd) => 1.0 / (sd * sd),
            Self::LogNormal(_, sd) => 1.0 / (sd * x).powi(2),
            Self::Gamma(_, rate) => rate / x,
            Self::HalfCauchy(scale) => 2.0 / (scale * scale + x * x),
            Self::LogStudent(df, location, scale) => {
                let z = (x.ln() - location) / scale;
                (df + 1.0) / ((df + z * z) * (scale * x).powi(2))
            }
        }
    }
}

impl FromStr for Prior {
    type Err = Error;

    /// Reads `normal(0, 1)`, `lognormal(0, 1)`, `gamma(2, 0.5)`, `halfcauchy(1)` or `logstudent(4, 0, 1)`.
    fn from_str(text: &str) -> Result<Self> {
        let help = || {
            Error::Usage(format!(
                "prior `{text}`: use normal(mean, sd), lognormal(mean, sd), gamma(shape, rate), halfcauchy(scale) or \
                 logstudent(df, location, scale)"
            ))
        };
        let (name, rest) = text.trim().split_once('(').ok_or_else(help)?;
        let arguments: Vec<f64> = rest
            .trim()
            .strip_suffix(')')
            .ok_or_else(help)?
            .split(',')
            .map(|a| a.trim().parse::<f64>().ok().filter(|v| v.is_finite()))
            .collect::<Option<_>>()
            .ok_or_else(help)?;
        let prior = match (name.trim().to_ascii_lowercase().replace(['-', '_'], "").as_str(), arguments.as_slice()) {
            ("normal", &[mean, sd]) => Self::Normal(mean, sd),
            ("lognormal", &[mean, sd]) => Self::LogNormal(mean, sd),
            ("gamma", &[shape, rate]) => Self::Gamma(shape, rate),
            ("halfcauchy", &[scale]) => Self::HalfCauchy(scale),
            ("logstudent", &[df, location, scale]) => Self::LogStudent(df, location, scale),
            _ => return Err(help()),
        };
        let valid = match prior {
            Self::Normal(_, sd) | Self::LogNormal(_, sd) => sd > 0.0,
            Self::Gamma(shape, rate) => shape > 0.0 && rate > 0.0,
            Self::HalfCauchy(scale) => scale > 0.0,
            Self::LogStudent(df, _, scale) => df > 0.0 && scale > 0.0,
        };
        let problem = || format!("prior `{text}`: scales, shapes, rates and degrees of freedom must be positive");
        if valid { Ok(prior) } else { Err(Error::Usage(problem())) }
    }
}

impl fmt::Display for Prior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal(a, b) => write!(f, "normal({a}, {b})"),
            Self::LogNormal(a, b) => write!(f, "lognormal({a}, {b})"),
            Self::Gamma(a, b) => write!(f, "gamma({a}, {b})"),
            Self::HalfCauchy(a) => write!(f, "halfcauchy({a})"),
            Self::LogStudent(a, b, c) => write!(f, "logstudent({a}, {b}, {c})"),
        }
    }
}

/// A prior and its unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Belief {
    /// A prior in the units of the data.
    Units(Prior),
    /// A prior in standard deviations of the input columns that the values belong to.
    Deviations {
        /// The prior of a value over its column's standard deviation.
        sd: Prior,
    },
}

impl From<Prior> for Belief {
    fn from(prior: Prior) -> Self {
        Self::Units(prior)
    }
}

impl FromStr for Belief {
    type Err = Error;

    /// Reads a [`Prior`]. If ` sd` follows, it is in standard deviations.
    fn from_str(text: &str) -> Result<Self> {
        match text.trim().strip_suffix("sd").filter(|text| text.trim_end().ends_with(')')) {
            Some(prior) => Ok(Self::Deviations { sd: prior.parse()? }),
            None => text.parse().map(Self::Units),
        }
    }
}

impl fmt::Display for Belief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Units(prior) => prior.fmt(f),
            Self::Deviations { sd } => write!(f, "{sd} sd"),
        }
    }
}
