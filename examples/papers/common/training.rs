//! A training whose model is tested on its way, and that may pause.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use cagey::device::Compute;
use cagey::models::gp_model::{GpModel, Training};
use cagey::models::minibatch::Minibatches;
use cagey::models::posterior::Posterior;
use cagey::train::{CheckpointPlan, Observer, Plan, Report, Termination, TrainConfig};
use cagey::{Error, Result};
use serde::{Deserialize, Serialize};

use super::command::Job;
use super::rows::Task;
use super::scores::{Scored, of_classes, of_normal, probabilities};

/// The state after some epochs.
#[derive(Clone, Serialize, Deserialize)]
pub struct Point {
    pub epoch: f64,
    /// Seconds of training alone.
    pub seconds: f64,
    pub loss: f64,
    pub test: Scored,
    /// Noise, output scale and the first three lengthscales.
    pub parameters: Vec<f64>,
}

/// What a training was like.
#[derive(Clone, Serialize, Deserialize)]
pub struct Record {
    /// Names of the parameters that are recorded.
    pub names: Vec<String>,
    /// The last point is the end.
    pub points: Vec<Point>,
    pub steps: usize,
}

impl Record {
    /// Values at the points.
    pub fn column(&self, of: impl Fn(&Point) -> f64) -> Vec<f64> {
        self.points.iter().map(of).collect()
    }

    /// The state at the end.
    pub fn end(&self) -> &Point {
        &self.points[self.points.len() - 1]
    }
}

/// What is trained, and when it is tested.
pub struct Run<'a> {
    pub task: &'a Task,
    pub compute: Compute,
    pub batches: Option<&'a Minibatches>,
    pub config: TrainConfig,
    /// Epochs between two tests.
    pub every: usize,
    /// What decides the numbers.
    pub key: String,
}

/// What stands for a result that is not there yet.
pub const PAUSED: &str = "paused";

/// Whether a problem is a pause.
pub fn is_paused(problem: &Error) -> bool {
    matches!(problem, Error::Usage(text) if text == PAUSED)
}

impl<O> Job<O> {
    /// Trains a model and tests it. The folder of results keeps its state until it is done.
    pub fn train(&self, model: &mut Box<dyn GpModel>, run: Run) -> Result<Record> {
        let Run { task, compute, batches, config, every, key } = run;
        let per_epoch = batches.map_or(1, |batches| task.train.n().div_ceil(batches.size));
        let checkpoint = self.common.output.join(format!("{:016x}.checkpoint", hash(&key)));
        // A record of the points so far lies beside the checkpoint.
        let beside = checkpoint.with_extension("points");
        let every = every.max(1) * per_epoch;
        let config = self.limited(config)?.checkpoint(CheckpointPlan::every_steps(&checkpoint, every)).fingerprint(key);
        let known = std::fs::read_to_string(&beside).ok().and_then(|text| serde_json::from_str(&text).ok());
        let config = if checkpoint.exists() && known.is_some() { config.resume(&checkpoint) } else { config };
        let names = recorded(&**model).into_iter().map(|(name, _)| name).collect();
        let record = known.unwrap_or(Record { names, points: Vec::new(), steps: 0 });
        let scene = Scene { model: model.clone(), compute, task };
        let since = Instant::now();
        let mut watch =
            Watch { scene, every, per_epoch, beside: beside.clone(), record, seconds: 0.0, since, problem: None };
        let training =
            Training { compute, data: &task.train, rows: &task.train, batches, config: &config, spread: None };
        let outcome = model.train(training, &mut [&mut watch])?;
        let Watch { mut scene, mut record, seconds, problem, .. } = watch;
        if let Some(problem) = problem {
            return Err(problem);
        }
        if outcome.termination == Termination::MaxTime {
            return Err(Error::Usage(PAUSED.into()));
        }
        scene.model = model.clone();
        record.points.push(scene.point(record.steps as f64 / per_epoch as f64, seconds, outcome.loss)?);
        for path in [checkpoint, beside] {
            let _ = std::fs::remove_file(path);
        }
        Ok(record)
    }
}

/// Test scores of a posterior.
pub fn scored(posterior: &dyn Posterior, model: &dyn GpModel, task: &Task) -> Result<Scored> {
    let (likelihood, test) = (model.likelihood(), &task.test);
    match likelihood.noise() {
        Some(noise) => of_normal(&test.y, &posterior.predict(&test.x)?, noise),
        None => of_classes(&test.y, &probabilities(posterior, likelihood, &test.x)?),
    }
}

/// FNV-1a: the same for the same text, on every machine.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, byte| (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn recorded(model: &dyn GpModel) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    for (path, parameter) in model.parameters() {
        let name = path.rsplit('.').next().unwrap_or_default();
        if ["noise", "variance", "lengthscale"].contains(&name) {
            all.extend(parameter.internal().iter().take(3).enumerate().map(|(k, v)| (format!("{name} {k}"), *v)));
        }
    }
    all
}

/// A model with the data that it is conditioned and tested on.
struct Scene<'a> {
    model: Box<dyn GpModel>,
    compute: Compute,
    task: &'a Task,
}

impl Scene<'_> {
    fn point(&self, epoch: f64, seconds: f64, loss: f64) -> Result<Point> {
        let posterior = self.model.condition(self.compute, self.task.train.clone())?;
        let test = scored(&*posterior, &*self.model, self.task)?;
        let parameters = recorded(&*self.model).into_iter().map(|(_, value)| value).collect();
        Ok(Point { epoch, seconds, loss, test, parameters })
    }
}

/// Tests the model during training, and keeps the results so far.
struct Watch<'a> {
    scene: Scene<'a>,
    every: usize,
    per_epoch: usize,
    beside: PathBuf,
    record: Record,
    seconds: f64,
    since: Instant,
    problem: Option<Error>,
}

impl Watch<'_> {
    fn test(&mut self, report: &Report) -> Result<()> {
        self.scene.model.set_free_raw(report.x)?;
        let epoch = report.iteration as f64 / self.per_epoch as f64;
        self.record.points.push(self.scene.point(epoch, self.seconds, report.smoothed)?);
        let text = serde_json::to_string(&self.record).map_err(|e| Error::Data(e.to_string()))?;
        cagey::data::atomic_write(&self.beside, |to| to.write_all(text.as_bytes()))
    }
}

impl Observer for Watch<'_> {
    fn start(&mut self, plan: &Plan) {
        // What was recorded after the checkpoint is recorded again.
        self.record.points.retain(|point| point.epoch * self.per_epoch as f64 <= plan.resumed as f64);
        self.seconds = self.record.points.last().map_or(0.0, |point| point.seconds);
        self.since = Instant::now();
    }

    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        self.seconds += self.since.elapsed().as_secs_f64();
        self.record.steps = report.iteration;
        if report.iteration > 0 && report.iteration < report.limit && report.iteration.is_multiple_of(self.every) {
            self.problem = self.test(report).err();
        }
        self.since = Instant::now();
        if self.problem.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
