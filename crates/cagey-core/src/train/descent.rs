//! Gradient descent: `x ← x − α g`.

use serde::{Deserialize, Serialize};

use super::Schedule;
use super::point::{Point, Probe, Stepped, halved, shifted};
use crate::{Error, Result};

/// The settings of gradient descent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Descent {
    /// The learning rate `α` for gradients divided by the loss scale. Groups and the schedule multiply it.
    pub rate: f64,
    /// How the learning rate changes over the steps.
    pub schedule: Schedule,
}

impl Default for Descent {
    fn default() -> Self {
        Self { rate: 0.05, schedule: Schedule::Constant }
    }
}

impl Descent {
    pub(crate) fn validate(&self) -> Result<()> {
        if !(self.rate.is_finite() && self.rate > 0.0) {
            return Err(Error::Usage(format!("gradient descent: the learning rate {} must be positive", self.rate)));
        }
        self.schedule.validate()
    }

    /// The next step, with a factor on the rate. A step out of the domain of the objective is halved until it ends
    /// inside.
    pub(crate) fn step(&self, rates: &[f64], factor: f64, from: &Point, probe: &mut Probe) -> Stepped {
        let rate = self.rate * factor;
        let direction: Vec<f64> = from.gradient.iter().zip(rates).map(|(g, factor)| g * factor).collect();
        halved(rate, probe, |share| shifted(&from.x, -rate * share, &direction))
    }
}
