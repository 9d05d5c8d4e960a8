//! What a training minimises: a differentiable loss of a flat vector of unconstrained parameters.

use std::ops::Range;

use crate::{Error, Result};

/// The step of the training that an evaluation belongs to. A minibatch must depend only on `(seed, iteration)`, so that
/// a resumed run sees the batches of an uninterrupted one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The step that the evaluation belongs to; 0 is the initial point. All trial points of one line search share it.
    pub iteration: usize,
    /// Passes over the data made so far, `iteration / steps_per_epoch`.
    pub epoch: f64,
    /// The seed of the training, the same in every restart.
    pub seed: u64,
    /// The factor on the learning rate; 1 for L-BFGS, which has none.
    pub factor: f64,
}

/// The loss and its gradient at one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The total loss (not per datum).
    pub loss: f64,
    /// `∂loss/∂x`, of length [`Objective::dim`].
    pub gradient: Vec<f64>,
}

/// A range of parameters with the same treatment. Parameters in no group have rate 1 and spread 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The indices in the parameter vector.
    pub range: Range<usize>,
    /// Multiplies the learning rate of Adam; positive. L-BFGS finds its own scales and does not use it.
    pub rate: f64,
    /// Multiplies the standard deviation of the perturbation of restarts; 0 leaves the initial values as they are.
    pub spread: f64,
}

impl Group {
    /// The parameters in `range`, with learning-rate factor `rate` and spread 1.
    pub fn new(range: Range<usize>, rate: f64) -> Self {
        Self { range, rate, spread: 1.0 }
    }

    /// The same group with its perturbation in restarts multiplied by `spread`.
    pub fn spread(mut self, spread: f64) -> Self {
        self.spread = spread;
        self
    }
}

/// A loss to be minimised over `R^dim`.
pub trait Objective {
    /// Number of parameters.
    fn dim(&self) -> usize;

    /// Loss and gradient at `x`.
    ///
    /// # Errors
    /// An error, like a non-finite value, marks a point outside the domain, and optimisers retreat from it. It ends a
    /// run only at the initial point.
    fn evaluate(&mut self, x: &[f64], step: Step) -> Result<Evaluation>;

    /// Parameters with their own learning rate or spread; the ranges must not overlap.
    fn groups(&self) -> Vec<Group> {
        Vec::new()
    }

    /// Steps in one pass over the data: the number of minibatches, 1 for full batches.
    fn steps_per_epoch(&self) -> usize {
        1
    }

    /// Whether `evaluate` is a noisy estimate. Losses are then smoothed over an epoch (at least ten steps) before they
    /// are compared, so that one lucky minibatch does not count as the best point.
    fn stochastic(&self) -> bool {
        false
    }

    /// For how many steps the loss keeps what it [chooses](Self::choose); none, the default, if it chooses nothing.
    fn refresh(&self) -> Option<usize> {
        None
    }

    /// Chooses at `x` what the loss keeps from then on, such as the actions of a policy. The loss is then another
    /// function of the parameters, which equals the objective only at `x`. Points are therefore compared only where
    /// something was chosen, and after the last choice. This is called before every step, with the same `x` until
    /// [`refresh`](Self::refresh) steps are made: keep what was chosen there.
    ///
    /// # Errors
    /// Ends the run.
    fn choose(&mut self, _x: &[f64]) -> Result<()> {
        Ok(())
    }

    /// What evaluations change apart from the parameters, to be saved with them. Nothing by default.
    fn state(&self) -> Vec<f64> {
        Vec::new()
    }

    /// Restores a [`state`](Self::state) that was saved.
    ///
    /// # Errors
    /// [`Error::Shape`] for the state of another objective.
    fn restore(&mut self, state: &[f64]) -> Result<()> {
        match state.len() {
            0 => Ok(()),
            n => Err(Error::shape("saved state of the objective", "nothing", format!("{n} numbers"))),
        }
    }
}

/// An [`Objective`] made from a closure; see [`from_fn`].
#[derive(Clone, Debug)]
pub struct FromFn<F> {
    dim: usize,
    evaluate: F,
}

/// The objective of `dim` parameters that `evaluate` computes.
///
/// ```
/// use cagey::train::{Evaluation, TrainConfig, minimise, from_fn};
///
/// let mut bowl = from_fn(2, |x, _| {
///     let gradient = vec![2.0 * (x[0] - 1.0), 8.0 * x[1]];
///     Ok(Evaluation { loss: (x[0] - 1.0).powi(2) + 4.0 * x[1].powi(2), gradient })
/// });
/// let outcome = minimise(&mut bowl, &[0.0, 3.0], &TrainConfig::default(), &mut [])?;
/// assert!((outcome.x[0] - 1.0).abs() < 1e-6);
/// # Ok::<(), cagey::Error>(())
/// ```
pub fn from_fn<F: FnMut(&[f64], Step) -> Result<Evaluation>>(dim: usize, evaluate: F) -> FromFn<F> {
    FromFn { dim, evaluate }
}

impl<F: FnMut(&[f64], Step) -> Result<Evaluation>> Objective for FromFn<F> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn evaluate(&mut self, x: &[f64], step: Step) -> Result<Evaluation> {
        (self.evaluate)(x, step)
    }
}
