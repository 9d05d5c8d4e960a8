//! Tests a model during its training, and records the run.

use std::ops::ControlFlow;
use std::time::Instant;

use cagey::device::Compute;
use cagey::metrics::{Predictive, score};
use cagey::models::Observations;
use cagey::models::gp_model::GpModel;
use cagey::train::{Observer, Plan, Report};
use cagey::{Error, Result};
use serde::{Deserialize, Serialize};

use super::run::Case;

/// Test scores after some epochs: NLL and RMSE on the standardised target.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Scored {
    pub epoch: usize,
    pub nll: f64,
    pub rmse: f64,
}

/// The results of a run.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Record {
    /// Data set, model and options, without the seed.
    pub name: String,
    pub seed: u64,
    /// Scores during training.
    pub curve: Vec<Scored>,
    /// Scores at the lowest training loss.
    pub end: Option<Scored>,
    pub steps: usize,
    /// Seconds of training alone.
    pub seconds: f64,
}

/// A model with the data that it is conditioned and tested on.
pub struct Scene<'a> {
    pub model: Box<dyn GpModel>,
    pub compute: Compute,
    pub rows: &'a Observations,
    pub test: &'a Observations,
}

impl Scene<'_> {
    pub fn score(&self, epoch: usize) -> Result<Scored> {
        let marginals = self.model.condition(self.compute, self.rows.clone())?.predict(&self.test.x)?;
        let noise = self.model.parameters().into_iter().find(|(path, _)| path == "likelihood.noise");
        let noise = noise.map_or(0.0, |(_, parameter)| parameter.internal()[0]);
        let normal = |(&mean, &variance): (&f64, &f64)| Predictive::Normal { mean, sd: (variance + noise).sqrt() };
        let predictions: Vec<Predictive> = marginals.mean.iter().zip(&marginals.variance).map(normal).collect();
        let scores = score(&self.test.y, &predictions)?;
        Ok(Scored { epoch, nll: scores.nlpd, rmse: scores.rmse })
    }
}

/// Tests the model during training, and keeps the results so far.
pub struct Watch<'a> {
    pub scene: Scene<'a>,
    pub every: usize,
    pub per_epoch: usize,
    pub case: &'a Case<'a>,
    pub record: Record,
    pub since: Instant,
    pub problem: Option<Error>,
}

impl Watch<'_> {
    fn test(&mut self, report: &Report) -> Result<()> {
        let Self { scene, record, .. } = self;
        scene.model.set_free_raw(report.x)?;
        let scored = scene.score(report.iteration / self.per_epoch)?;
        record.curve.push(scored);
        let pace = record.seconds / record.steps.max(1) as f64;
        println!(
            "epoch {:>5}  loss {:>9.5}  test NLL {:>8.4}  RMSE {:.4}  {pace:.3} s a step",
            scored.epoch, report.smoothed, scored.nll, scored.rmse
        );
        self.case.save(record)
    }
}

impl Observer for Watch<'_> {
    fn start(&mut self, plan: &Plan) {
        // What was recorded after the checkpoint is recorded again.
        self.record.curve.retain(|scored| scored.epoch * self.per_epoch <= plan.resumed);
        (self.record.steps, self.since) = (plan.resumed, Instant::now());
    }

    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        self.record.seconds += self.since.elapsed().as_secs_f64();
        self.record.steps = report.iteration;
        if report.iteration > 0 && (report.iteration.is_multiple_of(self.every) || report.iteration == report.limit) {
            self.problem = self.test(report).err();
        }
        self.since = Instant::now();
        if self.problem.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
