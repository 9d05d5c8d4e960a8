//! A minibatch divided among the ranks of a job.
//!
//! An objective s Σ_i l_i(θ) + t(θ) of a batch with scale s is the sum over its K parts of (K s Σ_{i in part} l_i +
//! t)/K: each part is a batch with K times the scale, and a term that belongs to no row counts once. Parts have the
//! same rows for any number of ranks. One tree adds their values and gradients, and also the sums of natural gradients.
//!
//! If every process can read the rows, each reads those of its parts, and messages name only their places.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};

use super::batches::Rows;
use super::shared_rows::{self, SOURCE, SharedRows};
use super::sum_over_rows::SumOverRows;
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::exchange::{self, Message, Ranks, entry, put, take};
use crate::models::branches::{self, Branch};
use crate::models::gp_model::GpModel;
use crate::models::{Batch, Observations};
use crate::scope::{Scope, scalar};
use crate::threads;

/// Asks a rank to hold a model.
pub const HOLD: &str = "spread.hold";
/// Asks for the model's objective.
const EVALUATE: &str = "spread.evaluate";
/// Asks for the sums that natural gradients need.
const NATURAL: &str = "spread.natural";

/// All questions.
pub const ASKS: [&str; 2] = [EVALUATE, NATURAL];

/// Most parts of a batch: each part repeats what belongs to no row, such as a factorisation of K_ZZ.
const PARTS: usize = 4;

/// The ranks that share the batches of a training, and what they need to build its model.
#[derive(Debug, Clone)]
pub struct Spread {
    ranks: Arc<Ranks>,
    form: Value,
    source: Option<Arc<dyn SharedRows>>,
}

/// A batch on the host.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// The numbers of all rows of the batch.
    pub(super) numbers: Vec<usize>,
    /// The rows of this process; they are the first ones if other processes read their own.
    pub(super) rows: Observations,
    /// How many rows of the data each row stands for.
    pub(super) scale: f64,
}

impl Drawn {
    /// As tensors.
    pub(super) fn batch(&self, scope: &Scope) -> Batch {
        Batch { scale: self.scale, ..self.rows.batch(scope) }
    }
}

/// The rows of a batch that a rank has.
#[derive(Debug, Clone, Copy)]
struct Share<'a> {
    /// At least the rows of its parts.
    rows: &'a Observations,
    /// The position of the first of them in the batch.
    first: usize,
    /// The number of rows of the whole batch.
    n: usize,
    /// How many rows of the data each row stands for.
    scale: f64,
}

impl Share<'_> {
    /// A part of the batch, and the scale with which it stands for the whole batch.
    fn part(&self, part: usize, count: usize) -> Result<(Observations, f64)> {
        let rows = branches::rows(self.n, part, count).map(|row| row.wrapping_sub(self.first)).collect::<Vec<_>>();
        match rows.last().is_some_and(|last| *last < self.rows.n()) {
            true => Ok((self.rows.gather(&rows)?, self.scale * count as f64)),
            false => Err(Error::Device("this rank lacks rows of its part of a batch".into())),
        }
    }
}

/// The parts of a batch of `n` rows that belong to a rank, and the rows of these parts.
fn share(n: usize, Place { rank, size }: Place) -> (Range<usize>, Range<usize>) {
    let count = branches::count(n, PARTS);
    let parts = exchange::share(count, rank, size);
    let start = |part| branches::rows(n, part, count).start;
    (parts.clone(), start(parts.start)..start(parts.end))
}

/// What is asked about a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// The objective, and its gradient if wanted.
    Objective { gradient: bool },
    /// Sums for a natural-gradient step.
    Natural,
}

impl Question {
    fn ask(self) -> &'static str {
        match self {
            Self::Objective { .. } => EVALUATE,
            Self::Natural => NATURAL,
        }
    }

    /// The answer of one of `count` parts, each of which stands for the whole batch.
    fn of(
        self,
        model: &dyn SumOverRows,
        compute: Compute,
        (rows, scale): &(Observations, f64),
        count: usize,
    ) -> Result<Vec<f64>> {
        let batch = |scope: &Scope| Batch { scale: *scale, ..rows.batch(scope) };
        let said = match self {
            Self::Natural => model.natural_sums(compute, &batch(&Scope::new(compute)?))?.numbers()?,
            Self::Objective { gradient } => {
                let budget = model.budget(rows.n(), compute.precision);
                let scope = if gradient { Scope::training(compute)? } else { Scope::new(compute)? }.with_budget(budget);
                let loss = model.objective(&scope, &batch(&scope))?;
                let (loss, slopes) = if gradient { scope.gradient(loss, model)? } else { (scalar(loss)?, Vec::new()) };
                std::iter::once(loss).chain(slopes).collect()
            }
        };
        Ok(said.into_iter().map(|value| value / count as f64).collect())
    }
}

impl Spread {
    /// Over ranks that this process leads. The other ranks build the model from `form`.
    pub fn new(ranks: Arc<Ranks>, form: Value) -> Self {
        Self { ranks, form, source: None }
    }

    /// The same for rows that every rank reads itself.
    pub fn reading(self, source: Arc<dyn SharedRows>) -> Self {
        Self { source: Some(source), ..self }
    }

    /// The rows of a batch that this process needs.
    pub(super) fn own<'n>(&self, numbers: &'n [usize]) -> &'n [usize] {
        match &self.source {
            Some(_) => &numbers[share(numbers.len(), Place { rank: 0, size: self.ranks.size() }).1],
            None => numbers,
        }
    }

    /// The objective on a batch, and its gradient in the free raw values if wanted.
    ///
    /// # Errors
    /// What the objective reports; an error of another rank names its number.
    pub(super) fn objective(
        &self,
        model: &dyn SumOverRows,
        compute: Compute,
        drawn: &Drawn,
        gradient: bool,
    ) -> Result<(f64, Vec<f64>)> {
        let len = if gradient { 1 + model.free_raw().len() } else { 1 };
        let mut numbers = self.ask(model, compute, drawn, (Question::Objective { gradient }, len))?;
        let slopes = numbers.split_off(1);
        Ok((numbers[0], slopes))
    }

    /// The sums for a natural-gradient step on a batch.
    ///
    /// # Errors
    /// As [`objective`](Self::objective).
    pub(super) fn natural(&self, model: &dyn SumOverRows, compute: Compute, drawn: &Drawn) -> Result<Vec<f64>> {
        self.ask(model, compute, drawn, (Question::Natural, model.natural_len()))
    }

    fn ask(
        &self,
        model: &dyn SumOverRows,
        compute: Compute,
        drawn: &Drawn,
        (question, len): (Question, usize),
    ) -> Result<Vec<f64>> {
        let size = self.ranks.size();
        let mut talk = self.ranks.talk();
        let mut crc = crc32fast::Hasher::new();
        let told = self.source.as_ref().map(|source| source.told());
        crc.update(self.form.to_string().as_bytes());
        crc.update(json!(told).to_string().as_bytes());
        let number = u64::from(crc.finalize());
        if !talk.holds(number) {
            let message = |rank: usize| Message {
                document: json!({ "rank": rank, "size": size, "form": self.form, SOURCE: told }),
                ..Message::default()
            };
            talk.hand_out(HOLD, number, (0..size).map(message).collect())?;
        }
        let mut message = Message::default();
        let parameters = model.parameters();
        let fixed: Vec<bool> = parameters.iter().map(|(_, p)| p.fixed).collect();
        let gradient = question == Question::Objective { gradient: true };
        message.document = json!({ "fixed": fixed, "scale": drawn.scale, "gradient": gradient, "compute": compute });
        put(&mut message, "parameters", parameters.iter().flat_map(|(_, p)| p.raw().to_vec()).collect());
        match &self.source {
            Some(source) => shared_rows::name(&mut message, &**source, &drawn.numbers),
            None => {
                put(&mut message, "x", drawn.rows.x.clone());
                put(&mut message, "y", drawn.rows.y.clone());
                if let Some(values) = &drawn.rows.auxiliary {
                    put(&mut message, "noise", values.clone());
                }
            }
        }
        let own = Share { rows: &drawn.rows, first: 0, n: drawn.numbers.len(), scale: drawn.scale };
        let own = || said(model, compute, own, question, Place { rank: 0, size }).map(branches::written);
        branches::total(talk.ask(question.ask(), message, own)?, len)
    }
}

/// A rank of a job.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Its number, from 0.
    pub rank: usize,
    /// Ranks of the job.
    pub size: usize,
}

/// The answers of a rank's parts.
fn said(
    model: &dyn SumOverRows,
    compute: Compute,
    own: Share,
    question: Question,
    place: Place,
) -> Result<Vec<Branch>> {
    let (count, (parts, _)) = (branches::count(own.n, PARTS), share(own.n, place));
    let work = |at: usize| {
        let part = parts.start + at;
        Ok((part..part + 1, question.of(model, compute, &own.part(part, count)?, count)?))
    };
    let said: Vec<Branch> = match compute.kind.is_cpu() {
        true => threads::apart(parts.len(), work)?,
        false => (0..parts.len()).map(work).collect::<Result<_>>()?,
    };
    Ok(branches::merged(said))
}

/// A rank that does not lead. It holds a model and answers for its parts of batches.
#[derive(Debug)]
pub struct Member {
    model: Box<dyn GpModel>,
    /// This rank.
    place: Place,
    /// The rows that it read last, and their places. Several questions may be about one batch.
    known: Option<(Vec<usize>, Observations)>,
}

impl Member {
    /// From a message that hands out a model.
    ///
    /// # Errors
    /// [`Error::Device`] for a message of another kind.
    pub fn new(model: Box<dyn GpModel>, message: &mut Message) -> Result<Self> {
        let document = &mut message.document;
        let place = Place { rank: entry(document, "rank")?, size: entry(document, "size")? };
        Ok(Self { model, place, known: None })
    }

    /// Answers a question about a batch. The rows come with the message or are read.
    ///
    /// # Errors
    /// What the objective and reading report; [`Error::Device`] for a message of another kind.
    pub fn answer(&mut self, ask: &str, mut message: Message, source: Option<&dyn Rows>) -> Result<Message> {
        let document = &mut message.document;
        let (fixed, compute): (Vec<bool>, Compute) = (entry(document, "fixed")?, entry(document, "compute")?);
        let (scale, gradient) = (entry(document, "scale")?, entry(document, "gradient")?);
        let question = match ask {
            NATURAL => Question::Natural,
            EVALUATE => Question::Objective { gradient },
            _ => return Err(Error::Device(format!("this rank does not know what to do about `{ask}`"))),
        };
        let Some(model) = self.model.sum_over_rows() else {
            return Err(Error::Device("this rank holds no model of minibatches".into()));
        };
        let raw = take(&mut message, "parameters")?;
        let mut rest = &raw[..];
        for ((path, parameter), fixed) in model.parameters_mut().into_iter().zip(fixed) {
            let Some((own, others)) = rest.split_at_checked(parameter.len()) else {
                return Err(Error::shape(path, parameter.len().to_string(), rest.len().to_string()));
            };
            parameter.put_raw(own);
            (parameter.fixed, rest) = (fixed, others);
        }
        let (first, n) = match source {
            Some(source) => {
                let places = shared_rows::named(&mut message)?;
                let (_, own) = share(places.len(), self.place);
                let wanted = &places[own.clone()];
                if wanted.is_empty() {
                    return Ok(branches::written(Vec::new()));
                }
                if self.known.as_ref().is_none_or(|(known, _)| known != wanted) {
                    self.known = Some((wanted.to_vec(), source.gather(wanted)?));
                }
                (own.start, places.len())
            }
            None => {
                let (x, y) = (take(&mut message, "x")?, take(&mut message, "y")?);
                let noise = message.arrays.contains_key("noise").then(|| take(&mut message, "noise")).transpose()?;
                let (d, n) = (x.len() / y.len().max(1), y.len());
                self.known = Some((Vec::new(), Observations::new(x, d, y, noise)?));
                (0, n)
            }
        };
        let Some((_, rows)) = &self.known else { return Err(Error::Device("this rank has no rows".into())) };
        said(model, compute, Share { rows, first, n, scale }, question, self.place).map(branches::written)
    }
}
