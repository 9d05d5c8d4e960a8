//! The sum of the experts' objectives. Each thread evaluates one expert at a time, on one rank or several.

use std::ops::Range;

use burn::tensor::{Tensor, TensorData};
use serde_json::json;

use super::rows::Data;
use super::whole::OfParts;
use super::{Experts, remote};
use crate::device::Compute;
use crate::device::transfers::upload;
use crate::error::{Error, Result};
use crate::exchange::{Message, Ranks, put, take};
use crate::linalg::jitter::{record, watch};
use crate::models::{Batch, Observations};
use crate::params::Parameters;
use crate::scope::{Scope, scalar, to_f64};
use crate::threads;

/// The question to a rank: evaluate the objectives.
pub(super) const EVALUATE: &str = "experts.evaluate";

/// An objective, its gradient in the internal values of each free parameter if asked for, and the jitter that was
/// added.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    pub(super) loss: f64,
    pub(super) slopes: Vec<Vec<f64>>,
    pub(super) jitter: f64,
}

/// Σ L_i(θ) `[1]`.
///
/// Each expert has a graph of its own, which is dropped when its gradient is known. The returned tensor is linear in
/// the parameters. At their present values it has the value and the gradient of the sum.
pub(super) fn sum(experts: &Experts, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
    batch.check(scope)?;
    over(experts, scope, batch)
}

/// The objective of a model of parts on its own rows, or on the rows of the batch if it has none.
pub(super) fn over(model: &impl OfParts, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
    match model.experts().own_rows() {
        Some(data) => model.objective_over(scope, data),
        None => model.objective_over(scope, Data::Memory(&observations(batch)?)),
    }
}

/// [`sum`] over rows on the host.
pub(super) fn sum_over(experts: &Experts, scope: &Scope, data: Data) -> Result<Tensor<1>> {
    experts.check(data)?;
    let asked = Asked { compute: scope.compute(), gradient: scope.device().is_autodiff(), budget: scope.budget() };
    let parts = match &experts.ranks {
        Some(ranks) => all(experts, ranks, data, asked)?,
        None => own(experts, data, asked)?,
    };
    let Part { loss, slopes, jitter } = total(&parts);
    record(jitter);
    let value = upload(TensorData::from([loss]), scope.device(), scope.wide());
    Ok(linear(scope, experts, value, slopes))
}

/// A function that is linear in the internal values of the free parameters, with this value and these slopes at the
/// present ones.
pub(super) fn linear(
    scope: &Scope,
    parameters: &impl Parameters,
    value: Tensor<1>,
    slopes: Vec<Vec<f64>>,
) -> Tensor<1> {
    let free = parameters.parameters().into_iter().filter(|(_, p)| !p.fixed);
    free.zip(slopes).fold(value, |sum, ((_, parameter), slopes)| {
        let leaf = scope.wide_value(parameter);
        let here = leaf.clone().detach();
        let slopes = scope.widened().vector(&slopes);
        sum + ((leaf - here) * slopes).sum()
    })
}

/// Adds parts up in the order of the experts, so that the sum does not depend on which rank holds which expert.
pub(super) fn total(parts: &[Part]) -> Part {
    let mut all = parts.first().cloned().unwrap_or_default();
    for part in parts.iter().skip(1) {
        all.loss += part.loss;
        all.jitter = all.jitter.max(part.jitter);
        for (sum, slope) in all.slopes.iter_mut().zip(&part.slopes) {
            sum.iter_mut().zip(slope).for_each(|(sum, slope)| *sum += slope);
        }
    }
    all
}

/// How to evaluate experts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) compute: Compute,
    /// Whether the gradient is wanted.
    pub(super) gradient: bool,
    /// Bytes of temporary memory for each expert.
    pub(super) budget: usize,
}

/// The objectives of this process's experts, in their order.
pub(super) fn own(experts: &Experts, data: Data, asked: Asked) -> Result<Vec<Part>> {
    let Range { start, end } = experts.own();
    let part = |at: usize| {
        let expert = start + at;
        let rows = data.gather(&experts.parts[expert])?;
        evaluate(experts, &rows, asked).map_err(|error| experts.of_expert(expert, error))
    };
    each(asked.compute, end - start, part)
}

/// The objectives of all experts, in their order.
fn all(experts: &Experts, ranks: &Ranks, data: Data, asked: Asked) -> Result<Vec<Part>> {
    let mut talk = ranks.talk();
    remote::hold(experts, &mut talk, ranks.size(), data, asked.compute)?;
    let mut message = remote::with_parameters(experts);
    message.document = json!({ "gradient": asked.gradient, "budget": asked.budget });
    let answers = talk.ask(EVALUATE, message, || own(experts, data, asked).map(|parts| written(&parts)))?;
    Ok(answers.into_iter().map(|answer| read(experts, answer)).collect::<Result<Vec<_>>>()?.concat())
}

/// Evaluations as a message.
pub(super) fn written(parts: &[Part]) -> Message {
    let mut message = Message::default();
    put(&mut message, "loss", parts.iter().map(|part| part.loss).collect());
    put(&mut message, "jitter", parts.iter().map(|part| part.jitter).collect());
    put(&mut message, "slopes", parts.iter().flat_map(|part| part.slopes.concat()).collect());
    message
}

pub(super) fn read(experts: &Experts, mut message: Message) -> Result<Vec<Part>> {
    let (losses, jitters) = (take(&mut message, "loss")?, take(&mut message, "jitter")?);
    let slopes = take(&mut message, "slopes")?;
    let parameters = experts.parameters();
    let lengths: Vec<usize> = parameters.iter().filter(|(_, p)| !p.fixed).map(|(_, p)| p.len()).collect();
    let mut rest = &slopes[..];
    let mut next = || {
        let of_one = lengths.iter().map(|length| {
            let (own, others) = rest.split_at_checked(*length)?;
            rest = others;
            Some(own.to_vec())
        });
        of_one.collect::<Option<Vec<_>>>()
    };
    let gradient = !slopes.is_empty();
    let part = |(loss, jitter): (f64, f64)| Part {
        loss,
        jitter,
        slopes: if gradient { next().unwrap_or_default() } else { Vec::new() },
    };
    Ok(losses.into_iter().zip(jitters).map(part).collect())
}

/// Calls `work` for so many experts and returns the results. On the CPU each thread works for one expert at a time.
pub(super) fn each<R: Send>(
    compute: Compute,
    count: usize,
    work: impl Fn(usize) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    if compute.kind.is_cpu() { threads::apart(count, work) } else { (0..count).map(work).collect() }
}

/// The objective of one expert on its rows.
fn evaluate(experts: &Experts, rows: &Observations, asked: Asked) -> Result<Part> {
    let (model, Asked { compute, gradient, budget }) = (experts.shared.model(), asked);
    let (found, jitter) = watch(|| {
        let scope = if gradient { Scope::training(compute)? } else { Scope::new(compute)? }.with_budget(budget);
        let loss = model.objective(&scope, &rows.batch(&scope))?;
        if gradient { scope.slopes(loss, model) } else { Ok((scalar(loss)?, Vec::new())) }
    });
    let (loss, slopes) = found?;
    Ok(Part { loss, slopes, jitter })
}

/// The rows of a batch on the host.
fn observations(batch: &Batch) -> Result<Observations> {
    let d = batch.x.dims()[1];
    let noise = batch.auxiliary.clone().map(to_f64).transpose()?;
    Observations::new(to_f64(batch.x.clone())?, d, to_f64(batch.y.clone())?, noise)
}

impl Experts {
    /// Refuses rows that are not the ones that were shared out.
    pub(super) fn check(&self, data: Data) -> Result<()> {
        let rows = match &self.shards {
            Some(shards) => shards.own.n(),
            None => self.rows(),
        };
        if data.n() == rows {
            return Ok(());
        }
        Err(Error::shape("rows for experts", format!("the {rows} that were shared out"), data.n().to_string()))
    }
}
