//! Models made of parts of the rows, and their objectives for the trainer. No tensor holds all rows.

use std::time::Instant;

use burn::tensor::{Tensor, TensorData};

use super::batches::Drawn;
use super::parts::Parts;
use super::question::Question;
use super::rows::{Data, FileRows};
use super::tree;
use crate::device::Compute;
use crate::device::transfers::upload;
use crate::error::{Error, Result};
use crate::linalg::jitter::{record, watch};
use crate::models::blueprint::Blueprint;
use crate::models::fit::{JitterLimit, add_priors, groups};
use crate::models::gp_model::GpModel;
use crate::models::{Batch, Observations};
use crate::params::Parameters;
use crate::scope::Scope;
use crate::train::{self, Evaluation, Group, Objective, Observer, Outcome, Step, TrainConfig};

/// A model made of parts of the rows.
pub trait OfParts: GpModel {
    /// The parts, and where their rows are.
    fn parts(&self) -> &Parts;

    /// The model of each part. It has the parameters of all.
    fn member(&self) -> &dyn GpModel;

    /// How other processes build the model of a part, whose rows have `d` inputs.
    fn blueprint(&self, d: usize) -> Blueprint;

    /// The rows that every process needs beside those of its parts, ascending.
    fn common(&self) -> &[usize] {
        &[]
    }

    /// The objective on rows on the host.
    ///
    /// # Errors
    /// As [`objective`](crate::models::Model::objective).
    fn objective_over(&self, scope: &Scope, data: Data) -> Result<Tensor<1>>;

    /// What questions about all parts are about.
    fn work<'a>(&'a self, data: Data<'a>, compute: Compute) -> Work<'a> {
        let mut blueprint = self.blueprint(data.d());
        // Each question brings the values.
        blueprint.parameters.iter_mut().for_each(|p| p.put_raw(&vec![0.0; p.len()]));
        let rows = WorkRows::Parts { parts: self.parts(), common: self.common(), data };
        Work { member: self.member(), blueprint, compute, rows }
    }
}

/// What a question is about: all that processes need to hold or to know so that they can answer it.
#[derive(Debug, Clone)]
pub struct Work<'a> {
    /// The model of each part.
    pub member: &'a dyn GpModel,
    /// How other processes build it.
    pub blueprint: Blueprint,
    /// Where to compute.
    pub compute: Compute,
    /// The rows.
    pub rows: WorkRows<'a>,
}

/// The rows that a question is about.
#[derive(Debug, Clone, Copy)]
pub enum WorkRows<'a> {
    /// All rows: every process holds those of its parts.
    Parts {
        /// The rows of each part.
        parts: &'a Parts,
        /// The rows that every process needs beside those of its parts, ascending.
        common: &'a [usize],
        /// Where the rows are.
        data: Data<'a>,
    },
    /// Those of a minibatch, which come with the question.
    Batch {
        /// The batch.
        drawn: &'a Drawn,
        /// The rows, if every process reads its own.
        source: Option<&'a FileRows>,
        /// How many rows of the data each row of a part stands for.
        scale: f64,
    },
}

/// The answers of all parts to a question, in their order. `own` gives those of this process's parts.
pub(crate) fn ask_with(
    of: &dyn OfParts,
    (data, compute): (Data, Compute),
    question: &Question,
    numbers: &[Vec<f64>],
    own: impl FnOnce() -> Result<Vec<Vec<f64>>>,
) -> Result<Vec<Vec<f64>>> {
    of.parts().check(data)?;
    match of.parts().crew() {
        Some(crew) => crew.ask(&of.work(data, compute), question, numbers, own),
        None => own(),
    }
}

/// The answers of all parts to a question, in their order.
pub(crate) fn ask(
    of: &dyn OfParts,
    (data, compute): (Data, Compute),
    question: &Question,
    numbers: &[Vec<f64>],
) -> Result<Vec<Vec<f64>>> {
    let own = || of.parts().own_answers(of.member(), (data, compute), question, numbers, 1.0);
    ask_with(of, (data, compute), question, numbers, own)
}

/// The total of `len` numbers over all parts.
pub(crate) fn total(of: &dyn OfParts, of_data: (Data, Compute), question: &Question, len: usize) -> Result<Vec<f64>> {
    tree::total(ask(of, of_data, question, &[])?, len)
}

/// The sum of the answers of all parts about an objective: the objective and its slopes. Adds in the order of the
/// parts, so that the sum does not depend on which process has which part.
pub(crate) fn sum(
    of: &dyn OfParts,
    of_data: (Data, Compute),
    question: &Question,
    numbers: &[Vec<f64>],
) -> Result<(f64, Vec<f64>)> {
    let mut answers = ask(of, of_data, question, numbers)?.into_iter();
    let mut all = answers.next().unwrap_or_default();
    for answer in answers {
        let jitter = all.get(1).copied().unwrap_or_default().max(answer.get(1).copied().unwrap_or_default());
        all.iter_mut().zip(&answer).for_each(|(sum, more)| *sum += more);
        if let Some(slot) = all.get_mut(1) {
            *slot = jitter;
        }
    }
    if all.len() < 2 {
        return Err(Error::shape("answers about an objective", "2 numbers or more", all.len().to_string()));
    }
    let slopes = all.split_off(2);
    record(all[1]);
    Ok((all[0], slopes))
}

/// A function that is linear in the internal values of the free parameters, with this value and these slopes at the
/// present ones.
pub(crate) fn linear(scope: &Scope, parameters: &(impl Parameters + ?Sized), value: f64, slopes: &[f64]) -> Tensor<1> {
    let mut rest = slopes;
    let value = upload(TensorData::from([value]), scope.device(), scope.wide());
    let free = parameters.parameters().into_iter().filter(|(_, p)| !p.fixed);
    free.fold(value, |sum, (_, parameter)| {
        let Some((own, others)) = rest.split_at_checked(parameter.len()) else { return sum };
        rest = others;
        let leaf = scope.wide_value(parameter);
        let here = leaf.clone().detach();
        let slopes = scope.widened().vector(own);
        sum + ((leaf - here) * slopes).sum()
    })
}

/// The objective of a model of parts on its own rows, or on the rows of the batch if it has none.
pub(crate) fn over(model: &dyn OfParts, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
    if let Some(data) = model.parts().own_rows() {
        return model.objective_over(scope, data);
    }
    model.objective_over(scope, Data::Memory(&batch.rows()?))
}

/// An objective plus the negative log priors of the parameters, as a function of the free raw values.
struct Whole<'a, M> {
    model: M,
    compute: Compute,
    data: &'a Observations,
    limit: JitterLimit,
}

/// The objective with priors, and its gradient in the free raw values.
///
/// # Errors
/// Errors of a part.
pub(crate) fn evaluate(model: &impl OfParts, compute: Compute, data: &Observations) -> Result<Evaluation> {
    let data = model.parts().seen(data);
    let scope = Scope::training(compute)?.with_budget(model.budget(data.n(), compute.precision));
    let loss = model.objective_over(&scope, data)?;
    let (loss, mut gradient) = scope.gradient(loss, model)?;
    let priors = add_priors(model, &mut gradient);
    Ok(Evaluation { loss: loss + priors, gradient })
}

/// Measures the seconds that an evaluation takes.
///
/// # Errors
/// As [`evaluate`].
pub(crate) fn seconds(model: &impl OfParts, compute: Compute, data: &Observations) -> Result<f64> {
    let start = Instant::now();
    evaluate(model, compute, data)?;
    Ok(start.elapsed().as_secs_f64())
}

/// Minimises the objective with the ordinary optimiser and leaves the model at the best point found.
///
/// # Errors
/// As [`fit`](crate::models::fit::fit).
pub(crate) fn train(
    model: &mut (impl OfParts + Clone),
    compute: Compute,
    data: &Observations,
    config: &TrainConfig,
    observers: &mut [&mut dyn Observer],
) -> Result<Outcome> {
    let start = model.free_raw();
    let config = config.clone().loss_scale(model.parts().count() as f64);
    let mut whole = Whole { model: model.clone(), compute, data, limit: JitterLimit::default() };
    let outcome = train::minimise(&mut whole, &start, &config, observers)?;
    model.set_free_raw(&outcome.x)?;
    Ok(outcome)
}

impl<M: OfParts> Objective for Whole<'_, M> {
    fn dim(&self) -> usize {
        self.model.free_raw().len()
    }

    fn evaluate(&mut self, x: &[f64], _step: Step) -> Result<Evaluation> {
        self.model.set_free_raw(x)?;
        let (evaluation, jitter) = watch(|| evaluate(&self.model, self.compute, self.data));
        self.limit.check(jitter, self.model.bears_jitter())?;
        evaluation
    }

    fn groups(&self) -> Vec<Group> {
        groups(&self.model, |_| None)
    }

    fn state(&self) -> Vec<f64> {
        self.limit.state()
    }

    fn restore(&mut self, state: &[f64]) -> Result<()> {
        self.limit.restore(state)
    }
}
