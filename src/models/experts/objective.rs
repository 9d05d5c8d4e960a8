//! The sum of the experts' objectives, one expert a thread at a time.

use burn::tensor::Tensor;

use super::Experts;
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::linalg::jitter::{record, watch};
use crate::models::minibatch::Rows;
use crate::models::{Batch, Observations};
use crate::params::Parameters;
use crate::scope::{Scope, scalar, to_f64};
use crate::threads;

/// An objective, its gradient in the internal values of each free parameter where that was asked for, and the jitter
/// that it took.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    pub(super) loss: f64,
    pub(super) slopes: Vec<Vec<f64>>,
    pub(super) jitter: f64,
}

/// Σ L_i(θ) `[1]`.
///
/// Each expert has a graph of its own, which is gone when its gradient is known: the tensor that is returned is linear
/// in the parameters, with the sum's value and gradient at their present values.
pub(super) fn sum(experts: &Experts, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
    batch.check(scope)?;
    let data = observations(batch)?;
    experts.check(&data)?;
    let budget = scope.budget() / rayon::current_num_threads().min(experts.len());
    let (compute, gradient) = (scope.compute(), scope.device().is_autodiff());
    let part = |expert: usize| {
        let rows = data.gather(&experts.parts[expert])?;
        evaluate(experts, compute, &rows, (gradient, budget)).map_err(|error| experts.of_expert(expert, error))
    };
    let parts = if compute.kind.is_cpu() {
        threads::apart(experts.len(), part)?
    } else {
        (0..experts.len()).map(part).collect::<Result<_>>()?
    };
    let Part { loss, slopes, jitter } = total(&parts);
    record(jitter);
    let value = Tensor::from_data([loss], (scope.device(), scope.wide()));
    let free = experts.parameters().into_iter().filter(|(_, p)| !p.fixed);
    Ok(free.zip(slopes).fold(value, |sum, ((_, parameter), slopes)| {
        let leaf = scope.wide_value(parameter);
        let here = leaf.clone().detach();
        let slopes = scope.vector(&slopes).cast(scope.wide());
        sum + ((leaf - here) * slopes).sum()
    }))
}

/// In the order of experts, so that the sum does not depend on where they are.
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

/// The objective of one expert on its rows.
pub(super) fn evaluate(
    experts: &Experts,
    compute: Compute,
    rows: &Observations,
    (gradient, budget): (bool, usize),
) -> Result<Part> {
    let model = experts.shared.model();
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
    let noise = batch.noise.clone().map(to_f64).transpose()?;
    Ok(Observations { x: to_f64(batch.x.clone())?, d, y: to_f64(batch.y.clone())?, noise })
}

impl Experts {
    /// Refuses other rows than those that were shared out.
    pub(super) fn check(&self, data: &Observations) -> Result<()> {
        let rows = self.rows();
        if data.n() == rows {
            return Ok(());
        }
        Err(Error::shape("rows for experts", format!("the {rows} that were shared out"), data.n().to_string()))
    }
}
