//! What options about the model are called, and what the library calls it.

use cagey::data::TargetTransform;
use clap::ValueEnum;

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum MeanName {
    /// 0 as the model sees the target: the mean of the training targets where these are standardised
    Zero,
    /// A learned constant
    Constant,
    /// Learned slopes and a constant, the mean where all inputs are at their averages
    Linear,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Transform {
    /// The target as it is
    None,
    /// Its logarithm; the target must be positive
    Log,
    /// log(1 + target), above -1
    Log1p,
}

impl MeanName {
    /// As settings have it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Zero => "zero",
            Self::Constant => "constant",
            Self::Linear => "linear",
        }
    }
}

impl From<Transform> for TargetTransform {
    fn from(name: Transform) -> Self {
        match name {
            Transform::None => Self::Identity,
            Transform::Log => Self::Log,
            Transform::Log1p => Self::Log1p,
        }
    }
}
