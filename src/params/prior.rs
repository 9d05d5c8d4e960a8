//! Prior densities of parameters.

use serde::{Deserialize, Serialize};
use statrs::function::gamma::ln_gamma;

use crate::error::{Error, Result};

/// A prior density on the user value; its negative logarithm is added to the objective (no Jacobian: the mode is sought
/// in the constrained space).
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
}

impl Prior {
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
        }
    }
}

impl std::str::FromStr for Prior {
    type Err = Error;

    /// Reads `normal(0, 1)`, `lognormal(0, 1)`, `gamma(2, 0.5)` or `halfcauchy(1)`.
    fn from_str(text: &str) -> Result<Self> {
        let help = || {
            Error::Usage(format!(
                "prior `{text}`: use normal(mean, sd), lognormal(mean, sd), gamma(shape, rate) or halfcauchy(scale)"
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
            _ => return Err(help()),
        };
        let valid = match prior {
            Self::Normal(_, sd) | Self::LogNormal(_, sd) => sd > 0.0,
            Self::Gamma(shape, rate) => shape > 0.0 && rate > 0.0,
            Self::HalfCauchy(scale) => scale > 0.0,
        };
        if valid {
            Ok(prior)
        } else {
            Err(Error::Usage(format!("prior `{text}`: scales, shapes and rates must be positive")))
        }
    }
}

impl std::fmt::Display for Prior {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Normal(a, b) => write!(f, "normal({a}, {b})"),
            Self::LogNormal(a, b) => write!(f, "lognormal({a}, {b})"),
            Self::Gamma(a, b) => write!(f, "gamma({a}, {b})"),
            Self::HalfCauchy(a) => write!(f, "halfcauchy({a})"),
        }
    }
}
