//! A minibatch shared out among the ranks of a job.
//!
//! An objective s Σ_i l_i(θ) + t(θ) of a batch with scale s is the sum over K parts of it of (K s Σ_{i in part} l_i +
//! t)/K: each part is a batch of its own with K times the scale, and what belongs to no row is counted once. Parts have
//! the same rows for any number of ranks, and their values and gradients go up one tree of sums. So do the sums of
//! natural gradients.

use std::sync::Arc;

use serde_json::{Value, json};

use super::batches::Rows;
use super::sum_over_rows::SumOverRows;
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::exchange::{self, Message, Ranks, entry, put, take};
use crate::models::branches::{self, Branch};
use crate::models::{Batch, Observations};
use crate::scope::{Scope, scalar};
use crate::threads;

/// To hold a model.
pub const HOLD: &str = "spread.hold";
/// To evaluate its objective.
const EVALUATE: &str = "spread.evaluate";
/// To sum what natural gradients need.
const NATURAL: &str = "spread.natural";

/// All questions.
pub const ASKS: [&str; 2] = [EVALUATE, NATURAL];

/// Most parts of a batch: each repeats what belongs to no row, such as a factorisation of K_ZZ.
const PARTS: usize = 4;

/// The ranks that share the batches of a training, and what they need to make its model.
#[derive(Debug, Clone)]
pub struct Spread {
    ranks: Arc<Ranks>,
    form: Value,
}

/// A batch on the host.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// Its rows.
    pub rows: Observations,
    /// How many rows of the data each stands for.
    pub scale: f64,
}

impl Drawn {
    /// As tensors.
    pub fn batch(&self, scope: &Scope) -> Batch {
        Batch { scale: self.scale, ..self.rows.batch(scope) }
    }

    /// A part of it, that stands for all of it.
    fn part(&self, part: usize, count: usize) -> Result<Self> {
        let rows: Vec<usize> = branches::rows(self.rows.n(), part, count).collect();
        Ok(Self { rows: self.rows.gather(&rows)?, scale: self.scale * count as f64 })
    }
}

/// What is asked about a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// The objective, with its gradient if that is wanted.
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

    /// What one of so many parts says, each of which stands for the whole batch.
    fn of(self, model: &dyn SumOverRows, compute: Compute, drawn: &Drawn, count: usize) -> Result<Vec<f64>> {
        let said = match self {
            Self::Natural => model.natural_sums(compute, &drawn.batch(&Scope::new(compute)?))?,
            Self::Objective { gradient } => {
                let budget = model.budget(drawn.rows.n(), compute.precision);
                let scope = if gradient { Scope::training(compute)? } else { Scope::new(compute)? }.with_budget(budget);
                let loss = model.objective(&scope, &drawn.batch(&scope))?;
                let (loss, slopes) = if gradient { scope.gradient(loss, model)? } else { (scalar(loss)?, Vec::new()) };
                std::iter::once(loss).chain(slopes).collect()
            }
        };
        Ok(said.into_iter().map(|value| value / count as f64).collect())
    }
}

impl Spread {
    /// Over ranks that this process leads; `form` is what the others make the model of.
    pub fn new(ranks: Arc<Ranks>, form: Value) -> Self {
        Self { ranks, form }
    }

    /// The objective on a batch, and its gradient in the free raw values if that is wanted.
    ///
    /// # Errors
    /// What the objective reports, of another rank with its number.
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
        crc.update(self.form.to_string().as_bytes());
        let number = u64::from(crc.finalize());
        if !talk.holds(number) {
            let message = |rank: usize| Message {
                document: json!({ "rank": rank, "size": size, "form": self.form }),
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
        put(&mut message, "x", drawn.rows.x.clone());
        put(&mut message, "y", drawn.rows.y.clone());
        if let Some(noise) = &drawn.rows.noise {
            put(&mut message, "noise", noise.clone());
        }
        let own = || own(model, compute, drawn, question, Place { rank: 0, size }).map(branches::written);
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

/// What the parts of a rank say.
fn own(
    model: &dyn SumOverRows,
    compute: Compute,
    drawn: &Drawn,
    question: Question,
    Place { rank, size }: Place,
) -> Result<Vec<Branch>> {
    let count = branches::count(drawn.rows.n(), PARTS);
    let parts = exchange::share(count, rank, size);
    let work = |at: usize| {
        let part = parts.start + at;
        Ok((part..part + 1, question.of(model, compute, &drawn.part(part, count)?, count)?))
    };
    let said: Vec<Branch> = match compute.kind.is_cpu() {
        true => threads::apart(parts.len(), work)?,
        false => (0..parts.len()).map(work).collect::<Result<_>>()?,
    };
    Ok(branches::merged(said))
}

/// Answers a question about a batch for the parts of a rank.
///
/// # Errors
/// What the objective reports; [`Error::Device`] for a message of another kind.
pub fn answer(model: &mut dyn SumOverRows, ask: &str, mut message: Message, place: Place) -> Result<Message> {
    let document = &mut message.document;
    let (fixed, compute): (Vec<bool>, Compute) = (entry(document, "fixed")?, entry(document, "compute")?);
    let (scale, gradient) = (entry(document, "scale")?, entry(document, "gradient")?);
    let question = match ask {
        NATURAL => Question::Natural,
        EVALUATE => Question::Objective { gradient },
        _ => return Err(Error::Device(format!("this rank does not know what to do about `{ask}`"))),
    };
    let raw = take(&mut message, "parameters")?;
    let mut rest = &raw[..];
    for ((path, parameter), fixed) in model.parameters_mut().into_iter().zip(fixed) {
        let Some((own, others)) = rest.split_at_checked(parameter.len()) else {
            return Err(Error::shape(path, parameter.len().to_string(), rest.len().to_string()));
        };
        parameter.set_raw(own);
        (parameter.fixed, rest) = (fixed, others);
    }
    let (x, y) = (take(&mut message, "x")?, take(&mut message, "y")?);
    let noise = message.arrays.contains_key("noise").then(|| take(&mut message, "noise")).transpose()?;
    let d = x.len() / y.len().max(1);
    let drawn = Drawn { rows: Observations::new(x, d, y, noise)?, scale };
    own(model, compute, &drawn, question, place).map(branches::written)
}
