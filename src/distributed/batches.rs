//! A minibatch divided among the processes of a job.
//!
//! An objective s Σ_i l_i(θ) + t(θ) of a batch with scale s is the sum over its K parts of (K s Σ_{i in part} l_i +
//! t)/K: each part is a batch with K times the scale, and a term that belongs to no row counts once. Parts have the
//! same rows for any number of processes. One tree adds their values and gradients, and also the sums of natural
//! gradients.
//!
//! If every process can read the rows, each reads those of its parts, and messages name only their places.

use std::sync::Arc;

use super::parts::{Parts, share};
use super::question::Question;
use super::ranks::Ranks;
use super::rows::{Data, FileRows};
use super::tree;
use super::whole::{Work, WorkRows};
use crate::device::Compute;
use crate::error::Result;
use crate::models::blueprint::Blueprint;
use crate::models::gp_model::GpModel;
use crate::models::{Batch, Observations};
use crate::scope::Scope;

/// Most parts of a batch: each part repeats what belongs to no row, such as a factorisation of K_ZZ. Their number K is
/// a power of two, so that the division by it does not round.
const PARTS: usize = 4;

/// The processes that share the batches of a training, and what they need to build its model.
#[derive(Debug, Clone)]
pub struct Spread {
    crew: Arc<Ranks>,
    blueprint: Blueprint,
    source: Option<Arc<FileRows>>,
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
    pub(crate) fn batch(&self, scope: &Scope) -> Batch {
        Batch { scale: self.scale, ..self.rows.batch(scope) }
    }
}

/// The parts of a batch of `n` rows that belong to a rank, as their rows from `first` on; and `first`, which is 0 for a
/// rank that has all rows.
pub(super) fn of_rank(n: usize, (rank, size): (usize, usize), has_all: bool) -> (Parts, usize) {
    let mut all = tree::split(n, PARTS);
    let own = share(all.len(), rank, size);
    let mut rows: Vec<Vec<usize>> = all.drain(own.clone()).collect();
    let first = rows.first().map_or(0, |rows| if has_all { 0 } else { rows[0] });
    rows.iter_mut().flatten().for_each(|row| *row -= first);
    (Parts::new(rows, Vec::new(), own.start), first)
}

impl Spread {
    /// Over the processes of a job that this one leads. The others build the model from `blueprint`.
    pub(crate) fn new(crew: Arc<Ranks>, blueprint: Blueprint, source: Option<Arc<FileRows>>) -> Self {
        Self { crew, blueprint, source }
    }

    /// This process's parts of a batch of `n` rows.
    fn parts(&self, n: usize) -> Parts {
        of_rank(n, (0, self.crew.size()), true).0
    }

    /// The rows of a batch that this process needs.
    pub(crate) fn own<'n>(&self, numbers: &'n [usize]) -> &'n [usize] {
        match &self.source {
            Some(_) => &numbers[..self.parts(numbers.len()).count()],
            None => numbers,
        }
    }

    /// The objective on a batch, and its gradient in the free raw values if wanted.
    ///
    /// # Errors
    /// What the objective reports; an error of another process names its rank.
    pub(crate) fn objective(
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
    pub(crate) fn ask(
        &self,
        model: &dyn GpModel,
        compute: Compute,
        drawn: &Drawn,
        question: &Question,
        len: usize,
    ) -> Result<Vec<f64>> {
        let n = drawn.numbers.len();
        let count = tree::count(n, PARTS) as f64;
        let scale = drawn.scale * count;
        let data = Data::Memory(&drawn.rows);
        let own = || self.parts(n).own_answers(model, (data, compute), question, &[], scale);
        let rows = WorkRows::Batch { drawn, source: self.source.as_deref(), scale };
        let work = Work { member: model, blueprint: self.blueprint.clone(), compute, rows };
        let total = tree::total(self.crew.ask(&work, question, &[], own)?, len)?;
        Ok(total.into_iter().map(|value| value / count).collect())
    }
}
