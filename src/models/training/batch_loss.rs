//! The objective on minibatches, and the steps of q beside it.

use std::time::Instant;

use super::batches::{Minibatches, NaturalSums, Order, Rows, SumOverRows, some_rows};
use super::fit::{add_priors, evaluate_for, groups, put_raw};
use crate::device::Compute;
use crate::distributed::{Drawn, Question, Spread};
use crate::error::{Error, Result};
use crate::models::Held;
use crate::scope::{Scope, scalar};
use crate::train::{Evaluation, Group, Objective, Step};

/// Where batches come from, and what computes with them.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) compute: Compute,
    pub(super) data: &'a dyn Rows,
    pub(super) batches: &'a Minibatches,
    pub(super) spread: Option<&'a Spread>,
}

/// Batches that q is fitted to at the end: enough rows for any number of inducing values that has a full covariance.
const CLOSING: usize = 100;

/// The same if a batch holds all rows: 0.1 % of the earlier q remains.
const WHOLE: usize = 10;

/// One gradient of so many is that of a batch to which q was just fitted.
///
/// Steps of rate γ leave q with the noise of earlier batches, which raises the loss of the next batch by about γ/4 of
/// the loss that a whole step on it would gain; a step on this batch then gains γ of that. So gradients of unseen
/// batches alone make a posterior that is too smooth, those of fitted ones one that is too rough. To first order, both
/// cancel if one of four is of a fitted batch. If targets scatter far more than the likelihood says, higher orders
/// matter, and more of them are better; with every second one, both cases come near the optimum.
const SEEN: usize = 2;

/// How often to halve a natural-gradient step that makes the covariance indefinite, before the training fails.
const HALVINGS: usize = 10;

/// The objective of a model on minibatches, with the negative log priors of its parameters.
/// [`fit`](super::minibatch::fit) minimises it over the [free raw values](crate::params::Parameters::free_raw); use it
/// for a training loop of your own.
pub struct BatchLoss<'a, M> {
    pub(super) model: &'a mut M,
    source: Source<'a>,
    order: Order,
    /// The last step for which q was moved.
    stepped: Option<usize>,
    found: Option<Found>,
}

pub(super) fn is_over(end: Option<Instant>) -> bool {
    end.is_some_and(|end| Instant::now() >= end)
}

/// What a model [holds](SumOverRows::hold) for all rows.
struct Found {
    /// The epoch in which it was found.
    epoch: usize,
    /// The free raw values at which it was found.
    with: Vec<f64>,
    held: Held,
}

impl<'a, M: SumOverRows> BatchLoss<'a, M> {
    /// For a model, whose parameters each evaluation sets.
    ///
    /// # Errors
    /// [`Error::Usage`] for no rows, and for natural gradients, which need the extra work of
    /// [`fit`](super::minibatch::fit).
    pub fn new(model: &'a mut M, compute: Compute, data: &'a dyn Rows, batches: &'a Minibatches) -> Result<Self> {
        if batches.natural.is_some() {
            return Err(Error::Usage("natural gradients are steps of their own: train by `minibatch::fit`".into()));
        }
        some_rows(data, batches.size)?;
        Ok(Self::of(model, Source { compute, data, batches, spread: None }))
    }

    pub(super) fn of(model: &'a mut M, source: Source<'a>) -> Self {
        Self { model, source, order: Order::default(), stepped: None, found: None }
    }

    /// The objective on a batch and its gradient. Models that ranks share hold nothing.
    fn evaluated(&self, drawn: &Drawn, held: Option<&Held>) -> Result<Evaluation> {
        let Source { compute, spread, .. } = self.source;
        let Some(spread) = spread else {
            return evaluate_for(self.model, compute, &drawn.batch(&Scope::new(compute)?), held);
        };
        let (loss, mut gradient) = spread.objective(self.model, compute, drawn, true)?;
        let priors = add_priors(self.model, &mut gradient);
        Ok(Evaluation { loss: loss + priors, gradient })
    }

    /// A step along the natural gradient of a batch, shortened if a likelihood that is not log-concave requires it.
    pub(super) fn natural_step(&mut self, drawn: &Drawn, rate: f64) -> Result<()> {
        let Source { compute, spread, .. } = self.source;
        let sums = match spread {
            Some(spread) => {
                let len = self.model.natural_len();
                NaturalSums::Host(spread.ask(self.model, compute, drawn, &Question::Natural, len)?)
            }
            None => self.model.natural_sums(compute, &drawn.batch(&Scope::new(compute)?))?,
        };
        for halving in 0..HALVINGS {
            match self.model.natural_move(compute, &sums, rate * 0.5f64.powi(halving as i32)) {
                Err(Error::NotPositiveDefinite { .. }) => {}
                done => return done,
            }
        }
        let least = rate * 0.5f64.powi(HALVINGS as i32 - 1);
        Err(Error::Data(format!(
            "no natural-gradient step from {rate} down to {least:.1e} keeps the covariance of q(u) positive definite; \
             train without natural gradients"
        )))
    }

    /// Leaves the model at `x` and, with natural gradients, q near its optimum there. If q is an average `over` k
    /// batches, steps of length 1/(k + 1), 1/(k + 2), … make it one over those of an epoch too, or of a part of a long
    /// one. Longer steps would first fit q to a few batches, and from there a likelihood like that of counts leads back
    /// slowly. If a batch holds all rows, a few steps of length ½ reach the optimum. If a step fails, q stays as it is.
    /// No step begins after `end`.
    pub(super) fn close(&mut self, x: &[f64], over: Option<f64>, seed: u64, end: Option<Instant>) -> Result<()> {
        self.model.set_free_raw(x)?;
        let Some(over) = over else { return Ok(()) };
        let steps = if self.stochastic() { self.steps_per_epoch().min(CLOSING) } else { WHOLE };
        // At least half of the result is of these steps.
        let over = over.clamp(1.0, steps as f64);
        for iteration in 0..steps {
            if is_over(end) {
                break;
            }
            let rows = self.rows(iteration, seed);
            let batch = self.batch(&rows)?;
            let rate = if self.stochastic() { 1.0 / (over + (iteration + 1) as f64) } else { 0.5 };
            match self.natural_step(&batch, rate) {
                Err(Error::Data(_)) => break,
                done => done?,
            }
        }
        Ok(())
    }

    /// The objective at the current parameters, without its gradient: the mean over the batches of an epoch, or over
    /// some of the batches of a long one. After `end`, over those that are done, at least one.
    pub(super) fn bound(&mut self, seed: u64, end: Option<Instant>) -> Result<f64> {
        let (mut total, mut parts) = (0.0, 0);
        for iteration in 0..self.steps_per_epoch().min(CLOSING) {
            if parts > 0 && is_over(end) {
                break;
            }
            parts += 1;
            let rows = self.rows(iteration, seed);
            let batch = self.batch(&rows)?;
            let Source { compute, spread, .. } = self.source;
            let held = self.held(&rows, iteration)?;
            total += match spread {
                Some(spread) => spread.objective(self.model, compute, &batch, false)?.0,
                None => {
                    let budget = self.model.budget(batch.rows.n(), compute.precision);
                    let scope = Scope::new(compute)?.with_budget(budget);
                    let batch = batch.batch(&scope);
                    scalar(match &held {
                        Some(held) => self.model.objective_for(&scope, &batch, held)?,
                        None => self.model.objective(&scope, &batch)?,
                    })?
                }
            };
        }
        let priors: f64 = self.model.parameters().iter().filter_map(|(_, p)| Some(p.neg_log_prior()?.0)).sum();
        Ok(total / parts as f64 + priors)
    }

    /// The rows of a step: a part of an epoch's permutation.
    fn rows(&mut self, iteration: usize, seed: u64) -> Vec<usize> {
        let (n, parts) = (self.source.data.count(), self.steps_per_epoch());
        self.order.rows(n, parts, seed, iteration)
    }

    /// What the model holds for these rows. It is found before the first step and after 1, 2, 4, 8, … epochs: seldom,
    /// but more often while parameters still change much.
    fn held(&mut self, rows: &[usize], iteration: usize) -> Result<Option<Held>> {
        let epoch = iteration / self.steps_per_epoch();
        if self.found.as_ref().is_none_or(|found| epoch >= (2 * found.epoch).max(1)) {
            let held = self.model.hold(self.source.compute, self.source.data)?;
            self.found = held.map(|held| Found { epoch, with: self.model.free_raw(), held });
        }
        self.found.as_ref().map(|found| self.model.held_of(&found.held, rows)).transpose()
    }

    fn batch(&self, rows: &[usize]) -> Result<Drawn> {
        let own = self.source.spread.map_or(rows, |spread| spread.own(rows));
        let part = self.source.data.gather(own)?;
        let numbers: Vec<usize> = own.iter().map(|row| row + 1).collect();
        self.model.likelihood().check(part.targets(), Some(&numbers))?;
        Ok(Drawn { numbers: rows.to_vec(), rows: part, scale: self.steps_per_epoch() as f64 })
    }
}

impl<M: SumOverRows> Objective for BatchLoss<'_, M> {
    fn dim(&self) -> usize {
        self.model.free_raw().len()
    }

    fn evaluate(&mut self, x: &[f64], step: Step) -> Result<Evaluation> {
        let rows = self.rows(step.iteration, step.seed);
        let batch = self.batch(&rows)?;
        self.model.set_free_raw(x)?;
        let held = self.held(&rows, step.iteration)?;
        // Trial points of one step share its natural gradient.
        let Some(rate) = self.source.batches.natural.filter(|_| self.stepped != Some(step.iteration)) else {
            return self.evaluated(&batch, held.as_ref());
        };
        let before = self.stepped.is_some() && self.stochastic() && step.iteration.is_multiple_of(SEEN);
        let unseen = before.then(|| self.evaluated(&batch, held.as_ref())).transpose()?;
        // Without noise, q follows the hyperparameters at the full rate.
        self.natural_step(&batch, if self.stochastic() { rate * step.factor } else { rate })?;
        self.stepped = Some(step.iteration);
        unseen.map_or_else(|| self.evaluated(&batch, held.as_ref()), Ok)
    }

    fn groups(&self) -> Vec<Group> {
        groups(self.model, |path| self.model.is_variational(path).then_some(self.source.batches.variational_rate))
    }

    fn steps_per_epoch(&self) -> usize {
        self.source.data.count().div_ceil(self.source.batches.size)
    }

    fn stochastic(&self) -> bool {
        self.steps_per_epoch() > 1
    }

    /// With natural gradients, the last step for which q was moved, and q. Otherwise, for a model that holds something,
    /// the epoch and the parameters at which it was found.
    fn state(&self) -> Vec<f64> {
        if self.source.batches.natural.is_none() {
            let found =
                self.found.iter().flat_map(|found| std::iter::once(found.epoch as f64).chain(found.with.clone()));
            return found.collect();
        }
        let stepped = self.stepped.map_or(f64::NAN, |step| step as f64);
        let parameters = self.model.parameters();
        let moved = parameters.into_iter().filter(|(path, _)| self.model.is_variational(path));
        std::iter::once(stepped).chain(moved.flat_map(|(_, p)| p.raw().to_vec())).collect()
    }

    fn restore(&mut self, state: &[f64]) -> Result<()> {
        if self.source.batches.natural.is_none() {
            self.found = None;
            let Some((epoch, with)) = state.split_first() else { return Ok(()) };
            self.model.set_free_raw(with)?;
            let Some(held) = self.model.hold(self.source.compute, self.source.data)? else {
                let got = format!("{} numbers", state.len());
                return Err(Error::shape("saved state of the objective", "nothing", got));
            };
            self.found = Some(Found { epoch: *epoch as usize, with: with.to_vec(), held });
            return Ok(());
        }
        let wanted = self.state().len();
        if state.len() != wanted {
            let what = "saved state of natural gradients";
            return Err(Error::shape(what, format!("{wanted} numbers"), state.len().to_string()));
        }
        let Some((stepped, raw)) = state.split_first() else { return Ok(()) };
        self.stepped = stepped.is_finite().then_some(*stepped as usize);
        let variational: Vec<bool> =
            self.model.parameters().iter().map(|(path, _)| self.model.is_variational(path)).collect();
        let moved = self.model.parameters_mut().into_iter().zip(variational).filter(|(_, variational)| *variational);
        put_raw(moved.map(|((_, parameter), _)| parameter), raw);
        Ok(())
    }
}
