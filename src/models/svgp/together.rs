//! Small variational models that train at the same time.

use std::sync::{Arc, Mutex, PoisonError};

use super::Svgp;
use crate::device::Compute;
use crate::error::Result;
use crate::likelihoods::expected::RowDensities;
use crate::models::Batch;
use crate::models::posterior::VARIANCE_FLOOR;
use crate::models::together::{Answer, Answers, MOST_ROWS, Task, with_others};
use crate::products::stacked::{Expected, Sparse, bounds};
use crate::scope::to_f64;
use crate::train::Evaluation;

/// The objective of a model with one latent function on these rows.
struct SvgpTask {
    model: Svgp,
    compute: Compute,
    x: Vec<f64>,
    rows: RowDensities,
    scale: f64,
}

impl SvgpTask {
    fn new(model: &Svgp, compute: Compute, batch: &Batch) -> Result<Self> {
        let rows = RowDensities::new(&*model.likelihood, &batch.y, batch.auxiliary.as_ref())?;
        Ok(Self { model: model.clone(), compute, x: to_f64(batch.x.clone())?, rows, scale: batch.scale })
    }

    /// The expected log density of all rows, and the slopes of minus it in own parameters.
    fn expected(rows: &RowDensities, scale: f64, mean: &[f64], variance: &[f64]) -> (Expected, Vec<f64>) {
        let (records, own) = (rows.records(mean, variance), rows.own);
        let column = |at: usize| records.iter().skip(at).step_by(3 + own).map(|x| scale * x);
        let found =
            Expected { value: column(0).sum(), in_means: column(1).collect(), in_variances: column(2).collect() };
        (found, (3..3 + own).map(|at| -column(at).sum::<f64>()).collect())
    }
}

impl Task for SvgpTask {
    fn structure(&self) -> String {
        let process = &self.model.processes[0];
        let (kernel, mean) = (process.prior.kernel.layout(), process.prior.mean.name());
        format!("{kernel} {mean} {} {:?}", process.d(), self.compute)
    }

    fn answer(tasks: Vec<Self>) -> Answers {
        let Some(Self { compute, model, .. }) = tasks.first() else { return Ok(Vec::new()) };
        let (compute, d) = (*compute, model.processes[0].d());
        let each: Vec<(RowDensities, f64)> = tasks.iter().map(|task| (task.rows.clone(), task.scale)).collect();
        let own = Arc::new(Mutex::new(vec![Vec::new(); tasks.len()]));
        let slopes = own.clone();
        let expected = move |k: usize, mean: &[f64], variance: &[f64]| {
            let (found, own) = Self::expected(&each[k].0, each[k].1, mean, variance);
            slopes.lock().unwrap_or_else(PoisonError::into_inner)[k] = own;
            Ok(found)
        };
        let members: Vec<Sparse> = tasks.iter().map(|Self { model, x, .. }| model.member(x)).collect();
        let found = bounds(compute, &members, d, VARIANCE_FLOOR, expected)?;
        let own = std::mem::take(&mut *own.lock().unwrap_or_else(PoisonError::into_inner));
        let answers = tasks.iter().zip(found).zip(own).map(|((task, mut found), own)| {
            // The parameters of the likelihood are between those of the process and those of q.
            let (mut own, at) = (own.into_iter(), found.slopes.len() - 2);
            let lengths = task.model.likelihood.parameters().into_iter().map(|(_, p)| p.len());
            let of_likelihood: Vec<Vec<f64>> = lengths.map(|length| own.by_ref().take(length).collect()).collect();
            found.slopes.splice(at..at, of_likelihood);
            Answer::new(&task.model, found)
        });
        Ok(answers.collect())
    }
}

impl Svgp {
    /// The model with one latent function on rows `x`, as a member of a batch.
    #[doc(hidden)]
    pub fn member<'a>(&'a self, x: &'a [f64]) -> Sparse<'a> {
        let (process, q) = (&self.processes[0], &self.variational[0]);
        let (kernel, mean, inducing) = (&process.prior.kernel, &process.prior.mean, &process.inducing);
        Sparse { kernel, mean, inducing, centre: &q.mean, root: &q.root, x }
    }

    /// The objective and its gradient without priors, evaluated with those of other models if this thread's training
    /// attends a meeting, and the model is small and has one latent function.
    pub(super) fn with_others(&self, compute: Compute, batch: &Batch) -> Option<Result<Evaluation>> {
        with_others(|| {
            let one = self.variational.len() == 1 && self.processes.len() == 1;
            let small = batch.x.dims()[0] <= MOST_ROWS && self.processes.iter().all(|own| own.len() <= MOST_ROWS);
            let known = self.likelihood.density().own().len();
            let own: usize = self.likelihood.parameters().iter().map(|(_, p)| p.len()).sum();
            (one && small && known >= own && self.processes[0].prior.kernel.stacks())
                .then(|| SvgpTask::new(self, compute, batch))
        })
    }
}
