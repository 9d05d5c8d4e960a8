//! Parts of the rows: work that is done for each part by itself, wherever its rows are.
//!
//! A model of parts asks a [`Question`] about each part, and adds the answers up or keeps them apart: the sums of one
//! sparse model, minibatches, or the experts of many. The parts may belong to this process or, through [`Ranks`], to
//! several. Their number does not depend on the number of processes, answers come in the order of the parts, and one
//! binary tree adds totals. So results have the same bits for any number of processes.

use std::ops::Range;
use std::sync::Arc;

use super::question::{self, Question};
use super::ranks::Ranks;
use super::rows::{Data, FileRows, Window};
use super::tables::{Shard, Shards};
use super::tree;
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::models::Observations;
use crate::models::gp_model::GpModel;
use crate::threads;

/// The range of `count` items that belongs to `rank` of `size` processes. Shares differ by one item at most.
pub fn share(count: usize, rank: usize, size: usize) -> Range<usize> {
    count * rank / size..count * (rank + 1) / size
}

/// The rows of each part, and where these rows are.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    /// The rows of each part, ascending.
    rows: Arc<Vec<Vec<usize>>>,
    /// The name of each part in messages; none for the parts of a batch.
    labels: Arc<Vec<String>>,
    /// The number of the first of these parts among all parts, in a process that does not lead.
    first: usize,
    /// The processes that share the parts, if there are several.
    crew: Option<Arc<Ranks>>,
    /// The rows, if they stay with their parts.
    shards: Option<Arc<Shards>>,
    /// The rows, if every process reads its own.
    window: Option<Arc<Window>>,
}

impl Parts {
    /// Parts with these rows and names. `first` is the number of the first of them.
    pub(crate) fn new(rows: Vec<Vec<usize>>, labels: Vec<String>, first: usize) -> Self {
        Self { rows: Arc::new(rows), labels: Arc::new(labels), first, ..Self::default() }
    }

    /// Parts that keep their rows for themselves; `noun` names a part in messages.
    pub(crate) fn apart(noun: &str, shards: Arc<Shards>) -> Self {
        let (mut parts, mut labels, mut start) = (Vec::new(), Vec::new(), 0);
        let count = shards.tables.len();
        for (part, Shard { path, rows, .. }) in shards.tables.iter().enumerate() {
            parts.push((start..start + rows).collect());
            labels.push(format!("{noun} {} of {count} ({path}, {rows} rows)", part + 1));
            start += rows;
        }
        Self { crew: shards.crew.clone(), shards: Some(shards), ..Self::new(parts, labels, 0) }
    }

    /// The same parts, shared by the processes of a job that this one leads.
    pub(crate) fn over(self, crew: Option<Arc<Ranks>>) -> Self {
        Self { crew, ..self }
    }

    /// The same parts of the rows of a file. This process reads the rows of its own parts now, and the others theirs
    /// when they are first asked. Later calls ignore the data that they are given.
    ///
    /// # Errors
    /// Errors of reading.
    pub(crate) fn reading(self, source: Arc<FileRows>) -> Result<Self> {
        let window = Some(Arc::new(Window::new(source, self.rows[self.own()].concat())?));
        Ok(Self { window, ..self })
    }

    /// The rows of each part.
    pub(crate) fn rows(&self) -> &[Vec<usize>] {
        &self.rows
    }

    /// The names of the parts.
    pub(crate) fn labels(&self) -> &[String] {
        &self.labels
    }

    /// What is known about rows that stay with their parts.
    pub(crate) fn shards(&self) -> Option<&Shards> {
        self.shards.as_deref()
    }

    /// The number of parts.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The number n of rows of all parts.
    pub(crate) fn count(&self) -> usize {
        self.rows.iter().map(Vec::len).sum()
    }

    /// The processes that share the parts, if there are several.
    pub(super) fn crew(&self) -> Option<&Ranks> {
        self.crew.as_deref()
    }

    /// The number of processes that share the parts.
    pub(crate) fn size(&self) -> usize {
        self.crew.as_ref().map_or(1, |crew| crew.size())
    }

    /// The parts of this process: all of them, or the first ones if it leads others.
    pub(crate) fn own(&self) -> Range<usize> {
        share(self.len(), 0, self.size())
    }

    /// Names the part in an error.
    pub(crate) fn of_part(&self, part: usize, error: Error) -> Error {
        match self.labels.get(part) {
            Some(label) => about(label, error),
            None => error,
        }
    }

    /// How many of `rows` rows this process holds: all, or only those of its own parts if every process reads its own.
    pub(crate) fn held(&self, rows: usize) -> usize {
        self.window.as_ref().map_or(rows, |window| window.len())
    }

    /// The rows that the parts have by themselves, if any. They replace the data of a call.
    pub(crate) fn own_rows(&self) -> Option<Data<'_>> {
        let shards = self.shards.as_ref().map(|shards| Data::Memory(&shards.own));
        shards.or_else(|| self.window.as_ref().map(|window| Data::Window(window)))
    }

    /// The rows that this process computes with: its own, or else the given data.
    pub(crate) fn seen<'a>(&'a self, data: &'a Observations) -> Data<'a> {
        self.own_rows().unwrap_or(Data::Memory(data))
    }

    /// Refuses rows that are not the ones that were shared out.
    pub(crate) fn check(&self, data: Data) -> Result<()> {
        let rows = self.shards.as_ref().map_or(self.count(), |shards| shards.own.n());
        if data.n() == rows {
            return Ok(());
        }
        Err(Error::shape("rows of all parts", format!("the {rows} that were shared out"), data.n().to_string()))
    }

    /// What this process's parts answer, in their order; of a total, as far as it can be added up here. Each row stands
    /// for `scale` rows.
    pub(crate) fn own_answers(
        &self,
        model: &dyn GpModel,
        (data, compute): (Data, Compute),
        question: &Question,
        numbers: &[Vec<f64>],
        scale: f64,
    ) -> Result<Vec<Vec<f64>>> {
        let own = self.own();
        // Positions in the question and among the parts.
        let asked: Vec<(usize, usize)> = match question {
            Question::Round { drawn, .. } => {
                let place = |(at, part): (usize, &usize)| Some((at, part.checked_sub(self.first)?));
                drawn.iter().enumerate().filter_map(place).filter(|(_, part)| own.contains(part)).collect()
            }
            _ => own.map(|part| (part, part)).collect(),
        };
        let answers = each(compute, asked.len(), |i| {
            let (at, part) = asked[i];
            let rows = data.gather(&self.rows[part])?;
            let answer = question::answer(model, compute, question, (numbers, at), (&rows, scale));
            answer.map_err(|error| self.of_part(part, error))
        })?;
        if !question.is_total() {
            return Ok(answers);
        }
        Ok(tree::merged(answers.into_iter().zip(self.first..).map(|(sums, part)| (part..part + 1, sums))))
    }
}

/// Names what an error is about in its message.
pub(crate) fn about(what: &str, error: Error) -> Error {
    error.map(|error| match error {
        Error::NotPositiveDefinite { matrix, size, dtype, pivot, jitter, finite } => {
            Error::NotPositiveDefinite { matrix: format!("{what}: {matrix}"), size, dtype, pivot, jitter, finite }
        }
        Error::NotFinite(problem) => Error::NotFinite(format!("{what}: {problem}")),
        Error::Data(problem) => Error::Data(format!("{what}: {problem}")),
        other => other,
    })
}

/// Calls `work` for so many parts and returns the results. On the CPU each thread works for one part at a time.
pub(crate) fn each<R: Send>(
    compute: Compute,
    count: usize,
    work: impl Fn(usize) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    if compute.kind.is_cpu() { threads::apart(count, work) } else { (0..count).map(work).collect() }
}
