//! Names of choices about the model on the command line, and the library's types for them.

use cagey::data::TargetTransform;
use clap::ValueEnum;

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
    /// The name in settings.
    pub fn text(self) -> &'static str {
        match self {
            Self::Auto => "auto",
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
