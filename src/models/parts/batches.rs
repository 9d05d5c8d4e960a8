//! A minibatch divided among the processes of a job.
//!
//! An objective s Σ_i l_i(θ) + t(θ) of a batch with scale s is the sum over its K parts of (K s Σ_{i in part} l_i +
//! t)/K: each part is a batch with K times the scale, and a term that belongs to no row counts once. Parts have the
//! same rows for any number of processes. One tree adds their values and gradients, and also the sums of natural
//! gradients.
//!
//! If every process can read the rows, each reads those of its parts, and messages name only their places.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::question::{self, Crew, Question, Work};
use super::rows::SharedRows;
use super::{each, share, tree};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::models::blueprint::Blueprint;
use crate::models::gp_model::GpModel;
use crate::models::minibatch::Rows;
use crate::models::{Batch, Observations};
use crate::scope::Scope;

/// Most parts of a batch: each part repeats what belongs to no row, such as a factorisation of K_ZZ.
const PARTS: usize = 4;

/// The processes that share the batches of a training, and what they need to build its model.
#[derive(Debug, Clone)]
pub struct Spread {
    crew: Arc<dyn Crew>,
    blueprint: Blueprint,
    source: Option<Arc<dyn SharedRows>>,
}

/// A batch on the host.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// The numbers of all rows of the batch.
    pub(crate) numbers: Vec<usize>,
    /// The rows of this process; they are the first ones if other processes read their own.
    pub(crate) rows: Observations,
    /// How many rows of the data each row stands for.
    pub(crate) scale: f64,
}

impl Drawn {
    /// As tensors.
    pub(in crate::models) fn batch(&self, scope: &Scope) -> Batch {
        Batch { scale: self.scale, ..self.rows.batch(scope) }
    }
}

/// One of the processes of a job.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Place {
    /// Its rank, from 0.
    pub rank: usize,
    /// Processes of the job.
    pub size: usize,
}

impl Place {
    /// The parts of a batch of `n` rows that belong to this process.
    fn parts(self, n: usize) -> Range<usize> {
        share(tree::count(n, PARTS), self.rank, self.size)
    }

    /// The rows of these parts.
    pub(crate) fn rows(self, n: usize) -> Range<usize> {
        let (count, parts) = (tree::count(n, PARTS), self.parts(n));
        let start = |part| tree::rows(n, part, count).start;
        start(parts.start)..start(parts.end)
    }

    /// What the parts of this process answer about a batch of `n` rows with this scale, of which `rows` begin at the
    /// position `first`.
    pub(crate) fn answers(
        self,
        model: &dyn GpModel,
        compute: Compute,
        question: &Question,
        (rows, first): (&Observations, usize),
        (n, scale): (usize, f64),
    ) -> Result<Vec<Vec<f64>>> {
        let (count, parts) = (tree::count(n, PARTS), self.parts(n));
        let sums = each(compute, parts.len(), |at| {
            let places: Vec<usize> =
                tree::rows(n, parts.start + at, count).map(|row| row.wrapping_sub(first)).collect();
            if places.last().is_none_or(|last| *last >= rows.n()) {
                return Err(Error::Device("this rank lacks rows of its part of a batch".into()));
            }
            let part = (&rows.gather(&places)?, scale * count as f64);
            let sums = question::answer(model, compute, question, (&[], 0), part)?;
            Ok(sums.into_iter().map(|value| value / count as f64).collect::<Vec<_>>())
        })?;
        Ok(tree::merged(parts.map(|part| part..part + 1).zip(sums)))
    }
}

impl Spread {
    /// Over the processes of a job that this one leads. The others build the model from `blueprint`.
    pub(crate) fn new(crew: Arc<dyn Crew>, blueprint: Blueprint, source: Option<Arc<dyn SharedRows>>) -> Self {
        Self { crew, blueprint, source }
    }

    /// This process.
    fn place(&self) -> Place {
        Place { rank: 0, size: self.crew.size() }
    }

    /// The rows of a batch that this process needs.
    pub(in crate::models) fn own<'n>(&self, numbers: &'n [usize]) -> &'n [usize] {
        match &self.source {
            Some(_) => &numbers[self.place().rows(numbers.len())],
            None => numbers,
        }
    }

    /// The objective on a batch, and its gradient in the free raw values if wanted.
    ///
    /// # Errors
    /// What the objective reports; an error of another process names its rank.
    pub(in crate::models) fn objective(
        &self,
        model: &dyn GpModel,
        compute: Compute,
        drawn: &Drawn,
        gradient: bool,
    ) -> Result<(f64, Vec<f64>)> {
        let len = if gradient { 1 + model.free_raw().len() } else { 1 };
        let mut numbers = self.ask(model, compute, drawn, &Question::Batch { gradient }, len)?;
        let slopes = numbers.split_off(1);
        Ok((numbers[0], slopes))
    }

    /// The total of `len` numbers over a batch.
    ///
    /// # Errors
    /// As [`objective`](Self::objective).
    pub(in crate::models) fn ask(
        &self,
        model: &dyn GpModel,
        compute: Compute,
        drawn: &Drawn,
        question: &Question,
        len: usize,
    ) -> Result<Vec<f64>> {
        let batch = (drawn.numbers.len(), drawn.scale);
        let mut own = || self.place().answers(model, compute, question, (&drawn.rows, 0), batch);
        let source = self.source.as_deref();
        let work = Work::Batch { model, blueprint: &self.blueprint, source, drawn, compute };
        tree::total(self.crew.ask(work, question, &[], &mut own)?, len)
    }
}
