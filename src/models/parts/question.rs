//! Questions about parts of the rows, and who answers them.

use std::cell::Cell;
use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use super::batches::Drawn;
use super::client::{Client, LocalObjective, Round};
use super::rows::Data;
use super::rows::SharedRows;
use super::whole::OfParts;
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::linalg::jitter::watch;
use crate::models::blueprint::Blueprint;
use crate::models::gp_model::GpModel;
use crate::models::{Batch, Observations};
use crate::scope::{Scope, scalar, to_f64};

/// What is asked about each part of the rows. Lists of numbers go with a question, and an answer is a list of numbers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Question {
    /// The objective, the jitter of its factorisations and, if wanted, the gradient in the internal values of each free
    /// parameter.
    Objective {
        /// Whether the gradient is wanted.
        gradient: bool,
        /// Bytes of temporary memory.
        budget: usize,
    },
    /// The [sums over rows](GpModel::sums) through which the data enter the objective. A total.
    Sums {
        /// Bytes of temporary memory.
        budget: usize,
    },
    /// The same answer as for [`Objective`](Self::Objective), about Σ ⟨sums, adjoints⟩. The numbers are the adjoints.
    Pull {
        /// Bytes of temporary memory.
        budget: usize,
    },
    /// The share of a minibatch's objective and, if wanted, of its gradient in the free raw values. A total.
    Batch {
        /// Whether the gradient is wanted.
        gradient: bool,
    },
    /// The sums for a natural-gradient step. A total.
    Natural,
    /// The loss at z, the count of gradients and the next state of clients. The numbers are z and the clients' states.
    Round {
        /// What clients need to know.
        round: Round,
        /// The parts that take part, ascending.
        drawn: Vec<usize>,
    },
    /// Means, then variances of predictions. The numbers are the inputs and, if not every part predicts every row, the
    /// parts of each row.
    Predict {
        /// Whether each part has the communication expert's rows as well.
        augmented: bool,
    },
}

impl Question {
    /// Whether only the total over all parts is wanted.
    pub(super) fn is_total(&self) -> bool {
        match self {
            Self::Sums { .. } | Self::Batch { .. } | Self::Natural => true,
            Self::Objective { .. } | Self::Pull { .. } | Self::Round { .. } | Self::Predict { .. } => false,
        }
    }
}

/// What a question is about: all that processes need to hold or to know so that they can answer it.
#[derive(Debug, Clone, Copy)]
pub enum Work<'a> {
    /// Parts of all rows.
    Parts {
        /// The model of parts.
        of: &'a dyn OfParts,
        /// Where the rows are.
        data: Data<'a>,
        /// Where to compute.
        compute: Compute,
    },
    /// Parts of a minibatch.
    Batch {
        /// The model.
        model: &'a dyn GpModel,
        /// How other processes build it.
        blueprint: &'a Blueprint,
        /// The rows, if every process reads its own.
        source: Option<&'a dyn SharedRows>,
        /// The batch.
        drawn: &'a Drawn,
        /// Where to compute.
        compute: Compute,
    },
}

/// This process's answers.
pub type Own<'a> = &'a mut dyn FnMut() -> Result<Vec<Vec<f64>>>;

/// The processes of a job that this one leads.
pub trait Crew: Debug + Send + Sync {
    /// The number of processes, this one included.
    fn size(&self) -> usize;

    /// The answers of all processes, by rank. `own` gives those of this one.
    ///
    /// # Errors
    /// The error of the first process that fails, with its rank.
    fn ask(&self, work: Work, question: &Question, numbers: &[Vec<f64>], own: Own) -> Result<Vec<Vec<f64>>>;

    /// Has every process read its share of these tables in the described way, and returns a summary of each table.
    /// `own` gives those of this process.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    fn open(
        &self,
        paths: &[String],
        reading: &serde_json::Value,
        own: &mut dyn FnMut() -> Result<Vec<serde_json::Value>>,
    ) -> Result<Vec<serde_json::Value>>;
}

/// What a part answers: `rows`, each of which stands for `scale` rows. Of the numbers of all parts, its own are at the
/// place `at`.
pub(super) fn answer(
    model: &dyn GpModel,
    compute: Compute,
    question: &Question,
    (numbers, at): (&[Vec<f64>], usize),
    (rows, scale): (&Observations, f64),
) -> Result<Vec<f64>> {
    let batch = |scope: &Scope| Batch { scale, ..rows.batch(scope) };
    let scope = |gradient: bool| if gradient { Scope::training(compute) } else { Scope::new(compute) };
    match question {
        Question::Objective { gradient, budget } => {
            let (found, jitter) = watch(|| {
                let scope = scope(*gradient)?.with_budget(*budget);
                let loss = model.objective(&scope, &batch(&scope))?;
                if *gradient { scope.slopes(loss, model) } else { Ok((scalar(loss)?, Vec::new())) }
            });
            let (loss, slopes) = found?;
            Ok([vec![loss, jitter], slopes.concat()].concat())
        }
        Question::Sums { budget } => {
            let scope = scope(false)?.with_budget(*budget);
            let sums = model.sums(&scope, &batch(&scope))?.into_iter().map(to_f64);
            Ok(sums.collect::<Result<Vec<_>>>()?.concat())
        }
        Question::Pull { budget } => {
            let scope = scope(true)?.with_budget(*budget);
            let pulled = model.sums(&scope, &batch(&scope))?.into_iter().zip(numbers).map(|(sum, adjoint)| {
                let adjoint = scope.widened().vector(adjoint).cast(sum.dtype());
                (sum * adjoint).sum()
            });
            let Some(loss) = pulled.reduce(|all, more| all + more) else { return Err(unknown("sums over rows")) };
            let (loss, slopes) = scope.slopes(loss, model)?;
            Ok([vec![loss, 0.0], slopes.concat()].concat())
        }
        Question::Batch { gradient } => {
            let scope = scope(*gradient)?.with_budget(model.budget(rows.n(), compute.precision));
            let loss = model.objective(&scope, &batch(&scope))?;
            let (loss, slopes) = if *gradient { scope.gradient(loss, model)? } else { (scalar(loss)?, Vec::new()) };
            Ok([vec![loss], slopes].concat())
        }
        Question::Natural => {
            let Some(model) = model.sum_over_rows() else { return Err(unknown("natural gradients")) };
            model.natural_sums(compute, &batch(&scope(false)?))?.numbers()
        }
        Question::Round { round, .. } => {
            let (Some(z), Some(state)) = (numbers.first(), numbers.get(at + 1)) else {
                return Err(unknown("clients without a state"));
            };
            let (client, gradients) = (Client::read(state, z.len())?, Cell::new(0));
            let local = LocalObjective::new(model, compute, rows, round.rows, &gradients)?;
            let (next, loss) = client.after(round, z, local)?;
            let mut made = vec![loss, gradients.get() as f64];
            next.write(&mut made);
            Ok(made)
        }
        Question::Predict { .. } => Err(unknown("predictions before its parts are conditioned")),
    }
}

/// The error of a part that cannot answer.
fn unknown(what: &str) -> Error {
    Error::Device(format!("this model of parts of the rows has no {what}"))
}
