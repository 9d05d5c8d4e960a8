//! Trainings of SVGP and SWSGP that are alike.

use std::path::Path;

use cagey::data::{Dataset, ReadOptions, read_training};
use cagey::device::Precision;
use cagey::kernels::{Kernel, initial};
use cagey::likelihoods::{Bernoulli, BernoulliLink, Gaussian, Likelihood};
use cagey::models::gp_model::GpModel;
use cagey::models::minibatch::Minibatches;
use cagey::models::options::{Context, ModelOptions, Parts};
use cagey::models::svgp::SvgpOptions;
use cagey::models::swsgp::SwsgpOptions;
use cagey::models::variational::Covariance;
use cagey::train::{Adam, Optimizer, Schedule, TrainConfig};
use cagey::{Error, Result};
use serde_json::json;

use crate::Options;
use crate::common::command::Job;
use crate::common::rows::Task;
use crate::common::training::{Record, Run};

/// A model: M and, for SWSGP, H.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub inducing: usize,
    pub neighbours: Option<usize>,
    /// Whether the inducing inputs stay where they are.
    pub fixed: bool,
}

impl Size {
    pub fn svgp(inducing: usize) -> Self {
        Self { inducing, neighbours: None, fixed: false }
    }

    pub fn swsgp(inducing: usize, neighbours: usize) -> Self {
        Self { inducing, neighbours: Some(neighbours), fixed: false }
    }

    pub fn name(self) -> String {
        let Self { inducing, .. } = self;
        self.neighbours.map_or(format!("SVGP-{inducing}"), |h| format!("SWSGP-{inducing}M-{h}H"))
    }
}

/// A trained model with its record.
pub struct Trained {
    pub model: Box<dyn GpModel>,
    pub record: Record,
}

/// Whether the targets are the classes 0 and 1.
fn of_classes(task: &Task) -> bool {
    task.train.y.iter().all(|y| *y == 0.0 || *y == 1.0)
}

impl Job<Options> {
    /// A split of a table, with a standardised target unless there are two classes.
    pub fn split(&self, set: &str, split: u64) -> Result<Task> {
        if let (Some(folder), "mnist") = (&self.common.data, set) {
            return as_they_are(&odd(folder, "train")?, &odd(folder, "test")?);
        }
        let rows = self.size(&self.own.rows, [500, 4000, 20_000]);
        let mut task = self.table(set, split, rows, true)?;
        let classes = self.table(set, split, rows, false)?;
        if of_classes(&classes) {
            task = classes;
        }
        match self.own.within {
            Some(most) => near(&task, most),
            None => Ok(task),
        }
    }

    pub fn steps(&self, sizes: [usize; 3]) -> usize {
        self.size(&self.own.steps, sizes)
    }

    pub fn options(&self, size: Size) -> Box<dyn ModelOptions> {
        let Options { full, divergence, union, batch, .. } = self.own;
        let batches = Minibatches { size: batch, ..Minibatches::default() };
        let Size { inducing, neighbours, .. } = size;
        match neighbours {
            Some(neighbours) => {
                let covariance = if full { Covariance::Full } else { Covariance::Diagonal };
                let usual = SwsgpOptions::default();
                Box::new(
                    usual
                        .inducing(inducing)
                        .neighbours(neighbours)
                        .divergence(divergence)
                        .union(union)
                        .covariance(covariance)
                        .batches(batches),
                )
            }
            None => Box::new(SvgpOptions::default().inducing(inducing).covariance(Covariance::Full).batches(batches)),
        }
    }

    /// An untrained model.
    pub fn build(&self, size: Size, task: &Task, seed: u64) -> Result<Box<dyn GpModel>> {
        let mut kernel = Kernel::parse(&self.own.kernel, task.train.d)?;
        initial::initialise(&mut kernel, &task.train.x, task.train.d);
        let likelihood: Box<dyn Likelihood> = match of_classes(task) {
            true => Box::new(Bernoulli { link: BernoulliLink::Probit }),
            false => Box::new(Gaussian::new(0.1)),
        };
        let parts = Parts { likelihood, prior: kernel.into() };
        let mut model = self.options(size).build(parts, &Context::new(&task.train, &[], seed))?;
        for (path, parameter) in model.parameters_mut() {
            parameter.fixed |= size.fixed && path.ends_with("inducing");
        }
        Ok(model)
    }

    /// Adam.
    pub fn config(&self, steps: usize, seed: u64) -> TrainConfig {
        let schedule = if self.own.falling { Schedule::Linear { final_fraction: 0.1 } } else { Schedule::Constant };
        TrainConfig::new(Optimizer::Adam(Adam { rate: self.own.rate, schedule, ..Adam::default() }), steps).seed(seed)
    }

    /// What decides the numbers of a training.
    pub fn key(&self, set: &str, size: Size, steps: usize, seed: u64) -> serde_json::Value {
        let Options { rows, within, rate, falling, batch, full, divergence, union, .. } = &self.own;
        json!({ "item": "training", "set": set, "model": size.name(), "fixed": size.fixed, "steps": steps, "seed": seed,
            "compute": self.compute(Precision::F32), "rows": rows, "within": within, "rate": rate,
            "falling": falling, "batch": batch, "full": full, "divergence": divergence, "union": union,
            "kernel": self.own.kernel })
    }

    /// Trains a model, and tests it on its way `tests` times.
    pub fn fit(
        &self,
        size: Size,
        task: &Task,
        (steps, tests): (usize, usize),
        seed: u64,
        key: String,
    ) -> Result<Trained> {
        let mut model = self.build(size, task, seed)?;
        let (options, compute) = (self.options(size), self.compute(Precision::F32));
        let epochs = steps.div_ceil(task.train.n().div_ceil(self.own.batch));
        let (batches, config, every) = (options.minibatches(), self.config(steps, seed), (epochs / (tests + 1)).max(1));
        let record = self.train(&mut model, Run { task, compute, batches, config, every, key })?;
        Ok(Trained { model, record })
    }
}

/// The same parameters in a model that has them too.
pub fn copied(from: &dyn GpModel, to: &mut dyn GpModel) -> Result<()> {
    let values: Vec<(String, Vec<f64>)> =
        from.parameters().into_iter().map(|(path, parameter)| (path, parameter.internal())).collect();
    for (path, parameter) in to.parameters_mut() {
        if let Some((_, values)) = values.iter().find(|(own, _)| *own == path) {
            parameter.set_internal(values)?;
        }
    }
    Ok(())
}

/// The rows whose inputs are all within `most` median absolute deviations of their medians. Inputs without deviation do
/// not count.
fn near(task: &Task, most: f64) -> Result<Task> {
    let median = |mut values: Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let (data, d) = (&task.train, task.train.d);
    let bounds: Vec<(f64, f64)> = (0..d)
        .map(|j| {
            let column: Vec<f64> = data.x[j..].iter().step_by(d).copied().collect();
            let middle = median(column.clone());
            let deviation = median(column.iter().map(|x| (x - middle).abs()).collect());
            (middle, if deviation > 0.0 { most * deviation } else { f64::INFINITY })
        })
        .collect();
    let inside = |row: &[f64]| row.iter().zip(&bounds).all(|(x, (middle, reach))| (x - middle).abs() <= *reach);
    let part = |data: &cagey::models::Observations| {
        let rows: Vec<usize> = (0..data.n()).filter(|i| inside(&data.x[i * d..(i + 1) * d])).collect();
        cagey::models::minibatch::Rows::gather(data, &rows)
    };
    let (train, test) = (part(&task.train)?, part(&task.test)?);
    println!("{} of {} rows are near", train.n() + test.n(), task.train.n() + task.test.n());
    Ok(Task { train, test, sd: task.sd })
}

/// Images with pixels from 0 to 1, and whether their digits are odd.
fn odd(folder: &Path, part: &str) -> Result<Dataset> {
    let images = folder.join(format!("mnist_{part}_images.idx3.gz"));
    let (_, mut data) = read_training(images, &ReadOptions::default())?;
    data.x.iter_mut().for_each(|pixel| *pixel /= 255.0);
    data.y.iter_mut().flatten().for_each(|digit| *digit %= 2.0);
    Ok(data)
}

/// Rows in the units of the table.
fn as_they_are(train: &Dataset, test: &Dataset) -> Result<Task> {
    let of = |data: &Dataset| {
        let y = data.y.clone().ok_or_else(|| Error::Data("images without labels".into()))?;
        cagey::models::Observations::new(data.x.clone(), data.d, y, None)
    };
    Ok(Task { train: of(train)?, test: of(test)?, sd: 1.0 })
}
