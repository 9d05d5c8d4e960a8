//! Several initial points.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::{Group, Termination};
use crate::{Error, Result};

/// How many initial points to train from, and how to choose them. The point with the lowest loss is the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Restarts {
    /// Number of initial points; the first is the given one.
    pub count: usize,
    /// Standard deviation of the normal perturbation that gives the other points, in the unconstrained parameters.
    pub sd: f64,
    /// If given, every restart makes this many steps, and then only the best continues.
    pub race: Option<usize>,
}

impl Default for Restarts {
    /// Only the given point.
    fn default() -> Self {
        Self { count: 1, sd: 1.0, race: None }
    }
}

impl Restarts {
    /// `count` initial points with standard deviation `sd`, each trained to its end.
    pub fn new(count: usize, sd: f64) -> Self {
        Self { count, sd, race: None }
    }

    /// Lets only the best continue after `steps` steps of each.
    pub fn race(mut self, steps: usize) -> Self {
        self.race = Some(steps);
        self
    }

    pub(crate) fn validate(&self) -> Result<()> {
        if self.count == 0 {
            return Err(Error::Usage("the number of initial points must be at least 1".into()));
        }
        if !(self.sd.is_finite() && self.sd >= 0.0) {
            return Err(Error::Usage(format!("the standard deviation {} of restarts must not be negative", self.sd)));
        }
        Ok(())
    }

    /// The initial points. A larger number of restarts starts with the same points.
    pub(crate) fn points(&self, x0: &[f64], groups: &[Group], seed: u64) -> Vec<Vec<f64>> {
        let mut spread = vec![self.sd; x0.len()];
        for group in groups {
            spread[group.range.clone()].iter_mut().for_each(|sd| *sd *= group.spread);
        }
        let mut rng = StdRng::seed_from_u64(seed);
        let mut perturbed = || {
            let moved = x0.iter().zip(&spread).map(|(x, sd)| {
                let z: f64 = StandardNormal.sample(&mut rng);
                x + sd * z
            });
            moved.collect()
        };
        (0..self.count).map(|index| if index == 0 { x0.to_vec() } else { perturbed() }).collect()
    }
}

/// The result of one restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RestartReport {
    /// The lowest loss, divided by the loss scale; none if the objective failed at the initial point.
    pub loss: Option<f64>,
    /// Steps made.
    pub iterations: usize,
    /// Evaluations of the objective.
    pub evaluations: usize,
    /// Why it ended; none if it lost the race or has not ended.
    pub termination: Option<Termination>,
}
