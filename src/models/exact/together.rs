//! Small exact models that train at the same time.

use super::{ExactGp, ExactObjective};
use crate::device::Compute;
use crate::error::Result;
use crate::models::Batch;
use crate::models::together::{Answer, Answers, MOST_ROWS, Task, with_others};
use crate::products::stacked::{Member, likelihoods};
use crate::scope::to_f64;
use crate::train::Evaluation;

/// The objective of a model on these rows.
struct ExactTask {
    model: ExactGp,
    compute: Compute,
    x: Vec<f64>,
    y: Vec<f64>,
    d: usize,
}

impl Task for ExactTask {
    fn structure(&self) -> String {
        let prior = &self.model.prior;
        format!("{} {} {} {:?}", prior.kernel.layout(), prior.mean.name(), self.d, self.compute)
    }

    fn answer(tasks: Vec<Self>) -> Answers {
        let Some(Self { compute, d, .. }) = tasks.first() else { return Ok(Vec::new()) };
        let members: Vec<Member> = tasks.iter().map(|Self { model, x, y, .. }| model.member(x, y)).collect();
        let found = likelihoods(*compute, &members, *d)?;
        Ok(tasks.iter().zip(found).map(|(task, found)| Answer::new(&task.model, found)).collect())
    }
}

impl ExactGp {
    /// The model on these rows, as a member of a batch.
    #[doc(hidden)]
    pub fn member<'a>(&'a self, x: &'a [f64], y: &'a [f64]) -> Member<'a> {
        let (prior, noise) = (&self.prior, &self.likelihood.noise);
        Member { kernel: &prior.kernel, mean: &prior.mean, noise, x, y }
    }

    /// The objective and its gradient without priors, evaluated with those of other models if this thread's training
    /// attends a meeting and the model is small.
    pub(super) fn with_others(&self, compute: Compute, batch: &Batch) -> Option<Result<Evaluation>> {
        with_others(|| {
            let [n, d] = batch.x.dims();
            let likelihood = self.objective == ExactObjective::MarginalLikelihood && batch.auxiliary.is_none();
            if !likelihood || n > MOST_ROWS || !self.prior.kernel.stacks() {
                return None;
            }
            let numbers = || Ok((to_f64(batch.x.clone())?, to_f64(batch.y.clone())?));
            Some(numbers().map(|(x, y)| ExactTask { model: self.clone(), compute, x, y, d }))
        })
    }
}
