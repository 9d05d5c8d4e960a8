//! Priors as users give them: in the data's units, or in standard deviations of input columns.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Prior;
use crate::error::{Error, Result};

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
