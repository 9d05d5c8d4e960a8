//! Observing a training: the observer interface, the learning curve and log lines.

use std::io::Write;
use std::ops::ControlFlow;

use serde::{Deserialize, Deserializer, Serialize};

use super::Outcome;
use crate::device::Transfers;

/// The training that is about to start.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Number of parameters.
    pub dim: usize,
    /// The name of the optimiser.
    pub optimizer: &'static str,
    /// Most steps of one run.
    pub steps: usize,
    /// Number of initial points.
    pub restarts: usize,
    /// What losses and gradients are divided by in reports.
    pub loss_scale: f64,
    /// Steps, over all restarts, that the checkpoint already contains; 0 for a new training.
    pub resumed: usize,
}

/// The state after a step. Losses and gradients are divided by the loss scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Report<'a> {
    /// Index of the restart.
    pub restart: usize,
    /// Steps made in this restart; 0 for the report on its initial point.
    pub iteration: usize,
    /// The step at which this restart, or its race, ends.
    pub limit: usize,
    /// Evaluations of the objective in this restart.
    pub evaluations: usize,
    /// The loss at `x`.
    pub loss: f64,
    /// The loss averaged over recent steps of a stochastic objective; otherwise `loss`.
    pub smoothed: f64,
    /// `max |gradient|` at `x`.
    pub gradient_norm: f64,
    /// The learning rate, or the step length of the line search; 0 at the initial point.
    pub rate: f64,
    /// Seconds since the training began, including those before a resume.
    pub seconds: f64,
    /// The current point.
    pub x: &'a [f64],
}

/// Sees every step of a training and may end it. The members of an average train in threads of their own, so observers
/// move between threads.
pub trait Observer: Send {
    /// Called before the first evaluation.
    fn start(&mut self, plan: &Plan) {
        let _ = plan;
    }

    /// Called after each step. `Break` ends the training as
    /// [`Termination::Interrupted`](super::Termination::Interrupted).
    fn step(&mut self, report: &Report) -> ControlFlow<()>;

    /// Called with a sentence when a search has chosen what is trained next.
    fn chosen(&mut self, sentence: &str) {
        let _ = sentence;
    }

    /// Called at the end of a training that has a result.
    fn finish(&mut self, outcome: &Outcome) {
        let _ = outcome;
    }
}

/// Forwards only steps, not starts and ends, so that observers see several parts as one training.
#[doc(hidden)]
pub struct Steps<'a, 'b>(pub &'a mut [&'b mut dyn Observer]);

impl Observer for Steps<'_, '_> {
    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        if report.iteration == 0 {
            return ControlFlow::Continue(());
        }
        // All observers see the step, even after one of them asked to stop.
        let told: Vec<ControlFlow<()>> = self.0.iter_mut().map(|observer| observer.step(report)).collect();
        told.into_iter().find(ControlFlow::is_break).unwrap_or(ControlFlow::Continue(()))
    }
}

/// Shows observers several trainings that follow one another. An observer that ends one of them ends all: those that
/// follow end at their first step.
#[doc(hidden)]
pub struct Following<'a, 'b> {
    /// The observers.
    pub all: &'a mut [&'b mut dyn Observer],
    /// Whether one of them has ended a training.
    pub ended: bool,
}

impl Observer for Following<'_, '_> {
    fn start(&mut self, plan: &Plan) {
        self.all.iter_mut().for_each(|observer| observer.start(plan));
    }

    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        let told = self.all.iter_mut().map(|observer| observer.step(report));
        self.ended |= told.filter(ControlFlow::is_break).count() > 0;
        if self.ended { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn chosen(&mut self, sentence: &str) {
        self.all.iter_mut().for_each(|observer| observer.chosen(sentence));
    }

    fn finish(&mut self, outcome: &Outcome) {
        self.all.iter_mut().for_each(|observer| observer.finish(outcome));
    }
}

/// One point of a learning curve, taken from a [`Report`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Index of the restart.
    pub restart: usize,
    /// Steps made in this restart.
    pub iteration: usize,
    /// Seconds since the training began.
    pub seconds: f64,
    /// The loss, divided by the loss scale.
    #[serde(deserialize_with = "nan_for_null")]
    pub loss: f64,
    /// `max |gradient|`, divided by the loss scale.
    #[serde(deserialize_with = "nan_for_null")]
    pub gradient_norm: f64,
    /// The learning rate or step length.
    #[serde(deserialize_with = "nan_for_null")]
    pub rate: f64,
}

/// Reads null as NaN: JSON cannot hold values that are not finite, and failed steps have such values.
fn nan_for_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Option::deserialize(deserializer).map(|number| number.unwrap_or(f64::NAN))
}

/// Records the learning curves of all restarts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct History {
    /// The records in the order of the steps.
    pub records: Vec<Record>,
}

impl Observer for History {
    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        let &Report { restart, iteration, seconds, loss, gradient_norm, rate, .. } = report;
        self.records.push(Record { restart, iteration, seconds, loss, gradient_norm, rate });
        ControlFlow::Continue(())
    }
}

/// Writes a line after every `every` steps and one at the end.
#[derive(Debug)]
pub struct Log<W> {
    every: usize,
    to: W,
    /// The transfers to and from devices up to the last line.
    moved: Transfers,
}

impl Log<std::io::Stderr> {
    /// Writes a line to standard error every `every` steps.
    pub fn stderr(every: usize) -> Self {
        Self::new(every, std::io::stderr())
    }
}

impl<W: Write> Log<W> {
    /// Writes a line to `to` every `every` steps.
    pub fn new(every: usize, to: W) -> Self {
        Self { every: every.max(1), to, moved: Transfers::so_far() }
    }

    /// Ignores errors: a log that cannot be written is no reason to lose a training.
    fn line(&mut self, text: std::fmt::Arguments) {
        let _ = writeln!(self.to, "{text}");
    }
}

impl<W: Write + Send> Observer for Log<W> {
    fn start(&mut self, plan: &Plan) {
        let Plan { dim, optimizer, steps, restarts, .. } = plan;
        self.line(format_args!("{optimizer}: {dim} parameters, {steps} steps, initial points: {restarts}"));
    }

    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        if report.iteration.is_multiple_of(self.every) {
            let Report { restart, iteration, smoothed, gradient_norm, rate, seconds, .. } = report;
            let moved = Transfers::so_far() - self.moved;
            self.moved = Transfers::so_far();
            let moved = if moved.is_empty() { String::new() } else { format!("  {moved}") };
            self.line(format_args!(
                "restart {restart}  step {iteration:>6}  loss {smoothed:.6}  gradient {gradient_norm:.2e}  \
                 rate {rate:.2e}  {seconds:.1} s{moved}"
            ));
        }
        ControlFlow::Continue(())
    }

    fn chosen(&mut self, sentence: &str) {
        self.line(format_args!("{sentence}"));
    }

    fn finish(&mut self, outcome: &Outcome) {
        let Outcome { loss, iterations, seconds, .. } = outcome;
        let ending = outcome.ending();
        self.line(format_args!("loss {loss:.6} after {iterations} steps, {seconds:.1} s: {ending}"));
    }
}
